"""Which facts matter to an event with given counters, so that a walk need not try all of them."""

from __future__ import annotations

from rungwise.fsm.checker.ways import Ask, changes, first_row, ways
from rungwise.fsm.machine.table import Row, Table

Result = tuple[Row | None, str | None, tuple[str, ...]]
Leaf = tuple[list[tuple[str, bool]], Result]
"""The facts that one way reads, in that order, and its result."""


class Combinations:
    """Find the combinations of facts that an event must be fired with.

    It tries both answers for every fact that the rows read. If both lead to the same result in every respect, one of
    them is enough. The combinations are cached by the counters that have a unit left.
    """

    def __init__(self, table: Table, rows: tuple[Row, ...]) -> None:
        self._table, self._rows = table, rows
        guards = [table.guard(row.guard) for row in rows]
        self._counters = tuple(dict.fromkeys(guard.counter for guard in guards if guard.counter is not None))
        self._found: dict[tuple[bool, ...], list[tuple[tuple[str, ...], Row | None]]] = {}

    def at(self, left: dict[str, bool]) -> list[tuple[tuple[str, ...], Row | None]]:
        """Return the facts to set, one tuple for each combination, with the first row whose guard then holds."""
        key = tuple([left[name] for name in self._counters])
        if key not in self._found:
            self._found[key] = self._find(left)
        return self._found[key]

    def _find(self, left: dict[str, bool]) -> list[tuple[tuple[str, ...], Row | None]]:
        def body(ask: Ask) -> Result:
            row = first_row(self._table, self._rows, lambda name: left[name] if name in left else ask(name))
            return (row, *(changes(self._table, row, ask) if row else (None, ())))

        leaves = [(list(answers.items()), result) for answers, result in ways(body)]
        return [(held, result[0]) for held, result in _apart(leaves, 0)]


def _apart(leaves: list[Leaf], depth: int) -> list[tuple[tuple[str, ...], Result]]:
    """Return the facts that hold in each way and its result, without the questions that make no difference."""
    facts, result = leaves[0]
    if len(facts) == depth:
        return [((), result)]
    no, yes = (_apart([leaf for leaf in leaves if leaf[0][depth][1] is held], depth + 1) for held in (False, True))
    return no if yes == no else [*no, *(((facts[depth][0], *held), result) for held, result in yes)]
