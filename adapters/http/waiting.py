"""How network operations wait. They are generators that yield what they wait for, so both drivers
run the same ones.

An operation never blocks. It yields a `WaitFor`; `run` waits for that in a thread, `arun` in a
task. Both end the operation when the call is cancelled. The operation itself raises when its time
is up, even while data keeps arriving.

On asyncio, tasks wait for a bare future that `loop.add_reader` or a timer completes: anyio's scopes
and events would double the cost of a wait. Everywhere else (trio, Windows, events of other threads)
anyio waits.
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

Soon = Callable[[Callable[[], object]], object]
"""Calls a function in an event loop, from any thread."""


def event_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running loop of asyncio; None on trio."""
    from asyncio import get_running_loop  # here, because calls in threads need no asyncio

    try:
        return get_running_loop()
    except RuntimeError:
        return None


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the asyncio loop of this task; None on trio, even as a guest of asyncio."""
    from asyncio import current_task

    try:
        task = current_task()
    except RuntimeError:
        return None
    return None if task is None else task.get_loop()


def soon() -> Soon:
    """Return a function that calls others in the running event loop, from any thread."""
    loop = event_loop()
    if loop is not None:
        return loop.call_soon_threadsafe
    import trio  # it is running, so it is installed

    run_soon: Soon = trio.lowlevel.current_trio_token().run_sync_soon
    return run_soon


T = TypeVar("T")


class Nothing(Exception):
    """Raised when nothing came in time."""


class Mailbox(Generic[T]):
    """A queue with one reader, into which a finalizer may put something while its own thread waits.

    An `Event` does not allow that, and `SimpleQueue.get` may hang in a signal handler up to Python
    3.12.
    """

    __slots__ = ("_bell", "_items")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._bell = threading.Lock()  # released when something comes
        self._bell.acquire()

    def put(self, item: T) -> None:
        """Put something in, from any thread."""
        self._items.append(item)
        with suppress(RuntimeError):  # it was released already
            self._bell.release()

    def get(self, seconds: float | None) -> T:
        """Return the oldest item, and wait for one if there is none.

        Arguments:
            seconds: how long to wait; None for no limit.

        Raises:
            Nothing: none came in time.
        """
        until = math.inf if seconds is None else time.monotonic() + seconds
        while not self._items:
            timeout = -1.0  # no limit
            if until < math.inf:
                timeout = until - time.monotonic()
                if timeout <= 0:
                    raise Nothing
            self._bell.acquire(timeout=timeout)
        return self._items.popleft()


Want = Literal["read", "write"]

_HAS_POLL: Final = hasattr(select, "poll")


class WaitFor(NamedTuple):
    """Say what an operation waits for: a socket, an event of another thread, or a moment."""

    what: socket.socket | threading.Event
    want: Want  # of a socket
    until: float  # a moment on `time.monotonic`


Operation = Generator[WaitFor | None, None, T]
"""A generator that returns a `T`. It yields None to let others run."""


class CallEnded(BaseException):
    """Raised when the caller ended the call.

    Like KeyboardInterrupt, it is not an error to handle.
    """


def run(operation: Operation[T], cancellation: Cancellation) -> T:
    """Run an operation in this thread, or raise CallEnded if the call is cancelled."""
    outer = sys.exception()
    try:
        while True:
            wait = next(operation)
            if wait is not None:  # None is for tasks: other threads run anyway
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
    """Wait for an event, and return whether it is set.

    Arguments:
        event: what another thread sets.
        seconds: how long to wait; None for no limit.
    """
    until = math.inf if seconds is None else time.monotonic() + seconds
    while not event.is_set() and time.monotonic() < until:
        yield WaitFor(event, "read", until)
    return event.is_set()


def check(cancellation: Cancellation) -> None:
    """Raise `CallEnded` if the call was cancelled."""
    if cancellation.is_cancelled:
        raise CallEnded


def _block(wait: WaitFor, cancellation: Cancellation) -> None:
    """Wait in this thread, in slices: only between them it sees a cancellation."""
    what, want, until = wait
    while True:
        check(cancellation)
        remaining = until - time.monotonic()
        seconds = max(0.0, min(remaining, SLICE))
        if isinstance(what, threading.Event):
            has_come = what.wait(seconds)
        else:
            has_come = is_ready(what, want, seconds)
        if has_come or remaining <= SLICE:
            return


def is_ready(sock: socket.socket, want: Want, seconds: float = 0.0) -> bool:
    """Tell whether a socket can be read or written, or has failed, within some seconds."""
    fd = sock.fileno()
    if fd < 0:
        return True  # it was closed, and whoever uses it gets an error
    is_reading = want == "read"
    if _HAS_POLL:  # unlike select, it takes descriptors above 1023
        poll = select.poll()
        poll.register(fd, select.POLLIN if is_reading else select.POLLOUT)
        return bool(poll.poll(seconds * 1000))
    if is_reading:
        return any(select.select([sock], [], [sock], seconds))
    return any(select.select([], [sock], [sock], seconds))


async def arun(operation: Operation[T], cancellation: Cancellation) -> T:
    """Run an operation in this task, or raise CallEnded if the call is cancelled."""
    outer = sys.exception()
    try:
        while True:
            wait = next(operation)
            if wait is None:
                await checkpoint()
                continue
            remaining = wait.until - time.monotonic()
            future = None
            forget = None
            if isinstance(wait.what, socket.socket):
                loop = running_loop()
                if loop is not None:
                    future = loop.create_future()
                    forget = _watch(loop, wait, future)
            if future is not None and forget is not None:
                try:
                    await _rung(future, remaining, cancellation)
                finally:
                    forget()
            else:
                with suppress(TimeoutError):  # the operation checks the time itself
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
        self._future = None
        self._event = None
        if loop is None:
            self._event = anyio.Event()
        else:
            self._future = loop.create_future()

    def ring(self) -> None:
        """Wake the task, also if it has not fallen asleep yet."""
        if self._event is not None:
            self._event.set()
        elif self._future is not None:
            _ring(self._future)

    async def wait(self, seconds: float | None, cancellation: Cancellation) -> None:
        """Wait for the bell.

        Arguments:
            seconds: how long to wait; None for no limit.
            cancellation: ends the call from outside.

        Raises:
            CallEnded: the call was cancelled.
        """
        if self._event is not None:
            with suppress(TimeoutError):
                await within(seconds, self._event.wait, cancellation=cancellation)
        elif self._future is not None:
            longest = math.inf if seconds is None else seconds
            await _rung(self._future, longest, cancellation)


def _ring(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _rung(future: asyncio.Future[None], seconds: float, cancellation: Cancellation) -> None:
    """Wait on asyncio for a future, for some seconds at most, unless the call is cancelled."""
    check(cancellation)
    timer = None
    if seconds < math.inf:
        timer = future.get_loop().call_later(max(0.0, seconds), _ring, future)
    forget = cancellation.on_cancel(partial(_ring, future))
    try:
        await future
    finally:
        forget()
        if timer is not None:
            timer.cancel()
    check(cancellation)


def _watch(
    loop: asyncio.AbstractEventLoop, wait: WaitFor, future: asyncio.Future[None]
) -> Callable[[], object] | None:
    """Complete a future when a socket is ready.

    Returns:
        What ends that; None if the loop cannot watch sockets, as on Windows.
    """
    assert isinstance(wait.what, socket.socket)
    fd = wait.what.fileno()
    try:
        if wait.want == "read":
            loop.add_reader(fd, _ring, future)
            return partial(loop.remove_reader, fd)
        loop.add_writer(fd, _ring, future)
        return partial(loop.remove_writer, fd)
    except NotImplementedError:
        return None


class WakeUp:
    """Wake a task of this event loop from any thread."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._soon = soon()

    def call(self) -> None:
        """Wake the task."""
        with suppress(RuntimeError):  # the loop has ended; nobody waits
            self._soon(self._event.set)

    async def wait(self, seconds: float | None, cancellation: Cancellation) -> bool:
        """Wait, and return whether the task was woken.

        Arguments:
            seconds: how long to wait; None for no limit.
            cancellation: ends the call from outside.

        Raises:
            CallEnded: the call was cancelled.
        """
        with suppress(TimeoutError):
            await within(seconds, self._event.wait, cancellation=cancellation)
        return self._event.is_set()


async def _until_ready(wait: WaitFor) -> None:
    if isinstance(wait.what, threading.Event):
        pause = 0.001
        while not wait.what.is_set():  # no event loop can wait for it and be interrupted
            await anyio.sleep(pause)
            pause = min(2 * pause, SLICE)
    elif wait.want == "read":
        await anyio.wait_readable(wait.what)
    else:
        await anyio.wait_writable(wait.what)


async def within(
    seconds: float | None,
    function: Callable[..., Awaitable[T]],
    *args: Any,
    cancellation: Cancellation,
) -> T:
    """Await a function for a limited time.

    Arguments:
        seconds: how long at most; None for no limit.
        function: what to await, with its arguments `args`.
        cancellation: ends the call from outside.

    Raises:
        TimeoutError: the time is up.
        CallEnded: the call was cancelled.
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
