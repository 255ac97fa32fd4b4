"""Mistakes that show in the rows alone, and that `transitions` would silently accept.

Each kind of mistake has a function that yields a sentence for each, which names the row and, where
a name is misspelt, the nearest name. What can be reached is only looked at if nothing else is
wrong: one misspelt target would make much of a table unreachable.
"""

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
    if found:
        return found
    return tuple(_reach_problems(table))


def reached_states(table: Table, off: Collection[Row] = ()) -> set[str]:
    """Return the states that some path of rows leads to, without the rows that are off."""
    reached = {table.start}
    todo = [table.start]
    while todo:
        state = todo.pop()
        rows = [row for row in table.rows if row.source == state and row not in off]
        new = {row.target for row in rows} - reached
        reached |= new
        todo += new
    return reached


def _variant_problems(table: Table) -> Iterator[str]:
    """Yield counters without a rank, or with several, and limits that contradict each other."""
    ranked = Counter(name for group in table.ranks for name in group)
    for name, times in ranked.items():
        if times != 1:
            yield (
                f"the counter {name!r} stands {times} times in the ranks; it must stand there once"
            )
    used = [name for row in table.rows for name in _counters_of(table, row)]
    for name in dict.fromkeys(used):
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
    """Yield the counters that a row reads or changes."""
    if row.guard in table.guards_by_name:
        counter = table.guard(row.guard).counter
        if counter:
            yield counter
    if row.effect in table.effects_by_name:
        effect = table.effect(row.effect)
        if effect.spends:
            yield effect.spends
        yield from filter(None, effect.refills)


def _state_problems(table: Table) -> Iterator[str]:
    """Yield states that nothing leads to, that nothing leaves, or that are outcomes and left."""
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
    """Yield names that are not declared, or are declared as two things."""
    facts = [fact.name for fact in table.facts]
    yield from _unknown_names(table)
    yield from _unknown_facts(table, facts)
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


def _unknown_names(table: Table) -> Iterator[str]:
    """Yield events that are no names, and guards and effects that are not declared."""
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


def _unknown_facts(table: Table, facts: Collection[str]) -> Iterator[str]:
    """Yield facts that something looks at and that are not declared."""
    looked_at: list[tuple[str, Collection[str]]] = []
    for guard in table.guards:
        looked_at.append((f"the guard {guard.name!r}", (*guard.holds, *guard.lacks)))
    for fact, others in table.follows_from.items():
        looked_at.append((f"the fact {fact!r}", others))
    for effect in table.effects:
        if effect.refills_on:
            looked_at.append((f"the effect {effect.name!r}", (effect.refills_on,)))
    for what, names in looked_at:
        for name in names:
            if name not in facts:
                yield (
                    f"{what} looks at the fact {name!r}, which the table does not "
                    f"declare{close_to(name, facts)}"
                )


def _order_problems(table: Table) -> Iterator[str]:
    """Yield rows that are never tried, and ladders without a last resort."""
    for row, times in Counter(table.rows).items():
        if times > 1:
            yield f"{row}: stands {times} times in the table"
    for event, source in dict.fromkeys((row.event, row.source) for row in table.rows):
        rows = tuple(dict.fromkeys(table.ladder(event, source)))
        for index, row in enumerate(rows):
            winners = [other for other in rows[:index] if other.guard in (None, row.guard)]
            if winners:
                yield f"{row}: is never tried, because this row before it always wins: {winners[0]}"
        if rows[-1].guard is not None and all(row.guard for row in rows):
            others = {row.event for row in table.rows if row.source == source} - {event}
            hint = close_to(event, others)
            yield f"{rows[-1]}: no last resort follows: the last row of {event!r} has a guard{hint}"


def _reach_problems(table: Table) -> Iterator[str]:
    """Yield states that no path leads to, and rungs that send nothing."""
    reached = reached_states(table)
    for state in table.states:
        if state not in reached:
            yield f"the state {state!r} cannot be reached from {table.start!r}"
    if table.kind != "ending":
        return
    sent = {row.source for row in table.rows if row.target == table.hub and row.guard is None}
    for rung in table.rungs:
        if rung not in sent:
            yield f"the rung {rung!r} is never sent: it has no row without a guard to {table.hub!r}"
