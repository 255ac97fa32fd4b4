"""Chat completions for a provider that wants the reasoning of earlier turns back."""

from __future__ import annotations

from typing import Final

from rungwise.adapters.wires.chat.reply import contents
from rungwise.adapters.wires.chat.shapes import ChatShapes
from rungwise.adapters.wires.form import Body, Rules
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import Message

STAND_IN: Final = "(the reasoning of this turn was not kept)"
"""The stand-in for reasoning that a provider wants back and that is not available."""


class ReasonedChat(ChatShapes):
    """Write chat completions for a provider that wants the reasoning of earlier turns back.

    It does so whatever model wrote them.
    """

    __slots__ = ()

    rules = Rules(keeps_reasoning=True)

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message as plain messages, with its reasoning or a stand-in."""
        sent = super().sent_to(provider, message)
        if message.role == "assistant" and not sent[0].get("reasoning_content"):
            sent[0]["reasoning_content"] = message.reasoning or STAND_IN
        return sent

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a message without other providers' own members.

        Its readable reasoning stays.
        """
        portable = super().unsigned(message)
        reasoning = message.get("reasoning_content")
        if not reasoning:
            return portable
        return {**portable, "reasoning_content": reasoning}


def reasoned(message: PlainMessage | Message) -> PlainMessage | Message:
    """Return an assistant message with the reasoning that a provider wants back.

    Other messages stay unchanged.
    """
    if isinstance(message, Message) or message.get("role") != "assistant":
        return message
    own = message.get("reasoning_content")
    if isinstance(own, str) and own:
        return message
    _, reasoning, _ = contents(message)
    if not reasoning:
        _, reasoning, _ = contents({"content": message.get("thinking_blocks")})
    return {**message, "reasoning_content": reasoning or STAND_IN}
