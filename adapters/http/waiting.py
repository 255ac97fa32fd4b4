"""How network operations wait. They are generators that yield what they wait for, so both drivers
run the same ones.

An operation never blocks. It yields a `WaitFor`; `run` waits for that in a thread, `arun` in a
task. Both end the operation when the call is cancelled. The operation itself raises when its time
is up, even while data keep arriving.
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
    from asyncio import get_running_loop  # late: calls in threads need no asyncio

    try:
        return get_running_loop()
    except RuntimeError:
        return None


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the asyncio loop of this task; None on trio, also where trio runs as a guest of
    asyncio.
    """
    from asyncio import current_task

    try:
        task = current_task()
    except RuntimeError:
        return None
    return None if task is None else task.get_loop()


def soon() -> Soon:
    """Return a function that calls others in the running event loop, from any thread."""
    if (loop := event_loop()) is not None:
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
        """Return the oldest item; wait up to `seconds` for one, or without a limit, and then raise
        Nothing.
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
    """Wait until a socket can be read or written, an event of another thread is set, or a moment
    has come.
    """

    what: socket.socket | threading.Event
    want: Want
    until: float


Operation = Generator[WaitFor | None, None, T]
"""A generator that returns a `T`. It yields None to let others run."""


class CallEnded(BaseException):
    """Raised when the caller ended the call. Like KeyboardInterrupt, it is not an error to
    handle.
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
    """Wait up to `seconds` for an event, or without a limit; return whether it is set."""
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
        has_come = (
            what.wait(seconds)
            if isinstance(what, threading.Event)
            else is_ready(what, want, seconds)
        )
        if has_come or remaining <= SLICE:
            return


def is_ready(sock: socket.socket, want: Want, seconds: float = 0.0) -> bool:
    """Tell whether a socket can be read or written, or has failed, within some seconds."""
    fd = sock.fileno()
    if fd < 0:
        return True  # it was closed, and whoever uses it gets an error
    if _HAS_POLL:
        poll = select.poll()
        poll.register(fd, select.POLLIN if want == "read" else select.POLLOUT)
        return bool(poll.poll(seconds * 1000))
    readers, writers = ([sock], []) if want == "read" else ([], [sock])
    return any(select.select(readers, writers, [sock], seconds))


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
            loop = running_loop() if isinstance(wait.what, socket.socket) else None
            future = None if loop is None else loop.create_future()
            if (
                loop is not None
                and future is not None
                and (forget := _watch(loop, wait, future)) is not None
            ):
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
        self._future = None if loop is None else loop.create_future()
        self._event = anyio.Event() if loop is None else None

    def ring(self) -> None:
        """Wake the task, also if it has not fallen asleep yet."""
        if self._event is not None:
            self._event.set()
        elif self._future is not None:
            _ring(self._future)

    async def wait(self, seconds: float | None, cancellation: Cancellation) -> None:
        """Wait up to `seconds`, or without a limit; raises what `within` does when the call
        ends.
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
    """Wait on asyncio as `within` does. anyio's scopes and events would double the cost of a
    wait.
    """
    check(cancellation)
    timer = (
        None
        if seconds == math.inf
        else future.get_loop().call_later(max(0.0, seconds), _ring, future)
    )
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
    """Ring a future when a socket is ready. Return what ends that, or None if the loop cannot watch
    sockets.
    """
    assert isinstance(wait.what, socket.socket)
    fd = wait.what.fileno()
    is_reading = wait.want == "read"
    try:
        (loop.add_reader if is_reading else loop.add_writer)(fd, _ring, future)
    except NotImplementedError:  # on Windows, where anyio waits in a thread
        return None
    return partial(loop.remove_reader if is_reading else loop.remove_writer, fd)


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
        """Wait up to `seconds`, or without a limit; return whether the task was woken. Raises
        CallEnded as `within`.
        """
        with suppress(TimeoutError):
            await within(seconds, self._event.wait, cancellation=cancellation)
        return self._event.is_set()


async def _until_ready(wait: WaitFor) -> None:
    if isinstance(wait.what, threading.Event):
        pause = 0.001
        while not wait.what.is_set():  # no event loop can wait for this and be interrupted
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
    """Await a function for at most `seconds`, or raise TimeoutError; CallEnded if the call is
    cancelled meanwhile.
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
