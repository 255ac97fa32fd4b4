"""A loopback server in its own process that plays mixed faults, drawn by chance for each request.

It listens on every address of the machine, so that all of 127.0.0.0/8 leads to it, each address an
origin of its own.
"""

import asyncio
import random
import re
import socket
import struct
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from rungwise.adapters.gateway.languages import language_of
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.adapters.provider.server import Rendered, render

ANSWER = ScriptedReply(
    text="The sky is blue because air scatters blue light the most. ", chunk_size=12
)
LONG = ScriptedReply(text="Rayleigh scattering grows with the fourth power. " * 8, chunk_size=24)
CUT = ScriptedReply(text="The sky is blue because air scatters", chunk_size=12, finish="length")
HUGE = ScriptedReply(text="blue " * 60_000, chunk_size=60_000)
TOOLS = ScriptedReply(
    tool_calls=[
        {
            "id": "call_1",
            "name": "look",
            "arguments": '{"lake": "Vomb"}',
        }
    ]
)
HALF_TOOLS = ScriptedReply(
    tool_calls=[
        {
            "id": "call_1",
            "name": "look",
            "arguments": '{"lake": "Vo',
        }
    ],
    finish="length",
)
TOO_LONG = {
    "message": "maximum context length is 8192 tokens, however you requested 9000 tokens",
    "code": "context_length_exceeded",
}
UNSUPPORTED = {
    "message": "Unsupported parameter: 'temperature'",
    "param": "temperature",
    "code": "unsupported_parameter",
}

KINDS: dict[str, tuple[int, ScriptedReply | None]] = {
    "answer": (52, ANSWER),
    "reasoned": (3, ScriptedReply(text="Air scatters it.", reasoning="What scatters most?")),
    "only_reasoned": (2, ScriptedReply(reasoning="What scatters most?")),
    "thinks_inline": (
        2,
        ScriptedReply(text="<think>What scatters?</think>Air scatters it.", chunk_size=3),
    ),
    "long": (3, LONG),
    "empty": (4, ScriptedReply(text="")),
    "length": (3, CUT),
    "half_tools": (2, HALF_TOOLS),
    "huge": (0.2, HUGE),
    "rate_limit": (3, ScriptedReply(status=429, headers={"retry-after": "0"})),
    "error": (2, ScriptedReply(status=500)),
    "overloaded": (2, ScriptedReply(status=529)),
    "too_long": (2, ScriptedReply(status=400, error=TOO_LONG)),
    "unsupported": (1, ScriptedReply(status=400, error=UNSUPPORTED)),
    "not_allowed": (0.5, ScriptedReply(status=401)),
    "refused": (1, ScriptedReply(finish="content_filter", refusal="I cannot help with that.")),
    "garbage": (2, None),
    "hang_up": (2, None),
    "reset": (1, None),
    "cut": (4, ANSWER),
    "reset_midway": (2, ANSWER),
    "silent": (1, None),
    "silent_midway": (1, ANSWER),
    "drip": (1, ANSWER),
    "closed_behind": (3, ANSWER),
}
"""What may happen to a request: how likely it is, of some hundred, and the reply that it begins
with.
"""

GARBAGE = random.Random(1).randbytes(700)
MODEL = re.compile(r"soak-\d+")
GARBAGE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 700\r\n\r\n"
RESET = struct.pack("ii", 1, 0)
SILENCE = 5.0
"""Seconds after which the server itself gives a silent or a dripping connection up."""


@cache
def rendered(kind: str, path: str, streams: bool) -> Rendered:
    """Return the response of a kind to a request; the model of the path is always the same here."""
    reply = KINDS[kind][1]
    body = {
        "model": "soak",
        "messages": [],
        "stream": streams,
        "stream_options": {"include_usage": True},
    }
    return render(reply, body, path=path)


@cache
def response(kind: str, path: str, streams: bool) -> tuple[bytes, tuple[bytes, ...]]:
    """Return the head of a response and the pieces of its body, framed."""
    reply = KINDS[kind][1]
    made = rendered(kind, path, streams)
    given = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    head = f"HTTP/1.1 {reply.status} Soaked\r\ncontent-type: {made.content_type}\r\n{given}"
    if not made.is_stream:
        return f"{head}content-length: {len(made.body)}\r\n\r\n".encode(), (made.body,)
    pieces = tuple(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in made.pieces)
    return f"{head}transfer-encoding: chunked\r\n\r\n".encode(), (*pieces, b"0\r\n\r\n")


@cache
def asked(path: str, stream_in_body: bool) -> tuple[str, bool]:
    """Return a path of the same protocol, and whether a stream was asked for."""
    language = language_of(path)
    if language is None:
        return "/chat/completions", stream_in_body
    return path, language.read_request(
        path.partition("?")[0], {"stream": stream_in_body, "model": "soak"}, 1
    ).streams


class Soaked(asyncio.Protocol):
    """Play one kind of reply, or of accident, to each request."""

    def __init__(self, draw: random.Random, play_well: bool) -> None:
        self.draw = draw
        self.play_well = play_well
        self.buffer = bytearray()
        self.timers: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error: Exception | None) -> None:
        for timer in self.timers:
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = bytes(self.buffer).partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(body) < length:
            return
        self.buffer.clear()
        # what is rendered once serves every model
        path = MODEL.sub("soak", head.split(b" ", 2)[1].decode())
        self.answer(*asked(path, b'"stream":true' in body.replace(b" ", b"")), body)

    def answer(
        self,
        path: str,
        streams: bool,
        body: bytes,
    ) -> None:
        kind = "answer" if self.play_well else self.drawn(body)
        after: Callable[[], object] | None = None
        if kind in ("hang_up", "garbage", "reset", "silent"):
            self.accident(kind)
            return
        head, pieces = response(kind, path, streams)
        if kind in ("cut", "reset_midway", "silent_midway"):
            share = self.draw.random()
            whole = b"".join(pieces)
            pieces = (whole[: 1 + int(share * (len(whole) - 1))],)
            after = {"cut": self.transport.close, "reset_midway": self.reset}.get(
                kind, self.be_silent
            )
        elif kind == "closed_behind":
            after = self.transport.close
        elif kind == "drip":
            self.transport.write(head)
            self.drip(list(pieces))
            return
        self.transport.write(head + b"".join(pieces))
        if after is not None:
            after()

    def drawn(self, body: bytes) -> str:
        """Draw a kind; a request with tools that has no result yet is most often answered by a
        call.
        """
        if b"look" in body and b"heron" not in body and self.draw.random() < 0.6:
            return "tools"
        return self.draw.choices(NAMES, WEIGHTS)[0]

    def accident(self, kind: str) -> None:
        if kind == "garbage":
            is_http = self.draw.random() < 0.5
            self.transport.write((GARBAGE_HEAD if is_http else b"") + GARBAGE)
            if not is_http:
                self.transport.close()
        elif kind == "hang_up":
            self.transport.close()
        elif kind == "reset":
            self.reset()
        else:
            self.be_silent()

    def reset(self) -> None:
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()

    def be_silent(self) -> None:
        self.timers.append(asyncio.get_running_loop().call_later(SILENCE, self.transport.abort))

    def drip(self, pieces: list[bytes]) -> None:
        if self.transport.is_closing():
            return
        if pieces:
            self.transport.write(pieces.pop(0))
            self.timers[:] = [asyncio.get_running_loop().call_later(0.01, self.drip, pieces)]


NAMES, WEIGHTS = list(KINDS), [weight for weight, _ in KINDS.values()]
KINDS["tools"] = (0, TOOLS)


async def main(seed: int) -> None:
    """Serve until standard input is closed; one port plays faults, the other answers well."""
    draw = random.Random(seed)
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(partial(Soaked, draw, well), "0.0.0.0", 0, backlog=1024)
        for well in (False, True)
    ]
    print(*[server.sockets[0].getsockname()[1] for server in servers], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
