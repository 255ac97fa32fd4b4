"""A redirect is followed by nobody, whoever made the connection."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from support.raw_server import Peer, RawServer, echoes
from support.ways import ALL, PASSED_IN, ask, backend, client_for, http_of, is_async


@contextmanager
def redirecting() -> Iterator[tuple[RawServer, RawServer]]:
    """Start a server that sends every request on to another one, and that other one."""

    def elsewhere(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % there)

    with RawServer(echoes) as other:
        there = (other.base_url + "/chat/completions").encode()
        with RawServer(elsewhere) as server:
            yield server, other


@pytest.mark.parametrize("way", ALL)
def test_redirects_are_not_followed(way: str) -> None:
    with redirecting() as (server, other):
        http = http_of(way, follow_redirects=True)
        asked = ask(way, client_for(way, backend(server.base_url), http), streams=False)
    assert asked.outcome == "failed"
    assert other.requests == []
    assert len(server.requests) == asked.result.attempts == 1


class Wrapper:
    """A client around another one, with nothing of it but what is needed."""

    def __init__(self, http: Any) -> None:
        self.http = http

    def build_request(self, *args: Any, **options: Any) -> Any:
        return self.http.build_request(*args, **options)

    def send(self, request: Any, **options: Any) -> Any:
        return self.http.send(request, **options)


class AsyncWrapper(Wrapper):
    async def send(self, request: Any, **options: Any) -> Any:
        return await self.http.send(request, **options)

    async def aclose(self) -> None:
        await self.http.aclose()


class Narrow(Wrapper):
    """A client whose `send` takes no word on redirects."""

    def send(self, request: Any, *, stream: bool = False) -> Any:  # type: ignore[override]
        return self.http.send(request, stream=stream)


@pytest.mark.parametrize("way", PASSED_IN)
def test_a_client_around_another_one_is_told_to_follow_no_redirects(way: str) -> None:
    with redirecting() as (server, other):
        http = (AsyncWrapper if is_async(way) else Wrapper)(http_of(way, follow_redirects=True))
        asked = ask(way, client_for(way, backend(server.base_url), http), streams=False)
    assert (asked.outcome, other.requests) == ("failed", [])


def test_a_client_that_takes_no_word_on_redirects_is_given_none() -> None:
    with RawServer(echoes) as server:
        http = Narrow(httpx.Client())
        asked = ask("httpx.Client", client_for("httpx.Client", backend(server.base_url), http), streams=False)
    assert asked.outcome == "done"
