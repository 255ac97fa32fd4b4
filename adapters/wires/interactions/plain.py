"""Read steps, as callers write them, into neutral parts.

A call of a function looks as an item of Responses does, and is read as one. The types of pictures
and files are those of other protocols; the members tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.json_text import as_json
from rungwise.adapters.wires.plain.messages import parts_of
from rungwise.adapters.wires.plain.parts import blocks_in, media, result_of, text_in
from rungwise.fsm.replies.parts import MediaKind, MediaPart, Message, Part, ReasoningPart, Role

_MEDIA: Final[Mapping[str, MediaKind]] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "document": "file",
}


def read_step(step: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return a step in neutral parts."""
    kind = step.get("type")
    if kind == "thought":
        return (Message("assistant", (ReasoningPart(summary_of(step)),)),)
    if kind == "function_result":
        result = step.get("result")
        if isinstance(result, Mapping):  # an object of the function's own
            result = as_json(result)
        is_fault = step.get("is_error") is True
        name = text_in(step, "name")
        read = result_of(text_in(step, "call_id"), name, read_content(result), is_fault=is_fault)
        return (Message("tool", (read,)),)
    role: Role = "user" if kind == "user_input" else "assistant"
    return (Message(role, read_content(step.get("content"))),)


def summary_of(step: Mapping[str, Any]) -> str:
    """Return the readable part of a thought."""
    return "".join([text_in(block, "text") for block in blocks_in(step.get("summary"))])


def read_content(content: Any) -> Iterator[Part]:
    """Yield the parts of a content: a text, a block, or a list of them."""
    for block in blocks_in(content, type="text"):
        shown = media_in(block)
        if shown is not None:
            yield shown
        else:
            yield from parts_of(block)


def media_in(block: Mapping[str, Any]) -> MediaPart | None:
    """Return the picture, the recording or the document in a block; None if it holds none."""
    kind = _MEDIA.get(str(block.get("type")))
    if kind is None:
        return None
    return media(
        kind,
        data=block.get("data"),
        url=block.get("uri"),
        media_type=block.get("mime_type"),
        detail=block.get("resolution"),
    )
