"""Say that a stream lives while nothing comes of it.

Theory. Load balancers and proxies cut a connection on which nothing was sent for 30 to 120 seconds,
and a stream is silent for as long as a provider thinks, a call waits before its next attempt, or a
tool runs. Nobody can wait for an event with a limit and not end what brings it: to break off a wait
is to cancel what is waited for. So another task, or thread, reads the stream, and whoever writes
waits for what that task brings, for some seconds at a time. The task takes the next event only when
it is asked for, so a slow writer still slows the stream down, and what was never asked for is never
lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable
from contextvars import copy_context
from threading import Thread
from typing import Any, Final, TypeVar

import anyio

from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.waiting import Bell, Mailbox, Nothing
from rungwise.adapters.tools.calling import ToolReturn, spawn
from rungwise.fsm.values.checks import LONGEST_SECONDS, is_number, must, or_none

T = TypeVar("T")

PING: Final = 15.0
"""Seconds of silence after which a stream says that it lives; half of the shortest limit in use."""


class Beat:
    """Stand in a stream for a time in which nothing came."""


BEAT: Final = Beat()

must_be_ping: Final = must(
    "a number of seconds above 0, or None for none",
    or_none(lambda value: is_number(value, 0, LONGEST_SECONDS) and value > 0),
)


async def abeating(events: AsyncIterable[T], seconds: float) -> AsyncGenerator[T | Beat]:
    """Yield the events of a stream, and a `Beat` whenever none came for some seconds.

    The stream is read in a task of its own. It is closed when this ends.

    Arguments:
        events: the stream.
        seconds: how long to wait for an event.
    """
    never = Cancellation()
    came: deque[T] = deque()
    ends: list[ToolReturn] = []
    news = Bell()  # rings when something came, or the stream has ended
    wanted = Bell()  # rings when the next event is asked for

    async def read() -> None:
        nonlocal wanted
        try:
            async for event in events:
                wanted = Bell()
                came.append(event)
                news.ring()
                await wanted.wait(None, never)
        finally:
            aclose = getattr(events, "aclose", None)
            if aclose is not None:
                with anyio.CancelScope(shield=True):
                    await aclose()

    def end(returned: ToolReturn) -> None:
        ends.append(returned)
        news.ring()

    cancel = spawn(read, copy_context(), end)
    try:
        while True:
            await news.wait(seconds, never)
            news = Bell()
            if came:
                yield came.popleft()
                wanted.ring()
            elif ends:
                break
            else:
                yield BEAT
    finally:
        cancel()
        with anyio.CancelScope(shield=True):
            while not ends:
                news = Bell()
                await news.wait(None, never)
    if ends[0].error is not None:
        raise ends[0].error


def beating(events: Iterable[T], seconds: float) -> Generator[T | Beat]:
    """Do what `abeating` does for a stream that is not asynchronous, which a thread reads.

    Whoever ends this early closes the stream: only that wakes a thread that waits in it.
    """
    box: Mailbox[tuple[Any, bool, BaseException | None]] = Mailbox()
    wanted: Mailbox[bool] = Mailbox()

    def read() -> None:
        failure = None
        try:
            for event in events:
                box.put((event, False, None))
                if not wanted.get(None):
                    return
        except BaseException as error:
            failure = error
        box.put((None, True, failure))

    Thread(target=copy_context().run, args=(read,), name="rungwise reads", daemon=True).start()
    try:
        while True:
            try:
                event, is_end, error = box.get(seconds)
            except Nothing:
                yield BEAT
                continue
            if error is not None:
                raise error
            if is_end:
                return
            yield event
            wanted.put(True)
    finally:
        wanted.put(False)
