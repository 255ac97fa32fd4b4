"""Read the parts of a message's content: those of chat completions, Anthropic's blocks, and those of Responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.plain.converse import read_converse
from rungwise.adapters.wires.plain.parts import json_of, media, result_of, text_in
from rungwise.fsm.call.conversation.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall

Block = Mapping[str, Any]


def parts_of(content: Any) -> Iterator[Part]:
    """Yield the parts of a content, which may be a text, one part, or a list of parts."""
    if isinstance(content, str):
        if content:
            yield TextPart(content)
    elif isinstance(content, Mapping):
        yield from _about(content)
        yield _part(content)
    elif isinstance(content, list | tuple):
        for block in content:
            if isinstance(block, str):
                yield TextPart(block)
            elif isinstance(block, Mapping):
                yield from _about(block)
                yield _part(block)


def _about(block: Block) -> Iterator[Part]:
    """Yield the title and context of one of Anthropic's documents as text; a file's title is its name."""
    source = block.get("source")
    if block.get("type") == "document" and isinstance(source, Mapping):
        title = text_in(block, "title") if source.get("type") == "text" else ""
        if texts := [each for each in (title, text_in(block, "context")) if each]:
            yield TextPart("\n".join(texts))


def _part(block: Block) -> Part:
    if "type" not in block and "text" not in block and (part := read_converse(block)):
        return part
    read = _READERS.get(str(block.get("type", "text")))
    return (read(block) if read else None) or OpaquePart("", block)


def _read_text(block: Block) -> Part | None:
    text = block.get("text", block.get("refusal"))
    return TextPart(text, block.get("cache_control")) if isinstance(text, str) else None


def _read_image_url(block: Block) -> Part | None:
    image = block.get("image_url")
    inner: Block = image if isinstance(image, Mapping) else {"url": image, "detail": block.get("detail")}
    return media("image", url=inner.get("url"), detail=inner.get("detail"), cache=block.get("cache_control"))


def _read_video(block: Block) -> Part | None:
    inner = block.get("video_url")
    url = inner.get("url") if isinstance(inner, Mapping) else inner
    return media("video", url=url, cache=block.get("cache_control"))


def _read_audio(block: Block) -> Part | None:
    inner = block.get("input_audio")
    if not isinstance(inner, Mapping):
        return None
    kind = f"audio/{text_in(inner, 'format') or 'wav'}"
    return media("audio", data=inner.get("data"), media_type=kind, cache=block.get("cache_control"))


def _read_file(block: Block) -> Part | None:
    inner = block.get("file") if isinstance(block.get("file"), Mapping) else block
    assert inner is not None
    data, name = text_in(inner, "file_data"), text_in(inner, "filename")
    url = "" if data else inner.get("file_url")
    return media("file", data=data, url=url, name=name, cache=block.get("cache_control"))


def _read_source(block: Block) -> Part | None:
    """Read Anthropic's pictures and documents."""
    source, kind = block.get("source"), "image" if block.get("type") == "image" else "file"
    if not isinstance(source, Mapping):
        return None
    if source.get("type") == "text":
        return TextPart(text_in(source, "data"), block.get("cache_control"))
    return media(
        "image" if kind == "image" else "file",
        data=source.get("data"),
        url=source.get("url"),
        media_type=source.get("media_type"),
        name=block.get("title"),
        cache=block.get("cache_control"),
    )


def _read_use(block: Block) -> Part:
    return ToolCall(text_in(block, "id"), text_in(block, "name"), json_of(block.get("input")))


def _read_result(block: Block) -> Part:
    parts = parts_of(block.get("content"))
    is_fault = block.get("is_error") is True
    return result_of(text_in(block, "tool_use_id"), "", parts, is_fault=is_fault, cache=block.get("cache_control"))


def _read_thinking(block: Block) -> Part:
    return ReasoningPart(text_in(block, "thinking", "text", "reasoning"))


_READERS: Final[Mapping[str, Callable[[Block], Part | None]]] = {
    **dict.fromkeys(("text", "input_text", "output_text", "refusal"), _read_text),
    **dict.fromkeys(("image_url", "input_image"), _read_image_url),
    "video_url": _read_video,
    "input_audio": _read_audio,
    **dict.fromkeys(("file", "input_file"), _read_file),
    **dict.fromkeys(("image", "document"), _read_source),
    "tool_use": _read_use,
    "tool_result": _read_result,
    **dict.fromkeys(("thinking", "reasoning"), _read_thinking),
}
