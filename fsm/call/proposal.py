"""What goes out in one attempt, and how its answer is to be read."""

from __future__ import annotations

from rungwise.fsm.call.request import Send
from rungwise.fsm.call.shapes import NEUTRAL, Shapes
from rungwise.fsm.call.transcript import Reading
from rungwise.fsm.values.records import record


@record(kw_only=True)
class Proposal:
    """Hold what one attempt sends, and how its answer is to be read.

    Arguments:
        send: what the driver is told.
        reading: how the answer goes on from that.
        prompt_tokens: what the prompt is counted as, for a budget of money.
        expects_json: whether the answer must be JSON, so that a piece of it is nothing to go on from.
        asks_for_little: whether the caller wants a handful of tokens.
        shapes: the form in which it is written.
        may_ask_in_words: whether JSON can be asked for in words where the backend rejects the parameter for it.
    """

    send: Send
    reading: Reading
    prompt_tokens: int | None = None
    expects_json: bool = False
    asks_for_little: bool = False
    shapes: Shapes = NEUTRAL
    may_ask_in_words: bool = False
