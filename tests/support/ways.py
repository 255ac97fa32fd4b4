"""The ways to the network: our own connections or the caller's, in a thread or a task."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import httpx
import httpx2
import pytest

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.core import Failure
from rungwise.testing import VirtualClock
from support import modes
from support.clocked import clocked
from support.raw_server import RawServer

OWN = ("own sync", "own async")
PASSED_IN = ("httpx.Client", "httpx.AsyncClient", "httpx2.Client", "httpx2.AsyncClient")
ALL = OWN + PASSED_IN
SYNC = ("own sync", "httpx.Client", "httpx2.Client")
_LIBRARIES = {"httpx": httpx, "httpx2": httpx2}

BOTH = pytest.mark.parametrize("way", OWN)
SCHEMES = pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])

ONCE = rungwise.Limits(retries=0, resends=0, reasks=0, continuations=0)
RETRYING = rungwise.Policy(limits=rungwise.Limits(retries=2))


def is_async(way: str) -> bool:
    """Tell whether a way is taken in an event loop."""
    return way == "own async" or way.endswith("AsyncClient")


def http_of(way: str, **options: Any) -> Any:
    """Return the HTTP client that is passed in, None on our own connections."""
    library, _, name = way.partition(".")
    return getattr(_LIBRARIES[library], name)(**options) if name else None


def backend(url: str, **options: Any) -> OpenAIChat:
    """Return a backend at a base URL."""
    return OpenAIChat(
        base_url=url,
        **{
            "model": "m",
            "name": "primary",
            "api_key": "sk-9d2f6b1c44e07a35",
            **options,
        },
    )


@attrs.define
class Asked:
    """A finished call: its result, its events, and how long it took."""

    result: rungwise.Result
    seconds: float
    events: list[Any]

    @property
    def outcome(self) -> str:
        return self.result.outcome

    @property
    def text(self) -> str:
        return self.result.text

    @property
    def failures(self) -> list[Failure]:
        return [failure for _, failure in self.result.failures]


def ask(
    way: str,
    client: Client,
    messages: Any = "Where?",
    *,
    streams: bool = True,
    **options: Any,
) -> Asked:
    """Make one call and return how it ended; in a new event loop, with the client closed, if the
    way needs one.

    Arguments:
        events: a list that takes the events of a stream as they come.
        options: for the call.
    """
    if is_async(way):

        async def main() -> Asked:
            try:
                return await aask(client, messages, streams=streams, **options)
            finally:
                await aclose(client)

        return asyncio.run(main())
    events = options.setdefault("events", [])
    began = time.monotonic()
    try:
        result = modes.ask(client, "stream" if streams else "call", messages, **options)
    except rungwise.CallError as error:
        result = error.result
    return Asked(result, time.monotonic() - began, events)


async def aask(
    client: Client, messages: Any = "Where?", *, streams: bool = True, **options: Any
) -> Asked:
    """Make one call in this event loop, with the arguments of `ask`."""
    events = options.setdefault("events", [])
    began = time.monotonic()
    try:
        result = await modes.aask(client, "astream" if streams else "acall", messages, **options)
    except rungwise.CallError as error:
        result = error.result
    return Asked(result, time.monotonic() - began, events)


def client_for(way: str, chain: Any, http: Any = None, **options: Any) -> Client:
    """Return a client for a way; `http` replaces a new HTTP client."""
    http = http or http_of(way)
    options = {
        "policy": rungwise.Policy(limits=ONCE),
        "jitter": lambda: 0.0,
        **options,
    }
    if http is not None:
        options["async_http" if is_async(way) else "http"] = http
    client = Client(chain, **clocked(options))
    _made.append((client, http))
    return client


_made: list[tuple[Client, Any]] = []


async def aclose(client: Client) -> None:
    """Close a client and its HTTP client in this event loop."""
    await client.aclose()
    for made, http in _made:
        if made is client and http is not None:
            await http.aclose()


def close_all() -> None:
    """Close all clients used in threads."""
    for client, http in _made:
        client.close()
        if hasattr(http, "close"):
            http.close()
    _made.clear()


@contextmanager
def in_one_loop(way: str, client: Client) -> Iterator[Callable[..., Asked]]:
    """Yield a function that makes calls as `ask` does, all in one event loop if the way needs
    one.
    """
    if not is_async(way):
        yield partial(ask, way, client)
        return
    with asyncio.Runner() as runner:
        yield lambda *messages, **options: runner.run(aask(client, *messages, **options))
        runner.run(aclose(client))


class Either:
    """A client that goes a way, used from coroutines: what is synchronous runs in threads.

    Arguments:
        way: to the network.
        chain, options: for the client; a client in the place of the chain is used as it is.
    """

    def __init__(self, way: str, chain: Any, **options: Any) -> None:
        self._way, self._threads = way, None if is_async(way) else ThreadPoolExecutor(64)
        self.client = chain if isinstance(chain, Client) else client_for(way, chain, **options)

    async def ask(self, *asked: Any, **options: Any) -> Asked:
        """Make a call."""
        if self._threads is None:
            return await aask(self.client, *asked, **options)
        asking = partial(ask, self._way, self.client, *asked, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, asking)

    def stream(self, asked: Any = "Where?", **options: Any) -> "Reading":
        """Begin to stream a call."""
        if self._threads is None:
            return Reading(self.client.astream(asked, **options))
        return Reading(self._threads.submit(self.client.stream, asked, **options).result())

    async def close(self) -> None:
        """Close the client, and leave an HTTP client that was passed in."""
        if self._threads is None:
            await self.client.aclose()
        else:
            self.client.close()

    async def __aenter__(self) -> "Either":
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._threads is None:
            await aclose(self.client)
        else:
            self._threads.shutdown()


class Reading:
    """A stream of either kind."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._is_async = stream, hasattr(stream, "__anext__")

    async def next(self) -> Any:
        """Return the next event; None behind the last one."""
        return await (
            anext(self._stream, None)
            if self._is_async
            else asyncio.to_thread(next, self._stream, None)
        )

    async def text(self) -> str:
        """Read to the first text, and return it."""
        while not isinstance(event := await self.next(), rungwise.Text):
            assert event is not None
        return event.text

    async def close(self) -> None:
        """Close the stream."""
        if self._is_async:
            await self._stream.aclose()
        else:
            self._stream.close()

    async def leave(self) -> None:
        """Leave a `with` block around the stream."""
        if self._is_async:
            async with self._stream:
                return
        with self._stream:
            return

    @property
    def result(self) -> rungwise.Result:
        result: rungwise.Result = self._stream.result
        return result


def several(
    way: str,
    client: Client,
    count: int,
    between: Callable[[], Any] = lambda: None,
) -> list[Asked]:
    """Make several calls one after another, in one event loop if the way needs one."""

    async def main() -> list[Asked]:
        asked = []
        async with Either(way, client) as one:
            for number in range(count):
                if number:
                    await asyncio.to_thread(between)
                asked.append(await one.ask(f"question {number}", streams=False))
        return asked

    return asyncio.run(main())


def at_once(way: str, client: Client, calls: Iterable[dict[str, Any]]) -> list[Asked]:
    """Make calls with these arguments at the same time, in threads or in tasks."""

    async def main() -> list[Asked]:
        async with Either(way, client) as one:
            return await asyncio.gather(*(one.ask(**each) for each in calls))

    return asyncio.run(main())


WALL = 1_795_168_800.0  # Fri, 20 Nov 2026 10:00:00 GMT


def virtual(*chain: Any, now: float = 50.0, **options: Any) -> tuple[Client, VirtualClock]:
    """Return a client that waits on a virtual clock, which begins where the wall clock shows 10
    o'clock, and its clock.

    Arguments:
        chain: backends, or providers that each become one.
        now: the time on the virtual clock in the beginning.
    """
    clock = VirtualClock(now=now)
    waits = {
        "clock": clock,
        "sleep": clock.sleep,
        "async_sleep": clock.asleep,
        "jitter": lambda: 0.0,
    }
    backends = [
        each
        if hasattr(each, "encode")
        else backend(each.base_url, name=f"backend {number}", model=f"m{number}")
        for number, each in enumerate(chain)
    ]
    return Client(
        backends,
        **clocked(
            {
                "wall_clock": lambda: WALL - now + clock(),
                **waits,
                **options,
            }
        ),
    ), clock


def quick(way: str, server: RawServer, **options: Any) -> Client:
    """Return a client that retries without waiting."""
    return client_for(
        way,
        backend(server.base_url),
        **{
            **modes.waits_into([]),
            "policy": RETRYING,
            **options,
        },
    )
