"""The marks up to which a prompt is kept: models that take none refuse the whole request (403)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.bedrock.shapes import CONVERSE, ConverseShapes
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.making import list_of
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.plain.tools import ToolDefinition, read_tools
from rungwise.fsm.call.conversation.parts import MediaPart, Message, TextPart, ToolResult
from rungwise.fsm.call.conversation.request import PlainMessage, Request

_MARK: Final = "cachePoint"
_NOT_BEHIND_TOOLS: Final = re.compile(r"amazon\.nova")
"""The models that take marks, but none behind a tool [docs.aws.amazon.com/bedrock, prompt caching]."""


class _Unmarked(ConverseShapes):
    """Write Converse without the marks that other forms have."""

    __slots__ = ()

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message in this form, with what this provider wants back of its own and nothing of any other's."""
        return [{**each, "content": unmarked(each["content"])} for each in super().sent_to(provider, message)]

    def _translated(self, tool: Mapping[str, Any]) -> list[Body]:
        return unmarked(super()._translated(tool))


UNMARKED: Final = _Unmarked()


def unmarked(blocks: Sequence[Any]) -> list[Any]:
    """Return blocks, or tools, without the marks among them."""
    return [block for block in blocks if _MARK not in block]


def marks_tools(model: str, takes: bool | None) -> bool:
    """Tell whether a model is known to take marks behind tools.

    Arguments:
        model: its id.
        takes: whether it takes any, as far as anybody knows.
    """
    return takes is True and not _NOT_BEHIND_TOOLS.search(model)


def lost_marks(request: Request, model: str, takes: bool | None) -> Iterator[str]:
    """Yield which marks of a request a model is not sent, in a short sentence each.

    Arguments:
        request: what the caller asks.
        model: the id of the model.
        takes: whether it takes them. Where nobody knows, those that were written in Converse's own form go out as all
            of that form does.
    """
    own: list[PlainMessage] = []
    others: list[PlainMessage | Message] = []
    for one in request.messages:
        if isinstance(one, Message) or not CONVERSE.is_own(one):
            others.append(one)
        else:
            own.append(one)
    behind_tools, of_calls = sum(map(_is_marked, request.tools)), sum(map(_marked_calls, others))
    if takes:
        if behind_tools and not marks_tools(model, takes):
            yield f"cache marks of tools, {behind_tools} x: this model takes none there"
        if of_calls:
            yield f"cache marks of tool calls, {of_calls} x: they have no form here"
        return
    parts = [part for message in read_messages(others) for part in message.parts]
    found = sum(isinstance(part, TextPart | MediaPart | ToolResult) and bool(part.cache) for part in parts)
    found += behind_tools + of_calls
    if takes is False:
        blocks: list[Any] = [*(block for one in own for block in one["content"]), *request.tools]
        found += len(blocks) - len(unmarked(blocks))
    if found:
        yield f"cache marks, {found} x: this model is not known to take them"


def _is_marked(tool: Mapping[str, Any]) -> bool:
    """Tell whether the definition of a tool has a mark, in another form than Converse's."""
    if CONVERSE.is_own_tool(tool):
        return False
    return any(isinstance(each, ToolDefinition) and each.cache for each in read_tools((tool,)))


def _marked_calls(message: PlainMessage | Message) -> int:
    """Count the tool calls of a message that have a mark; a call in neutral parts has none."""
    if isinstance(message, Message):
        return 0
    blocks: Iterable[Any] = [*list_of(message.get("content")), *list_of(message.get("tool_calls"))]
    calls = [each for each in blocks if isinstance(each, Mapping) and each.get("type") in ("tool_use", "function")]
    return sum(bool(each.get("cache_control")) for each in calls)


def without_marks(messages: Sequence[PlainMessage]) -> list[PlainMessage]:
    """Return messages of Converse without any marks."""
    return [_bare(message) for message in messages]


def _bare(message: PlainMessage) -> PlainMessage:
    kept = unmarked(message["content"])
    return message if len(kept) == len(message["content"]) else {**message, "content": kept}
