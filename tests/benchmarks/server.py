"""A loopback server for the benchmarks, in its own process: canned answers, written for throughput alone."""

from __future__ import annotations

import asyncio
import json
import sys

CHUNKS = 200


def _chunk(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-0123456789", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "bench"}
    return b"data: " + json.dumps({**head, "system_fingerprint": None, "choices": [choice]}).encode() + b"\n\n"


def _reply() -> bytes:
    message = {"role": "assistant", "content": "A short and complete answer to the question. " * 4}
    body = {
        "id": "chatcmpl-0123456789",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "bench",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 40, "total_tokens": 52},
    }
    encoded = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(encoded)}\r\n\r\n"
    return head.encode() + encoded


def _stream() -> bytes:
    events = [_chunk({"content": f"token{number} "}, None) for number in range(CHUNKS)]
    events += [_chunk({}, "stop"), b"data: [DONE]\n\n"]
    body = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + body + b"0\r\n\r\n"


REPLY, STREAM = _reply(), _stream()


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
            self.transport.write(STREAM if b'"stream":true' in body else REPLY)  # type: ignore[attr-defined]


async def main() -> None:
    """Serve until standard input is closed."""
    server = await asyncio.get_running_loop().create_server(Canned, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
