"""The ways in which a call can reach the network: on our own connections or the caller's, in a thread or a task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import attrs
import httpx
import httpx2

import rungwise
from rungwise import Client, OpenAIChat

OWN = ("own sync", "own async")
PASSED_IN = ("httpx.Client", "httpx.AsyncClient", "httpx2.Client", "httpx2.AsyncClient")
ALL = OWN + PASSED_IN
SYNC = ("own sync", "httpx.Client", "httpx2.Client")
_LIBRARIES = {"httpx": httpx, "httpx2": httpx2}

ONCE = rungwise.Limits(retries=0, reasks=0, continuations=0)


def is_async(way: str) -> bool:
    """Tell whether a way is taken in an event loop."""
    return way == "own async" or way.endswith("AsyncClient")


def http_of(way: str, **options: Any) -> Any:
    """Return the HTTP client that is passed in, None on our own connections."""
    library, _, name = way.partition(".")
    return getattr(_LIBRARIES[library], name)(**options) if name else None


def backend(url: str, **options: Any) -> OpenAIChat:
    """Return a backend at a base URL."""
    return OpenAIChat(base_url=url, **{"model": "m", "name": "primary", "api_key": "sk-9d2f6b1c44e07a35", **options})


@attrs.define
class Asked:
    """Hold how a call ended: what it came to, what was shown of it, and the seconds that the caller was kept."""

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
    def failures(self) -> list[rungwise.Failure]:
        return [failure for _, failure in self.result.failures]


def ask(way: str, client: Client, messages: Any = "Where?", *, streams: bool = True, **options: Any) -> Asked:
    """Run one call and say how it ended, in an event loop of its own where the way asks for one; that closes it."""
    if not is_async(way):
        return _ask(client, messages, streams=streams, **options)

    async def main() -> Asked:
        try:
            return await aask(client, messages, streams=streams)
        finally:
            await aclose(client)

    return asyncio.run(main())


def _ask(client: Client, messages: Any, *, streams: bool, **options: Any) -> Asked:
    events: list[Any] = []
    began = time.monotonic()
    try:
        if streams:
            events.extend(client.stream(messages, **options))
            result = events[-1]
        else:
            result = client.call(messages, **options)
    except rungwise.CallError as error:
        result = error.result
    return Asked(result, time.monotonic() - began, events)


async def aask(client: Client, messages: Any = "Where?", *, streams: bool = True) -> Asked:
    """Run one call in this event loop and say how it ended."""
    events: list[Any] = []
    began = time.monotonic()
    try:
        if streams:
            async for event in client.astream(messages):
                events.append(event)
            result = events[-1]
        else:
            result = await client.acall(messages)
    except rungwise.CallError as error:
        result = error.result
    return Asked(result, time.monotonic() - began, events)


def client_for(way: str, chain: Any, http: Any = None, **options: Any) -> Client:
    """Return a client that goes a way; `http` stands in for a new HTTP client."""
    http = http or http_of(way)
    options = {"policy": rungwise.Policy(limits=ONCE), "jitter": lambda: 0.0, **options}
    if http is not None:
        options["async_http" if is_async(way) else "http"] = http
    client = Client(chain, **options)
    _made.append((client, http))
    return client


_made: list[tuple[Client, Any]] = []


async def aclose(client: Client) -> None:
    """Close a client in this event loop, and the HTTP client that it was given."""
    await client.aclose()
    for made, http in _made:
        if made is client and http is not None:
            await http.aclose()


def close_all() -> None:
    """Close what threads have used."""
    for client, http in _made:
        client.close()
        if hasattr(http, "close"):
            http.close()
    _made.clear()


def until(condition: Callable[[], Any], seconds: float = 5.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
