"""Call a tool of any kind, in a thread or as a task, and collect what it returns."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any

from attrs import frozen

from rungwise.adapters.http.waiting import event_loop
from rungwise.fsm.turn.tools import Executor, ToolRun


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
    """Tell whether to call something in an event loop: a coroutine function, or an object whose `__call__` is one."""
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
    """Call a function in an event loop and await what it returns; collect what an async generator yields."""
    value = call()
    while inspect.isawaitable(value):
        value = await value
    if isinstance(value, AsyncGenerator):
        return [item async for item in value]
    return value


class Worker(threading.Thread):
    """Call a function in a daemon thread and in a context, and report from there what it returned or raised."""

    def __init__(self, name: str, call: Callable[[], Any], context: Context, report: Report) -> None:
        super().__init__(name=f"rungwise runs {name}", daemon=True)
        self._call, self._context, self._report = call, context, report
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


def spawn_in_asyncio(call: Callable[[], Awaitable[Any]], context: Context, report: Report) -> Callable[[], object]:
    """Start a task in the running event loop, and report its result there; return a function that cancels it."""

    async def run() -> ToolReturn:
        try:
            return ToolReturn(await call())
        except BaseException as error:  # a SystemExit in a task would end the loop before the report
            return ToolReturn(error=error)

    def end(task: asyncio.Task[ToolReturn]) -> None:
        _tasks.discard(task)
        report(ToolReturn(error=asyncio.CancelledError()) if task.cancelled() else task.result())

    task = asyncio.get_running_loop().create_task(run(), context=context)
    _tasks.add(task)
    task.add_done_callback(end)
    return task.cancel


def spawn_in_trio(call: Callable[[], Awaitable[Any]], context: Context, report: Report) -> Callable[[], object]:
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


def spawn(call: Callable[[], Awaitable[Any]], context: Context, report: Report) -> Callable[[], object]:
    """Start a task in the running event loop, whichever it is; see `spawn_in_asyncio`."""
    return (spawn_in_trio if event_loop() is None else spawn_in_asyncio)(call, context, report)
