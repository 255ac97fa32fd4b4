"""A server of bare sockets that does what no well-behaved HTTP server does, and records its
requests.

    def play(peer):
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\\r\\n")
        peer.drip(b"x-more: 1\\r\\n", every=0.02)

    with RawServer(play) as server: ...

The function runs once for each connection, in a thread of its own, and ends quietly when the client
or the test goes.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

CERTIFICATE = Path(__file__).with_name("loopback.pem")
"""A certificate for localhost and 127.0.0.1 with its key, trusted by these tests alone."""


def completion(text: str, finish: str | None = "stop") -> bytes:
    """Return the body of a chat completion."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": finish,
    }
    return json.dumps(
        {
            "id": "1",
            "object": "chat.completion",
            "model": "m",
            "choices": [choice],
        }
    ).encode()


def answer(text: str, extra: bytes = b"") -> bytes:
    """Return a whole response."""
    body = completion(text)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + extra
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def event(text: str | None = None, finish: str | None = None, **delta: Any) -> bytes:
    """Return one event of a stream."""
    choice = {
        "index": 0,
        "delta": delta if text is None else {"content": text, **delta},
        "finish_reason": finish,
    }
    return (
        b"data: "
        + json.dumps(
            {
                "id": "1",
                "model": "m",
                "choices": [choice],
            }
        ).encode()
        + b"\n\n"
    )


def chunk(data: bytes) -> bytes:
    """Return data as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
)


def stream_of(*texts: str) -> bytes:
    """Return a whole streamed response."""
    events = [*map(event, texts), event(finish="stop"), b"data: [DONE]\n\n"]
    return STREAM_HEAD + b"\r\n" + b"".join(map(chunk, events)) + b"0\r\n\r\n"


class Peer:
    """One connection, as the server sees it."""

    def __init__(
        self,
        server: RawServer,
        connection: Any,
        number: int,
    ) -> None:
        self.server = server
        self.number = number
        self._connection = connection

    def request(self) -> dict[str, Any] | None:
        """Read a whole request and return its JSON; None once the client has closed."""
        data = bytearray()
        while b"\r\n\r\n" not in data:
            data += (more := self._connection.recv(65_536))
            if not more:
                return None
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += (more := self._connection.recv(65_536))
            if not more:
                return None
        self.server.requests.append(bytes(head + b"\r\n\r\n" + body))
        decoded: dict[str, Any] = json.loads(body)
        return decoded

    def requests(self) -> Iterator[dict[str, Any]]:
        """Read one request after another until the client closes."""
        while (request := self.request()) is not None:
            yield request

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._connection.sendall(data)

    def drip(self, piece: bytes, *, every: float = 0.02) -> None:
        """Send the same bytes for ever."""
        while not self.server.closing.wait(every):
            self._connection.sendall(piece)

    def flood(self, piece: bytes) -> None:
        """Send the same bytes for ever, as fast as the client reads."""
        while not self.server.closing.is_set():
            self._connection.sendall(piece * 100)

    def hang(self) -> None:
        """Send nothing, read nothing, and keep the connection open."""
        self.server.closing.wait()

    def wait_left(self) -> None:
        """Send nothing until the client has left."""
        self._connection.recv(1)

    def reset(self) -> None:
        """Reset the connection."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._connection.close()


def echo(request: dict[str, Any]) -> bytes:
    """Answer with the question itself."""
    return answer(request["messages"][-1]["content"])


def echoes(peer: Peer) -> None:
    """Answer every request with its own question."""
    for request in peer.requests():
        peer.send(echo(request))


def stuck_in_a_stream(peer: Peer) -> None:
    """Begin to answer, and fall silent."""
    peer.request()
    peer.send(STREAM_HEAD + b"\r\n" + chunk(event("In the ")))
    peer.hang()


def silent(peer: Peer) -> None:
    """Answer nothing."""
    peer.request()
    peer.hang()


def answering(data: bytes) -> Callable[[Peer], None]:
    """Answer every request with the same bytes."""

    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(data)

    return play


class RawServer:
    """Listen on loopback and play a script to each connection.

    Arguments:
        play: handles a connection, which is closed afterwards.
        tls: whether the connections are encrypted.
    """

    def __init__(self, play: Callable[[Peer], Any], *, tls: bool = False) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.closing = threading.Event()
        self._play = play
        self._open: set[socket.socket] = set()
        self._context: ssl.SSLContext | None = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(CERTIFICATE)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self.base_url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/v1"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def bodies(self) -> list[Any]:
        """Return the body of every request."""
        return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in self.requests]

    @property
    def open_now(self) -> int:
        """Count the connections that neither side has closed."""
        return len(self._open)

    def close(self) -> None:
        """Drop every connection and stop."""
        self.closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            # what is sent goes out at once
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._open.add(connection)
            thread = threading.Thread(
                target=self._serve, args=(connection, self.connections), daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _serve(self, plain: socket.socket, number: int) -> None:
        connection = plain
        try:
            if self._context is not None:
                connection = self._context.wrap_socket(plain, server_side=True)
                self._open.add(connection)
            self._play(Peer(self, connection, number))
        except OSError:
            pass  # the client went away, which is what these scripts wait for
        finally:
            self._open -= {plain, connection}
            connection.close()

    def __enter__(self) -> RawServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
