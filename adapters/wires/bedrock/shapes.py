"""The form of Converse: how the core reads it, and how messages and tools are written in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.anthropic.shapes import NO_REPORT
from rungwise.adapters.wires.form import BlockForm, Body, among
from rungwise.adapters.wires.json_text import object_of
from rungwise.adapters.wires.losses import MARK, MARKED_CALL
from rungwise.adapters.wires.plain.messages import is_untyped, read_messages
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.plain.tools import ToolDefinition, read_tools
from rungwise.fsm.call.conversation.plain import in_words
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.replies.parts import (
    CitationPart,
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from rungwise.fsm.replies.text.contents import is_blank

_FORMATS: Final[Mapping[str, Mapping[str, str]]] = {
    "image": {"png": "png", "jpeg": "jpeg", "jpg": "jpeg", "gif": "gif", "webp": "webp"},
    "document": {
        "pdf": "pdf",
        "csv": "csv",
        "html": "html",
        "plain": "txt",
        "markdown": "md",
        "msword": "doc",
        "vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "vnd.ms-excel": "xls",
        "vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    },
    "audio": {
        "mp3": "mp3",
        "wav": "wav",
        "x-wav": "wav",
        "wave": "wav",
        "mpeg": "mp3",
        "ogg": "ogg",
        "opus": "opus",
        "aac": "aac",
        "flac": "flac",
        "mp4": "mp4",
        "m4a": "m4a",
        "webm": "webm",
    },
    "video": {
        "mp4": "mp4",
        "quicktime": "mov",
        "webm": "webm",
        "x-matroska": "mkv",
        "mpeg": "mpeg",
        "x-flv": "flv",
        "x-ms-wmv": "wmv",
        "3gpp": "three_gp",
    },
}
"""The format of each media type."""
_DEFAULT_FORMATS: Final = {"document": "pdf"}
_OTHER_THAN_NAMES: Final = re.compile(r"[^a-zA-Z0-9\s()\[\]-]+")


def media_block(part: MediaPart) -> Body:
    """Return the block of a picture, a document or a recording; other media are only named, in
    words.
    """
    kind = "document" if part.kind == "file" else part.kind
    name = part.media_type.partition(";")[0].rpartition("/")[2].strip().lower()
    written = _FORMATS[kind].get(name) or ("" if name else _DEFAULT_FORMATS.get(kind, ""))
    if not written and part.url.startswith("s3://"):
        written = _FORMATS[kind].get(part.url.rpartition(".")[2].lower(), "")
    source: dict[str, Any] | None = {"bytes": part.data} if part.data else None
    if part.url.startswith("s3://"):
        source = {"s3Location": {"uri": part.url}}
    if not written or source is None:
        return {"text": in_words(part)}
    block: Body = {"format": written, "source": source}
    if kind == "document":
        stem = part.name.rpartition(".")[0] or part.name
        block["name"] = " ".join(_OTHER_THAN_NAMES.sub(" ", stem).split())[:200] or "document"
    return {kind: block}


_PORTABLE: Final = frozenset(
    {
        "text",
        "image",
        "document",
        "video",
        "audio",
        "toolUse",
        "toolResult",
        "cachePoint",
        "guardContent",
    }
)
_TOOL_KINDS: Final = frozenset({"toolSpec", "systemTool", "cachePoint"})


class _ConverseShapes(BlockForm):
    """Read and write Converse; the request separates system messages from the others."""

    __slots__ = ()

    MARKS = frozenset({MARK, MARKED_CALL})

    def _is_result(self, block: Mapping[str, Any]) -> bool:
        return "toolResult" in block

    def _is_portable(self, block: Mapping[str, Any]) -> bool:
        return not _PORTABLE.isdisjoint(block)

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        value = mapping_of(parameters.get("outputConfig")).get("textFormat")
        if not value:
            return None
        for name in ("structure", "jsonSchema", "schema"):
            value = mapping_of(value).get(name)
        return object_of(value) if isinstance(value, str) else value or True

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> Body:
        described = {"description": description} if description else {}
        return {"toolSpec": {"name": name, **described, "inputSchema": {"json": parameters}}}

    def _definition_of(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        return mapping_of(tool.get("toolSpec"))

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        return len(tool) == 1 and not _TOOL_KINDS.isdisjoint(tool)

    def _translated(self, tool: Mapping[str, Any]) -> list[Body]:
        read = [each for each in read_tools((tool,)) if isinstance(each, ToolDefinition)]
        return [block for each in read for block in (self.written_tool(each), *_cache(each.cache))]

    def _is_own_block(self, block: Any) -> bool:
        return isinstance(block, Mapping) and is_untyped(block)

    def with_results(
        self, message: PlainMessage, results: Sequence[ToolResult]
    ) -> PlainMessage | None:
        """Add tool results to a user message: all results of a turn stand in one message."""
        more = [block for each in results for block in _result(each)]
        return {**message, "content": among(message["content"], more, self._is_result)}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        if message.role == "tool":
            blocks = [each for result in message.tool_results for each in _result(result)]
            return [{"role": "user", "content": blocks}]
        return [{"role": message.role, "content": _blocks(message.parts, provider)}]


def _blocks(parts: Iterable[Part], provider: str) -> list[Body]:
    blocks: list[Body] = []
    for part in parts:
        if isinstance(part, TextPart):
            if not is_blank(part.text):  # no block may be blank
                blocks += ({"text": part.text}, *_cache(part.cache))
        elif isinstance(part, MediaPart):
            blocks += (media_block(part), *_cache(part.cache))
        elif isinstance(part, ToolCall):
            use = {"toolUseId": part.id, "name": part.name, "input": object_of(part.arguments)}
            blocks.append({"toolUse": use})
        elif not isinstance(part, ToolResult) and provider and part.provider == provider:
            if isinstance(part, ReasoningPart):
                if part.signature:
                    signed = {"text": part.text, "signature": part.signature}
                    blocks.append({"reasoningContent": {"reasoningText": signed}})
            elif isinstance(part, OpaquePart) and isinstance(part.block, Mapping):
                blocks.append(dict(part.block))
            elif isinstance(part, CitationPart) and blocks and (text := blocks[-1].pop("text", "")):
                blocks[-1] = {
                    "citationsContent": {"content": [{"text": text}], "citations": [part.block]}
                }
            elif isinstance(part, CitationPart) and blocks and "citationsContent" in blocks[-1]:
                blocks[-1]["citationsContent"]["citations"].append(part.block)
    return blocks


def _result(result: ToolResult) -> Iterator[Body]:
    text = result.text or (NO_REPORT if result.is_fault and not result.media else "")
    content = [*([] if is_blank(text) else [{"text": text}]), *map(media_block, result.media)]
    result_block: Body = {"toolUseId": result.id, "content": content}
    yield {"toolResult": {**result_block, "status": "error"} if result.is_fault else result_block}
    yield from _cache(result.cache)


def _cache(cache: Any) -> Iterator[Body]:
    if cache:
        ttl = cache.get("ttl") if isinstance(cache, Mapping) else None
        yield {"cachePoint": {"type": "default", **({"ttl": ttl} if ttl else {})}}


CONVERSE: Final = _ConverseShapes()

_MARK: Final = "cachePoint"
_NOT_BEHIND_TOOLS: Final = re.compile(r"amazon\.nova")
"""Models that accept cache marks, but not after a tool [docs.aws.amazon.com/bedrock, prompt
caching].
"""


class _Unmarked(_ConverseShapes):
    """Write Converse without the cache marks of other forms."""

    __slots__ = ()

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        return [
            {**each, "content": unmarked(each["content"])}
            for each in super().sent_to(provider, message)
        ]

    def _translated(self, tool: Mapping[str, Any]) -> list[Body]:
        return unmarked(super()._translated(tool))


UNMARKED: Final = _Unmarked()


def unmarked(blocks: Sequence[Any]) -> list[Any]:
    """Return blocks, or tools, without cache marks."""
    return [block for block in blocks if _MARK not in block]


def marks_tools(model: str, takes: bool | None) -> bool:
    """Tell whether a model is known to accept cache marks after tools; `takes` is None if
    unknown.
    """
    return takes is True and not _NOT_BEHIND_TOOLS.search(model)


def lost_marks(request: Request, model: str, takes: bool | None) -> Iterator[str]:
    """Yield which cache marks are not sent; Converse's own are unless it is known that the model
    takes none.
    """
    own: list[PlainMessage] = []
    others: list[PlainMessage | Message] = []
    for one in request.messages:
        if isinstance(one, Message) or not CONVERSE.is_own(one):
            others.append(one)
        else:
            own.append(one)
    behind_tools = sum(map(_is_marked, request.tools))
    of_calls = sum(map(_marked_calls, others))
    if takes:
        if behind_tools and not marks_tools(model, takes):
            yield f"cache marks of tools, {behind_tools} x: this model takes none there"
        if of_calls:
            yield f"cache marks of tool calls, {of_calls} x: they have no form here"
        return
    parts = [part for message in read_messages(others) for part in message.parts]
    count = sum(
        isinstance(part, TextPart | MediaPart | ToolResult) and bool(part.cache) for part in parts
    )
    count += behind_tools + of_calls
    if takes is False:
        blocks: list[Any] = [*(block for one in own for block in one["content"]), *request.tools]
        count += len(blocks) - len(unmarked(blocks))
    if count:
        yield f"cache marks, {count} x: this model is not known to take them"


def _is_marked(tool: Mapping[str, Any]) -> bool:
    """Tell whether the definition of a tool, in another form than Converse's, has a cache mark."""
    if CONVERSE.is_own_tool(tool):
        return False
    return any(isinstance(each, ToolDefinition) and each.cache for each in read_tools((tool,)))


def _marked_calls(message: PlainMessage | Message) -> int:
    """Count the tool calls of a message that have a cache mark; a call in neutral parts has
    none.
    """
    if isinstance(message, Message):
        return 0
    blocks: Iterable[Any] = [*list_of(message.get("content")), *list_of(message.get("tool_calls"))]
    calls = [
        each
        for each in blocks
        if isinstance(each, Mapping) and each.get("type") in ("tool_use", "function")
    ]
    return sum(bool(each.get("cache_control")) for each in calls)


def without_marks(message: PlainMessage) -> PlainMessage:
    """Return a message of Converse without cache marks."""
    blocks = unmarked(message["content"])
    return message if len(blocks) == len(message["content"]) else {**message, "content": blocks}
