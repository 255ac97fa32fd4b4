"""Call a tool, a compactor or a verdict, in a thread or as a task, within a time limit.

A coroutine can be cancelled, so a late one is. Nothing can end a thread: a late function is left
behind in a daemon thread, and what it returns is dropped.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
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
    """Hold what a tool returned or raised."""

    value: Any = None
    error: BaseException | None = None


Callee = Callable[[], Any]
"""What is called: a tool, a compactor or a verdict, with its arguments."""

AsyncCallee = Callable[[], Awaitable[Any]]
"""The same where what it returns is to be awaited."""

Report = Callable[[ToolReturn], object]
"""Takes what came of a call."""

Cancel = Callable[[], object]
"""Cancels what was called."""


def callable_of(run: ToolRun, executor: Executor | None) -> Callee | None:
    """Return a function that runs the tool; None if it has none."""
    if run.tool.function is not None:
        return partial(run.tool.function, **run.arguments)
    if executor is None:
        return None
    return partial(executor, run.call.name, dict(run.arguments))


def is_async(function: Any) -> bool:
    """Tell whether to call something in an event loop.

    That is a coroutine function, or an object whose `__call__` is one.
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


async def awaited(call: Callee) -> Any:
    """Call a function in an event loop and await what it returns.

    What an async generator yields is collected in a list.
    """
    value = call()
    while inspect.isawaitable(value):
        value = await value
    if isinstance(value, AsyncGenerator):
        return [item async for item in value]
    return value


class Worker(threading.Thread):
    """Call a function in a daemon thread.

    Arguments:
        name: the name of the tool, for that of the thread.
        call: the function.
        context: the context variables that it sees.
        report: called in the thread with what the function returned or raised.
    """

    def __init__(
        self,
        name: str,
        call: Callee,
        context: Context,
        report: Report,
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
            # a tool in a thread may run an event loop of its own; another may just be importing it
            sniffed = getattr(sys.modules.get("sniffio"), "current_async_library_cvar", None)
            if sniffed is not None:
                self._context.run(sniffed.set, None)
            returned = ToolReturn(self._context.run(self._called))
        except BaseException as error:
            returned = ToolReturn(error=error)
        report = self._report
        del self._call, self._report  # a thread that is left behind should hold no arguments
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


def spawn_in_asyncio(call: AsyncCallee, context: Context, report: Report) -> Cancel:
    """Start a task in the running event loop.

    Arguments:
        call: what to await.
        context: the context variables that the task sees.
        report: called in the loop with what came of it.

    Returns:
        A function that cancels the task.
    """

    async def run() -> ToolReturn:
        try:
            return ToolReturn(await call())
        except BaseException as error:
            # a SystemExit in a task would end the loop before the report
            return ToolReturn(error=error)

    def end(task: asyncio.Task[ToolReturn]) -> None:
        _tasks.discard(task)
        if task.cancelled():
            report(ToolReturn(error=asyncio.CancelledError()))
        else:
            report(task.result())

    task = asyncio.get_running_loop().create_task(run(), context=context)
    _tasks.add(task)
    task.add_done_callback(end)
    return task.cancel


def spawn_in_trio(call: AsyncCallee, context: Context, report: Report) -> Cancel:
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


def spawn(call: AsyncCallee, context: Context, report: Report) -> Cancel:
    """Start a task in the running event loop, whichever it is; see `spawn_in_asyncio`."""
    start = spawn_in_trio if event_loop() is None else spawn_in_asyncio
    return start(call, context, report)


@define(eq=False)
class LoopThread:
    """Run an event loop in a daemon thread.

    The first task starts it. After `close`, the next task starts another one.
    """

    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _is_closed: asyncio.Event = field(factory=asyncio.Event, init=False)

    def spawn(
        self,
        call: Callee,
        context: Context,
        report: Report,
    ) -> Cancel:
        """Await in this loop what a function returns; return a function that cancels it."""
        if self._loop is None:
            loop = asyncio.new_event_loop()
            is_closed = asyncio.Event()
            thread = threading.Thread(
                target=_run, args=(loop, is_closed), name="rungwise runs async tools", daemon=True
            )
            thread.start()
            self._loop = loop
            self._is_closed = is_closed
        loop = self._loop
        cancels: list[Cancel] = []  # empty until the loop has begun the task

        def start() -> None:
            cancels.append(spawn_in_asyncio(partial(awaited, call), context, report))

        def cancel() -> None:
            for each in cancels:
                each()

        _soon(loop, start)
        return lambda: _soon(loop, cancel)

    def close(self) -> None:
        """End the loop, if there is one, and cancel its tasks."""
        if self._loop is not None:
            _soon(self._loop, self._is_closed.set)
            self._loop = None


def _run(loop: asyncio.AbstractEventLoop, is_closed: asyncio.Event) -> None:
    # The runner cancels the remaining tasks as it closes. Nobody waits for that.
    with suppress(Exception), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(is_closed.wait())


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(call)


def outcome_of(
    name: str,
    call: Callee,
    cancellation: Cancellation,
    deadline: Deadline,
    loop: LoopThread | None = None,
) -> Any:
    """Call a function from a thread.

    Arguments:
        name: what it is, for the name of its thread.
        call: the function. A late one is left behind.
        cancellation: ends the call or turn from outside.
        deadline: when the function must have ended, and the calls which it makes.
        loop: awaits what it returns; None if nothing is to be awaited.

    Returns:
        What it returned or raised, or `LATE`.

    Raises:
        CallEnded: the call or turn was cancelled.
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
    is_in_time = run(until_set(is_done, deadline.seconds_left), cancellation)
    check(cancellation)
    if not is_in_time:
        return LATE
    value = _taken(returns[0])
    if loop is None or not is_awaited(value):
        return value
    return outcome_of(name, partial(awaited, lambda: value), cancellation, deadline, loop)


async def aoutcome_of(
    name: str,
    call: Callee,
    cancellation: Cancellation,
    deadline: Deadline,
) -> Any:
    """Call a function from an event loop.

    What is to be awaited is awaited in this loop, and cancelled if it is late.

    Arguments: as for `outcome_of`.
    """
    if is_async(call):
        value = call()
    else:
        returns = list[ToolReturn]()
        wake = WakeUp()

        def report(returned: ToolReturn) -> None:
            returns.append(returned)
            wake.call()

        Worker(name, call, deadline.context(), report).start()
        if not await wake.wait(deadline.seconds_left, cancellation):
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

    try:
        await within(deadline.seconds_left, collect, cancellation=cancellation)
    except TimeoutError:
        return LATE
    return results[0]


def _taken(returned: ToolReturn) -> Any:
    """Return what a function returned or raised; raise what is no error to handle."""
    error = returned.error
    if error is None:
        return returned.value
    if not isinstance(error, Exception):
        raise error
    return error
