"""Build a table from the ladders of its events, so that each rung is declared once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rungwise.fsm.engine.machine.declare import (
    Effect,
    Ending,
    Entry,
    Event,
    Fact,
    Rung,
    joined,
    ranks_of,
)
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.errors import TableError

Step = Rung | Entry | Ending
"""What a ladder is made of."""

SENT = "sent"
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
    """Build a table; see `Table` for what it shares with one.

    Arguments:
        start: the first state, from which something is sent; it may be a rung.
        rungs: in the order in which they are shown.
        ladders: for each event at the hub, what is tried, in order; the last entry has no
            condition.
        facts: the facts that the ladders look at, besides those of the rungs themselves.
        everywhere: events that end the machine in any state, each with its outcome.
        unsent: the ladders of events that come in a rung, before it sends; none leads back to the
        same rung. never_in: for some of these events, the one rung in which they do not come.

    Raises:
        TableError: a value is not of its form, a name is declared twice and otherwise, or counters
            refill each other.
    """
    unsent = unsent or {}
    never_in = never_in or {}
    _check(rungs, facts, events, ladders, unsent)
    rungs = joined((), rungs)
    states = tuple(dict.fromkeys([start, *(rung.name for rung in rungs)]))
    replies = [row for event, ladder in ladders.items() for row in _rows(event, hub, ladder)]
    ends = [
        Row(event, state, None, end)
        for event, end in (everywhere or {}).items()
        for state in (hub, *states)
    ]
    places = [
        (event, state) for event in unsent for state in states if state != never_in.get(event)
    ]
    stops = [row for event, state in places for row in _rows(event, state, unsent[event])]
    steps = [step for ladder in (*ladders.values(), *unsent.values()) for step in ladder]
    entries = [Entry.of(step) for step in steps if not isinstance(step, Ending)]
    endings = [Effect(step.effect) for step in steps if isinstance(step, Ending) and step.effect]
    return Table(
        name=name,
        rows=(
            *(Row(SENT, state, None, hub, COUNT_ATTEMPT.name) for state in states),
            *replies,
            *ends,
            *stops,
        ),
        start=start,
        hub=hub,
        outcomes=tuple(outcomes),
        ranks=ranks_of(rungs),
        declared_rungs=joined(rungs, [entry.rung for entry in entries]),
        facts=joined(joined((), facts), [fact for entry in entries for fact in entry.facts]),
        guards=joined((), [entry.guard for entry in entries]),
        effects=joined((), [COUNT_ATTEMPT, *endings, *(rung.effect for rung in rungs)]),
        declared_events=joined((), events),
        answers=tuple(answers),
        lesser=tuple(lesser),
    )


def _check(
    rungs: object,
    facts: object,
    events: object,
    ladders: object,
    unsent: Mapping[str, Sequence[Step]],
) -> None:
    _check_kinds("rungs", rungs, Rung)
    _check_kinds("facts", facts, Fact)
    _check_kinds("events", events, Event)
    if not isinstance(ladders, Mapping):
        raise TableError(f"ladders must map each event to a list, not {type(ladders).__name__}")
    for event, ladder in (*ladders.items(), *unsent.items()):
        _check_kinds(f"the ladder of {event!r}", ladder, (Rung, Entry, Ending))


def _check_kinds(what: str, values: object, kinds: Any) -> None:
    if not isinstance(values, (list, tuple)):
        raise TableError(f"{what} must be a list, not {type(values).__name__}")
    for each in values:
        if not isinstance(each, kinds):
            names = " or ".join(
                kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
            )
            raise TableError(f"{what} must hold {names}, not {each!r}")


def _rows(event: str, state: str, ladder: Iterable[Step]) -> Iterable[Row]:
    for step in ladder:
        if isinstance(step, Ending):
            yield Row(event, state, step.holds, step.outcome, step.effect)
            continue
        entry = Entry.of(step)
        if entry.rung.name != state:  # a rung is not left for itself with nothing sent
            yield Row(event, state, entry.guard.name, entry.rung.name, entry.rung.effect.name)
