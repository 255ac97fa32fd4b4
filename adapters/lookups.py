"""Names of hosts, looked up in threads that whoever waits may leave behind: nothing can end
`getaddrinfo`.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

Address = tuple[int, tuple[Any, ...]]
"""The family of an address, and the address in the form that a socket of it takes."""


class NameLookup(threading.Thread):
    """Look up a name, however long that takes."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(name=f"rungwise looks up {host}", daemon=True)
        self.host = host
        self.port = port
        self.is_done = threading.Event()
        self.addresses: list[Address] = []
        self.error: Exception | None = None

    def run(self) -> None:
        """Look it up, and say so."""
        try:
            addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            self.addresses = [(family, address) for family, _, _, _, address in addresses]
        except Exception as error:
            self.error = error
        with _lock:
            _lookups.pop(self.host, None)
        self.is_done.set()

    def at(self, port: int) -> list[Address]:
        """Return the addresses that were found, with a port."""
        if port == self.port:
            return self.addresses
        return [(family, (address[0], port, *address[2:])) for family, address in self.addresses]


_lock = threading.Lock()
_lookups: dict[str, NameLookup] = {}  # those under way, by host


def _forget() -> None:
    """Start anew in a forked child, where none of these threads runs."""
    global _lock
    _lock = threading.Lock()
    _lookups.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def lookup_of(host: str, port: int) -> NameLookup:
    """Begin to look a host up, or join those who do.

    Raises:
        RuntimeError: no thread could be started.
    """
    with _lock:
        lookup = _lookups.get(host)
        if lookup is None:
            lookup = NameLookup(host, port)
            lookup.start()
            _lookups[host] = lookup
    return lookup
