"""A loopback server for the benchmarks, in its own process: canned answers, written for throughput alone."""

from __future__ import annotations

import asyncio
import sys
from functools import cache

from rungwise.adapters.provider.languages.registry import language_of
from rungwise.adapters.provider.rendering import render
from rungwise.adapters.provider.script import ScriptedReply

CHUNKS = 200
CHUNK = len("token000 ")
LONG = ScriptedReply(text="".join(f"token{number:03} " for number in range(CHUNKS)), chunk_size=CHUNK)
SHORT = ScriptedReply(text="A short and complete answer to the question. " * 4)


@cache
def response(path: str, streams: bool, model: str) -> bytes:
    """Return the response to a request in the protocol of its path."""
    body = {"model": model, "messages": [], "stream": streams, "stream_options": {"include_usage": True}}
    rendered = render(LONG if streams else SHORT, body, path=path)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {rendered.content_type}\r\n"
    if not rendered.is_stream:
        return f"{head}content-length: {len(rendered.body)}\r\n\r\n".encode() + rendered.body
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in rendered.pieces)
    return f"{head}transfer-encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"


class Canned(asyncio.Protocol):
    """Answer each request as soon as its body is whole."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(body) >= length:
            self.buffer = b""
            path = head.split(b" ", 2)[1].decode()
            language = language_of(path)
            assert language is not None
            asked = language.asked(path.partition("?")[0], {"stream": b'"stream":true' in body}, 1)
            self.transport.write(response(path, asked.streams, "bench"))  # type: ignore[attr-defined]


async def main() -> None:
    """Serve until standard input is closed."""
    server = await asyncio.get_running_loop().create_server(Canned, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
