"""Look up the addresses of a host without ever being kept by it.

Nothing can end a blocked `getaddrinfo`, so it runs in a daemon thread that may be left behind. Calls that look up the
same name at the same time share one, so there are never more of them than names.
"""

from __future__ import annotations

import os
import socket
import threading
from ipaddress import ip_address
from typing import Any

import httpx

from rungwise.adapters.http.waiting import Operation, WaitFor

Address = tuple[int, tuple[Any, ...]]
"""The family of an address, and the address in the form that a socket of it takes."""


class _Lookup(threading.Thread):
    """Look one name up."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(name=f"rungwise looks up {host}", daemon=True)
        self.host, self.port = host, port
        self.is_done = threading.Event()
        self.found: list[Address] = []
        self.error: Exception | None = None

    def run(self) -> None:
        """Ask, and tell all that wait."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            self.found = [(family, address) for family, _, _, _, address in found]
        except Exception as error:
            self.error = error
        with _lock:
            _lookups.pop(self.host, None)
        self.is_done.set()


_lock = threading.Lock()
_lookups: dict[str, _Lookup] = {}


def _forget() -> None:
    """Begin anew in a forked child, where none of these threads is running."""
    global _lock
    _lock = threading.Lock()
    _lookups.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def addresses_of(host: str, port: int, until: float) -> Operation[list[Address]]:
    """Look up a host; an address needs no asking.

    Arguments:
        until: the moment at which to give up, on `time.monotonic`.

    Raises:
        httpx.ConnectError: there is no such name, or nobody could be asked.
        httpx.ConnectTimeout: no answer came in time.
    """
    try:
        address = ip_address(host)
    except ValueError:
        pass
    else:
        return [(socket.AF_INET if address.version == 4 else socket.AF_INET6, _socket_address(host, port))]
    lookup = _begin(host, port)
    yield WaitFor(lookup.is_done, "read", until)
    if not lookup.is_done.is_set():
        raise httpx.ConnectTimeout("the name of the host was not found in time")
    if lookup.error is not None or not lookup.found:
        raise httpx.ConnectError("the name of the host cannot be found") from lookup.error
    if port == lookup.port:
        return lookup.found
    return [(family, (address[0], port, *address[2:])) for family, address in lookup.found]  # asked for another port


def _begin(host: str, port: int) -> _Lookup:
    with _lock:
        lookup = _lookups.get(host)
        if lookup is None:
            lookup = _Lookup(host, port)
            try:
                lookup.start()
            except RuntimeError as error:
                raise httpx.ConnectError("no thread could be started to look up the host") from error
            _lookups[host] = lookup
        return lookup


def _socket_address(host: str, port: int) -> tuple[Any, ...]:
    if ":" not in host:
        return host, port
    bare, _, scope = host.partition("%")
    return bare, port, 0, socket.if_nametoindex(scope) if scope else 0
