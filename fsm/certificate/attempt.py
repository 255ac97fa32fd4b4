"""One attempt of a worst case as it was played: who was asked, after which wait, and what came back."""

from __future__ import annotations

from attrs import field, frozen

from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.failures.failure import Failure


@frozen
class Attempt:
    """Hold one attempt of a path that was played to a call.

    Arguments:
        backend: who was asked, counted from 0.
        wait: the seconds before it.
        seconds: how long it lasted.
        closing: how long it took to close its connection.
        is_late: whether it lasted until no time was left for another one at the same backend.
        came: what came back.
    """

    backend: int
    wait: float
    seconds: float
    closing: float
    is_late: bool
    came: Reply | Failure = field(repr=False)
