"""What goes out in one attempt, and how its answer is to be read."""

from __future__ import annotations

from attrs import frozen

from rungwise.fsm.call.conversation.for_backend import ForBackend
from rungwise.fsm.call.conversation.reading import Reading
from rungwise.fsm.call.conversation.request import Send


@frozen(eq=False, repr=False)
class Proposal:
    """Hold what one attempt sends, and how its answer is to be read.

    Arguments:
        send: what the driver is told.
        reading: how the answer goes on from that.
        for_backend: what the backend gets of the request.
        prompt_tokens: what the prompt is counted as, for a budget of money.
    """

    send: Send
    reading: Reading
    for_backend: ForBackend
    prompt_tokens: int | None = None
