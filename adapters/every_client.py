"""The clients of this process, for what follows all of them, such as traces."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Final
from weakref import WeakSet

Attach = Callable[[Any], object]

_LOCK: Final = Lock()
_CLIENTS: Final[WeakSet[Any]] = WeakSet()
_ATTACHED: Final[list[Attach]] = []


def attach_to_all(attach: Attach) -> None:
    """Call a function with each client, now with those that there are and then with each that is
    made. It takes the place of the function before.
    """
    with _LOCK:
        _ATTACHED[:] = [attach]
        clients = list(_CLIENTS)
    for client in clients:
        attach(client)


def is_made(client: Any) -> None:
    """Note a client that is ready, and call the function with it."""
    with _LOCK:
        _CLIENTS.add(client)
        attached = list(_ATTACHED)
    for attach in attached:
        attach(client)
