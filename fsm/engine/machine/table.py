"""Tables: every transition of a machine. Nothing outside the table decides.

* A row is `(event, source, guard, target, effect)`. For one event and source the rows are tried
  from the top, and the first whose guard holds is taken. A row without a guard is the last resort
  and comes last.
* The hub is the state in which something is in flight; replies arrive only there. Every other state
  that is not an outcome is a rung: something is about to be sent.
* Every row that leads to a rung takes one unit from a counter that its own guard has checked, and
  refills only counters that rank below it. This is why every run ends; the checker refuses a table
  that breaks this rule.

Warning: the order of the rows is the behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

from attrs import evolve, field, fields, frozen, validators

from rungwise.fsm.engine.machine.declare import (
    Effect,
    Entry,
    Event,
    Fact,
    Guard,
    Rung,
    joined,
    ranks_of,
)
from rungwise.fsm.errors import TableError
from rungwise.fsm.values.label import close_to

SLIP = 0.7
"""The similarity, on `difflib`'s scale, from which an unknown state is taken for a misspelt one."""


def _name(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise TableError(f"Row.{attribute.name} must be a name, not {value!r}")


@frozen
class Row:
    """Hold one transition.

    Arguments:
        event: what came back, or what the driver did.
        source: the state that takes the event.
        guard: the name of the guard or fact that must hold; None always holds.
        target: the next state.
        effect: the name of the effect, applied before the state changes; None for nothing.
    """

    event: str = field(validator=_name)
    source: str = field(validator=_name)
    guard: str | None = field(validator=validators.optional(_name))
    target: str = field(validator=_name)
    effect: str | None = field(default=None, validator=validators.optional(_name))

    def __str__(self) -> str:
        return row_text(self.event, self.source, self.guard, self.target, self.effect)


def row_text(event: str, source: str, guard: str | None, target: str, effect: str | None) -> str:
    """Write a row as text, even one that no `Row` could hold."""
    guarded = f" [{guard}]" if guard else ""
    affected = f" / {effect}" if effect else ""
    return f"{source} --{event}{guarded}{affected}--> {target}"


def _rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    if not isinstance(rows, Iterable):
        raise TableError(f"Table.rows must be a list of rows, not {type(rows).__name__}")
    return tuple(rows)


@frozen(slots=False, repr=False)
class Table:
    """Hold the rows of a machine and the declarations that they name.

    Arguments:
        name: the name of the machine in pictures and certificates.
        rows: the transitions, in the order in which they are tried.
        start: the first state.
        hub: the state in which something is in flight.
        outcomes: the final states.
        answers, lesser: the outcomes that are an answer, and those that are less than a whole one.
            If either is given, the other outcomes are errors.
        ranks: the variant: groups of counters, the most significant first; each step must lower
            what is left of them in this lexicographic order.
        declared_rungs: the declarations of the rungs, with the limits of the counters.
        facts: the facts that guards may look at.
        guards, effects: the declarations that rows name; a fact is a guard under its own name.
        declared_events: what can come back, each with its sentence.
        resumes: the rung in which a run begins that goes on from an earlier one, if any may.
        kind: `ending` if every run must end; `cyclic` for a machine that never ends and so has no
            outcomes.
    """

    name: str
    rows: tuple[Row, ...] = field(converter=_rows)
    start: str
    hub: str
    outcomes: tuple[str, ...]
    ranks: tuple[tuple[str, ...], ...]
    declared_rungs: tuple[Rung, ...] = ()
    facts: tuple[Fact, ...] = ()
    guards: tuple[Guard, ...] = ()
    effects: tuple[Effect, ...] = ()
    declared_events: tuple[Event, ...] = ()
    answers: tuple[str, ...] = ()
    lesser: tuple[str, ...] = ()
    resumes: str | None = None
    kind: Literal["ending", "cyclic"] = "ending"

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self.rows)} rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what is computed from the fields. A shipped table is restored as itself."""
        if _shipped.get(self.name) is self:
            return shipped, (self.name,)
        return Table, tuple(getattr(self, each.name) for each in fields(Table))

    @cached_property
    def states(self) -> tuple[str, ...]:
        """List every state once: rungs in table order, the hub, the outcomes."""
        return (*self.rungs, self.hub, *self.outcomes)

    @cached_property
    def rungs(self) -> tuple[str, ...]:
        """List the states in which something is sent."""
        names = dict.fromkeys(
            [self.start, *(row.source for row in self.rows), *(row.target for row in self.rows)]
        )
        return tuple(name for name in names if name != self.hub and name not in self.outcomes)

    @cached_property
    def events(self) -> tuple[str, ...]:
        """List every event once, in table order."""
        return tuple(dict.fromkeys(row.event for row in self.rows))

    @cached_property
    def ladders(self) -> Mapping[tuple[str, str], tuple[Row, ...]]:
        """Return the rows that are tried for each event in each state, in order."""
        found: dict[tuple[str, str], tuple[Row, ...]] = {}
        for row in self.rows:
            key = row.event, row.source
            found[key] = (*found.get(key, ()), row)
        return found

    def ladder(self, event: str, source: str) -> tuple[Row, ...]:
        """Return the rows that are tried for an event in a state, in order."""
        return self.ladders.get((event, source), ())

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """List the counters, those that rank lowest first."""
        return tuple(name for group in reversed(self.ranks) for name in group)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the index of each counter in `counters`."""
        return {name: place for place, name in enumerate(self.counters)}

    @cached_property
    def ranked_places(self) -> tuple[tuple[int, ...], ...]:
        """Return the indices of the counters of each rank, the most significant first."""
        return tuple(tuple(self.places[name] for name in group) for group in self.ranks)

    @cached_property
    def limits(self) -> Mapping[str, int | None]:
        """Return the limit of each counter that its rung declares."""
        declared = {rung.counter: rung.limit for rung in self.declared_rungs}
        return {name: declared.get(name, 1) for name in self.counters}

    @cached_property
    def hints(self) -> Mapping[str, str]:
        """Return the declared hints by rung: what each adds to a request."""
        return {
            each.name: each.hint
            for each in self.declared_rungs
            if each.hint and each.name in self.rungs
        }

    @cached_property
    def found_facts(self) -> tuple[str, ...]:
        """List the names of the facts that do not follow from others."""
        return tuple(fact.name for fact in self.facts if not fact.is_derived)

    @cached_property
    def guarded_events(self) -> frozenset[str]:
        """Return the events that some guard decides on."""
        return frozenset(row.event for row in self.rows if row.guard is not None)

    @cached_property
    def follows_from(self) -> Mapping[str, tuple[str, ...]]:
        """Return the facts that each fact follows from, by name."""
        return {fact.name: (*fact.any_holds, *fact.any_lacks) for fact in self.facts}

    @cached_property
    def own_facts(self) -> tuple[Fact, ...]:
        """List the facts that have a function of their own and that some row looks at."""
        guards = [
            self.guards_by_name[row.guard]
            for row in self.rows
            if row.guard and row.guard in self.guards_by_name
        ]
        seen = {name for guard in guards for name in (*guard.holds, *guard.lacks)}
        seen |= {effect.refills_on for effect in self.effects if effect.refills_on}
        seen |= {name for others in self.follows_from.values() for name in others}
        return tuple(fact for fact in self.facts if fact.of is not None and fact.name in seen)

    @cached_property
    def _facts(self) -> Mapping[str, Fact]:
        return {fact.name: fact for fact in self.facts}

    @cached_property
    def _rungs(self) -> Mapping[str, Rung]:
        return {rung.name: rung for rung in reversed(self.declared_rungs)}

    @cached_property
    def guards_by_name(self) -> Mapping[str, Guard]:
        """Return what a row may name as its guard."""
        of_facts = {
            fact.name: Guard(fact.name, holds=fact.name, says=fact.says) for fact in self.facts
        }
        return {**of_facts, **{guard.name: guard for guard in self.guards}}

    @cached_property
    def effects_by_name(self) -> Mapping[str, Effect]:
        """Return what a row may name as its effect."""
        return {effect.name: effect for effect in self.effects}

    def fact(self, name: str) -> Fact:
        """Return a fact by its name."""
        return self._facts[name]

    def guard(self, name: str | None) -> Guard:
        """Return a guard by its name; None always holds."""
        return ALWAYS if name is None else self.guards_by_name[name]

    def effect(self, name: str | None) -> Effect:
        """Return an effect by its name; None counts nothing."""
        return NOTHING if name is None else self.effects_by_name[name]

    def rung(self, name: str) -> Rung | None:
        """Return the declaration of a rung; None for the first state and for states that are no
        rungs.
        """
        return self._rungs.get(name)

    def says(self, event: str, *, at_last: bool = False) -> str:
        """Return the sentence of an event, with its ending if the machine stops there; its name if
        it has none.
        """
        declared = next((each for each in self.declared_events if each.name == event), None)
        if declared is None or not declared.says:
            return event
        return declared.says + (declared.at_last if at_last else "")

    def kind_of_end(self, outcome: str) -> Literal["answer", "lesser", "error", "outcome"]:
        """Return whether an outcome is an answer, a lesser answer or an error; `outcome` if the
        table does not say.
        """
        if outcome in self.answers:
            return "answer"
        if outcome in self.lesser:
            return "lesser"
        return "error" if self.answers or self.lesser else "outcome"

    def without(self, *rungs: str) -> Table:
        """Return this table without some rungs and the rows that lead to or from them.

        Raises:
            TableError: there is no such rung.
        """
        for rung in rungs:
            if rung not in self.rungs or rung == self.start:
                names = ", ".join(self.rungs[1:])
                raise TableError(
                    f"{rung!r} is no rung that can be taken out of {self.name!r}; there are: "
                    f"{names}"
                )
        return evolve(
            self,
            rows=[row for row in self.rows if row.source not in rungs and row.target not in rungs],
        )

    def with_rung(self, rung: Rung | Entry, /, **before: str | None) -> Table:
        """Return this table with a rung added to the ladders of some events.

        The rung sends the same request again with its hint as a user turn at the end, unless it has
        a `change`.

        Arguments:
            rung: the declaration, or what its `when` returns.
            before: for each event, the guard before which the rung is tried; None for the last
                resort.

        Raises:
            TableError: there is no such event or guard.
        """
        if not isinstance(rung, (Rung, Entry)):
            raise TableError(
                f"with_rung takes a Rung, or what its `when` returns, not {type(rung).__name__}"
            )
        entry = Entry.of(rung)
        name = entry.rung.name
        if not before:
            raise TableError(
                f"with_rung needs an event in whose ladder {name!r} is tried, as in came_empty=None"
            )
        table = self
        for event, place in before.items():
            rows = self.ladder(event, self.hub)
            if not rows:
                events = dict.fromkeys(row.event for row in self.rows if row.source == self.hub)
                raise TableError(
                    f"no event {event!r} comes in {self.hub!r}{close_to(event, events)}"
                )
            front = next((row for row in rows if row.guard == place), None)
            if front is None:
                guards = ", ".join(str(row.guard) for row in rows)
                raise TableError(
                    f"the ladder of {event!r} has no guard {place!r}; it has: {guards}"
                )
            row = Row(event, self.hub, entry.guard.name, name, entry.rung.effect.name)
            table = table.with_rows(
                row, before=front, declare=(entry.rung, entry.guard, *entry.facts)
            )
        return table

    def with_rows(
        self, *rows: Row, before: Row | None = None, declare: Iterable[Any] = ()
    ) -> Table:
        """Return this table with more rows, before a given row or before the last resort of their
        own event.

        The rows that every rung has are added for a new rung. A target that is nearly the name of a
        known state is refused as misspelt.

        Arguments:
            rows: the new rows.
            before: the row that they come before.
            declare: the rungs, facts, guards and effects that the rows name.

        Raises:
            TableError: `before` is not in the table, or a row or declaration is of no use in one.
        """
        if before is not None and before not in self.rows:
            raise TableError(f"the row to stand before is not in the table: {before}")
        old = list(self.rows)
        for row in rows:
            if not isinstance(row, Row):
                form = "Row(event, source, guard, target, effect)"
                raise TableError(f"with_rows takes rows such as {form}, not {type(row).__name__}")
            old.insert(old.index(before) if before else _place(old, row), row)
        sources = {row.source for row in self.rows if row.target == self.hub}
        targets = {row.target for row in rows} - sources - {self.hub, *self.outcomes}
        declare = tuple(declare)
        declared = {each.name for each in declare if isinstance(each, Rung)}
        for row in rows:
            hint = (
                close_to(row.target, self.states, cutoff=SLIP)
                if row.target in targets - declared
                else ""
            )
            if hint:
                raise TableError(f"{row}: unknown state {row.target!r}{hint}")
        added = [
            evolve(row, source=rung)
            for rung in sorted(targets)
            for row in self.rows
            if row.source == self.start
        ]
        return evolve(self.declaring(*declare), rows=(*old, *added))

    def reordered(self, event: str, order: Iterable[str | None]) -> Table:
        """Return this table with the rows of one event in another order, named by their guards.

        If several states take the event, the rows of each are put in that order.

        Raises:
            TableError: there is no such event, or these are not exactly its guards.
        """
        ladders = {source: rows for (name, source), rows in self.ladders.items() if name == event}
        if not ladders:
            raise TableError(f"no row takes the event {event!r}{close_to(event, self.events)}")
        if isinstance(order, str) or not isinstance(order, Iterable):
            raise TableError(
                f"the order of {event!r} must be a list of its guards, not {type(order).__name__}"
            )
        wanted = list(order)
        if not all(guard is None or isinstance(guard, str) for guard in wanted):
            raise TableError(
                f"the order of {event!r} must name guards, with None for the last resort"
            )
        own = list(dict.fromkeys(row.guard for rows in ladders.values() for row in rows))
        if set(wanted) != set(own) or len(wanted) != len(own):
            raise TableError(f"the guards of {event!r} are {own}; name each of them once")
        new = {
            source: iter(sorted(rows, key=lambda row: wanted.index(row.guard)))
            for source, rows in ladders.items()
        }
        return evolve(
            self, rows=[next(new[row.source]) if row.event == event else row for row in self.rows]
        )

    def declaring(self, *declared: Rung | Fact | Guard | Effect) -> Table:
        """Return this table with more rungs, facts, guards and effects, each declared once.

        Raises:
            TableError: the name is declared already, and otherwise.
        """
        kinds: dict[type[Any], list[Any]] = {Rung: [], Fact: [], Guard: [], Effect: []}
        for each in declared:
            if type(each) not in kinds:
                raise TableError(
                    f"a table declares rungs, facts, guards and effects, not {type(each).__name__}"
                )
            kinds[type(each)].append(each)
            if isinstance(each, Rung):
                kinds[Fact] += each.facts
                kinds[Guard].append(each.guard)
                kinds[Effect].append(each.effect)
        # Names that no row uses, because their rung was removed, may be declared anew.
        used = {
            name for row in self.rows for name in (row.source, row.target, row.guard, row.effect)
        }
        again = {each.name for each in (*kinds[Rung], *kinds[Guard], *kinds[Effect])} - used
        rungs, guards, effects = (
            joined([each for each in old if each.name not in again], kinds[kind])
            for old, kind in (
                (self.declared_rungs, Rung),
                (self.guards, Guard),
                (self.effects, Effect),
            )
        )
        facts = joined(self.facts, kinds[Fact])
        ranks = self.ranks if rungs == self.declared_rungs else ranks_of(rungs)
        return evolve(
            self, declared_rungs=rungs, facts=facts, guards=guards, effects=effects, ranks=ranks
        )


ALWAYS = Guard("always")
NOTHING = Effect("nothing")

_shipped: dict[str, Table] = {}


def ship(table: Table) -> Table:
    """Register a table under its name, so that its copies and pickles are the table itself."""
    _shipped[table.name] = table
    return table


def shipped(name: str) -> Table:
    """Return a shipped table by its name."""
    return _shipped[name]


def is_shipped(table: Table) -> bool:
    """Tell whether a table is shipped, or equal to a shipped one."""
    return _shipped.get(table.name) == table


def _place(rows: list[Row], new: Row) -> int:
    """Return the index for a row: before the unguarded row of its event and source, else after
    their rows.
    """
    same = [
        index
        for index, row in enumerate(rows)
        if (row.event, row.source) == (new.event, new.source)
    ]
    if not same:
        return len(rows)
    last = same[-1]
    return last if rows[last].guard is None else last + 1
