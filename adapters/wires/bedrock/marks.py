"""The marks up to which a prompt is kept: models that take none refuse the whole request (403)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rungwise.adapters.wires.bedrock.shapes import CONVERSE, ConverseShapes
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.fsm.call.parts import MediaPart, Message, TextPart, ToolResult
from rungwise.fsm.call.request import PlainMessage, Request

_MARK: Final = "cachePoint"


class _Unmarked(ConverseShapes):
    """Write Converse without the marks that other forms have."""

    __slots__ = ()

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message in this form, with what this provider wants back of its own and nothing of any other's."""
        return [{**each, "content": unmarked(each["content"])} for each in super().sent_to(provider, message)]


UNMARKED: Final = _Unmarked()


def unmarked(blocks: Sequence[Any]) -> list[Any]:
    """Return blocks, or tools, without the marks among them."""
    return [block for block in blocks if _MARK not in block]


def lost_marks(request: Request, takes: bool | None) -> int:
    """Count the marks of a request that a model is not sent.

    Arguments:
        request: what the caller asks.
        takes: whether the model takes them. Where nobody knows, those that were written in Converse's own form go out
            as all of that form does.
    """
    if takes:
        return 0
    own = [one for one in request.messages if not isinstance(one, Message) and CONVERSE.is_own(one)]
    others = [one for one in request.messages if not any(one is each for each in own)]
    parts = [part for message in read_messages(others) for part in message.parts]
    found = sum(isinstance(part, TextPart | MediaPart | ToolResult) and bool(part.cache) for part in parts)
    if takes is None:
        return found
    blocks: list[Any] = [*(block for one in own for block in one["content"]), *request.tools]
    return found + len(blocks) - len(unmarked(blocks))


def without_marks(messages: Sequence[PlainMessage]) -> list[PlainMessage]:
    """Return messages of Converse without any marks."""
    return [_bare(message) for message in messages]


def _bare(message: PlainMessage) -> PlainMessage:
    kept = unmarked(message["content"])
    return message if len(kept) == len(message["content"]) else {**message, "content": kept}
