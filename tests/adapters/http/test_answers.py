"""How our own connections read what servers send: framing, heads, and when a connection is kept."""

import asyncio
import threading

import pytest

import rungwise
from rungwise.adapters.http.connection import LARGEST_HEAD
from support.raw_server import (
    STREAM_HEAD,
    Peer,
    RawServer,
    answer,
    answering,
    chunk,
    completion,
    event,
    stream_of,
)
from support.ways import BOTH, ONCE, ask, backend, client_for, quick, several

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
    "the same length twice in one line": head(LENGTH.replace(b"\r\n", b", %d\r\n" % len(BODY)))
    + BODY,
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
"""Answers that can be read; the connection is used again."""

CLOSED = {
    "HTTP/1.0": head(LENGTH, b"HTTP/1.0 200 OK") + BODY,
    "HTTP/1.0 that would be kept": head(b"connection: keep-alive\r\n" + LENGTH, b"HTTP/1.0 200 OK")
    + BODY,
    "connection: close": head(b"connection: close\r\n" + LENGTH) + BODY,
    "a length and more": answer("Herons.") + b"\r\n",
    "chunks and more": head(CHUNKED) + CHUNKS + b"\r\n",
    "chunks and an answer": head(CHUNKED)
    + CHUNKS
    + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
}
"""Answers that can be read; the connection is closed."""

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
"""Bytes that are no answer; each call tries three times."""


@BOTH
@pytest.mark.parametrize("name", [*KEPT, *CLOSED, *REFUSED])
def test_answers_in_every_framing(way: str, name: str) -> None:
    sent = {**KEPT, **CLOSED, **REFUSED}[name]

    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(sent)
            if sent in REFUSED.values():
                return

    with RawServer(play) as server:
        calls = several(way, quick(way, server), 2)
    assert [each.text for each in calls] == ([""] * 2 if name in REFUSED else ["Herons."] * 2)
    assert server.connections == (1 if name in KEPT else 2 if name in CLOSED else 6)


@BOTH
@pytest.mark.parametrize("streams", [True, False])
def test_a_long_answer_that_comes_at_once_comes_whole(way: str, streams: bool) -> None:
    line = "herons " * 20_000
    whole = completion(line * 5)
    pieces = b"".join(
        chunk(whole[start : start + 50_000]) for start in range(0, len(whole), 50_000)
    )
    sent = stream_of(*[line] * 5) if streams else head(CHUNKED) + pieces + b"0\r\n\r\n"

    with RawServer(answering(sent)) as server:
        client = client_for(way, backend(server.base_url, streams=streams))
        asked = ask(way, client, streams=streams)
    assert asked.text == line * 5
    assert asked.outcome == "done"


@pytest.mark.parametrize("how", ["a reset", "no size of a chunk"])
def test_a_body_that_breaks_keeps_what_was_shown(how: str) -> None:
    is_shown = threading.Event()

    def play(peer: Peer) -> None:
        peer.request()
        if how == "a reset":  # of a connection with which the body would end
            peer.send(STREAM_HEAD.replace(CHUNKED, b"") + b"\r\n" + event("Her"))
            is_shown.wait(10)  # a reset takes back what nobody has read yet
            peer.reset()
        else:  # behind the end of a chunk, which is reported while the server waits
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
        result = asyncio.run(main(client_for("own async", backend(server.base_url), policy=policy)))
    assert result.text == "Her"
    assert result.outcome == "partial"
    assert [failure.reason for _, failure in result.failures] == ["connection"]


@BOTH
def test_a_path_goes_out_letter_by_letter(way: str) -> None:
    with RawServer(answering(answer("Herons."))) as server:
        client = client_for(way, backend(f"{server.base_url}/a%3Ab%2fc~(d)/%7Ev1"))
        assert ask(way, client, streams=False).text == "Herons."
    assert b"/a%3Ab%2fc~(d)/%7Ev1/chat/completions HTTP/1.1\r\n" in server.requests[0]


@BOTH
@pytest.mark.parametrize("field", [b"x: " + b"a" * (2 * LARGEST_HEAD), b"x: a\r\n" * LARGEST_HEAD])
def test_a_head_without_an_end_is_bounded(way: str, field: bytes) -> None:
    with RawServer(answering(b"HTTP/1.1 200 OK\r\n" + field)) as server:
        call = ask(way, client_for(way, backend(server.base_url)), streams=False)
    assert [failure.reason for failure in call.failures] == ["connection"]
    assert "aaa" not in str(call.failures[0].exception)
