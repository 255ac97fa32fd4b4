"""The combinations of facts with which an event must be fired to see all that it can do."""

from __future__ import annotations

from rungwise.fsm.engine.checker.branches import Ask, changes, first_row, ways
from rungwise.fsm.engine.machine.table import Row, Table

Result = tuple[Row | None, str | None, tuple[str, ...]]
"""The row that is taken, and the counters that it takes from and refills."""

Leaf = tuple[list[tuple[str, bool]], Result]
"""The facts that one way reads, in that order, and its result."""

Way = tuple[tuple[str, ...], Result]
"""The facts that hold, and what the event does then."""

Combination = tuple[tuple[str, ...], Row | None]
"""The facts that hold, and the first row whose guard then holds."""


class Combinations:
    """Find the combinations of facts that an event must be fired with.

    If both answers for a fact lead to the same result in every respect, one of them is enough.
    The combinations are cached by the counters of which a unit is left.
    """

    def __init__(self, table: Table, rows: tuple[Row, ...]) -> None:
        self._table = table
        self._rows = rows
        counters = [table.guard(row.guard).counter for row in rows]
        self._counters = tuple(dict.fromkeys(name for name in counters if name is not None))
        self._found: dict[tuple[bool, ...], list[Combination]] = {}

    def at(self, left: dict[str, bool]) -> list[Combination]:
        """Return the facts to set for each combination, with the first row whose guard then holds.

        Arguments:
            left: whether a unit of each counter is left.
        """
        key = tuple([left[name] for name in self._counters])
        found = self._found.get(key)
        if found is None:
            found = self._combinations(left)
            self._found[key] = found
        return found

    def _combinations(self, left: dict[str, bool]) -> list[Combination]:
        def body(ask: Ask) -> Result:
            def ask_facts(name: str) -> bool:
                return left[name] if name in left else ask(name)

            row = first_row(self._table, self._rows, ask_facts)
            if row is None:
                return None, None, ()
            takes, refills = changes(self._table, row, ask)
            return row, takes, refills

        leaves: list[Leaf] = []
        for answers, result in ways(body):
            leaves.append((list(answers.items()), result))
        return [(facts, row) for facts, (row, _, _) in _apart(leaves, 0)]


def _apart(leaves: list[Leaf], depth: int) -> list[Way]:
    """Return the facts that hold in each way and its result.

    Questions whose answer makes no difference are left out.

    Arguments:
        leaves: ways that begin with the same answers.
        depth: how many answers that are.
    """
    answers, result = leaves[0]
    if len(answers) == depth:
        return [((), result)]
    without: list[Leaf] = []
    with_fact: list[Leaf] = []
    for leaf in leaves:
        _, holds = leaf[0][depth]
        if holds:
            with_fact.append(leaf)
        else:
            without.append(leaf)
    no = _apart(without, depth + 1)
    yes = _apart(with_fact, depth + 1)
    if yes == no:
        return no
    fact, _ = answers[depth]
    return no + [((fact, *facts), result) for facts, result in yes]
