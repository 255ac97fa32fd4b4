"""The modes of a call, and one way to make a call in any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

import anyio

import rungwise
from rungwise import Client
from rungwise.testing import Clocks

MODES = ("call", "stream", "acall", "astream")

WHOLE = ("whole", "awhole")
"""The modes of a client that streams no call."""

EVERY = (*MODES, *WHOLE)


def is_async(mode: str) -> bool:
    """Tell whether a mode needs an event loop."""
    return mode in ("acall", "astream", "awhole")


def streams(mode: str) -> bool:
    """Tell whether a mode yields events as they arrive."""
    return mode in ("stream", "astream")


def asks_for_streams(mode: str) -> bool:
    """Tell whether the backend is asked for a stream."""
    return mode not in WHOLE


def options_of(mode: str) -> dict[str, Any]:
    """Return the options of a client for a mode."""
    return {} if asks_for_streams(mode) else {"stream_calls": False}


def waits_into(waits: list[float]) -> dict[str, Any]:
    """Return options of a client that records its waits instead of sleeping."""

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    return {"testing": Clocks(sleep=waits.append, async_sleep=wait)}


def ask(client: Client, mode: str, asked: Any = "Where?", /, **options: Any) -> rungwise.Result:
    """Make one call, in a new event loop if the mode needs one, and close what was opened in that
    loop.

    Arguments:
        events: a list to which the events of a stream are appended.
        options: for the call.
    """
    if is_async(mode):
        return anyio.run(_ask_and_close, client, mode, asked, options)
    if not streams(mode):
        options.pop("events", None)
        return client.call(asked, **options)
    events = options.pop("events", [])
    for event in client.stream(asked, **options):
        events.append(event)
    return _result_in(events)


async def aask(
    client: Client, mode: str, asked: Any = "Where?", /, **options: Any
) -> rungwise.Result:
    """Make one call in this event loop, with the arguments of `ask`."""
    events = options.pop("events", [])
    if not streams(mode):
        return await client.acall(asked, **options)
    async for event in client.astream(asked, **options):
        events.append(event)
    return _result_in(events)


async def _ask_and_close(
    client: Client,
    mode: str,
    asked: Any,
    options: dict[str, Any],
) -> rungwise.Result:
    try:
        return await aask(client, mode, asked, **options)
    finally:
        await client.aclose()


def _result_in(events: list[Any]) -> rungwise.Result:
    assert isinstance(events[-1], rungwise.Result)
    return events[-1]


def follow(events: Iterable[Any]) -> str:
    """Follow the events of a stream as a consumer does and return the text that it shows in the
    end.
    """
    shown = ""
    for event in events:
        if isinstance(event, rungwise.Text):
            assert event.text
            shown += event.text
        elif isinstance(event, rungwise.Discard):
            assert event.text
            assert shown.endswith(event.text), (
                "a Discard takes back exactly the end of what is shown"
            )
            shown = shown.removesuffix(event.text)
    return shown


class Caller:
    """A client that makes all its calls in one mode and one event loop. Use it in a `with` block.

    Arguments:
        mode: one of `MODES`.
        chain: for the client.
        http: the library of the caller's own HTTP client, `httpx` or `httpx2`; None for our own
        connections.
        http_options: for that client.
        options: for the client.
    """

    def __init__(
        self,
        mode: str,
        chain: Any,
        *,
        http: Any = None,
        http_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.mode = mode
        self.http: Any = None
        self._stack = ExitStack()
        run: Callable[[Any], Any] = lambda value: value  # noqa: E731
        if is_async(mode):
            run = self._stack.enter_context(asyncio.Runner()).run
        self._run = run
        if http is not None:
            kind, given = ("AsyncClient", "async_http") if is_async(mode) else ("Client", "http")
            options[given] = self.http = getattr(http, kind)(**(http_options or {}))
            self._stack.callback(
                lambda: run(self.http.aclose() if is_async(mode) else self.http.close())
            )
        self.client = Client(chain, **options_of(mode), **options)
        self._stack.callback(self.close)

    def ask(self, asked: Any = "Where?", **options: Any) -> rungwise.Result:
        """Make a call."""
        make = aask if is_async(self.mode) else ask
        return self.do(partial(make, self.client, self.mode, asked, **options))

    def do(self, act: Callable[[], Any]) -> Any:
        """Return what a function returns, awaited in the event loop if there is one."""
        return self._run(act())

    def close(self) -> None:
        """Close the client, and leave the HTTP client."""
        self.do(self.client.aclose if is_async(self.mode) else self.client.close)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()
