"""What follows from the declarations of rungs: the ranks of their counters, and what is declared once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rungwise.fsm.errors import TableError
from rungwise.fsm.machine.declare import Rung


def ranks_of(rungs: Iterable[Rung]) -> tuple[tuple[str, ...], ...]:
    """Rank the counters of some rungs: each that refills others by itself, above all that it refills; then the rest.

    Raises:
        TableError: counters refill each other in a circle.
    """
    refills: dict[str, set[str]] = {}
    for rung in rungs:
        refills.setdefault(rung.counter, set()).update(rung.refills)
    plain = [name for name, refilled in refills.items() if not refilled]
    above: list[str] = []
    todo = [name for name, refilled in refills.items() if refilled]
    while todo:
        lowest = next((name for name in todo if not refills[name] & set(todo)), None)
        if lowest is None:
            raise TableError(
                f"no counter can rank above what it refills where {' and '.join(map(repr, todo))} refill each other"
            )
        above.append(lowest)
        todo.remove(lowest)
    return (*((name,) for name in reversed(above)), *((tuple(plain),) if plain else ()))


def joined(known: Iterable[Any], new: Iterable[Any]) -> tuple[Any, ...]:
    """Return what is declared with more of its kind, each once.

    Raises:
        TableError: something else is declared under that name.
    """
    found = {each.name: each for each in known}
    for each in new:
        if found.setdefault(each.name, each) != each:
            raise TableError(f"the {type(each).__name__.lower()} {each.name!r} is declared already, and otherwise")
    return tuple(found.values())
