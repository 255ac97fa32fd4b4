"""Read the blocks of Bedrock's Converse, which have no type.

The name of their only member says what they are; each reader gets what is in it. The media type of
a picture or a document is a short format here, which says the second half of the type alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rungwise.adapters.wires.json_text import as_json
from rungwise.adapters.wires.plain.messages import is_untyped, parts_of, read_passage
from rungwise.adapters.wires.plain.parts import (
    json_of,
    list_of,
    mapping_of,
    media,
    result_of,
    text_in,
)
from rungwise.adapters.wires.provider_data import citations_of
from rungwise.adapters.wires.registry import PartReader
from rungwise.fsm.replies.parts import MediaKind, Part, ReasoningPart, TextPart, ToolCall

Block = Mapping[str, Any]

_TYPES: Final = {
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "mov": "video/quicktime",
    "mkv": "video/x-matroska",
    "flv": "video/x-flv",
    "wmv": "video/x-ms-wmv",
    "three_gp": "video/3gpp",
}
"""The media types of formats with another name."""
SERVERS: Final = "server_tool_use"
"""The type of a call of a tool that the server runs; calls for the caller may have a type too."""
_KINDS: Final[Mapping[str, tuple[MediaKind, str]]] = {
    "document": ("file", "application"),
    "image": ("image", "image"),
    "audio": ("audio", "audio"),
    "video": ("video", "video"),
}
"""The members that hold media, with the kind of each, and how its media types begin."""


def _read_media(name: str) -> Callable[[Block], Part | None]:
    """Return the reader of the media in a member."""
    kind, beginning = _KINDS[name]

    def read(inner: Block) -> Part | None:
        source = inner.get("source")
        if not isinstance(source, Mapping):
            return None
        if isinstance(source.get("text"), str):
            return TextPart(source["text"])
        format = text_in(inner, "format")
        media_type = _TYPES.get(format, "")
        if format and not media_type:
            media_type = f"{beginning}/{format}"
        return media(
            kind,
            data=source.get("bytes"),
            url=text_in(source.get("s3Location"), "uri"),
            media_type=media_type,
            name=inner.get("name"),
        )

    return read


def _read_call(inner: Block) -> Part | None:
    if inner.get("type") == SERVERS:
        return None
    id = text_in(inner, "toolUseId")
    return ToolCall(id, text_in(inner, "name"), json_of(inner.get("input")))


def _read_result(inner: Block) -> Part | None:
    """Read the result of a tool that the caller ran."""
    if inner.get("type") not in (None, "", "tool_use", "tool_result"):
        return None
    parts: list[Part] = []
    for block in map(mapping_of, list_of(inner.get("content"))):
        if "json" in block:
            parts.append(TextPart(as_json(block["json"])))
        elif isinstance(block.get("text"), str):
            parts.append(TextPart(block["text"]))
        elif is_untyped(block):
            parts += parts_of(block)
    is_fault = inner.get("status") == "error"
    return result_of(text_in(inner, "toolUseId"), "", parts, is_fault=is_fault)


def _read_cited(inner: Block) -> tuple[Part, ...] | None:
    """Read a text, then its sources."""
    text = "".join([text_in(each, "text") for each in list_of(inner.get("content"))])
    if not text:
        return None
    return TextPart(text), *citations_of(inner.get("citations"))


def _read_reasoning(inner: Block) -> Part | None:
    text = inner.get("reasoningText")
    return ReasoningPart(text_in(text, "text")) if isinstance(text, Mapping) else None


def _read_guarded(inner: Block) -> Part | None:
    return next(parts_of(inner.get("text")), None)


def _read_nothing(inner: Block) -> None:
    """Leave a block to its provider, or to the common reader."""


READERS: Final[Mapping[str, PartReader]] = {
    **{name: _read_media(name) for name in _KINDS},
    "toolUse": _read_call,
    "toolResult": _read_result,
    "reasoningContent": _read_reasoning,
    "searchResult": read_passage,
    "guardContent": _read_guarded,
    "citationsContent": _read_cited,
    "text": _read_nothing,
    "cachePoint": _read_nothing,
    "toolAddition": _read_nothing,
    "toolRemoval": _read_nothing,
}
"""What reads each kind of block."""
