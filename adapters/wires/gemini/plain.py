"""Read Gemini's contents, as callers write them, into neutral parts.

They are messages with `parts`, whose members may be spelled in camel case or in snake case. A part
has no type: the member that it has says what it is. Code that Gemini ran becomes text in a fence,
as any model can read that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.json_text import as_json
from rungwise.adapters.wires.plain.messages import split
from rungwise.adapters.wires.plain.parts import list_of, mapping_of, media, text_in
from rungwise.fsm.replies.parts import (
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
)

_ROLES: Final[Mapping[object, Role]] = {
    "model": "assistant",
    "assistant": "assistant",
    "system": "system",
}


def read_content(message: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return a content in neutral parts."""
    parts = message.get("parts")
    if not isinstance(parts, list | tuple):
        parts = (parts,)
    read: list[Part] = []
    for part in parts:
        read += _read(part)
    return split(_ROLES.get(message.get("role"), "user"), read)


def _read(part: Any) -> Iterator[Part]:
    """Yield the neutral parts in one part, which may be a bare text."""
    if isinstance(part, str) and part:
        yield TextPart(part)
    if not isinstance(part, Mapping):
        return
    call = _member(part, "functionCall")
    result = _member(part, "functionResponse")
    text = part.get("text")
    if call is not None:
        arguments = as_json(call.get("args") or {})
        yield ToolCall(text_in(call, "id"), text_in(call, "name"), arguments)
    elif result is not None:
        yield _result(result)
    elif isinstance(text, str):
        if text:  # a part with nothing but a signature has no text
            yield ReasoningPart(text) if part.get("thought") is True else TextPart(text)
    elif words := _ran_in_words(part):
        yield TextPart(words)
    else:
        yield media_in(part) or OpaquePart("", part)


def media_in(part: Mapping[str, Any]) -> MediaPart | None:
    """Return the picture or the file in a part, or None."""
    blob = _member(part, "inlineData")
    file = _member(part, "fileData")
    described = blob or file
    return media(
        "file",
        data=mapping_of(blob).get("data"),
        url=text_in(file, "fileUri", "file_uri"),
        media_type=text_in(described, "mimeType", "mime_type"),
        name=text_in(described, "displayName", "display_name"),
    )


def _ran_in_words(part: Mapping[str, Any]) -> str:
    """Return the code that Gemini ran, or its output, as text; "" for any other part."""
    code = _member(part, "executableCode")
    outcome = _member(part, "codeExecutionResult")
    text = text_in(code, "code") or text_in(outcome, "output")
    if not text.strip():
        return ""
    fence = "```"
    for run in re.findall("`{3,}", text):  # code may quote such a fence itself
        fence = max(fence, f"{run}`", key=len)
    language = text_in(code, "language").lower()
    return f"\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def _result(block: Mapping[str, Any]) -> ToolResult:
    """Read a function's response: an object with one text under `output`, `result` or `error`."""
    response = block.get("response")
    text = as_json(response)
    is_fault = False
    if isinstance(response, Mapping) and len(response) == 1:
        ((name, value),) = response.items()
        if name in ("output", "result", "error"):
            text = value if isinstance(value, str) else as_json(value)
            is_fault = name == "error"
    media: list[MediaPart] = []
    for each in list_of(block.get("parts")):
        media += [part for part in _read(each) if isinstance(part, MediaPart)]
    return ToolResult(text_in(block, "id"), text_in(block, "name"), text, is_fault, tuple(media))


def _member(part: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return a member in either of the two spellings that the API takes; None if it is missing."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    value = part.get(name, part.get(snake))
    return value if isinstance(value, Mapping) else None
