"""What the models for independent checkers share: names that their languages take, limits, and
texts for comments.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from attrs import evolve

from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.engine.checker.longest import longest
from rungwise.fsm.engine.checker.moves import detours_of, moves_of
from rungwise.fsm.engine.checker.proof import prove
from rungwise.fsm.engine.checker.tracking import SearchProblem, TooLarge
from rungwise.fsm.engine.machine.declare import Fact, Guard
from rungwise.fsm.engine.machine.table import Table

WIDTH: Final = 90
"""How long a line of a model may be before it is broken."""


class Names:
    """Give each name of a table an identifier of its own, the name itself wherever that is
    possible.

    Arguments:
        is_taken: tells whether an identifier means something in the language, or in the model.
    """

    def __init__(self, is_taken: Callable[[str], bool]) -> None:
        self._is_taken = is_taken
        self._found: dict[tuple[str, str], str] = {}

    def of(self, kind: str, name: str) -> str:
        """Return the identifier of a name; what cannot stay as it is says its kind first.

        Arguments:
            kind: what is named: names of two kinds never share an identifier.
        """
        if (kind, name) not in self._found:
            wanted = "".join(
                each if re.match(r"[A-Za-z0-9_]", each) else f"u{ord(each):x}" for each in name
            )
            if not wanted[0].isalpha() or self._is_taken(wanted) or wanted in self._found.values():
                wanted = f"{kind}_{wanted}"
            while wanted in self._found.values():
                wanted += "_"
            self._found[kind, name] = wanted
        return self._found[kind, name]

    def renamed(self) -> list[tuple[str, str, str]]:
        """List the names that could not stay as they are: the kind, the name, and what stands for
        it.
        """
        return [(kind, name, given) for (kind, name), given in self._found.items() if name != given]


class Used:
    """List what the rows of a table use, each once.

    Arguments:
        table: the machine.
    """

    def __init__(self, table: Table) -> None:
        self.decisions = picture_of(table).decisions
        rows = [line.row for decision in self.decisions for line in decision.lines]
        of_facts = {fact.name for fact in table.facts}
        guards = [table.guard(row.guard) for row in rows if row.guard]
        self.guards = [each for each in dict.fromkeys(guards) if each.name not in of_facts]
        self.effects = list(dict.fromkeys(table.effect(row.effect) for row in rows if row.effect))
        looked_at = [name for guard in guards for name in facts_of(guard)]
        looked_at += [effect.refills_on for effect in self.effects if effect.refills_on]
        self.facts = followed(table, looked_at)
        self.found = {name: fact for name, fact in self.facts.items() if not fact.is_derived}
        self.derived = {name: fact for name, fact in self.facts.items() if fact.is_derived}


def followed(table: Table, names: Iterable[str]) -> dict[str, Fact]:
    """Return some facts and all that they follow from, each behind what it follows from."""
    found: dict[str, Fact] = {}
    for fact in map(table.fact, names):
        found |= followed(table, table.follows_from[fact.name])
        found[fact.name] = fact
    return found


def limits_of(table: Table, limits: Mapping[str, int | None] | None) -> dict[str, int]:
    """Return the limit of each counter, by default as the rungs declare it; a limit that only a
    chain tells is 1.

    Arguments:
        limits: those of a policy.
    """
    given = {**table.limits, **(limits or {})}
    return {name: 1 if given[name] is None else given[name] or 0 for name in table.counters}


def most_attempts(table: Table, limits: Mapping[str, int]) -> int | None:
    """Return how often something is sent on the longest path of a model.

    The certificate gives the same figure for the ladder, or a lower one where a fact that lasts
    stands in the way; in a model any fact may change at any event. None where there is no such
    figure, because the table cannot be proved, or where it takes too long to find.
    """
    if any(proof.verdict == "refused" for proof in prove(table)):
        return None
    # none lasts in a model
    table = evolve(table, facts=tuple(evolve(fact, lasts=None) for fact in table.facts))
    moves = moves_of(table, limits)
    moves = (*moves, *detours_of(table, limits, moves))
    try:
        problem = SearchProblem.of(
            moves, table.start, limits, table.ranks, lambda spent: 1, attempts=None
        )
        return int(longest(problem).value)
    except TooLarge:
        return None


def facts_of(guard: Guard) -> tuple[str, ...]:
    """List the facts that a guard looks at, first those that must hold."""
    return (*guard.holds, *guard.lacks)


def plain(text: str) -> str:
    """Return a text that can stand in any comment, on one line."""
    return " ".join(
        text.encode("ascii", "backslashreplace")
        .decode()
        .replace("*/", "* /")
        .replace("*)", "* )")
        .split()
    )


def folded(items: Iterable[str], indent: str, between: str = ", ") -> str:
    """Write some items in lines that are not too long, all but the first of them indented."""
    lines = [""]
    for item in items:
        longer = lines[-1] + (between if lines[-1] else "") + item
        if lines[-1] and len(indent) + len(longer) > WIDTH:
            lines[-1] += between.rstrip()
            lines.append(item)
        else:
            lines[-1] = longer
    return f"\n{indent}".join(lines)
