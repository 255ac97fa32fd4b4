"""What goes out in one attempt, and how its answer is to be read."""

from __future__ import annotations

from attrs import frozen

from rungwise.fsm.call.conversation.for_backend import Meant
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.conversation.transcript import Reading


@frozen
class Proposal:
    """Hold what one attempt sends, and how its answer is to be read.

    Arguments:
        send: what the driver is told.
        reading: how the answer goes on from that.
        meant: what of the request is meant for the backend.
        prompt_tokens: what the prompt is counted as, for a budget of money.
    """

    send: Send
    reading: Reading
    meant: Meant
    prompt_tokens: int | None = None
