"""One attempt of a worst case as it was played: who was asked, after which wait, and what came back."""

from __future__ import annotations

from attrs import field, frozen

from rungwise.fsm.call.reply import Reply
from rungwise.fsm.failures.failure import Failure


@frozen
class Attempt:
    """Hold one attempt of a path that was played to a call.

    Arguments:
        backend: who was asked, counted from 0.
        wait: the seconds before it.
        seconds: how long it lasted, closing its connection included.
        came: what came back.
    """

    backend: int
    wait: float
    seconds: float
    came: Reply | Failure = field(repr=False)
