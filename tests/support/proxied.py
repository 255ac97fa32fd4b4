"""ASGI applications on real sockets, and by hand: requests whose bodies and disconnects a test
holds in its hands.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import uvicorn
from attrs import define, field

from support.waiting import until


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application with uvicorn in a thread, and yield its address without a path."""
    listening = socket.create_server(("127.0.0.1", 0))
    quiet: dict[str, Any] = {
        "lifespan": "off",
        "log_level": "error",
        "timeout_graceful_shutdown": 1,
    }
    server = uvicorn.Server(uvicorn.Config(app, **quiet))
    thread = Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@define
class Exchange:
    """A request to an application without a server: what it is sent, and what it sends back."""

    app: Any
    method: str = "POST"
    path: str = "/v1/chat/completions"
    headers: dict[str, str] = field(factory=dict)
    query: str = ""
    sent: list[dict[str, Any]] = field(factory=list)
    messages: asyncio.Queue[dict[str, Any]] = field(factory=asyncio.Queue)

    def give(self, body: bytes, *, more: bool = False) -> None:
        """Let a piece of the body arrive."""
        self.messages.put_nowait(
            {
                "type": "http.request",
                "body": body,
                "more_body": more,
            }
        )

    def leave(self) -> None:
        """Let the client go away."""
        self.messages.put_nowait({"type": "http.disconnect"})

    async def run(self) -> Exchange:
        """Run the application to its end."""
        headers = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        scope = {
            "type": "http",
            "method": self.method,
            "path": self.path,
            "query_string": self.query.encode(),
        }

        async def send(message: Any) -> None:
            self.sent.append(dict(message))

        await self.app({**scope, "headers": headers}, self.messages.get, send)
        return self

    @property
    def status(self) -> int | None:
        """Return the status that was sent, None for none."""
        return self.sent[0]["status"] if self.sent else None

    @property
    def reply_headers(self) -> dict[str, str]:
        """Return the headers of the response."""
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        """Return what was sent of the body."""
        return b"".join(each.get("body", b"") for each in self.sent)

    @property
    def is_over(self) -> bool:
        """Tell whether the response has its end."""
        return (
            bool(self.sent)
            and self.sent[-1]["type"] == "http.response.body"
            and not self.sent[-1].get("more_body")
        )


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length", 0))
        got = {
            "path": self.path,
            "key": self.headers.get("authorization"),
            "body": self.rfile.read(length).decode(),
        }
        body = json.dumps(
            {"object": "list", "data": [], "got": got, "method": self.command}
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        pass


class _EchoServer(ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def echoing() -> Iterator[str]:
    """Serve a host that answers every request with what it got, and yield its address without a
    path.
    """
    server = _EchoServer(("127.0.0.1", 0), _Echo)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
