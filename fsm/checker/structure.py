"""Mistakes that show in the rows alone, and that `transitions` would accept in silence."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator

from attrs import fields

from rungwise.fsm.call.ladder import COUNTER, Ladder, names_of
from rungwise.fsm.machine.table import Row, Table


def problems(table: Table) -> tuple[str, ...]:
    """List what is wrong with the shape of a table, each in a sentence that names the row."""
    found = (*_variant_problems(table), *_state_problems(table), *_name_problems(table), *_order_problems(table))
    return found or tuple(_reach_problems(table))


def _variant_problems(table: Table) -> Iterator[str]:
    for name, value in vars(table.model).items():
        if type(value).__name__ == "_CountingAttr":
            yield f"{table.model.__name__}.{name} is no field yet: decorate the class with attrs.define(eq=False)"
    counters = names_of(table.model, COUNTER)
    ranked = Counter(name for group in table.ranks for name in group)
    for name in ranked:
        if name not in counters:
            hint = did_you_mean(name, counters)
            yield f"the ranks name {name!r}, which is no counter of {table.model.__name__}{hint}"
    for name in counters:
        if ranked[name] != 1:
            yield f"the counter {name!r} stands {ranked[name]} times in the ranks; it must stand there once"


def _state_problems(table: Table) -> Iterator[str]:
    sources = {row.source for row in table.rows}
    targets = {table.start, *(row.target for row in table.rows)}
    states = sorted(sources & targets | set(table.outcomes))
    for row in table.rows:
        if row.source in table.outcomes:
            yield f"{row}: leaves {row.source!r}, which is an outcome and final"
        elif row.source not in targets:
            yield f"{row}: nothing leads to {row.source!r}{did_you_mean(row.source, states)}"
        if row.target not in sources and row.target not in table.outcomes:
            yield f"{row}: unknown target {row.target!r}, which nothing leaves and which is no outcome" + did_you_mean(
                row.target, states
            )
    for name, state in (("start", table.start), ("hub", table.hub)):
        if state not in sources:
            yield f"the {name} {state!r} is left by no row{did_you_mean(state, states)}"


def _name_problems(table: Table) -> Iterator[str]:
    known = [name for name in dir(table.model) if not name.startswith("_")]
    known += [field.name for field in fields(table.model) if field.name not in known]
    for row in table.rows:
        if not row.event.isidentifier():
            yield f"{row}: the event {row.event!r} is no name"
        if row.guard is not None and row.guard not in known:
            yield f"{row}: {_missing('guard', row.guard, table.model, known)}"
        if row.effect is not None and row.effect not in known:
            yield f"{row}: {_missing('effect', row.effect, table.model, known)}"
        elif row.effect is not None and not callable(getattr(table.model, row.effect, None)):
            yield f"{row}: the effect {row.effect!r} is no method of {table.model.__name__}"


def _order_problems(table: Table) -> Iterator[str]:
    for row, times in Counter(table.rows).items():
        if times > 1:
            yield f"{row}: stands {times} times in the table"
    for event, source in dict.fromkeys((row.event, row.source) for row in table.rows):
        rows = tuple(dict.fromkeys(table.ladder(event, source)))
        yield from _shadows(rows)
        if rows[-1].guard is not None and all(row.guard for row in rows):
            others = {row.event for row in table.rows if row.source == source} - {event}
            hint = did_you_mean(event, others)
            yield f"{rows[-1]}: no last resort follows: the last row of {event!r} has a guard{hint}"


def _shadows(rows: tuple[Row, ...]) -> Iterator[str]:
    for index, row in enumerate(rows):
        before = next((other for other in rows[:index] if other.guard in (None, row.guard)), None)
        if before is not None:
            yield f"{row}: is never tried, because this row before it always wins: {before}"


def _reach_problems(table: Table) -> Iterator[str]:
    reached, todo = {table.start}, [table.start]
    while todo:
        state = todo.pop()
        new = {row.target for row in table.rows if row.source == state} - reached
        reached |= new
        todo += sorted(new)
    for state in table.states:
        if state not in reached:
            yield f"the state {state!r} cannot be reached from {table.start!r}"
    for rung in table.rungs:
        if not any(row.source == rung and row.target == table.hub and row.guard is None for row in table.rows):
            yield f"the rung {rung!r} is never sent: it has no row without a guard to {table.hub!r}"


def _missing(what: str, name: str, model: type[Ladder], known: Iterable[str]) -> str:
    return f"unknown {what} {name!r}: {model.__name__} has no such attribute{did_you_mean(name, known)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question about the known name that is nearest to an unknown one; empty where none is near."""
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
