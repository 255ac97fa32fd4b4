"""What must be true of a table that runs model calls, besides that every path ends: the honest endings."""

from __future__ import annotations

from collections.abc import Iterator

from fsm.checker.branches import finds
from fsm.checker.structure import did_you_mean
from fsm.plan import keeps_asked_wait
from fsm.table import CALL, Row, Table

ANSWERS = frozenset({"answered", "called_tools"})
"""The events that are a success, and the only ones."""

ERRORS = frozenset({"exhausted", "failed"})
"""The outcomes that gathered text must not end in."""

KEEPERS = {"has_delivered": "keep_delivered", "has_prior_answer": "keep_prior_answer"}
"""The effects that say what stands as the answer of a salvaged call."""


NEEDS = {
    "retry": ("wait_fits", "a wait that the service asks for could last for ever"),
    "fallback": ("has_next_backend", "there may be no other backend"),
    "compact": ("has_compactor", "there may be no compactor"),
    "repair": ("repair_known", "there may be nothing to repair"),
}
"""The fact that the guard of each row to a rung must have found, and why."""


def faults_of(table: Table) -> Iterator[str]:
    """Yield what is wrong with a table, in words."""
    for event in table.events:
        if event not in CALL.events:
            yield f"no call ever fires the event {event!r}{did_you_mean(event, CALL.events)}"
    replies = [event for event in CALL.events if event not in ("sent", "ran_out")]
    needed = {**{rung: ["sent", "cancelled", "ran_out"] for rung in table.rungs}, table.hub: replies}
    for state, events in needed.items():
        for event in events:
            if not table.ladder(event, state):
                yield f"no row takes {event!r} in {state!r}, where every call can meet it"
    for row in table.rows:
        yield from _faults_of_row(table, row)
        yield from _lacks_of_row(table, row)
    for event in table.events:
        for state in table.states:
            yield from _faults_of_ladder(table.ladder(event, state))


def _faults_of_row(table: Table, row: Row) -> Iterator[str]:
    if row.target == "done" and row.event not in ANSWERS:
        yield f"{row}: only {' and '.join(sorted(ANSWERS))} are done"
    if row.target == "salvaged" and row.effect not in KEEPERS.values():
        yield f"{row}: needs an effect that says what stands as the answer: {', '.join(KEEPERS.values())}"
    elif row.target == "salvaged":
        fact = next(fact for fact, effect in KEEPERS.items() if effect == row.effect)
        if not finds(table, row, fact):
            yield f"{row}: its guard must find {fact!r}, or nothing stands as the answer"
    if row.event in ("cancelled", "ran_out"):
        outcome = "cancelled" if row.event == "cancelled" else "over_budget"
        if row.guard is not None or row.target != outcome:
            yield f"{row}: {row.event} always leads to {outcome}"


def _lacks_of_row(table: Table, row: Row) -> Iterator[str]:
    """Yield the facts that a row needs for what its target does, and that its guard does not look at."""
    needed = dict([NEEDS[row.target]] if row.target in NEEDS else [])
    if row.target in table.rungs and keeps_asked_wait(row.event, row.target):
        needed.setdefault(*NEEDS["retry"])
    for fact, why in needed.items():
        if not finds(table, row, fact):
            yield f"{row}: its guard must find {fact!r}, or {why}"


def _faults_of_ladder(rows: tuple[Row, ...]) -> Iterator[str]:
    keeps_text = False
    for row in rows:
        keeps_text = keeps_text or (row.guard == "has_text" and row.target == "partial")
        if row.target in ERRORS and not keeps_text:
            yield f"{row}: has_text -> partial must stand before it, or text that was gathered becomes an error"
