"""A server on loopback that answers one client with raw bytes, as `hostile_responses` draws them.

It writes what no HTTP library would write for it, so it speaks to the socket itself.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import orjson

from rungwise.adapters.provider.connections import LoopbackHandler, LoopbackServer, Served
from rungwise.adapters.provider.server import ReceivedRequest
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.testing.hostile.raw import RawResponse, RawStep

MOST_BYTES: Final = 64 * 2**20
"""Bytes of a response that are written at most."""
SECONDS: Final = 5.0
"""Seconds that a request is answered for at most."""
WRITE: Final = 64 * 2**10
"""Bytes of a write, about, in which repeats without a delay are joined."""
RESET: Final = struct.pack("ii", 1, 0)
"""The option `SO_LINGER`, on, of 0 seconds: to close is to reset."""


class RawServer(Served):
    """Play raw responses over HTTP connections until `close`, for use in a `with` block.

    Every response ends: when the client goes away, or when its seconds or bytes are used up.

    Arguments:
        responses: what is written, request by request; the last one repeats.
        seconds: for which a request is answered at most.
        most_bytes: of a response.
    """

    def __init__(
        self,
        responses: Sequence[RawResponse],
        *,
        seconds: float = SECONDS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.seconds = seconds
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self.play(responses)
        self._server = LoopbackServer(("127.0.0.1", 0), partial(_Handler, self))

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Return the requests that have arrived since `play`, in order."""
        with self._lock:
            return list(self._requests)

    @property
    def played(self) -> list[RawResponse]:
        """Return the response to each of the requests."""
        with self._lock:
            return [self._response(index) for index in range(len(self._requests))]

    def play(self, responses: Sequence[RawResponse]) -> None:
        """Play other responses, and clear the requests."""
        if not responses:
            raise ConfigurationError("responses is empty; give at least one response")
        with self._lock:
            self._responses = tuple(responses)
            self._requests: list[ReceivedRequest] = []

    def receive(self, request: ReceivedRequest) -> RawResponse:
        """Record a request and return its response."""
        with self._lock:
            self._requests.append(request)
            return self._response(len(self._requests) - 1)

    def _response(self, index: int) -> RawResponse:
        return self._responses[min(index, len(self._responses) - 1)]


class _Handler(LoopbackHandler):
    owner: RawServer

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = orjson.loads(content)
        except orjson.JSONDecodeError:
            body = {}
        response = self.owner.receive(
            ReceivedRequest(self.path, self.lowered_headers, body, time.monotonic())
        )
        ends_at = time.monotonic() + self.owner.seconds
        try:
            self.write(response, ends_at)
            self.end(response, ends_at)
        except OSError:
            self.close_connection = True

    def write(self, response: RawResponse, ends_at: float) -> None:
        """Write the steps of a response, until time or bytes are used up."""
        remaining = self.owner.most_bytes
        for step in response.steps:
            for data in _writes(step):
                if step.delay:
                    self.wait(min(step.delay, ends_at - time.monotonic()))
                seconds = ends_at - time.monotonic()
                if seconds <= 0 or remaining <= 0 or self.closing.is_set():
                    self.reset()
                    raise TimeoutError
                self.connection.settimeout(min(seconds, self.owner.seconds))
                self.connection.sendall(data)
                remaining -= len(data)

    def end(self, response: RawResponse, ends_at: float) -> None:
        """Do what follows the last byte."""
        self.close_connection = response.ending != "keep"
        self.connection.settimeout(None)
        if response.ending == "hold":  # until the client goes away or sends more
            self.connection.settimeout(max(0.0, ends_at - time.monotonic()))
            self.connection.recv(1, socket.MSG_PEEK)
        elif response.ending == "reset":
            self.reset()

    def reset(self) -> None:
        """Close with a reset, without an orderly shutdown."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.rfile.close()  # which holds the socket open
        self.connection.close()

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()


def _writes(step: RawStep) -> Iterator[bytes]:
    """Yield the bytes of each write; repeats of a step without a delay are joined."""
    joined = 1
    if step.data and not step.delay:
        joined = max(1, WRITE // len(step.data))
    for begun in range(0, step.times, joined):
        yield step.data * min(joined, step.times - begun)
