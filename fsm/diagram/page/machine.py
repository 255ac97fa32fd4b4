"""The machine as plain data for the page: its rows, what its guards ask and what its effects change.

Nothing is written down a second time, it is found by running them: each guard and each effect is run along
every path that it can take (`fsm/explore.py`), and a path is what it asked of facts and counters, with what came of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from rungwise.fsm.call.ladder import COUNTER, Ladder, names_of
from rungwise.fsm.checker.explore import Refusal, SymbolicPath, Terms, apply, explore, value_of
from rungwise.fsm.checker.moves import moves_of
from rungwise.fsm.checker.proof import change_of
from rungwise.fsm.errors import TableError
from rungwise.fsm.machine.table import Row, Table

Plain = dict[str, Any]


class OrderedPath(SymbolicPath):
    """Be a run that also remembers in which order it asked."""

    def __init__(self, answers: tuple[bool, ...], model: type[Ladder], state: str) -> None:
        super().__init__(answers, model, state)
        self.order: dict[str | Terms, None] = {}

    def read(self, name: str) -> Any:
        """Return a field; a fact takes its place in the order."""
        value = super().read(name)
        if name in self.facts:
            self.order.setdefault(name)
        return value

    def at_most(self, terms: Terms, most: int) -> bool:
        """Compare a sum; it takes its place in the order if the answer was not known before."""
        answer = super().at_most(terms, most)
        if terms in self.bounds:
            self.order.setdefault(terms)
        return answer

    def conditions(self) -> list[Plain]:
        """Return what this run found, in the order in which it asked."""
        return [self._condition(asked) for asked in self.order]

    def _condition(self, asked: str | Terms) -> Plain:
        if isinstance(asked, str):
            return {"fact": asked, "is": self.facts[asked]}
        least, most = self.bounds[asked]
        return {"sum": dict(asked), "least": least, "most": most}


def machine_data(table: Table, limits: Mapping[str, int]) -> Plain:
    """Return everything that a script needs to run a table.

    Arguments:
        limits: the limit of each counter.

    Raises:
        TableError: a guard or an effect cannot be followed.
    """
    guards, effects = _Shelf(), _Shelf()
    try:
        rows = [_row(table, row, guards, effects) for row in table.rows]
        moves = moves_of(table, limits)
    except Refusal as refusal:
        raise TableError(f"{table.name}: {refusal}") from None
    return {
        "name": table.name,
        "start": table.start,
        "hub": table.hub,
        "outcomes": list(table.outcomes),
        "states": list(table.states),
        "counters": list(names_of(table.model, COUNTER)),
        "limits": dict(limits),
        "rows": rows,
        "guards": guards.kept,
        "effects": effects.kept,
        "says": {guard: _says(table, guard) for row in table.rows if (guard := row.guard)},
        "moves": [{"takes": move.takes, "refills": sorted(move.refills)} for move in moves],
        "exact": all(move.is_free for move in moves),
    }


class _Shelf:
    """Keep the paths of guards or effects by name, once where they are the same in every state."""

    def __init__(self) -> None:
        self.kept: dict[str, list[Plain]] = {}

    def keep(self, name: str, source: str, paths: list[Plain]) -> str:
        """Keep some paths and return the name under which they are found."""
        if self.kept.setdefault(name, paths) == paths:
            return name
        apart = f"{name} in {source}"
        self.kept[apart] = paths
        return apart


def _row(table: Table, row: Row, guards: _Shelf, effects: _Shelf) -> Plain:
    return {
        "event": row.event,
        "source": row.source,
        "guard": row.guard,
        "target": row.target,
        "effect": row.effect,
        "test": row.guard and guards.keep(row.guard, row.source, _guard(table, row.guard, row.source)),
        "change": row.effect and effects.keep(row.effect, row.source, _effect(table, row.effect, row.source)),
    }


def _guard(table: Table, guard: str, source: str) -> list[Plain]:
    def body(probe: Any, path: OrderedPath) -> bool:
        path.in_guard = True
        return value_of(probe, guard)

    runs = explore(lambda answers: OrderedPath(answers, table.model, source), body)
    return [{"if": path.conditions(), "holds": held} for path, held in runs]


def _effect(table: Table, effect: str, source: str) -> list[Plain]:
    def body(probe: Any, path: OrderedPath) -> None:
        apply(probe, effect)

    found = []
    for path, _ in explore(lambda answers: OrderedPath(answers, table.model, source), body):
        change = change_of(path)
        found.append({"if": path.conditions(), "takes": sorted(change.takes), "refills": sorted(change.refills)})
    return found


def _says(table: Table, guard: str) -> str:
    """Return the first line of what a guard says of itself; a fact says nothing."""
    attribute = inspect.getattr_static(table.model, guard, None)
    doc = inspect.getdoc(attribute) if isinstance(attribute, property) or callable(attribute) else None
    return doc.splitlines()[0].removeprefix("Tell whether ").strip() if doc else ""
