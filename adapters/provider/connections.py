"""A TCP server in its own thread that tracks its open connections."""

from __future__ import annotations

import contextlib
import math
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from rungwise.adapters.http.closing import Closing

POLL_SECONDS: Final = 0.02
"""How often a server looks whether it is to stop."""


class LoopbackServer(socketserver.ThreadingTCPServer):
    """Serve from construction on.

    It is a plain TCP server, since `HTTPServer` looks its own name up in DNS.

    Arguments:
        address: an IPv4 address and a port.
        handler: builds what handles a connection.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Callable[[Any, Any, Any], Any]) -> None:
        self.closing = threading.Event()
        self.connections: set[socket.socket] = set()
        self.changed = threading.Condition()
        super().__init__(address, handler)
        self.thread = threading.Thread(target=self.serve_forever, args=(POLL_SECONDS,), daemon=True)
        self.thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Register a connection, and handle it in its own thread."""
        with self.changed:
            self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and unregister it."""
        super().shutdown_request(request)
        with self.changed:
            self.connections.discard(request)
            self.changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Show a bug; a client that goes away is what this server is for."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class LoopbackHandler(BaseHTTPRequestHandler):
    """Handle the requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(
        self,
        owner: Any,
        request: Any,
        client_address: Any,
        server: LoopbackServer,
    ) -> None:
        self.owner = owner
        self.closing = server.closing
        super().__init__(request, client_address, server)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: what arrives is recorded."""

    @property
    def lowered_headers(self) -> dict[str, str]:
        """Return the headers of the request, their names in lower case."""
        return {name.lower(): value for name, value in self.headers.items()}

    def wait(self, seconds: float) -> None:
        """Wait.

        The socket is peeked at with a timeout, so that the end of the connection ends the wait.

        Raises:
            ConnectionAbortedError: the client goes away, or the server closes.
        """
        ends_at = time.monotonic() + seconds
        self.connection.settimeout(None if seconds == math.inf else max(0.0, seconds))
        try:
            is_open = bool(self.connection.recv(1, socket.MSG_PEEK))
        except (TimeoutError, BlockingIOError):
            return
        finally:
            self.connection.settimeout(None)
        # The peek returned early: the client has gone, or its next request is here already. In
        # that case only the server can end the wait.
        rest = max(0.0, ends_at - time.monotonic())
        if not is_open or self.closing.wait(min(rest, threading.TIMEOUT_MAX)):
            raise ConnectionAbortedError


class Served(Closing):
    """Serve on loopback until `close`, for use in a `with` block."""

    _server: LoopbackServer

    @property
    def base_url(self) -> str:
        """Return the base URL, `http://127.0.0.1:PORT/v1`."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    @property
    def open_connections(self) -> int:
        """Count the connections that are open now, idle ones included."""
        return len(self._server.connections)

    def wait_disconnected(self, seconds: float = 1.0) -> bool:
        """Wait until no connection is open, and return whether none is.

        Arguments:
            seconds: to wait at most.
        """
        with self._server.changed:
            return self._server.changed.wait_for(lambda: not self.open_connections, seconds)

    def close(self) -> None:
        """Stop listening and drop every connection at once, hanging ones included."""
        server = self._server
        server.closing.set()
        server.shutdown()
        server.server_close()
        with server.changed:
            for connection in server.connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        server.thread.join()
        self.wait_disconnected()
