"""A relay on loopback that hands bytes on in both directions, until it is told to cut."""

import contextlib
import socket
import struct
import threading
from typing import Self

AT_ONCE = 65536
RESET = struct.pack("ii", 1, 0)
"""Closing sends a reset, and waits for nothing."""


class Relay:
    """Relay connections to a port of this machine for the time of a `with` block.

    Arguments:
        port: where to.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._lock = threading.Lock()
        self._left: int | None = None
        self._is_hard = False
        self.cuts = 0
        """How often it has cut."""
        self.passed = 0
        """How many bytes came from the server since it was last told how many may."""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.root = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.close()

    def cut_after(self, count: int | None, *, is_hard: bool = False) -> None:
        """Cut once, when so many more bytes have come from the server; what follows is handed on
        again.

        Arguments:
            count: the bytes; None takes the order back.
            is_hard: whether the client sees a reset in place of an end.
        """
        with self._lock:
            self._left = count
            self._is_hard = is_hard
            self.passed = 0

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = socket.create_connection(("127.0.0.1", self._to))
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(
        self,
        source: socket.socket,
        target: socket.socket,
        is_reply: bool,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(AT_ONCE):
                allowed, is_cut = self._allowed(len(data)) if is_reply else (len(data), False)
                target.sendall(data[:allowed])
                if is_cut:
                    if self._is_hard:
                        target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    break
        for each in (source, target):
            with contextlib.suppress(OSError):  # the other direction may have closed it
                # Either wakes the other direction. One that is to be reset must not say that it
                # ends.
                is_reset = each.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, len(RESET)) == RESET
                each.shutdown(socket.SHUT_RD if is_reset else socket.SHUT_RDWR)
            each.close()

    def _allowed(self, size: int) -> tuple[int, bool]:
        """Return how many of some bytes of a reply may pass, and whether the connection is cut
        behind them.
        """
        with self._lock:
            self.passed += size
            if self._left is None:
                return size, False
            if size <= self._left:
                self._left -= size
                return size, False
            allowed = self._left
            self._left = None
            self.cuts += 1
            return allowed, True
