"""Tables: every transition of a machine, and nothing that decides outside of it.

* A row is `(event, source, guard, target, effect)`. For one event and source the rows are tried from the top; the first
  whose guard holds is taken. A row without a guard is the last resort and stands last.
* The hub is the state in which something is in flight, and only there do replies arrive. Every other state that is not
  an outcome is a rung: something is about to be sent.
* Every row that leads to a rung takes one unit from a counter that its own guard has checked, and refills only counters
  that rank below it. This is why every run ends; the checker refuses a table of which it is not true.

Warning: the order of the rows is the behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

from attrs import evolve, field, frozen, validators

from rungwise.fsm.errors import TableError
from rungwise.fsm.machine.declare import Effect, Entry, Event, Fact, Guard, Rung
from rungwise.fsm.machine.ranks import joined, ranks_of
from rungwise.fsm.values.suggest import close_to

SLIP = 0.7
"""How much alike two names of states are, on `difflib`'s scale, where one is taken for a slip of the other."""


def _name(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise TableError(f"Row.{attribute.name} must be a name, not {value!r}")


@frozen(eq=True)  # which proofs and walks do by the ten thousand
class Row:
    """Hold one transition.

    Arguments:
        event: what came back, or what the driver did.
        source: the state in which the event may come.
        guard: the name of a guard or of a fact that must hold; None always holds.
        target: the next state.
        effect: the name of what is counted before the state changes; None for nothing.
    """

    event: str = field(validator=_name)
    source: str = field(validator=_name)
    guard: str | None = field(validator=validators.optional(_name))
    target: str = field(validator=_name)
    effect: str | None = field(default=None, validator=validators.optional(_name))

    def __str__(self) -> str:
        return row_text(self.event, self.source, self.guard, self.target, self.effect)


def row_text(event: str, source: str, guard: str | None, target: str, effect: str | None) -> str:
    """Write a row as text, also what could be none."""
    guarded = f" [{guard}]" if guard else ""
    affected = f" / {effect}" if effect else ""
    return f"{source} --{event}{guarded}{affected}--> {target}"


def _rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    if not isinstance(rows, Iterable):
        raise TableError(f"Table.rows must be a list of rows, not {type(rows).__name__}")
    return tuple(rows)


@frozen(slots=False, repr=False)
class Table:
    """Hold the rows of a machine, and what their names stand for.

    Arguments:
        name: what the machine is called in pictures and certificates.
        rows: the transitions, in the order in which they are tried.
        start: the first state.
        hub: the state in which something is in flight.
        outcomes: the final states.
        answers, lesser: those of them that are an answer, and those that are less than the whole of one; the others are
            errors, where either is named.
        ranks: the variant: groups of counters, the most significant first; each step must lower what is left of them
            in this lexicographic order.
        declared_rungs: the declarations of the rungs, which say the limits of the counters.
        facts: the facts that guards may look at.
        guards, effects: what the names in the rows stand for; a fact is a guard under its own name.
        declared_events: what can come back, with its sentences.
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

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self.rows)} rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave behind what was worked out from the fields; a shipped table stays the one that it is."""
        if _shipped.get(self.name) is self:
            return shipped, (self.name,)
        fields = (self.ranks, self.declared_rungs, self.facts, self.guards, self.effects, self.declared_events)
        ends = self.answers, self.lesser
        return Table, (self.name, self.rows, self.start, self.hub, self.outcomes, *fields, *ends)

    # what the rows say

    @cached_property
    def states(self) -> tuple[str, ...]:
        """List every state once: rungs in the order of the table, the hub, the outcomes."""
        names = dict.fromkeys([self.start, *(row.source for row in self.rows), *(row.target for row in self.rows)])
        rungs = [name for name in names if name != self.hub and name not in self.outcomes]
        return (*rungs, self.hub, *self.outcomes)

    @cached_property
    def rungs(self) -> tuple[str, ...]:
        """List the states in which something is sent."""
        return tuple(name for name in self.states if name != self.hub and name not in self.outcomes)

    @cached_property
    def events(self) -> tuple[str, ...]:
        """List every event once, in the order of the table."""
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

    # what the names stand for

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """List the counters, those that rank lowest first."""
        return tuple(name for group in reversed(self.ranks) for name in group)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the place of each counter among them."""
        return {name: place for place, name in enumerate(self.counters)}

    @cached_property
    def ranked_places(self) -> tuple[tuple[int, ...], ...]:
        """Return the places of the counters that rank alike, the most significant first."""
        return tuple(tuple(self.places[name] for name in group) for group in self.ranks)

    @cached_property
    def limits(self) -> Mapping[str, int | None]:
        """Return the limit of each counter, as its rung declares it."""
        declared = {rung.counter: rung.limit for rung in self.declared_rungs}
        return {name: declared.get(name, 1) for name in self.counters}

    @cached_property
    def hints(self) -> Mapping[str, str]:
        """Return what its rungs add to a request, by rung, as far as they declare it."""
        rungs = [rung for rung in self.declared_rungs if rung.name in self.rungs]
        return {rung.name: rung.hint for rung in rungs if rung.hint is not None}

    @cached_property
    def found_facts(self) -> tuple[str, ...]:
        """List the facts that are found, by name, and do not follow from others."""
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
        """List the facts that have a function to find them by, as far as some row looks at them."""
        guards = [self._guards[row.guard] for row in self.rows if row.guard and row.guard in self._guards]
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
    def _guards(self) -> Mapping[str, Guard]:
        of_facts = {fact.name: Guard(fact.name, holds=fact.name, says=fact.says) for fact in self.facts}
        return {**of_facts, **{guard.name: guard for guard in self.guards}}

    @cached_property
    def _effects(self) -> Mapping[str, Effect]:
        return {effect.name: effect for effect in self.effects}

    def fact(self, name: str) -> Fact:
        """Return the fact of a name."""
        return self._facts[name]

    def guard(self, name: str | None) -> Guard:
        """Return the guard of a name; that of None always holds."""
        return ALWAYS if name is None else self._guards[name]

    def effect(self, name: str | None) -> Effect:
        """Return the effect of a name; that of None counts nothing."""
        return NOTHING if name is None else self._effects[name]

    def rung(self, name: str) -> Rung | None:
        """Return the declaration of a rung; None for the first state, which nothing leads to, and for other states."""
        return self._rungs.get(name)

    def says(self, event: str, *, at_last: bool = False) -> str:
        """Return the sentence of an event, as it ends where the machine does; its name where it has none."""
        found = next((each for each in self.declared_events if each.name == event), None)
        if found is None or not found.says:
            return event
        return found.says + (found.at_last if at_last else "")

    def kind_of_end(self, outcome: str) -> Literal["answer", "lesser", "error", "outcome"]:
        """Tell what an outcome is: an answer, a lesser answer or an error, as far as the table says which."""
        if outcome in self.answers:
            return "answer"
        if outcome in self.lesser:
            return "lesser"
        return "error" if self.answers or self.lesser else "outcome"

    @property
    def guard_names(self) -> tuple[str, ...]:
        """List what a row may name as its guard."""
        return tuple(self._guards)

    @property
    def effect_names(self) -> tuple[str, ...]:
        """List what a row may name as its effect."""
        return tuple(self._effects)

    # tables of one's own

    def without(self, *rungs: str) -> Table:
        """Return this table without some rungs and every row that leads to or from them.

        Raises:
            TableError: there is no such rung.
        """
        for rung in rungs:
            if rung not in self.rungs or rung == self.start:
                names = ", ".join(self.rungs[1:])
                raise TableError(f"{rung!r} is no rung that can be taken out of {self.name!r}; there are: {names}")
        return evolve(self, rows=[row for row in self.rows if row.source not in rungs and row.target not in rungs])

    def with_rung(self, rung: Rung | Entry, /, **before: str | None) -> Table:
        """Return this table with one more way to a rung, in the ladders of some events.

        It sends the same request again with its hint as a user turn behind it, unless it says how it changes it.

        Arguments:
            rung: the declaration, or what its `when` returns.
            before: for each event, the guard in front of which the rung is tried; None for the last resort.

        Raises:
            TableError: there is no such event or guard.
        """
        if not isinstance(rung, (Rung, Entry)):
            raise TableError(f"with_rung takes a Rung, or what its `when` returns, not {type(rung).__name__}")
        entry = Entry.of(rung)
        name = entry.rung.name
        if not before:
            raise TableError(f"with_rung needs an event in whose ladder {name!r} is tried, as in came_empty=None")
        table = self
        for event, place in before.items():
            rows = self.ladder(event, self.hub)
            if not rows:
                known = dict.fromkeys(row.event for row in self.rows if row.source == self.hub)
                raise TableError(f"no event {event!r} comes in {self.hub!r}{close_to(event, known)}")
            front = next((row for row in rows if row.guard == place), None)
            if front is None:
                guards = ", ".join(str(row.guard) for row in rows)
                raise TableError(f"the ladder of {event!r} has no guard {place!r}; it has: {guards}")
            row = Row(event, self.hub, entry.guard.name, name, entry.rung.effect.name)
            table = table.with_rows(row, before=front, declare=(entry.rung, entry.guard, *entry.facts))
        return table

    def with_rows(self, *rows: Row, before: Row | None = None, declare: Iterable[Any] = ()) -> Table:
        """Return this table with more rows, in front of a given row or of the last resort of their own event.

        A new rung needs no rows of its own for what every rung has: they are added. A name that is nearly that of a
        known state is taken for a slip.

        Arguments:
            rows: the new rows.
            before: the row to stand in front of.
            declare: the rungs, facts, guards and effects that the rows name.

        Raises:
            TableError: `before` is not in the table, or what is given is of no use in one.
        """
        if before is not None and before not in self.rows:
            raise TableError(f"the row to stand before is not in the table: {before}")
        old = list(self.rows)
        for row in rows:
            if not isinstance(row, Row):
                form = "Row(event, source, guard, target, effect)"
                raise TableError(f"with_rows takes rows such as {form}, not {type(row).__name__}")
            old.insert(old.index(before) if before else _place(old, row), row)
        known = {row.source for row in self.rows if row.target == self.hub}
        targets = {row.target for row in rows} - known - {self.hub, *self.outcomes}
        declare = tuple(declare)
        meant = {each.name for each in declare if isinstance(each, Rung)}
        for row in rows:
            hint = close_to(row.target, self.states, cutoff=SLIP) if row.target in targets - meant else ""
            if hint:
                raise TableError(f"{row}: unknown state {row.target!r}{hint}")
        added = [extra for rung in sorted(targets) for extra in self.rung_rows(rung)]
        return evolve(self.declaring(*declare), rows=(*old, *added))

    def reordered(self, event: str, order: Iterable[str | None]) -> Table:
        """Return this table with the rows of one event in another order, named by their guards.

        Of an event that may come in several states, the rows of each are put in that order.

        Raises:
            TableError: there is no such event, or the guards are not exactly its own.
        """
        ladders = {source: rows for (name, source), rows in self.ladders.items() if name == event}
        if not ladders:
            raise TableError(f"no row takes the event {event!r}{close_to(event, self.events)}")
        if isinstance(order, str) or not isinstance(order, Iterable):
            raise TableError(f"the order of {event!r} must be a list of its guards, not {type(order).__name__}")
        wanted = list(order)
        if not all(guard is None or isinstance(guard, str) for guard in wanted):
            raise TableError(f"the order of {event!r} must name guards, with None for the last resort")
        own = list(dict.fromkeys(row.guard for rows in ladders.values() for row in rows))
        if set(wanted) != set(own) or len(wanted) != len(own):
            raise TableError(f"the guards of {event!r} are {own}; name each of them once")
        new = {source: iter(sorted(rows, key=lambda row: wanted.index(row.guard))) for source, rows in ladders.items()}
        return evolve(self, rows=[next(new[row.source]) if row.event == event else row for row in self.rows])

    def declaring(self, *declared: Rung | Fact | Guard | Effect) -> Table:
        """Return this table with more rungs, facts, guards and effects; what is declared alike already is left out.

        Raises:
            TableError: something else is declared under that name.
        """
        kinds: dict[type[Any], list[Any]] = {Rung: [], Fact: [], Guard: [], Effect: []}
        for each in declared:
            if type(each) not in kinds:
                raise TableError(f"a table declares rungs, facts, guards and effects, not {type(each).__name__}")
            kinds[type(each)].append(each)
            if isinstance(each, Rung):
                kinds[Fact] += each.facts
                kinds[Guard].append(each.guard)
                kinds[Effect].append(each.effect)
        # What no row uses, because its rung was taken out, may be declared anew.
        used = {name for row in self.rows for name in (row.source, row.target, row.guard, row.effect)}
        again = {each.name for each in (*kinds[Rung], *kinds[Guard], *kinds[Effect])} - used
        rungs, guards, effects = (
            joined([each for each in known if each.name not in again], kinds[kind])
            for known, kind in ((self.declared_rungs, Rung), (self.guards, Guard), (self.effects, Effect))
        )
        return evolve(
            self,
            declared_rungs=rungs,
            facts=joined(self.facts, kinds[Fact]),
            guards=guards,
            effects=effects,
            ranks=self.ranks if rungs == self.declared_rungs else ranks_of(rungs),
        )

    def rung_rows(self, rung: str) -> tuple[Row, ...]:
        """Return the rows that every rung has, for one more: those of the first state."""
        return tuple(evolve(row, source=rung) for row in self.rows if row.source == self.start)


ALWAYS = Guard("always")
NOTHING = Effect("nothing")

_shipped: dict[str, Table] = {}


def ship(table: Table) -> Table:
    """Let a table be found by its name, so that copies of it are the table itself."""
    _shipped[table.name] = table
    return table


def shipped(name: str) -> Table:
    """Return the table that was shipped under a name."""
    return _shipped[name]


def is_shipped(table: Table) -> bool:
    """Tell whether a table is one of the shipped ones, or a copy of it."""
    return _shipped.get(table.name) == table


def _place(rows: list[Row], new: Row) -> int:
    """Find where a row goes: in front of the unguarded row of its event and source, else at the end of their rows."""
    same = [index for index, row in enumerate(rows) if (row.event, row.source) == (new.event, new.source)]
    if not same:
        return len(rows)
    last = same[-1]
    return last if rows[last].guard is None else last + 1
