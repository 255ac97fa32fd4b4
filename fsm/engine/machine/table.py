"""Tables: every transition of a machine. Nothing outside the table decides.

Theory. A machine has three kinds of states:

* the hub, in which something is in flight; replies arrive only there;
* rungs, in which something is about to be sent;
* outcomes, which are final.

Every row that leads to a rung takes one unit from a counter that its own guard has checked, and
refills only counters that rank below it. So what is left of the counters, compared rank by rank,
falls with every step, and every run ends. That is a variant in a lexicographic order, as in Floyd,
"Assigning Meanings to Programs", 1967. The checker refuses a table that breaks this rule
(`fsm/engine/checker/proof.py`).

A table never changes. `without`, `with_rung`, `with_rows`, `reordered` and `declaring` return
another one. What follows from its fields is computed on first use and kept with the table, but not
pickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Literal

from attrs import evolve, field, fields, frozen

from rungwise.fsm.engine.machine.declare import (
    Effect,
    Entry,
    Event,
    Fact,
    Guard,
    Names,
    Rung,
    by_kind,
    joined,
    ranks_of,
)
from rungwise.fsm.engine.machine.lookup import Lookup
from rungwise.fsm.engine.machine.row import Row as Row
from rungwise.fsm.engine.machine.row import insert, ladders_of, reorder, rows_of
from rungwise.fsm.engine.machine.row import row_text as row_text
from rungwise.fsm.errors import TableError
from rungwise.fsm.values.label import close_to

SLIP = 0.7
"""The similarity, on `difflib`'s scale of 0 to 1, from which an unknown state is taken for a
misspelt one.
"""


@frozen(slots=False, repr=False)
class Table(Lookup):
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
    rows: tuple[Row, ...] = field(converter=rows_of)
    start: str
    hub: str
    outcomes: Names
    ranks: tuple[Names, ...]
    declared_rungs: tuple[Rung, ...] = ()
    facts: tuple[Fact, ...] = ()
    guards: tuple[Guard, ...] = ()
    effects: tuple[Effect, ...] = ()
    declared_events: tuple[Event, ...] = ()
    answers: Names = ()
    lesser: Names = ()
    resumes: str | None = None
    kind: Literal["ending", "cyclic"] = "ending"

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self.rows)} rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what is computed from the fields. A shipped table is restored as itself."""
        if _shipped.get(self.name) is self:
            return shipped, (self.name,)
        values = [getattr(self, each.name) for each in fields(Table)]
        return Table, tuple(values)

    @cached_property
    def states(self) -> Names:
        """List every state once: rungs in table order, the hub, the outcomes."""
        return (*self.rungs, self.hub, *self.outcomes)

    @cached_property
    def rungs(self) -> Names:
        """List the states in which something is sent."""
        sources = [row.source for row in self.rows]
        targets = [row.target for row in self.rows]
        names = dict.fromkeys([self.start, *sources, *targets])
        sending = [name for name in names if name != self.hub]
        return tuple(name for name in sending if name not in self.outcomes)

    @cached_property
    def events(self) -> Names:
        """List every event once, in table order."""
        return tuple(dict.fromkeys(row.event for row in self.rows))

    @cached_property
    def ladders(self) -> Mapping[tuple[str, str], tuple[Row, ...]]:
        """Return the rows that are tried for each event in each state, in order."""
        return ladders_of(self.rows)

    def ladder(self, event: str, source: str) -> tuple[Row, ...]:
        """Return the rows that are tried for an event in a state, in order."""
        return self.ladders.get((event, source), ())

    @cached_property
    def hints(self) -> Mapping[str, str]:
        """Return the declared hints by rung: the text that each adds to a request."""
        return {
            each.name: each.hint
            for each in self.declared_rungs
            if each.hint and each.name in self.rungs
        }

    @cached_property
    def guarded_events(self) -> frozenset[str]:
        """Return the events that some guard decides on."""
        return frozenset(row.event for row in self.rows if row.guard is not None)

    @cached_property
    def own_facts(self) -> tuple[Fact, ...]:
        """List the facts that have a function of their own and that some row looks at."""
        read: set[str] = set()
        for row in self.rows:
            guard = self.guards_by_name.get(row.guard or "")
            if guard is not None:
                read.update(guard.holds, guard.lacks)
        for effect in self.effects:
            if effect.refills_on:
                read.add(effect.refills_on)
        read.update(*self.follows_from.values())
        own = [fact for fact in self.facts if fact.of is not None]
        return tuple(fact for fact in own if fact.name in read)

    def kind_of_end(self, outcome: str) -> Literal["answer", "lesser", "error", "outcome"]:
        """Return whether an outcome is an answer, a lesser answer or an error.

        It is `outcome` in a table that names neither answers nor lesser ones.
        """
        if outcome in self.answers:
            return "answer"
        if outcome in self.lesser:
            return "lesser"
        if self.answers or self.lesser:
            return "error"
        return "outcome"

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
        rows = []
        for row in self.rows:
            if row.source not in rungs and row.target not in rungs:
                rows.append(row)
        return evolve(self, rows=rows)

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
        effect = entry.rung.effect.name
        if not before:
            raise TableError(
                f"with_rung needs an event in whose ladder {name!r} is tried, as in came_empty=None"
            )
        declared = (entry.rung, entry.guard, *entry.facts)
        table = self
        for event, guard in before.items():
            next_row = self._row_at_hub(event, guard)
            row = Row(event, self.hub, entry.guard.name, name, effect)
            table = table.with_rows(row, before=next_row, declare=declared)
        return table

    def _row_at_hub(self, event: str, guard: str | None) -> Row:
        """Return the row of an event at the hub that has a guard.

        Raises:
            TableError: there is no such event or guard.
        """
        ladder = self.ladder(event, self.hub)
        if not ladder:
            events = dict.fromkeys(row.event for row in self.rows if row.source == self.hub)
            raise TableError(f"no event {event!r} comes in {self.hub!r}{close_to(event, events)}")
        for row in ladder:
            if row.guard == guard:
                return row
        guards = ", ".join(str(row.guard) for row in ladder)
        raise TableError(f"the ladder of {event!r} has no guard {guard!r}; it has: {guards}")

    def with_rows(
        self, *rows: Row, before: Row | None = None, declare: Iterable[Any] = ()
    ) -> Table:
        """Return this table with more rows.

        A new rung also gets the rows that every rung has. A target that is nearly the name of a
        known state is refused as misspelt.

        Arguments:
            rows: the new rows.
            before: the row that they come before; None puts each before the last resort of its own
                event.
            declare: the rungs, facts, guards and effects that the rows name.

        Raises:
            TableError: `before` is not in the table, or a row or declaration is of no use in one.
        """
        if before is not None and before not in self.rows:
            raise TableError(f"the row to stand before is not in the table: {before}")
        declare = tuple(declare)
        with_new = list(self.rows)
        for row in rows:
            insert(with_new, row, before=before)
        sending = {row.source for row in self.rows if row.target == self.hub}
        targets = {row.target for row in rows}
        new_rungs = targets - sending - {self.hub, *self.outcomes}
        declared = {each.name for each in declare if isinstance(each, Rung)}
        for row in rows:
            if row.target in new_rungs - declared:
                hint = close_to(row.target, self.states, cutoff=SLIP)
                if hint:
                    raise TableError(f"{row}: unknown state {row.target!r}{hint}")
        for rung in sorted(new_rungs):
            for row in self.rows:
                if row.source == self.start:
                    with_new.append(evolve(row, source=rung))
        return evolve(self.declaring(*declare), rows=with_new)

    def reordered(self, event: str, order: Iterable[str | None]) -> Table:
        """Return this table with the rows of one event in another order, named by their guards.

        If several states take the event, the rows of each are put in that order.

        Arguments:
            event: the event.
            order: its guards, each once; None is the last resort.

        Raises:
            TableError: there is no such event, or these are not exactly its guards.
        """
        ladders = {}
        for (name, source), rows in self.ladders.items():
            if name == event:
                ladders[source] = rows
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
        own: list[str | None] = []
        for rows in ladders.values():
            own += [row.guard for row in rows if row.guard not in own]
        if set(wanted) != set(own) or len(wanted) != len(own):
            raise TableError(f"the guards of {event!r} are {own}; name each of them once")
        return evolve(self, rows=reorder(self.rows, ladders, event, wanted))

    def declaring(self, *declared: Rung | Fact | Guard | Effect) -> Table:
        """Return this table with more rungs, facts, guards and effects, each declared once.

        Raises:
            TableError: the name is declared already, and otherwise.
        """
        kinds = by_kind(declared)
        # Names that no row uses, because their rung was removed, may be declared anew.
        in_use: set[str | None] = set()
        for row in self.rows:
            in_use.update((row.source, row.target, row.guard, row.effect))
        named = [*kinds[Rung], *kinds[Guard], *kinds[Effect]]
        declared_anew = {each.name for each in named} - in_use

        def still_valid(old: Iterable[Any]) -> list[Any]:
            return [each for each in old if each.name not in declared_anew]

        rungs = joined(still_valid(self.declared_rungs), kinds[Rung])
        guards = joined(still_valid(self.guards), kinds[Guard])
        effects = joined(still_valid(self.effects), kinds[Effect])
        facts = joined(self.facts, kinds[Fact])
        ranks = self.ranks
        if rungs != self.declared_rungs:
            ranks = ranks_of(rungs)
        return evolve(
            self,
            declared_rungs=rungs,
            facts=facts,
            guards=guards,
            effects=effects,
            ranks=ranks,
        )


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
