"""A loopback server for the benchmarks, in its own process: canned answers, written for throughput
alone.

A path begins with what is wanted: `/50-200-plain/v1/chat/completions` answers after 50 ms, in 200
chunks if it streams. `think` has half of the text inside a block of reasoning, `seam` cuts the
first answer short, and repeats its end. `apart` writes one chunk after another, as providers do;
the other kinds are written at once.
"""

import asyncio
import sys
from collections.abc import Iterator
from functools import cache

from benchmarks.processors import keep_to
from rungwise.adapters.gateway.languages import language_of
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import render

BEFORE_THE_CUT = 10
ECHOED = 2
BETWEEN_CHUNKS = 0.0002
"""Seconds between two chunks that come apart: enough for most readings to bring one of them."""


def words(start: int, end: int) -> str:
    """Return a text that is as many chunks long."""
    return "".join(f"tok{number:05} " for number in range(start, end))


CHUNK = len(words(0, 1))


def reply(kind: str, chunks: int, goes_on: bool) -> ScriptedReply:
    """Return what is answered, whole or streamed."""
    text = words(0, chunks)
    if kind == "think":
        half = chunks // 2 * CHUNK
        text = f"<think>\n{text[:half]}</think>\n{text[half:]}"
    elif kind == "seam" and goes_on:
        text = words(BEFORE_THE_CUT - ECHOED, BEFORE_THE_CUT + chunks)
    elif kind == "seam":
        return ScriptedReply(text=words(0, BEFORE_THE_CUT), chunk_size=CHUNK, finish="length")
    return ScriptedReply(text=text, chunk_size=CHUNK)


@cache
def response(
    kind: str,
    chunks: int,
    path: str,
    streams: bool,
    goes_on: bool,
) -> tuple[bytes, ...]:
    """Return a response, head and all, in the protocol of its path, in the pieces in which it is
    written.
    """
    body = {
        "model": "bench",
        "messages": [],
        "stream": streams,
        "stream_options": {"include_usage": True},
    }
    rendered = render(reply(kind, chunks, goes_on), body, path=path)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {rendered.content_type}\r\n"
    if not rendered.is_stream:
        return (f"{head}content-length: {len(rendered.body)}\r\n\r\n".encode() + rendered.body,)
    chunked = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in rendered.pieces]
    pieces = (f"{head}transfer-encoding: chunked\r\n\r\n".encode(), *chunked, b"0\r\n\r\n")
    return pieces if kind == "apart" else (b"".join(pieces),)


def answer(head: bytes, body: bytes) -> tuple[float, tuple[bytes, ...]]:
    """Return after how many seconds which pieces are written."""
    _, wanted, path = head.split(b" ", 2)[1].decode().split("/", 2)
    delay, chunks, kind = wanted.split("-")
    language = language_of(f"/{path}")
    assert language is not None, path
    streams = {"stream": b'"stream":true' in body.replace(b": ", b":")}
    request = language.read_request(f"/{path.partition('?')[0]}", streams, 1)
    return int(delay) / 1000, response(
        kind, int(chunks), f"/{path}", request.streams, b'"assistant"' in body
    )


class Canned(asyncio.Protocol):
    """Answer each request as soon as its body is whole, or the wanted time later."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        if b"content-length:" not in head.lower():  # a proxy that looks whether the server is there
            self.buffer = b""
            self.transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(body) >= length:
            self.buffer = b""
            delay, pieces = answer(head, body)
            if delay:
                asyncio.get_running_loop().call_later(delay, self.write, iter(pieces))
            else:
                self.write(iter(pieces))

    def write(self, pieces: Iterator[bytes]) -> None:
        """Write the next piece, and those behind it apart from one another."""
        for piece in pieces:
            self.transport.write(piece)
            asyncio.get_running_loop().call_later(BETWEEN_CHUNKS, self.write, pieces)
            break


async def main() -> None:
    """Serve until standard input is closed."""
    keep_to(0)
    server = await asyncio.get_running_loop().create_server(Canned, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
