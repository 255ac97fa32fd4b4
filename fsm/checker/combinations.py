"""Which facts matter to an event at given counters, so that a walk need not try all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from operator import attrgetter
from typing import Any

from rungwise.fsm.call.ladder import Ladder
from rungwise.fsm.checker.explore import RealPath, Refusal, apply, explore, value_of
from rungwise.fsm.machine.table import Row

Leaf = tuple[list[tuple[str, bool]], Hashable]
"""The facts that one run looked at, in that order, and what came of it."""


class Combinations:
    """Find the combinations of facts that one event must be fired with.

    The rows' own guards and effects are run with every answer for every fact they look at. Where both answers lead to
    the same in every respect, one of them is kept. The result is remembered for the counters that the runs looked at.
    """

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self._rows = rows
        self._reads: tuple[str, ...] = ()
        self._found: dict[Any, list[tuple[str, ...]]] = {}
        self._key: Callable[[Any], Any] = lambda real: ()

    def at(self, real: Ladder) -> list[tuple[str, ...]]:
        """Return the facts to set, one tuple for each combination.

        Raises:
            Refusal: the guards cannot be followed.
        """
        found = self._found.get(self._key(real))
        if found is None:
            found = self._find(real)
            self._found[self._key(real)] = found
        return found

    def _find(self, real: Ladder) -> list[tuple[str, ...]]:
        leaves: list[Leaf] = []
        reads = set(self._reads)
        for path, result in explore(lambda answers: RealPath(answers, real), self._run):
            leaves.append((list(path.facts.items()), result))
            reads |= path.reads
        if reads != set(self._reads):
            self._reads = tuple(sorted(reads))
            self._key = attrgetter(*self._reads)
            self._found.clear()
        return [tuple(facts) for facts in _flatten(_tree(leaves, 0), ())]

    def _run(self, probe: Any, path: RealPath) -> Hashable:
        try:
            row = next((row for row in self._rows if value_of(probe, row.guard)), None)
            apply(probe, row.effect if row else None)
        except Refusal as refusal:
            return str(refusal)
        return row, tuple(path.changed.items())


def _tree(leaves: list[Leaf], depth: int) -> Any:
    """Build the tree of questions, without those that make no difference."""
    facts, result = leaves[0]
    if len(facts) == depth:
        return result
    yes = _tree([leaf for leaf in leaves if leaf[0][depth][1]], depth + 1)
    no = _tree([leaf for leaf in leaves if not leaf[0][depth][1]], depth + 1)
    return yes if yes == no else _Question(facts[depth][0], yes, no)


class _Question(tuple[str, Any, Any]):
    __slots__ = ()

    def __new__(cls, fact: str, yes: Any, no: Any) -> _Question:
        return super().__new__(cls, (fact, yes, no))


def _flatten(tree: Any, held: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not isinstance(tree, _Question):
        yield held
        return
    fact, yes, no = tree
    yield from _flatten(no, held)
    yield from _flatten(yes, (*held, fact))
