"""Read the blocks of Bedrock's Converse, which have no type: the name of their only member says
it.
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
from rungwise.fsm.replies.parts import Part, ReasoningPart, TextPart, ToolCall

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
_KIND: Final = {"document": "application", "image": "image", "audio": "audio", "video": "video"}


def _read_media(kind: str) -> Callable[[Block], Part | None]:
    def read(inner: Block) -> Part | None:
        source = inner.get("source")
        format = text_in(inner, "format")
        if not isinstance(source, Mapping):
            return None
        if isinstance(source.get("text"), str):
            return TextPart(source["text"])
        return media(
            "file" if kind == "document" else kind,  # type: ignore[arg-type]
            data=source.get("bytes"),
            url=text_in(source.get("s3Location"), "uri"),
            media_type=_TYPES.get(format) or (f"{_KIND[kind]}/{format}" if format else ""),
            name=inner.get("name"),
        )

    return read


def _read_result(inner: Block) -> Part | None:
    # of a tool that the server runs
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
    return result_of(
        text_in(inner, "toolUseId"), "", parts, is_fault=inner.get("status") == "error"
    )


def _read_cited(inner: Block) -> tuple[Part, ...] | None:
    text = "".join([text_in(each, "text") for each in list_of(inner.get("content"))])
    return (TextPart(text), *citations_of(inner.get("citations"))) if text else None


def _read_reasoning(inner: Block) -> Part | None:
    text = inner.get("reasoningText")
    return ReasoningPart(text_in(text, "text")) if isinstance(text, Mapping) else None


READERS: Final[Mapping[str, PartReader]] = {
    **{kind: _read_media(kind) for kind in _KIND},
    "toolUse": lambda inner: (
        ToolCall(text_in(inner, "toolUseId"), text_in(inner, "name"), json_of(inner.get("input")))
        if inner.get("type") != SERVERS
        else None
    ),
    "toolResult": _read_result,
    "reasoningContent": _read_reasoning,
    "searchResult": read_passage,
    "guardContent": lambda inner: next(parts_of(inner.get("text")), None),
    "citationsContent": _read_cited,
    **dict.fromkeys(("text", "cachePoint", "toolAddition", "toolRemoval"), lambda inner: None),
}
"""What reads each kind of block."""
