"""Tasks that belong to nobody's scope: a tool that does not end when it is cancelled can be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

from attrs import frozen

from rungwise.adapters.http.loops import Soon, is_asyncio, soon
from rungwise.adapters.tools.calling import Brought, Report

_tasks: set[asyncio.Task[Any]] = set()
"""An event loop holds its tasks weakly."""


def spawn_in_asyncio(call: Callable[[], Awaitable[Any]], context: Context, report: Report) -> Callable[[], object]:
    """Begin a task in the running event loop, and return what cancels it.

    Arguments:
        call: returns what is awaited.
        context: the variables of its context.
        report: is told, in this loop, what came of it.
    """

    async def run() -> Brought:
        try:
            return Brought(await call())
        except BaseException as error:  # a SystemExit in a task would end the loop before anybody is told
            return Brought(error=error)

    def end(task: asyncio.Task[Brought]) -> None:
        _tasks.discard(task)
        report(Brought(error=asyncio.CancelledError()) if task.cancelled() else task.result())

    task = asyncio.get_running_loop().create_task(run(), context=context)
    _tasks.add(task)
    task.add_done_callback(end)
    return task.cancel


def spawn_in_trio(call: Callable[[], Awaitable[Any]], context: Context, report: Report) -> Callable[[], object]:
    """Begin a system task of trio, and return what cancels it; see `spawn_in_asyncio`."""
    import trio

    scope = trio.CancelScope()

    async def run() -> None:
        brought = Brought(error=asyncio.CancelledError())
        with scope:
            try:
                brought = Brought(await call())
            except trio.Cancelled:
                raise
            except BaseException as error:
                brought = Brought(error=error)
        report(brought)

    trio.lowlevel.spawn_system_task(run, context=context)
    return scope.cancel


@frozen
class EventLoop:
    """Hold what the running event loop does for us.

    Arguments:
        soon: calls something in the loop, from any thread.
        spawn: begins a task; see `spawn_in_asyncio`.
    """

    soon: Soon
    spawn: Callable[[Callable[[], Awaitable[Any]], Context, Report], Callable[[], object]]

    @classmethod
    def running(cls) -> EventLoop:
        """Return the running one."""
        return cls(soon(), spawn_in_asyncio if is_asyncio() else spawn_in_trio)
