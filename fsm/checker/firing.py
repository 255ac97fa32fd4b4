"""One observed firing of an event, and what must be true of each: predicates for anyone who watches a machine."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from rungwise.fsm.checker.branches import changes, first_row
from rungwise.fsm.errors import BrokenMachine, IllegalEvent
from rungwise.fsm.machine.build import COUNT_ATTEMPT
from rungwise.fsm.machine.run import Run
from rungwise.fsm.machine.table import Row, Table

Configuration = tuple[str, tuple[int, ...]]
"""A state, with what is spent of each counter."""

TOTAL = "total"
ORDERED = "deterministic by order"
ABSORB = "finals absorb"
ILLEGAL = "illegal events change nothing"
COUNTS = "effects only count"
BOUNDED = "counters within limits"
FALLS = "the variant falls on every step"


@frozen
class Firing:
    """Hold an event that was fired, and its result."""

    table: Table
    limits: tuple[int, ...]  # in the order of `table.counters`
    before: Configuration
    event: str
    facts: tuple[str, ...]  # that held
    row: Row | None  # that was taken; None if the event was refused
    after: Configuration
    sends: int = 0  # attempts that were counted
    first: Row | None = None  # the first row whose guard holds, if it is already known

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the rows that are tried."""
        return self.table.ladder(self.event, self.before[0])

    @property
    def expected(self) -> Row | None:
        """Return the first row whose guard holds, by the declarations."""
        return self.first or first_row(self.table, self.rows, self.ask)

    def ask(self, name: str) -> bool:
        """Tell whether a fact holds, or a unit of a counter is left."""
        place = self.table.places.get(name)
        return name in self.facts if place is None else self.before[1][place] < self.limits[place]


def fired(run: Run, event: str, facts: tuple[str, ...] = (), first: Row | None = None) -> Firing:
    """Fire an event on a run and return the result, even if it was refused or is illegal."""
    before, attempts, row = (run.state, tuple(run.spent)), run.attempts, None
    try:
        row = run.fire(event, facts)
    except IllegalEvent:
        pass
    except BrokenMachine:
        row = run.row
    after = run.state, tuple(run.spent)
    return Firing(run.table, run.limits, before, event, facts, row, after, run.attempts - attempts, first)


Predicate = Callable[[Firing], str | None]
"""Says what is wrong with a firing; None if nothing is."""


def always_taken(firing: Firing) -> str | None:
    """Demand that each event of a state's ladders takes a row."""
    return "no row fires" if firing.rows and firing.row is None else None


def always_first(firing: Firing) -> str | None:
    """Demand that the row taken is the first whose guard holds, and leads where it says."""
    if not firing.rows or firing.row is None:
        return None
    expected = firing.expected
    is_first = firing.row == expected and firing.after[0] == firing.row.target
    return None if is_first else f"took {firing.row}, not {expected}"


def always_absorbed(firing: Firing) -> str | None:
    """Demand that an outcome takes no event."""
    return _unmoved(firing) if firing.before[0] in firing.table.outcomes else None


def always_refused(firing: Firing) -> str | None:
    """Demand that an event that is illegal in a state changes nothing."""
    return None if firing.rows or firing.before[0] in firing.table.outcomes else _unmoved(firing)


def _unmoved(firing: Firing) -> str | None:
    if firing.row is not None:
        return f"{firing.event!r} is taken"
    return None if firing.after == firing.before else f"{firing.event!r} is refused, but changes the run"


def always_counting(firing: Firing) -> str | None:
    """Demand that a row takes and refills what its effect declares and nothing else, and that each send is counted."""
    if firing.row is None:
        return None
    takes, refills = changes(firing.table, firing.row, firing.ask)
    counters = zip(firing.table.counters, firing.before[1], strict=True)
    spent = tuple(0 if name in refills else count + (name == takes) for name, count in counters)
    is_right = firing.after[1] == spent and firing.sends == (firing.row.effect == COUNT_ATTEMPT.name)
    return None if is_right else f"{firing.row} does more, or less, than count"


def always_bounded(firing: Firing) -> str | None:
    """Demand that every counter stays within its limit."""
    for name, count, limit in zip(firing.table.counters, firing.after[1], firing.limits, strict=True):
        if not 0 <= count <= limit:
            return f"{name} is {count!r}, its limit {limit}"
    return None


def always_falling(firing: Firing) -> str | None:
    """Demand that what is left, by rank, is less after every step, unless the machine need not end."""
    if firing.row is None or firing.table.kind == "cyclic":
        return None
    before, now = (variant(firing.table, firing.limits, each) for each in (firing.before, firing.after))
    return None if now < before else f"it goes from {before} to {now}"


def variant(table: Table, limits: tuple[int, ...], configuration: Configuration) -> tuple[int, ...]:
    """Return what is left, by rank, then whether something waits to be sent; the end is lower than any."""
    state, spent = configuration
    if state in table.outcomes:
        return (0,)
    left = [limit - count for limit, count in zip(limits, spent, strict=True)]
    ranked = [sum([left[place] for place in group]) for group in table.ranked_places]
    return (1, *ranked, int(state != table.hub))


ALWAYS: dict[str, Predicate] = {
    TOTAL: always_taken,
    ORDERED: always_first,
    ABSORB: always_absorbed,
    ILLEGAL: always_refused,
    COUNTS: always_counting,
    BOUNDED: always_bounded,
    FALLS: always_falling,
}
"""What must be true of every firing, by the name of the property."""


def broken_by(firing: Firing) -> dict[str, str]:
    """Return the properties that a firing breaks: what is wrong, by the name of each."""
    return {name: wrong for name, always in ALWAYS.items() if (wrong := always(firing)) is not None}
