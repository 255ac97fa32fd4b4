"""What a server sends comes to the same on aiohttp's connections as on our own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import rungwise
from support.raw_server import STREAM_HEAD, Peer, RawServer, answer, chunk, completion, event, stream_of
from support.ways import ONCE, ask, backend, client_for, quick, several

BODY = completion("Herons.")
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKED = b"transfer-encoding: chunked\r\n"
CHUNKS = chunk(BODY) + b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def head(fields: bytes, line: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return line + b"\r\ncontent-type: application/json\r\n" + fields + b"\r\n"


KEPT = {
    "a length": head(LENGTH) + BODY,
    "chunks": head(CHUNKED) + CHUNKS,
    "chunks and a field": head(CHUNKED) + CHUNKS[:-2] + b"x: y\r\n\r\n",
    "the same length twice": head(LENGTH + LENGTH) + BODY,
    "the same length twice in one line": head(LENGTH.replace(b"\r\n", b", %d\r\n" % len(BODY))) + BODY,
    "chunks and a length": head(CHUNKED + LENGTH) + CHUNKS,
    "information before it": CONTINUE + answer("Herons."),
    "old information before it": CONTINUE.replace(b"1.1", b"1.0") + answer("Herons."),
    "another version": head(LENGTH, b"HTTP/1.9 200 OK") + BODY,
    "no word behind the status": head(LENGTH, b"HTTP/1.1 200") + BODY,
    "many words behind the status": head(LENGTH, b"HTTP/1.1 200 " + b"so " * 10_000 + b"so") + BODY,
    "many fields": head(b"x: y\r\n" * 200 + LENGTH) + BODY,
    "a long field": head(b"x: " + b"y" * 90_000 + b"\r\n" + LENGTH) + BODY,
    "lines that end with LF": head(LENGTH).replace(b"\r\n", b"\n") + BODY,
}
"""Answers that are read, and behind which a connection is kept."""

READ = {
    "HTTP/1.0": head(LENGTH, b"HTTP/1.0 200 OK") + BODY,
    "HTTP/1.0 that would be kept": head(b"connection: keep-alive\r\n" + LENGTH, b"HTTP/1.0 200 OK") + BODY,
    "connection: close": head(b"connection: close\r\n" + LENGTH) + BODY,
    "a length and more": answer("Herons.") + b"\r\n",
    "chunks and more": head(CHUNKED) + CHUNKS + b"\r\n",
    "chunks and an answer": head(CHUNKED) + CHUNKS + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
}
"""Answers that are read, and behind which a connection is closed."""

REFUSED = {
    "two lengths": head(LENGTH + b"content-length: 5\r\n") + BODY,
    "another coding": head(b"transfer-encoding: gzip\r\n") + BODY,
    "a coding before chunks": head(b"transfer-encoding: gzip, chunked\r\n") + CHUNKS,
    "a coding twice": head(CHUNKED + CHUNKED) + CHUNKS,
    "no coding": head(b"transfer-encoding: \r\n") + BODY,
    "a NUL behind the status": head(LENGTH, b"HTTP/1.1 200 O\0K") + BODY,
    "no status": head(LENGTH, b"HTTP/1.1 OK") + BODY,
    "a blank before the colon": head(b"x : y\r\n" + LENGTH) + BODY,
    "another protocol": head(LENGTH, b"HTTP/1.1 101 Switching Protocols") + BODY,
    "another protocol's greeting": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-ty",
    "half a head of many lines": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
    "information alone": CONTINUE,
}
"""What is no answer."""


def met(way: str, sent: bytes) -> list[Any]:
    """Return what two calls come to, one after the other, and on how many connections."""

    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(sent)
            if sent in REFUSED.values():
                return

    with RawServer(play) as server:
        asked = several(way, quick(way, server), 2)
    steps = [[(step.event, step.target, step.reason) for step in each.result.journal.steps] for each in asked]
    return [[each.text for each in asked], steps, len(server.requests), server.connections]


@pytest.mark.parametrize("name", [*KEPT, *READ, *REFUSED])
def test_an_answer_comes_to_the_same(name: str) -> None:
    sent = {**KEPT, **READ, **REFUSED}[name]
    texts, steps, requests, connections = met("aiohttp", sent)
    assert [texts, steps, requests, connections] == met("own async", sent)
    assert texts == ([""] * 2 if name in REFUSED else ["Herons."] * 2)
    assert connections == (1 if name in KEPT else 2 if name in READ else 6)


@pytest.mark.parametrize("way", ["own async", "aiohttp"])
@pytest.mark.parametrize("streams", [True, False])
def test_a_long_answer_that_comes_at_once_comes_whole(way: str, streams: bool) -> None:
    line = "herons " * 20_000
    whole = completion(line * 5)
    pieces = b"".join(chunk(whole[start : start + 50_000]) for start in range(0, len(whole), 50_000))
    sent = stream_of(*[line] * 5) if streams else head(CHUNKED) + pieces + b"0\r\n\r\n"

    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(sent)

    with RawServer(play) as server:
        client = client_for(way, backend(server.base_url, streams=streams))
        asked = ask(way, client, streams=streams)
    assert (asked.text, asked.outcome) == (line * 5, "done")


@pytest.mark.parametrize("way", ["own async", "aiohttp"])
def test_a_body_that_would_end_with_its_connection_is_broken_by_a_reset(way: str) -> None:
    is_shown = threading.Event()

    def play(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM_HEAD.replace(CHUNKED, b"") + b"\r\n" + event("Her"))
        is_shown.wait(10)  # a reset takes back what nobody has read yet
        peer.reset()

    async def main(client: rungwise.Client) -> rungwise.Result:
        async for each in client.astream("Where?"):
            if isinstance(each, rungwise.Text):
                is_shown.set()
        await client.aclose()
        assert isinstance(each, rungwise.Result)
        return each

    with RawServer(play) as server:
        result = asyncio.run(main(client_for(way, backend(server.base_url))))
    assert (result.text, result.outcome) == ("Her", "partial")
    assert [failure.reason for _, failure in result.failures] == ["connection"]


@pytest.mark.parametrize("way", ["own async", "aiohttp"])
def test_who_waits_for_more_is_told_of_a_body_that_breaks_behind_the_end_of_a_chunk(way: str) -> None:
    is_shown = threading.Event()

    def play(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM_HEAD + b"\r\n" + chunk(event("Her"))[:-1])
        is_shown.wait(10)
        peer.send(b"\nno size\r\n")
        peer.wait_left()

    async def main(client: rungwise.Client) -> rungwise.Result:
        async for each in client.astream("Where?"):
            if isinstance(each, rungwise.Text):
                is_shown.set()
        await client.aclose()
        assert isinstance(each, rungwise.Result)
        return each

    with RawServer(play) as server:
        policy = rungwise.Policy(limits=ONCE, timeouts=rungwise.Timeouts(total=5))
        result = asyncio.run(main(client_for(way, backend(server.base_url), policy=policy)))
    assert (result.text, result.outcome) == ("Her", "partial")
    assert [failure.reason for _, failure in result.failures] == ["connection"]
