"""A client in a thread or in a task, used in one way: from coroutines, where a thread does what is synchronous."""

import asyncio
from typing import Any

from rungwise import Client, Result, Text
from support.ways import Asked, aask, aclose, ask, client_for, is_async


class Either:
    """A client that goes a way, and whose synchronous methods run in threads.

    Arguments:
        way: to the network.
        chain, options: for the client; a client in the place of the chain is used as it is.
    """

    def __init__(self, way: str, chain: Any, **options: Any) -> None:
        self._way, self._is_async = way, is_async(way)
        self.client = chain if isinstance(chain, Client) else client_for(way, chain, **options)

    async def ask(self, *asked: Any, **options: Any) -> Asked:
        """Make a call."""
        if self._is_async:
            return await aask(self.client, *asked, **options)
        return await asyncio.to_thread(ask, self._way, self.client, *asked, **options)

    def stream(self, asked: Any = "Where?", **options: Any) -> "Reading":
        """Begin to stream a call."""
        return Reading((self.client.astream if self._is_async else self.client.stream)(asked, **options))

    async def close(self) -> None:
        """Close the client, and leave an HTTP client that was passed in."""
        if self._is_async:
            await self.client.aclose()
        else:
            self.client.close()

    async def __aenter__(self) -> "Either":
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._is_async:
            await aclose(self.client)


class Reading:
    """A stream of either kind."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._is_async = stream, hasattr(stream, "__anext__")

    async def next(self) -> Any:
        """Return the next event; None behind the last one."""
        return await (anext(self._stream, None) if self._is_async else asyncio.to_thread(next, self._stream, None))

    async def text(self) -> str:
        """Read to the first text, and return it."""
        while not isinstance(event := await self.next(), Text):
            assert event is not None
        return event.text

    async def close(self) -> None:
        """Close the stream."""
        if self._is_async:
            await self._stream.aclose()
        else:
            self._stream.close()

    @property
    def result(self) -> Result:
        result: Result = self._stream.result
        return result
