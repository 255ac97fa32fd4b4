"""Run the tools of one reply from a thread: sync ones in threads, async ones in an event loop in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any

from attrs import define, field

from rungwise.adapters.http.cancellation import SLICE, Cancellation
from rungwise.adapters.http.deadline import NO_DEADLINE, Deadline
from rungwise.adapters.http.waiting import Mailbox, Nothing
from rungwise.adapters.tools.calling import Report, awaited, spawn_in_asyncio
from rungwise.adapters.tools.running import Runner
from rungwise.adapters.tools.scheduling import Schedule
from rungwise.fsm.turn.actions import RunTools, ToolEnded, ToolOutcome, ToolStarted
from rungwise.fsm.turn.tools import Executor


def run_tools(
    action: RunTools,
    executor: Executor | None,
    cancellation: Cancellation,
    loop: LoopThread,
    deadline: Deadline = NO_DEADLINE,
) -> Generator[ToolStarted | ToolEnded, None, tuple[ToolOutcome, ...]]:
    """Run tools, yield their events, and return the outcome of each, in the order of the calls.

    Arguments:
        cancellation: ends the round: no more tools begin, async tools are cancelled, and sync ones have half a second
            to return. The second time they are abandoned. Ctrl-C, and closing the generator, do the same.
        loop: runs async tools; it stays open.

    Raises:
        ToolsEnded: the round was ended early.
    """
    return _Threads(Schedule.of(action), executor, cancellation, deadline, loop=loop).run()


@define(eq=False)
class _Threads(Runner):
    """Run the tools of a round from this thread."""

    _loop: LoopThread = field(kw_only=True)
    _woken: Mailbox[None] = field(factory=Mailbox, init=False)

    def run(self) -> Generator[ToolStarted | ToolEnded, None, tuple[ToolOutcome, ...]]:
        """Run them, and wait."""
        raised: BaseException | None = None
        is_abandoned = False  # nobody is listening
        try:
            while raised is not None or not self.schedule.is_over:
                try:
                    if raised is not None:
                        reason, raised = raised, None
                        self.end(reason)
                    self._go_on()
                    if not is_abandoned:
                        yield from self.schedule.drain()
                except BaseException as error:  # most likely Ctrl-C; a second one abandons everything
                    raised, is_abandoned = error, is_abandoned or isinstance(error, GeneratorExit)
        finally:
            if self.schedule.has_left:  # a tool may block the loop for ever; the next round gets another
                self._loop.close()
        return self.schedule.finish()

    def _go_on(self) -> None:
        if self.begin() and not self.schedule.has_news:
            with suppress(Nothing):
                # In slices: a signal in the instant before a thread falls asleep does not wake it.
                self._woken.get(min(SLICE, self.schedule.seconds_left()))
        self.take()
        self.schedule.expire()

    def wake(self) -> None:
        """Wake this thread."""
        self._woken.put(None)

    def spawn(self, call: Callable[[], Any], context: Context, report: Report) -> Callable[[], object]:
        """Await in the other thread's event loop what a function returns."""
        return self._loop.spawn(call, context, report)


@define(eq=False)
class LoopThread:
    """Run an event loop in a daemon thread, from the first task until it is closed; then a task starts another."""

    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _is_closed: asyncio.Event = field(factory=asyncio.Event, init=False)

    def spawn(self, call: Callable[[], Any], context: Context, report: Report) -> Callable[[], object]:
        """Await in this loop what a function returns; return a function that cancels it."""
        if self._loop is None:
            loop, is_closed = asyncio.new_event_loop(), asyncio.Event()
            threading.Thread(target=_run, args=(loop, is_closed), name="rungwise runs async tools", daemon=True).start()
            self._loop, self._is_closed = loop, is_closed
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
