"""How network operations wait: they are generators that yield what they wait for, so that both drivers run the same.

An operation never blocks. It yields a `WaitFor`; `run` blocks a thread until that may go on, `arun` a task. Both notice
a cancellation meanwhile, and the operation itself raises when its time is up, even while data keep arriving.
"""

from __future__ import annotations

import math
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from rungwise.adapters.http.cancellation import SLICE, Cancellation
from rungwise.fsm.values.secret import drop_frames

if TYPE_CHECKING:
    import asyncio

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

Soon = Callable[[Callable[[], object]], object]
"""Calls something in an event loop, from any thread."""


def is_asyncio() -> bool:
    """Tell whether the running event loop is one of asyncio; else it is trio's."""
    from asyncio import get_running_loop  # which calls in threads do without

    try:
        get_running_loop()
    except RuntimeError:
        return False
    return True


def running_loop() -> AbstractEventLoop | None:
    """Return the event loop of asyncio that runs this task; None on another kind, trio as the guest of one included."""
    from asyncio import current_task

    try:
        task = current_task()
    except RuntimeError:
        return None
    return None if task is None else task.get_loop()


def soon() -> Soon:
    """Return what calls something in the running event loop."""
    if is_asyncio():
        from asyncio import get_running_loop

        return get_running_loop().call_soon_threadsafe
    import trio  # which is running, so it is there

    run_soon: Soon = trio.lowlevel.current_trio_token().run_sync_soon
    return run_soon


T = TypeVar("T")


class Nothing(Exception):
    """Say that nothing came in time."""


class Mailbox(Generic[T]):
    """Hold what was put in until a thread takes it.

    A finalizer may put something in while that very thread is in the middle of waiting, which an `Event` does not
    bear. `queue.SimpleQueue` does, but up to Python 3.12 its `get` waits for ever if the time is up in the middle of a
    signal's handler.
    """

    __slots__ = ("_bell", "_items")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._bell = threading.Lock()  # is let go when something comes
        self._bell.acquire()

    def put(self, item: T) -> None:
        """Put something in, from any thread."""
        self._items.append(item)
        with suppress(RuntimeError):  # it was let go already
            self._bell.release()

    def get(self, seconds: float | None) -> T:
        """Return what came first, and wait for it for so many seconds; None waits for as long as it takes.

        Raises:
            Nothing: nothing came in time.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            if self._items:
                return self._items.popleft()
            remaining = -1.0 if until is None else until - time.monotonic()
            if until is not None and remaining <= 0:
                raise Nothing
            self._bell.acquire(timeout=remaining)


Want = Literal["read", "write"]

_HAS_POLL: Final = hasattr(select, "poll")


class WaitFor(NamedTuple):
    """Wait until a socket can be read or written, or until a moment on `time.monotonic` has come.

    `what` may also be an event that another thread sets.
    """

    what: socket.socket | threading.Event
    want: Want
    until: float


Operation = Generator[WaitFor | None, None, T]
"""What yields None lets others run, and no time passes."""


class CallEnded(BaseException):
    """Say that the caller ended the call; like a KeyboardInterrupt, it is not a failure that anything should handle."""


def run(operation: Operation[T], cancellation: Cancellation) -> T:
    """Run an operation in this thread.

    Raises:
        CallEnded: the call was cancelled.
    """
    outer = sys.exception()
    try:
        while True:
            wait = next(operation)
            if wait is not None:  # the other threads are let run all the time
                _block(wait, cancellation)
    except StopIteration as end:
        result: T = end.value
        return result
    except BaseException as error:
        drop_frames(error, outer)
        raise
    finally:
        operation.close()


def until_set(event: threading.Event, seconds: float | None) -> Operation[bool]:
    """Wait for an event for so many seconds, or for as long as it takes, and tell whether it has come."""
    until = math.inf if seconds is None else time.monotonic() + seconds
    while not event.is_set() and time.monotonic() < until:
        yield WaitFor(event, "read", until)
    return event.is_set()


def check(cancellation: Cancellation) -> None:
    """Raise `CallEnded` if the call was cancelled."""
    if cancellation.is_cancelled:
        raise CallEnded


def _block(wait: WaitFor, cancellation: Cancellation) -> None:
    what, want, until = wait
    while True:
        check(cancellation)
        remaining = until - time.monotonic()
        seconds = SLICE if remaining > SLICE else remaining if remaining > 0 else 0.0
        has_come = what.wait(seconds) if isinstance(what, threading.Event) else is_ready(what, want, seconds)
        if has_come or remaining <= SLICE:
            return


def is_ready(sock: socket.socket, want: Want, seconds: float = 0.0) -> bool:
    """Tell whether a socket can be read or written, or has failed, within some seconds."""
    fd = sock.fileno()
    if fd < 0:
        return True  # it was closed, and whoever uses it will be told
    if _HAS_POLL:
        poll = select.poll()
        poll.register(fd, select.POLLIN if want == "read" else select.POLLOUT)
        return bool(poll.poll(seconds * 1000))
    readers, writers = ([sock], []) if want == "read" else ([], [sock])
    return any(select.select(readers, writers, [sock], seconds))


async def arun(operation: Operation[T], cancellation: Cancellation) -> T:
    """Run an operation in this task.

    Raises:
        CallEnded: the call was ended by its client; a cancelled task is told so by its event loop.
    """
    outer = sys.exception()
    try:
        while True:
            wait = next(operation)
            if wait is None:
                await checkpoint()
                continue
            remaining = wait.until - time.monotonic()
            loop = running_loop() if isinstance(wait.what, socket.socket) else None
            future = None if loop is None else loop.create_future()
            if loop is not None and future is not None and (forget := _watch(loop, wait, future)) is not None:
                try:
                    await _rung(future, remaining, cancellation)
                finally:
                    forget()
            else:
                with suppress(TimeoutError):  # which the operation sees for itself
                    await within(remaining, _until_ready, wait, cancellation=cancellation)
    except StopIteration as end:
        result: T = end.value
        return result
    except BaseException as error:
        drop_frames(error, outer)
        raise
    finally:
        operation.close()


class Bell:
    """Wake a task of this event loop from within the loop, once."""

    __slots__ = ("_event", "_future")

    def __init__(self) -> None:
        loop = running_loop()
        self._future = None if loop is None else loop.create_future()
        self._event = anyio.Event() if loop is None else None

    def ring(self) -> None:
        """Wake the task, or let it not fall asleep."""
        if self._event is not None:
            self._event.set()
        elif self._future is not None:
            _ring(self._future)

    async def wait(self, seconds: float | None, cancellation: Cancellation) -> None:
        """Wait for so many seconds at most, or for as long as it takes.

        Raises:
            CallEnded: the call was ended by its client.
        """
        if self._event is not None:
            with suppress(TimeoutError):
                await within(seconds, self._event.wait, cancellation=cancellation)
        elif self._future is not None:
            await _rung(self._future, math.inf if seconds is None else seconds, cancellation)


def _ring(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _rung(future: asyncio.Future[None], seconds: float, cancellation: Cancellation) -> None:
    """Wait on asyncio as `within` does; anyio's scopes and events cost as much as all else of a wait."""
    check(cancellation)
    timer = None if seconds == math.inf else future.get_loop().call_later(max(0.0, seconds), _ring, future)
    forget = cancellation.on_cancel(partial(_ring, future))
    try:
        await future
    finally:
        forget()
        if timer is not None:
            timer.cancel()
    check(cancellation)


def _watch(loop: asyncio.AbstractEventLoop, wait: WaitFor, future: asyncio.Future[None]) -> Callable[[], object] | None:
    """Have a future rung when a socket is ready; return what ends that, None where the loop watches no sockets."""
    assert isinstance(wait.what, socket.socket)
    fd, is_reading = wait.what.fileno(), wait.want == "read"
    try:
        (loop.add_reader if is_reading else loop.add_writer)(fd, _ring, future)
    except NotImplementedError:  # on Windows; anyio has a thread that waits
        return None
    return partial(loop.remove_reader if is_reading else loop.remove_writer, fd)


class WakeUp:
    """Wake a task of this event loop from any thread."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._soon = soon()

    def call(self) -> None:
        """Wake the task."""
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self._soon(self._event.set)

    async def wait(self, seconds: float | None, cancellation: Cancellation) -> bool:
        """Wait for so many seconds, or for as long as it takes, and tell whether the task was woken.

        Raises:
            CallEnded: the call was ended by its client.
        """
        with suppress(TimeoutError):
            await within(seconds, self._event.wait, cancellation=cancellation)
        return self._event.is_set()


async def _until_ready(wait: WaitFor) -> None:
    if isinstance(wait.what, threading.Event):
        pause = 0.001
        while not wait.what.is_set():  # no event loop has a wait for this that can be left at once
            await anyio.sleep(pause)
            pause = min(2 * pause, SLICE)
    elif wait.want == "read":
        await anyio.wait_readable(wait.what)
    else:
        await anyio.wait_writable(wait.what)


async def within(
    seconds: float | None, function: Callable[..., Awaitable[T]], *args: Any, cancellation: Cancellation
) -> T:
    """Await a function for so many seconds at most.

    Raises:
        TimeoutError: they have passed.
        CallEnded: the call was ended by its client.
    """
    check(cancellation)
    deadline = math.inf if seconds is None else anyio.current_time() + max(0.0, seconds)
    with anyio.CancelScope(deadline=deadline) as scope:
        forget = cancellation.on_cancel(scope.cancel)
        try:
            return await function(*args)
        finally:
            forget()
    check(cancellation)
    raise TimeoutError
