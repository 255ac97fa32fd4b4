"""A bound on the work of checks, which is counted: the core reads no clock, and equal values get equal answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

MOST_WORK: Final = 50_000
"""The units that one check may take, or all checks within one `bounded`. A unit takes up to about 30 microseconds."""

_left: ContextVar[list[int] | None] = ContextVar("rungwise_work", default=None)


class TooMuchWork(Exception):
    """Say that a check would take too long."""


@contextmanager
def bounded() -> Iterator[None]:
    """Bound the work of the block, together with that of the blocks around it."""
    if _left.get() is not None:
        yield
        return
    token = _left.set([MOST_WORK])
    try:
        yield
    finally:
        _left.reset(token)


def spend(units: int) -> None:
    """Count work that is about to be done, and raise TooMuchWork if there has been too much of it."""
    left = _left.get()
    if left is not None:
        left[0] -= units
        if left[0] < 0:
            raise TooMuchWork
