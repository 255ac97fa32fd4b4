"""Read the parts of a message's content, with the readers that the wires declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from rungwise.adapters.wires.registry import WIRES, PartReader
from rungwise.fsm.call.conversation.parts import OpaquePart, Part, TextPart

Block = Mapping[str, Any]


def parts_of(content: Any) -> Iterator[Part]:
    """Yield the parts of a content, which may be a text, one part, or a list of parts."""
    if isinstance(content, str):
        if content:
            yield TextPart(content)
    elif isinstance(content, Mapping):
        yield from _read(content)
    elif isinstance(content, list | tuple):
        for block in content:
            if isinstance(block, str):
                yield TextPart(block)
            elif isinstance(block, Mapping):
                yield from _read(block)


def _read(block: Block) -> tuple[Part, ...]:
    """Return the parts in one part; what no wire reads stays unchanged, and goes to no other provider."""
    if "text" not in block and is_untyped(block):
        ((name, inner),) = block.items()
        part = _untyped()[name](inner) if isinstance(inner, Mapping) else None
    else:
        read = _typed().get(str(block.get("type", "text")))
        part = read(block) if read else None
    part = part or OpaquePart("", block)
    return part if isinstance(part, tuple) else (part,)


def is_untyped(block: Block) -> bool:
    """Tell whether a part has no type, but one member that says what it is."""
    return len(block) == 1 and not _untyped().keys().isdisjoint(block)


@cache
def _typed() -> Mapping[str, PartReader]:
    return {kind: read for wire in WIRES.values() for kind, read in wire.parts.items()}


@cache
def _untyped() -> Mapping[str, PartReader]:
    return {name: read for wire in WIRES.values() for name, read in wire.untyped_parts.items()}
