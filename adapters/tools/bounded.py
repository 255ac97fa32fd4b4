"""Call a function of the caller's for no longer than it may take: a compactor, a verdict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.waiting import WakeUp, check, run, until_set, within
from rungwise.adapters.tools.calling import ToolReturn, Worker, awaited, is_async, is_awaited
from rungwise.adapters.tools.running import LoopThread

LATE: Final = TimeoutError("the time was used up")


def outcome_of(
    name: str,
    call: Callable[[], Any],
    seconds: float | None,
    cancellation: Cancellation,
    deadline: Deadline,
    loop: LoopThread | None = None,
) -> Any:
    """Return what a function returned or raised, or `LATE`. A late one is abandoned in a daemon thread.

    The deadline is for calls that it makes. What it returns is awaited in the loop, if there is one. If the call or
    turn was cancelled, CallEnded is raised.
    """
    returns, is_done = list[ToolReturn](), threading.Event()

    def report(returned: ToolReturn) -> None:
        returns.append(returned)
        is_done.set()

    if loop is not None and is_async(call):
        loop.spawn(call, deadline.context(), report)
    else:
        Worker(name, call, deadline.context(), report).start()
    until = None if seconds is None else time.monotonic() + seconds
    is_in_time = run(until_set(is_done, seconds), cancellation)
    check(cancellation)
    if not is_in_time:
        return LATE
    value = _taken(returns[0])
    if loop is None or not is_awaited(value):
        return value
    remaining = None if until is None else max(0.0, until - time.monotonic())
    return outcome_of(name, partial(awaited, lambda: value), remaining, cancellation, deadline, loop)


async def aoutcome_of(
    name: str, call: Callable[[], Any], seconds: float | None, cancellation: Cancellation, deadline: Deadline
) -> Any:
    """Do what `outcome_of` does in an event loop, where what is to be awaited is, and cancelled if it is late."""
    began = time.monotonic()
    if is_async(call):
        value = call()
    else:
        returns, wake = list[ToolReturn](), WakeUp()

        def report(returned: ToolReturn) -> None:
            returns.append(returned)
            wake.call()

        Worker(name, call, deadline.context(), report).start()
        if not await wake.wait(seconds, cancellation):
            return LATE
        value = _taken(returns[0])
    if not is_awaited(value):
        return value
    results: list[Any] = []
    remaining = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
    try:
        await within(remaining, partial(_await_into, results, value, deadline), cancellation=cancellation)
    except TimeoutError:
        return LATE
    return results[0]


async def _await_into(results: list[Any], value: Any, deadline: Deadline) -> None:
    """Await what a function returned, and collect its exception, so that it does not pass for a timeout of ours."""
    try:
        with deadline.around():
            results.append(await awaited(lambda: value))
    except Exception as error:
        results.append(error)


def _taken(returned: ToolReturn) -> Any:
    if returned.error is not None and not isinstance(returned.error, Exception):
        raise returned.error
    return returned.value if returned.error is None else returned.error
