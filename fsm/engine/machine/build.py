"""Build a table from the ladders of its events, so that each rung is declared once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Self

from attrs import frozen

from rungwise.fsm.engine.machine.declare import (
    Effect,
    Ending,
    Entry,
    Event,
    Fact,
    Guard,
    Rung,
    joined,
    ranks_of,
)
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.errors import TableError

Step = Rung | Entry | Ending
"""What a ladder is made of."""

SENT = "sent"
"""The event that leads from every rung to the hub."""

COUNT_ATTEMPT = Effect("count_attempt")
"""The effect of the rows that send something, and of no others."""


def build_table(
    *,
    name: str,
    start: str,
    hub: str,
    outcomes: Sequence[str],
    answers: Sequence[str] = (),
    lesser: Sequence[str] = (),
    rungs: Sequence[Rung],
    ladders: Mapping[str, Sequence[Step]],
    facts: Sequence[Fact] = (),
    events: Sequence[Event] = (),
    everywhere: Mapping[str, str] | None = None,
    unsent: Mapping[str, Sequence[Step]] | None = None,
    never_in: Mapping[str, str] | None = None,
) -> Table:
    """Build a table from rungs and ladders. `Table` says what the other arguments are.

    Arguments:
        start: the first state, from which something is sent; it may be a rung.
        rungs: in the order in which pictures and pages show them.
        ladders: for each event at the hub, what is tried, in order; the last entry has no
            condition.
        facts: the facts that the ladders look at, besides those of the rungs themselves.
        everywhere: events that end the machine in any state, each with its outcome.
        unsent: the ladders of events that come in a rung, before it sends. A rung is left out of
            the ladder where the machine is in that rung already.
        never_in: for some of the events in `unsent`, the one rung in which they do not come.

    Raises:
        TableError: a value is not of its form, a name is declared twice and otherwise, or counters
            refill each other.
    """
    unsent = unsent or {}
    _check(rungs=rungs, facts=facts, events=events, ladders=ladders, unsent=unsent)
    rungs = joined((), rungs)
    states = tuple(dict.fromkeys([start, *(rung.name for rung in rungs)]))
    replies = _rows_at_hub(hub, ladders)
    ends = _rows_everywhere((hub, *states), everywhere or {})
    stops = _rows_unsent(states, unsent, never_in or {})
    sends = [Row(SENT, state, None, hub, COUNT_ATTEMPT.name) for state in states]
    ranks = ranks_of(rungs)
    declared = _Declared.of(rungs, facts, [*ladders.values(), *unsent.values()])
    return Table(
        name=name,
        rows=(*sends, *replies, *ends, *stops),
        start=start,
        hub=hub,
        outcomes=tuple(outcomes),
        ranks=ranks,
        declared_rungs=declared.rungs,
        facts=declared.facts,
        guards=declared.guards,
        effects=declared.effects,
        declared_events=joined((), events),
        answers=tuple(answers),
        lesser=tuple(lesser),
    )


def _check(
    *,
    rungs: object,
    facts: object,
    events: object,
    ladders: object,
    unsent: Mapping[str, Sequence[Step]],
) -> None:
    """Check the forms of what a table is built from.

    Arguments:
        rungs, facts, events, ladders, unsent: as `build_table` takes them.

    Raises:
        TableError: a value is not of its form.
    """
    _check_kinds("rungs", rungs, Rung)
    _check_kinds("facts", facts, Fact)
    _check_kinds("events", events, Event)
    if not isinstance(ladders, Mapping):
        raise TableError(f"ladders must map each event to a list, not {type(ladders).__name__}")
    every_ladder = [*ladders.items(), *unsent.items()]
    for event, ladder in every_ladder:
        _check_kinds(f"the ladder of {event!r}", ladder, Rung, Entry, Ending)


def _check_kinds(what: str, values: object, *kinds: type[Any]) -> None:
    if not isinstance(values, (list, tuple)):
        raise TableError(f"{what} must be a list, not {type(values).__name__}")
    for each in values:
        if not isinstance(each, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise TableError(f"{what} must hold {names}, not {each!r}")


def _rows(event: str, state: str, ladder: Iterable[Step]) -> Iterator[Row]:
    """Yield the rows of an event in a state, one for each step of its ladder."""
    for step in ladder:
        if isinstance(step, Ending):
            yield Row(event, state, step.holds, step.outcome, step.effect)
            continue
        entry = Entry.of(step)
        rung = entry.rung
        if rung.name != state:  # a rung does not lead to itself before it has sent anything
            yield Row(event, state, entry.guard.name, rung.name, rung.effect.name)


def _rows_at_hub(hub: str, ladders: Mapping[str, Sequence[Step]]) -> list[Row]:
    """Return the rows of the events that come at the hub."""
    rows: list[Row] = []
    for event, ladder in ladders.items():
        rows.extend(_rows(event, hub, ladder))
    return rows


def _rows_everywhere(states: Iterable[str], everywhere: Mapping[str, str]) -> list[Row]:
    """Return the rows of the events that end the machine in any state."""
    rows = []
    for event, outcome in everywhere.items():
        for state in states:
            rows.append(Row(event, state, None, outcome))
    return rows


def _rows_unsent(
    states: Iterable[str],
    unsent: Mapping[str, Sequence[Step]],
    never_in: Mapping[str, str],
) -> list[Row]:
    """Return the rows of the events that come in a rung, before it sends."""
    rows: list[Row] = []
    for event, ladder in unsent.items():
        for state in states:
            if state != never_in.get(event):
                rows.extend(_rows(event, state, ladder))
    return rows


@frozen
class _Declared:
    """Hold what a table declares, each name once."""

    rungs: tuple[Rung, ...]
    facts: tuple[Fact, ...]
    guards: tuple[Guard, ...]
    effects: tuple[Effect, ...]

    @classmethod
    def of(
        cls, rungs: Iterable[Rung], facts: Iterable[Fact], ladders: Iterable[Sequence[Step]]
    ) -> Self:
        """Collect the declarations of a table: those that are given, and those in the ladders.

        Raises:
            TableError: a name is declared twice, and otherwise.
        """
        entries: list[Entry] = []
        endings: list[Effect] = []
        for step in chain.from_iterable(ladders):
            if not isinstance(step, Ending):
                entries.append(Entry.of(step))
            elif step.effect:
                endings.append(Effect(step.effect))
        own_facts = [fact for entry in entries for fact in entry.facts]
        own_effects = [rung.effect for rung in rungs]
        return cls(
            rungs=joined(rungs, [entry.rung for entry in entries]),
            facts=joined(joined((), facts), own_facts),
            guards=joined((), [entry.guard for entry in entries]),
            effects=joined([COUNT_ATTEMPT], [*endings, *own_effects]),
        )
