"""What a table declares, by name: its rungs, counters, facts, guards, effects and events."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from rungwise.fsm.engine.machine.declare import Effect, Event, Fact, Guard, Names, Rung

ALWAYS = Guard("always")
NOTHING = Effect("nothing")


class Lookup:
    """Look up the declarations of a table. They know nothing of its rows.

    `Table` has the fields that stand here without a value, and says what they are.
    """

    ranks: tuple[Names, ...]
    declared_rungs: tuple[Rung, ...]
    facts: tuple[Fact, ...]
    guards: tuple[Guard, ...]
    effects: tuple[Effect, ...]
    declared_events: tuple[Event, ...]

    @cached_property
    def counters(self) -> Names:
        """List the counters, those that rank lowest first."""
        return tuple(name for group in reversed(self.ranks) for name in group)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the index of each counter in `counters`."""
        return {name: place for place, name in enumerate(self.counters)}

    @cached_property
    def ranked_places(self) -> tuple[tuple[int, ...], ...]:
        """Return the indices of the counters of each rank, the most significant first."""
        ranked = []
        for group in self.ranks:
            ranked.append(tuple(self.places[name] for name in group))
        return tuple(ranked)

    @cached_property
    def limits(self) -> Mapping[str, int | None]:
        """Return the limit that its rung declares for each counter; 1 if no rung does."""
        limits: dict[str, int | None] = dict.fromkeys(self.counters, 1)
        for rung in self.declared_rungs:
            if rung.counter in limits:
                limits[rung.counter] = rung.limit
        return limits

    @cached_property
    def found_facts(self) -> Names:
        """List the names of the facts that do not follow from others."""
        return tuple(fact.name for fact in self.facts if not fact.is_derived)

    @cached_property
    def follows_from(self) -> Mapping[str, Names]:
        """Return the facts that each fact follows from, by name."""
        return {fact.name: fact.any_holds + fact.any_lacks for fact in self.facts}

    @cached_property
    def _facts(self) -> Mapping[str, Fact]:
        return {fact.name: fact for fact in self.facts}

    @cached_property
    def _rungs(self) -> Mapping[str, Rung]:
        return {rung.name: rung for rung in reversed(self.declared_rungs)}

    @cached_property
    def guards_by_name(self) -> Mapping[str, Guard]:
        """Return what a row may name as its guard: each fact, and each declared guard."""
        guards = {}
        for fact in self.facts:
            guards[fact.name] = Guard(
                fact.name,
                holds=fact.name,
                says=fact.says,
            )
        for guard in self.guards:
            guards[guard.name] = guard
        return guards

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
        """Return the declaration of a rung; None if the state has none."""
        return self._rungs.get(name)

    def says(self, event: str, *, at_last: bool = False) -> str:
        """Return the sentence of an event, or its name if it has none.

        Arguments:
            event: the name of the event.
            at_last: whether the machine stops there, so that the ending of the sentence follows.
        """
        for declared in self.declared_events:
            if declared.name == event and declared.says:
                return declared.says + declared.at_last if at_last else declared.says
        return event
