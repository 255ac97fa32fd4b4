"""Call a tool, a compactor or a verdict, in a thread or as a task, for no longer than it may
take.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, Final

from attrs import define, field, frozen

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.deadline import Deadline
from rungwise.adapters.http.waiting import WakeUp, check, event_loop, run, until_set, within
from rungwise.fsm.turn.tools import Executor, ToolRun

LATE: Final = TimeoutError("the time was used up")


@frozen(eq=False)
class ToolReturn:
    """What a tool returned or raised."""

    value: Any = None
    error: BaseException | None = None


Report = Callable[[ToolReturn], object]


def callable_of(run: ToolRun, executor: Executor | None) -> Callable[[], Any] | None:
    """Return a function that runs the tool; None if it has none."""
    if run.tool.function is not None:
        return partial(run.tool.function, **run.arguments)
    return None if executor is None else partial(executor, run.call.name, dict(run.arguments))


def is_async(function: Any) -> bool:
    """Tell whether to call something in an event loop: a coroutine function, or an object whose
    `__call__` is one.
    """
    while isinstance(function, partial):
        function = function.func
    if not (inspect.isroutine(function) or isinstance(function, type)):
        function = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def is_awaited(value: object) -> bool:
    """Tell whether a value must be awaited or iterated asynchronously."""
    return inspect.isawaitable(value) or inspect.isasyncgen(value)


def discard(value: object) -> None:
    """Close a coroutine that nobody will await, without a warning."""
    if inspect.iscoroutine(value):
        with suppress(Exception):
            value.close()


async def awaited(call: Callable[[], Any]) -> Any:
    """Call a function in an event loop and await what it returns; collect what an async generator
    yields.
    """
    value = call()
    while inspect.isawaitable(value):
        value = await value
    if isinstance(value, AsyncGenerator):
        return [item async for item in value]
    return value


class Worker(threading.Thread):
    """Call a function in a daemon thread and in a context, and report from there what it returned
    or raised.
    """

    def __init__(
        self, name: str, call: Callable[[], Any], context: Context, report: Report
    ) -> None:
        super().__init__(name=f"rungwise runs {name}", daemon=True)
        self._call = call
        self._context = context
        self._report = report
        self._is_abandoned = False

    def leave(self) -> None:
        """End a generator at its next value; nothing else can be ended."""
        self._is_abandoned = True

    def run(self) -> None:
        """Call it, and report."""
        try:
            sniffio = sys.modules.get("sniffio")
            if sniffio is not None:  # a tool in a thread may run an event loop of its own
                self._context.run(sniffio.current_async_library_cvar.set, None)
            returned = ToolReturn(self._context.run(self._called))
        except BaseException as error:
            returned = ToolReturn(error=error)
        report = self._report
        del self._call, self._report  # a thread left behind should hold no arguments
        report(returned)

    def _called(self) -> Any:
        value = self._call()
        if not isinstance(value, Generator):
            return value
        items = []
        for item in value:
            items.append(item)
            if self._is_abandoned:
                value.close()
                break
        return items


_tasks: set[asyncio.Task[Any]] = set()
"""Event loops hold their tasks weakly."""


def spawn_in_asyncio(
    call: Callable[[], Awaitable[Any]], context: Context, report: Report
) -> Callable[[], object]:
    """Start a task in the running event loop, and report its result there; return a function that
    cancels it.
    """

    async def run() -> ToolReturn:
        try:
            return ToolReturn(await call())
        except BaseException as error:
            # a SystemExit in a task would end the loop before the report
            return ToolReturn(error=error)

    def end(task: asyncio.Task[ToolReturn]) -> None:
        _tasks.discard(task)
        report(ToolReturn(error=asyncio.CancelledError()) if task.cancelled() else task.result())

    task = asyncio.get_running_loop().create_task(run(), context=context)
    _tasks.add(task)
    task.add_done_callback(end)
    return task.cancel


def spawn_in_trio(
    call: Callable[[], Awaitable[Any]], context: Context, report: Report
) -> Callable[[], object]:
    """Start a system task of trio; see `spawn_in_asyncio`."""
    import trio

    scope = trio.CancelScope()

    async def run() -> None:
        returned = ToolReturn(error=asyncio.CancelledError())
        with scope:
            try:
                returned = ToolReturn(await call())
            except trio.Cancelled:
                raise
            except BaseException as error:
                returned = ToolReturn(error=error)
        report(returned)

    trio.lowlevel.spawn_system_task(run, context=context)
    return scope.cancel


def spawn(
    call: Callable[[], Awaitable[Any]], context: Context, report: Report
) -> Callable[[], object]:
    """Start a task in the running event loop, whichever it is; see `spawn_in_asyncio`."""
    return (spawn_in_trio if event_loop() is None else spawn_in_asyncio)(call, context, report)


@define(eq=False)
class LoopThread:
    """Run an event loop in a daemon thread, from the first task until it is closed; then a task
    starts another.
    """

    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _is_closed: asyncio.Event = field(factory=asyncio.Event, init=False)

    def spawn(
        self, call: Callable[[], Any], context: Context, report: Report
    ) -> Callable[[], object]:
        """Await in this loop what a function returns; return a function that cancels it."""
        if self._loop is None:
            loop = asyncio.new_event_loop()
            is_closed = asyncio.Event()
            threading.Thread(
                target=_run, args=(loop, is_closed), name="rungwise runs async tools", daemon=True
            ).start()
            self._loop = loop
            self._is_closed = is_closed
        tasks: list[Callable[[], object]] = []
        soon = partial(_soon, self._loop)
        soon(lambda: tasks.append(spawn_in_asyncio(partial(awaited, call), context, report)))
        return lambda: soon(lambda: [cancel() for cancel in tasks])

    def close(self) -> None:
        """End the loop, if there is one, and cancel its tasks."""
        if self._loop is not None:
            _soon(self._loop, self._is_closed.set)
            self._loop = None


def _run(loop: asyncio.AbstractEventLoop, is_closed: asyncio.Event) -> None:
    # It cancels the remaining tasks as it closes; nobody waits for that.
    with suppress(Exception), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(is_closed.wait())


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(call)


def outcome_of(
    name: str,
    call: Callable[[], Any],
    seconds: float | None,
    cancellation: Cancellation,
    deadline: Deadline,
    loop: LoopThread | None = None,
) -> Any:
    """Return what a function returned or raised, or `LATE`. A late one is abandoned in a daemon
    thread.

    The deadline is for calls that it makes. What it returns is awaited in the loop, if there is
    one. If the call or turn was cancelled, CallEnded is raised.
    """
    returns = list[ToolReturn]()
    is_done = threading.Event()

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
    return outcome_of(
        name, partial(awaited, lambda: value), remaining, cancellation, deadline, loop
    )


async def aoutcome_of(
    name: str,
    call: Callable[[], Any],
    seconds: float | None,
    cancellation: Cancellation,
    deadline: Deadline,
) -> Any:
    """Do what `outcome_of` does in an event loop, where what is to be awaited is, and cancelled if
    it is late.
    """
    began = time.monotonic()
    if is_async(call):
        value = call()
    else:
        returns = list[ToolReturn]()
        wake = WakeUp()

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

    async def collect() -> None:
        try:
            with deadline.around():
                results.append(await awaited(lambda: value))
        except Exception as error:  # collected, so that it does not pass for a timeout of ours
            results.append(error)

    remaining = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
    try:
        await within(remaining, collect, cancellation=cancellation)
    except TimeoutError:
        return LATE
    return results[0]


def _taken(returned: ToolReturn) -> Any:
    if returned.error is not None and not isinstance(returned.error, Exception):
        raise returned.error
    return returned.value if returned.error is None else returned.error
