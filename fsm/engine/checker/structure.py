"""Mistakes that show in the rows alone, and that `transitions` would silently accept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter

from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.values.label import close_to


def problems(table: Table) -> tuple[str, ...]:
    """List what is wrong with the shape of a table, one sentence each, which names the row."""
    found = (
        *_variant_problems(table),
        *_state_problems(table),
        *_name_problems(table),
        *_order_problems(table),
    )
    return found or tuple(_reach_problems(table))


def reached_states(table: Table, off: Collection[Row] = ()) -> set[str]:
    """Return the states that some path of rows leads to, without the rows that are off."""
    reached = {table.start}
    todo = [table.start]
    while todo:
        state = todo.pop()
        new = {row.target for row in table.rows if row.source == state and row not in off} - reached
        reached |= new
        todo += new
    return reached


def _variant_problems(table: Table) -> Iterator[str]:
    ranked = Counter(name for group in table.ranks for name in group)
    for name, times in ranked.items():
        if times != 1:
            yield (
                f"the counter {name!r} stands {times} times in the ranks; it must stand there once"
            )
    for name in dict.fromkeys(name for row in table.rows for name in _counters_of(table, row)):
        if name not in ranked:
            yield (
                f"the counter {name!r} has no rank: no rung of the table declares "
                f"it{close_to(name, ranked)}"
            )
    for rung in table.declared_rungs:
        if rung.limit != table.limits.get(rung.counter, rung.limit):
            yield (
                f"the rung {rung.name!r} shares the counter {rung.counter!r} with another, "
                f"of another limit"
            )


def _counters_of(table: Table, row: Row) -> Iterator[str]:
    if row.guard in table.guards_by_name:
        yield from filter(None, [table.guard(row.guard).counter])
    if row.effect in table.effects_by_name:
        effect = table.effect(row.effect)
        yield from filter(None, [effect.spends, *effect.refills])


def _state_problems(table: Table) -> Iterator[str]:
    sources = {row.source for row in table.rows}
    targets = {table.start, *(row.target for row in table.rows)}
    states = sorted(sources & targets | set(table.outcomes))
    for row in table.rows:
        if row.source in table.outcomes:
            yield f"{row}: leaves {row.source!r}, which is an outcome and final"
        elif row.source not in targets:
            yield f"{row}: nothing leads to {row.source!r}{close_to(row.source, states)}"
        if row.target not in sources and row.target not in table.outcomes:
            hint = close_to(row.target, states)
            yield (
                f"{row}: unknown target {row.target!r}, which nothing leaves and which is "
                f"no outcome{hint}"
            )
    for state in (*table.answers, *table.lesser):
        if state not in table.outcomes:
            yield (
                f"{state!r} is said to be an answer, and is no "
                f"outcome{close_to(state, table.outcomes)}"
            )
    for name, state in (("start", table.start), ("hub", table.hub)):
        if state not in sources:
            yield f"the {name} {state!r} is left by no row{close_to(state, states)}"


def _name_problems(table: Table) -> Iterator[str]:
    facts = [fact.name for fact in table.facts]
    for row in table.rows:
        if not row.event.isidentifier():
            yield f"{row}: the event {row.event!r} is no name"
        named = (
            ("guard", row.guard, table.guards_by_name),
            ("effect", row.effect, table.effects_by_name),
        )
        for what, name, known in named:
            if name is not None and name not in known:
                yield (
                    f"{row}: unknown {what} {name!r}, which the table does not "
                    f"declare{close_to(name, known)}"
                )
    looked_at = [
        (f"the guard {guard.name!r}", (*guard.holds, *guard.lacks)) for guard in table.guards
    ]
    looked_at += [(f"the fact {name!r}", others) for name, others in table.follows_from.items()]
    looked_at += [
        (f"the effect {e.name!r}", (e.refills_on,)) for e in table.effects if e.refills_on
    ]
    for what, names in looked_at:
        for name in names:
            if name not in facts:
                yield (
                    f"{what} looks at the fact {name!r}, which the table does not "
                    f"declare{close_to(name, facts)}"
                )
    for name in facts:
        if name in table.counters:
            yield f"{name!r} is declared as a fact, and is a counter"
        if any(guard.name == name for guard in table.guards):
            yield (
                f"{name!r} is declared as a fact and as a guard, so that nobody can tell "
                f"which of them a row means"
            )
    try:
        TopologicalSorter(table.follows_from).prepare()
    except CycleError as error:
        yield f"no fact can follow from itself: {' <- '.join(error.args[1])}"


def _order_problems(table: Table) -> Iterator[str]:
    for row, times in Counter(table.rows).items():
        if times > 1:
            yield f"{row}: stands {times} times in the table"
    for event, source in dict.fromkeys((row.event, row.source) for row in table.rows):
        rows = tuple(dict.fromkeys(table.ladder(event, source)))
        for index, row in enumerate(rows):
            if before := next(
                (other for other in rows[:index] if other.guard in (None, row.guard)), None
            ):
                yield f"{row}: is never tried, because this row before it always wins: {before}"
        if rows[-1].guard is not None and all(row.guard for row in rows):
            hint = close_to(
                event, {row.event for row in table.rows if row.source == source} - {event}
            )
            yield f"{rows[-1]}: no last resort follows: the last row of {event!r} has a guard{hint}"


def _reach_problems(table: Table) -> Iterator[str]:
    reached = reached_states(table)
    for state in table.states:
        if state not in reached:
            yield f"the state {state!r} cannot be reached from {table.start!r}"
    for rung in table.rungs if table.kind == "ending" else ():
        if not any(
            row.source == rung and row.target == table.hub and row.guard is None
            for row in table.rows
        ):
            yield f"the rung {rung!r} is never sent: it has no row without a guard to {table.hub!r}"
