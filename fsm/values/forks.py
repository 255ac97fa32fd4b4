"""What begins anew in a forked child, where no thread of the parent runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakSet

T = TypeVar("T")


def renewed_in_children(renew: Callable[[T], object]) -> WeakSet[T]:
    """Return a set of objects, each of which a function renews in a forked child for as long as it
    lives.
    """
    members: WeakSet[T] = WeakSet()

    def renew_all() -> None:
        for member in list(members):
            renew(member)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew_all)
    return members
