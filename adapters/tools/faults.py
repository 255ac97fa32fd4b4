"""What went wrong with a tool, in words for the model, and for the caller's driver what ended all of them."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterator
from itertools import islice
from typing import Final

from rungwise.fsm.call.budget.estimate import BYTES_A_TOKEN
from rungwise.fsm.errors import ToolError
from rungwise.fsm.text.contents import without_halves
from rungwise.fsm.turn.actions import ToolOutcome
from rungwise.fsm.turn.tool_round import shortened
from rungwise.fsm.values.label import label

LONGEST_FAULT: Final = 2_000
"""Bytes of what an exception says that a model is told."""

_MOST_TOLD: Final = 5

NOT_BEGUN: Final = "cancelled before it began"
TOO_LATE: Final = "not run: the time of the turn was up"
CANCELLED: Final = "cancelled while it ran"
LEFT: Final = "it cannot be stopped and may still be running"
NO_THREAD: Final = "not run: no thread could be started for it"


class ToolsEnded(BaseException):
    """Say that tools were ended before all had run; whoever catches it takes the outcomes and raises the reason.

    Like `CallEnded` it is not a failure that anything else should handle.

    Arguments:
        outcomes: what came of each tool, in the order of the calls; what was ended has a fault.
        reason: what goes on from here: `CallEnded`, the cancellation of the task, a KeyboardInterrupt, or what a tool
            has raised that is no failure of the tool.
    """

    def __init__(self, outcomes: tuple[ToolOutcome, ...], reason: BaseException) -> None:
        super().__init__(outcomes, reason)
        self.outcomes, self.reason = outcomes, reason


def is_failure(error: BaseException) -> bool:
    """Tell whether an exception is a tool's own failure, and not one that must go on to the caller."""
    return isinstance(error, Exception | CancelledError | GeneratorExit | SystemExit)


def fault_of(error: BaseException) -> str:
    """Return what a model is told of an exception; no log and no error is given it."""
    text = (_words_of(error) if isinstance(error, ToolError) else "") or f"failed: {_named(error)}"
    [told] = shortened([without_halves(text)], LONGEST_FAULT // BYTES_A_TOKEN)
    return told


def _named(error: BaseException) -> str:
    """Return the type and the words of an exception, or of those that a group holds, whose own words say nothing."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_named(each) for each in islice(_leaves(error), _MOST_TOLD))
    words = _words_of(error)
    return f"{label(type(error).__name__)}{': ' if words else ''}{words}"


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    ahead: list[BaseException] = [group]
    while ahead:
        error = ahead.pop()
        if isinstance(error, BaseExceptionGroup):
            ahead += reversed(error.exceptions)
        else:
            yield error


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # whatever a stranger's `__str__` does
        return ""


def late(seconds: float) -> str:
    """Say that a tool took too long.

    Arguments:
        seconds: how long it might have taken.
    """
    return f"timed out after {seconds:g} s"
