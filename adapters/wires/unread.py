"""Find what stands in messages and tools that are translated, and has no place in neutral parts: it is never sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any, Final

from rungwise.adapters.wires.plain.converse import KINDS
from rungwise.adapters.wires.registry import WIRES
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.values.label import label

MARK: Final = "cache_control"
MARKED_CALL: Final = "cache_control of a call"
MARKED_MESSAGE: Final = "cache_control of a message"
"""What marks of a part or a tool, of a call, and of a whole message are counted as."""

_PARTS_IN: Final = ("tool_result", "toolResult", "functionResponse")
_TOOLS_IN: Final = ("function", "custom", "toolSpec", "functionDeclarations")
_OF_MESSAGES: Final = frozenset({"role", "content", "parts", "images", "type", "id", "status", "phase"})
_OF_RESULTS: Final = frozenset({"name", "tool_name", "tool_call_id"})
"""What is read of a message, or belongs to an item of Responses alone; and what besides of the result of a tool."""


@cache
def _read() -> Mapping[str, frozenset[str]]:
    """Return which members of each kind of part and tool Rungwise reads, in the form of any protocol."""
    kinds = {kind for wire in WIRES.values() for kind in wire.members}
    read = {kind: [wire.members.get(kind, "").split() for wire in WIRES.values()] for kind in kinds}
    return {"block": KINDS, **{kind: frozenset(chain(*names)) for kind, names in read.items()}}


def unread_of_message(message: PlainMessage) -> Iterator[str]:
    """Yield what nobody reads of a message, by its name, and each mark; what an assistant has may be its provider's."""
    role = message.get("role")
    is_answer = role in ("assistant", "model") or (role is None and "output" not in message)
    read = _OF_MESSAGES | _OF_RESULTS if role in ("tool", "function") else _OF_MESSAGES
    for name, value in message.items():
        if name == MARK and value:
            yield MARKED_MESSAGE
        elif name == "name" and role is not None and name not in read and value:
            yield name
        elif not is_answer and role is not None and name not in read and value not in (None, ""):
            yield label(name)
    for place in ("content", "parts", "output", "tool_calls"):
        for block in _list_of(message.get(place)):
            found = _in_call(block) if place == "tool_calls" else _in_block(block, "part" if place == "parts" else "")
            yield from (each for each in found if not is_answer or each in (MARK, MARKED_CALL))


def unread_of_tool(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield what nobody reads of the definition of a tool, by its name, and each mark; `strict` where that is true."""
    for given, value in tool.items():
        name = given if given in _read()["tool"] or given == MARK else _camel(given)
        if name == MARK:
            yield from (MARK,) if value else ()
        elif name not in _read()["tool"]:
            yield from (label(given),) if value not in (None, "") else ()
        elif name == "strict":
            yield from ("strict",) if value is True else ()
        elif name in _TOOLS_IN:
            for each in _list_of(value):
                yield from unread_of_tool(each) if isinstance(each, Mapping) else ()


def _in_call(call: Any) -> Iterator[str]:
    if isinstance(call, Mapping):
        inner = [each for each in (call.get("function"), call.get("custom")) if isinstance(each, Mapping)]
        yield from (MARKED_CALL for each in (call, *inner) if each.get(MARK))


def _in_block(block: Any, kind: str = "") -> Iterator[str]:
    if not isinstance(block, Mapping):
        return
    if not kind:
        kind = str(block.get("type") or ("block" if "text" not in block and not KINDS.isdisjoint(block) else "text"))
    read = _read().get(kind, frozenset())
    if kind == "tool_use":
        yield from (MARKED_CALL,) if block.get(MARK) else ()
    elif any(name != "type" and _camel(name) in read for name in block):  # another is told as a whole
        yield from _members(block, kind)


def _members(block: Mapping[str, Any], kind: str) -> Iterator[str]:
    for given, value in block.items():
        name = given if given in _read()[kind] else _camel(given)
        if given == MARK:
            yield from (MARK,) if value else ()
        elif name not in _read()[kind]:
            yield from (label(given),) if value not in (None, "") else ()
        elif kind in _PARTS_IN and name in ("content", "parts"):
            for each in _list_of(value):
                yield from _in_block(each, "part" if name == "parts" else "")
        elif isinstance(value, Mapping) and name in _read():
            yield from _members(value, name)


def _camel(name: str) -> str:
    """Return a name as Gemini's API writes it, which takes both spellings."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _list_of(value: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(value, Mapping):
        return (value,)
    return value if isinstance(value, list | tuple) else ()
