"""Call the compactor of a turn, for no longer than the turn may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any, Final

from rungwise.adapters.http.cancellation import SLICE, Cancellation
from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.waiting import WakeUp, check, within
from rungwise.adapters.tools.calling import Report, ToolReturn, Worker, is_async
from rungwise.fsm.turn.actions import Compact

LATE: Final = TimeoutError("the compactor has used up the time of the turn")


def shorten(
    compactor: Callable[..., Any],
    action: Compact,
    seconds: float | None,
    cancellation: Cancellation,
    deadline: Deadline,
) -> Any:
    """Return what a compactor returned or raised, or `LATE`. A late one is abandoned in a daemon thread.

    Arguments:
        compactor: called with its own copy of the messages, and by how many tokens to shorten them.
        action: holds both.
        seconds: how long it may take; None without a limit.
        cancellation: ends the wait.
        deadline: the deadline for calls that it makes.

    Raises:
        CallEnded: the turn was cancelled.
    """
    returns, is_done = list[ToolReturn](), threading.Event()

    def report(returned: ToolReturn) -> None:
        returns.append(returned)
        is_done.set()

    _begin(compactor, action, report, deadline)
    until = None if seconds is None else time.monotonic() + seconds
    while not is_done.wait(SLICE if until is None else max(0.0, min(SLICE, until - time.monotonic()))):
        check(cancellation)
        if until is not None and time.monotonic() >= until:
            return LATE
    check(cancellation)
    return _taken(returns[0])


async def ashorten(
    compactor: Callable[..., Any],
    action: Compact,
    seconds: float | None,
    cancellation: Cancellation,
    deadline: Deadline,
) -> Any:
    """Return what a compactor returned or raised, or `LATE`. A late one is cancelled, or abandoned in a thread.

    See `shorten`.
    """
    began, shorter = time.monotonic(), None
    if is_async(compactor):
        shorter = _called(compactor, action)
    else:
        returns, wake = list[ToolReturn](), WakeUp()

        def report(returned: ToolReturn) -> None:
            returns.append(returned)
            wake.call()

        _begin(compactor, action, report, deadline)
        if not await wake.wait(seconds, cancellation):
            return LATE
        shorter = _taken(returns[0])
    if not isawaitable(shorter):
        return shorter
    awaited: list[Any] = []
    remaining = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
    try:
        await within(remaining, partial(_await_into, awaited, shorter, deadline), cancellation=cancellation)
    except TimeoutError:
        return LATE
    return awaited[0]


async def _called(compactor: Callable[..., Any], action: Compact) -> Any:
    return await compactor(action.messages, action.room)


async def _await_into(returns: list[Any], shorter: Any, deadline: Deadline) -> None:
    """Await what a compactor returned, and collect its exception, so that it does not pass for a timeout of ours."""
    try:
        with deadline.around():
            returns.append(await shorter)
    except Exception as error:
        returns.append(error)


def _begin(compactor: Callable[..., Any], action: Compact, report: Report, deadline: Deadline) -> None:
    Worker("the compactor", partial(compactor, action.messages, action.room), deadline.context(), report).start()


def _taken(returned: ToolReturn) -> Any:
    if returned.error is not None and not isinstance(returned.error, Exception):
        raise returned.error
    return returned.value if returned.error is None else returned.error
