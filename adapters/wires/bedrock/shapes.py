"""The form of Converse: how messages and tools are written in it.

A turn is a list of blocks, and each block an object with one member that says what it is. A cache
mark is a block of its own behind what it marks; the API refuses it for models that cache nothing,
so there are two forms, with marks and without.
"""

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

_NAMES: Final[Mapping[str, str]] = {
    "image": "png jpeg gif webp",
    "document": "pdf csv doc docx xls xlsx html txt md",
    "audio": "mp3 opus wav aac flac mp4 ogg mkv mka x-aac m4a mpeg mpga pcm webm",
    "video": "mkv mov mp4 webm flv mpeg mpg wmv three_gp",
}
"""The formats of each kind [botocore, bedrock-runtime]; most are the names of media types."""
_FORMATS: Final[Mapping[str, Mapping[str, str]]] = {
    "image": {"jpg": "jpeg"},
    "document": {
        "plain": "txt",
        "markdown": "md",
        "msword": "doc",
        "vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "vnd.ms-excel": "xls",
        "vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    },
    "audio": {
        "mpeg": "mp3",
        "wave": "wav",
        "x-wav": "wav",
        "x-flac": "flac",
        "x-m4a": "m4a",
        "x-matroska": "mka",
        "l16": "pcm",
    },
    "video": {
        "quicktime": "mov",
        "x-matroska": "mkv",
        "x-flv": "flv",
        "x-ms-wmv": "wmv",
        "3gpp": "three_gp",
        "3gp": "three_gp",
    },
}
"""The format of each other media type, without what stands before its slash."""
_OTHER_THAN_NAMES: Final = re.compile(r"[^a-zA-Z0-9\s()\[\]-]+")
"""What the name of a document may not hold [docs.aws.amazon.com/bedrock, DocumentBlock]."""


def media_block(part: MediaPart) -> Body:
    """Return the block of a picture, a document or a recording.

    What has no format here, or only a URL that is not S3's, is only named, in words.
    """
    kind = "document" if part.kind == "file" else part.kind
    source: Body = {}
    if part.url.startswith("s3://"):
        source = {"s3Location": {"uri": part.url}}
    elif part.data:
        source = {"bytes": part.data}
    format = _format(part, kind)
    if not format or not source:
        return {"text": in_words(part)}
    block: Body = {"format": format, "source": source}
    if kind == "document":
        stem = part.name.rpartition(".")[0] or part.name
        words = _OTHER_THAN_NAMES.sub(" ", stem).split()
        block["name"] = " ".join(words)[:200] or "document"
    return {kind: block}


def _format(part: MediaPart, kind: str) -> str:
    """Return the format of a media part; "" if none is known.

    It follows from the media type, or else from the end of a URL. A document without a type is a
    PDF.
    """
    media_type = part.media_type.partition(";")[0]
    name = media_type.rpartition("/")[2].strip().lower()
    format = _named(name, kind)
    if not name and kind == "document":
        format = "pdf"
    if not format and part.url.startswith("s3://"):
        return _named(part.url.rpartition(".")[2].lower(), kind)
    return format


def _named(name: str, kind: str) -> str:
    """Return the format of a media type or of the end of a name; "" if none is known."""
    own = name if name in _NAMES[kind].split() else ""
    return _FORMATS[kind].get(name, own)


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
"""The blocks that no provider signs or encrypts."""
_TOOL_KINDS: Final = frozenset({"toolSpec", "systemTool", "cachePoint"})


class _ConverseShapes(BlockForm):
    """Read and write Converse; the backend separates system messages from the others."""

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
        if isinstance(value, str):
            return object_of(value)
        return value or True

    def tool_of(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
    ) -> Body:
        tool: Body = {"name": name}
        if description:
            tool["description"] = description
        tool["inputSchema"] = {"json": parameters}
        return {"toolSpec": tool}

    def _definition_of(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        return mapping_of(tool.get("toolSpec"))

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        return len(tool) == 1 and not _TOOL_KINDS.isdisjoint(tool)

    def _translated(self, tool: Mapping[str, Any]) -> list[Body]:
        written: list[Body] = []
        for definition in read_tools((tool,)):
            if isinstance(definition, ToolDefinition):
                written.append(self.written_tool(definition))
                written += _marks(definition.cache)
        return written

    def _is_own_block(self, block: Any) -> bool:
        return isinstance(block, Mapping) and is_untyped(block)

    def with_results(
        self, message: PlainMessage, results: Sequence[ToolResult]
    ) -> PlainMessage | None:
        """Add tool results to a user message: all results of a turn stand in one message."""
        written = _results(results)
        return {**message, "content": among(message["content"], written, self._is_result)}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        if message.role == "tool":
            return [{"role": "user", "content": _results(message.tool_results)}]
        return [{"role": message.role, "content": _blocks(message.parts, provider)}]


def _blocks(parts: Iterable[Part], provider: str) -> list[Body]:
    """Return parts as blocks, those that only this provider can read included."""
    blocks: list[Body] = []
    for part in parts:
        if isinstance(part, TextPart):
            if not is_blank(part.text):  # no block may be blank
                blocks.append({"text": part.text})
                blocks += _marks(part.cache)
        elif isinstance(part, MediaPart):
            blocks.append(media_block(part))
            blocks += _marks(part.cache)
        elif isinstance(part, ToolCall):
            use = {
                "toolUseId": part.id,
                "name": part.name,
                "input": object_of(part.arguments),
            }
            blocks.append({"toolUse": use})
        elif not isinstance(part, ToolResult) and provider and part.provider == provider:
            _add_own(blocks, part)
    return blocks


def _add_own(blocks: list[Body], part: ReasoningPart | CitationPart | OpaquePart) -> None:
    """Append what goes back to its provider; the sources of a text make its block another one."""
    if isinstance(part, ReasoningPart):
        if part.signature:
            signed = {"text": part.text, "signature": part.signature}
            blocks.append({"reasoningContent": {"reasoningText": signed}})
    elif isinstance(part, OpaquePart):
        if isinstance(part.block, Mapping):
            blocks.append(dict(part.block))
    elif blocks and (text := blocks[-1].pop("text", "")):
        cited = {"content": [{"text": text}], "citations": [part.block]}
        blocks[-1] = {"citationsContent": cited}
    elif blocks and "citationsContent" in blocks[-1]:
        blocks[-1]["citationsContent"]["citations"].append(part.block)


def _results(results: Iterable[ToolResult]) -> list[Body]:
    """Return results as blocks, each with its cache mark behind it."""
    blocks: list[Body] = []
    for result in results:
        text = result.text
        if not text and result.is_fault and not result.media:
            text = NO_REPORT
        content = [media_block(each) for each in result.media]
        if not is_blank(text):
            content.insert(0, {"text": text})
        block: Body = {"toolUseId": result.id, "content": content}
        if result.is_fault:
            block["status"] = "error"
        blocks.append({"toolResult": block})
        blocks += _marks(result.cache)
    return blocks


def _marks(cache: Any) -> list[Body]:
    """Return the block that marks what stands before it, if there is a mark."""
    if not cache:
        return []
    mark: Body = {"type": "default"}
    if mapping_of(cache).get("ttl"):
        mark["ttl"] = cache["ttl"]
    return [{_MARK: mark}]


CONVERSE: Final = _ConverseShapes()

_MARK: Final = "cachePoint"
_NOT_BEHIND_TOOLS: Final = re.compile(r"amazon\.nova")
"""Models that accept cache marks, but not after a tool.

[docs.aws.amazon.com/bedrock, prompt caching]
"""


class _Unmarked(_ConverseShapes):
    """Write Converse without the cache marks of other forms."""

    __slots__ = ()

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        messages = super().sent_to(provider, message)
        return [{**each, "content": unmarked(each["content"])} for each in messages]

    def _translated(self, tool: Mapping[str, Any]) -> list[Body]:
        return unmarked(super()._translated(tool))


UNMARKED: Final = _Unmarked()


def unmarked(blocks: Sequence[Any]) -> list[Any]:
    """Return blocks, or tools, without cache marks."""
    return [block for block in blocks if _MARK not in block]


def marks_tools(model: str, takes: bool | None) -> bool:
    """Tell whether a model is known to accept cache marks after tools.

    Arguments:
        model: its id.
        takes: whether it accepts cache marks at all; None if unknown.
    """
    return takes is True and not _NOT_BEHIND_TOOLS.search(model)


def lost_marks(request: Request, model: str, takes: bool | None) -> Iterator[str]:
    """Yield which cache marks are not sent.

    Converse's own are sent unless it is known that the model takes none.

    Arguments:
        request: what the caller asks.
        model: the id of the model.
        takes: whether it accepts cache marks; None if unknown.
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
    count = behind_tools + of_calls
    for message in read_messages(others):
        count += sum(bool(getattr(part, "cache", None)) for part in message.parts)
    if takes is False:
        for blocks in (*[one["content"] for one in own], request.tools):
            count += len(blocks) - len(unmarked(blocks))
    if count:
        yield f"cache marks, {count} x: this model is not known to take them"


def _is_marked(tool: Mapping[str, Any]) -> bool:
    """Tell whether the definition of a tool, in another form than Converse's, has a cache mark."""
    if CONVERSE.is_own_tool(tool):
        return False
    return any(isinstance(each, ToolDefinition) and each.cache for each in read_tools((tool,)))


def _marked_calls(message: PlainMessage | Message) -> int:
    """Count the tool calls of a message that have a cache mark.

    A call in neutral parts has none.
    """
    if isinstance(message, Message):
        return 0
    count = 0
    blocks = list_of(message.get("content")) + list_of(message.get("tool_calls"))
    for block in map(mapping_of, blocks):
        if block.get("type") in ("tool_use", "function") and block.get("cache_control"):
            count += 1
    return count


def without_marks(message: PlainMessage) -> PlainMessage:
    """Return a message of Converse without cache marks."""
    blocks = unmarked(message["content"])
    if len(blocks) == len(message["content"]):
        return message
    return {**message, "content": blocks}
