"""The declarations of a machine: events, facts, rungs and endings, and the guards and effects of
its rows.

All of it is data. The machine that runs is compiled from it (`fsm/engine/machine/run.py`), and the
proof, the walk and the pictures read it. Nothing reads Python code to find out what a guard does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeAlias

import attrs
from attrs import field, frozen

from rungwise.fsm.errors import TableError
from rungwise.fsm.values.checks import where

Names: TypeAlias = tuple[str, ...]
Attribute: TypeAlias = "attrs.Attribute[Any]"


def _name(instance: object, attribute: Attribute, value: object) -> None:
    if not isinstance(value, str) or not value.isidentifier():
        form = "a name of letters, digits and underscores"
        raise TableError(f"{where(instance, attribute)} must be {form}, not {value!r}")


_optional_name: Any = attrs.validators.optional(_name)


def _sentence(instance: object, attribute: Attribute, value: object) -> None:
    if not isinstance(value, str):
        raise TableError(f"{where(instance, attribute)} must be a text, not {type(value).__name__}")


_optional_sentence: Any = attrs.validators.optional(_sentence)


def _names(value: object) -> tuple[Any, ...]:
    """Return one name, one fact or several of them as a tuple."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (value,)
    return tuple(value)


def _only_names(instance: object, attribute: Attribute, value: tuple[Any, ...]) -> None:
    for each in value:
        _name(instance, attribute, each)


def _names_or_facts(instance: object, attribute: Attribute, value: tuple[Any, ...]) -> None:
    _only_names(instance, attribute, _names_of(value))


def _function(instance: object, attribute: Attribute, value: object) -> None:
    if value is not None and not callable(value):
        raise TableError(
            f"{where(instance, attribute)} must be a function, not {type(value).__name__}"
        )


@frozen
class Event:
    """Declare what can come back, or what whoever runs the machine can do.

    Arguments:
        name: a past participle, such as `came_empty`.
        says: what it means, in the words of every page and message.
        at_last: how the sentence goes on if the machine ends on this event.
    """

    name: str = field(validator=_name)
    says: str = field(default="", validator=_sentence)
    at_last: str = field(default="", validator=_sentence)


@frozen(kw_only=True)
class Fact:
    """Declare a bool that is found once for each reply, before the event is fired.

    Arguments:
        name: how guards and journals name it.
        says: what it means.
        of: for a fact of your own, a function of the reply that returns whether the fact holds;
            None if whoever runs the machine finds it.
        any_holds, any_lacks: for a fact that follows from others. It holds if one of `any_holds`
            holds, or if one of `any_lacks` does not.
        lasts: a counter that has a unit left as long as the fact holds.

    Raises:
        TableError: a value is not of its form.
    """

    name: str = field(validator=_name, kw_only=False)
    says: str = field(default="", validator=_sentence)
    of: Callable[[Any], bool] | None = field(
        default=None,
        validator=_function,
        hash=False,
    )
    any_holds: Names = field(default=(), converter=_names, validator=_only_names)
    any_lacks: Names = field(default=(), converter=_names, validator=_only_names)
    lasts: str | None = field(default=None, validator=_optional_name)

    @property
    def is_derived(self) -> bool:
        """Tell whether the fact follows from others."""
        return bool(self.any_holds or self.any_lacks)


@frozen(kw_only=True)
class Guard:
    """Declare what must hold for a row to be taken.

    Arguments:
        name: how rows, journals and pictures name it.
        counter: the counter that must have a unit left; None if it looks at none.
        holds: the facts that must hold.
        lacks: the facts that must not hold.
        says: what it means.
    """

    name: str = field(validator=_name, kw_only=False)
    counter: str | None = field(default=None, validator=_optional_name)
    holds: Names = field(default=(), converter=_names, validator=_only_names)
    lacks: Names = field(default=(), converter=_names, validator=_only_names)
    says: str = field(default="", validator=_sentence)


@frozen(kw_only=True)
class Effect:
    """Declare what a row counts.

    Arguments:
        name: how rows, journals and pictures name it.
        spends: the counter that it takes one unit from; None if it takes none.
        refills: the counters whose spent units it sets back to 0.
        refills_on: the fact that must hold for this; None refills always.
    """

    name: str = field(validator=_name, kw_only=False)
    spends: str | None = field(default=None, validator=_optional_name)
    refills: Names = field(default=(), converter=_names, validator=_only_names)
    refills_on: str | None = field(default=None, validator=_optional_name)


def _limit(instance: object, attribute: Attribute, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TableError(f"Rung.limit must be a whole number of 0 or more, not {value!r}")


def _plural(unit: str) -> str:
    """Return the English plural of a unit, such as `retries` for `retry`."""
    if unit.endswith("y") and unit[-2:-1] not in "aeiou":
        return f"{unit[:-1]}ies"
    if unit.endswith(("s", "x", "z", "ch", "sh")):
        return f"{unit}es"
    return f"{unit}s"


_OWN_NAME: Any = attrs.Factory(lambda rung: rung.name, takes_self=True)


@frozen(kw_only=True)
class Rung:
    """Declare a state in which something is sent.

    Arguments:
        name: the name of the state.
        limit: how often it may be taken, unless a policy says otherwise; None if only its owner can
            tell.
        holds: the facts that its guard needs, by name, or as facts of your own.
        lacks: the facts that must not hold.
        refills: the counters whose spent units it sets back to 0.
        refills_on: the fact that must hold for this; None refills always.
        wait: the series of waits that it keeps, `retry` or `reask`; None sends at once.
        hint: for a rung of your own, the text that it adds to the request; the hints of a policy
            may replace it.
        change: a function that changes the request. It receives what the request is made of and
            what led to the rung.
        says: what its guard means.
        sends_prompt: whether its request carries the conversation, so that it costs tokens.
        does: what it does, in words that follow what happened.
        verb: names its guard, behind `may_`; the name of the rung if left out.
        unit: names its effect, behind `spend_`, and its counter, in the plural; the name of the
            rung if left out.

    Raises:
        TableError: a value is not of its form.
    """

    name: str = field(validator=_name, kw_only=False)
    limit: int | None = field(default=1, validator=_limit)
    holds: tuple[Any, ...] = field(default=(), converter=_names, validator=_names_or_facts)
    lacks: tuple[Any, ...] = field(default=(), converter=_names, validator=_names_or_facts)
    refills: Names = field(default=(), converter=_names, validator=_only_names)
    refills_on: str | None = field(default=None, validator=_optional_name)
    wait: str | None = field(default=None, validator=_optional_name)
    hint: str | None = field(default=None, validator=_optional_sentence)
    change: Callable[[Any, Any], None] | None = field(
        default=None,
        validator=_function,
        hash=False,
    )
    sends_prompt: bool = True
    says: str = field(default="", validator=_sentence)
    does: str = field(default="", validator=_sentence)
    verb: str = field(default=_OWN_NAME, validator=_name)
    unit: str = field(default=_OWN_NAME, validator=_name)

    def __attrs_post_init__(self) -> None:
        if self.hint is not None and not self.hint.strip():
            raise TableError(f"Rung({self.name!r}).hint must be a text that is not blank")
        if self.wait not in (None, "retry", "reask"):
            raise TableError(
                f"Rung({self.name!r}).wait must be 'retry' or 'reask', or left out, not "
                f"{self.wait!r}"
            )

    @cached_property
    def counter(self) -> str:
        """Name the counter that it takes a unit from."""
        return _plural(self.unit)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """List the facts of your own that it was given."""
        return _facts_among((*self.holds, *self.lacks))

    @property
    def guard(self) -> Guard:
        """Return what must hold for it to be taken."""
        return Guard(
            f"may_{self.verb}",
            counter=self.counter,
            holds=_names_of(self.holds),
            lacks=_names_of(self.lacks),
            says=self.says,
        )

    @property
    def effect(self) -> Effect:
        """Return what it counts."""
        return Effect(
            f"spend_{self.unit}",
            spends=self.counter,
            refills=self.refills,
            refills_on=self.refills_on,
        )

    def when(
        self,
        guard: str,
        *,
        holds: Any = (),
        lacks: Any = (),
        says: str = "",
    ) -> Entry:
        """Return this rung under more conditions, for the ladder of some event.

        Arguments:
            guard: the name of the guard, other than that of the rung itself.
            holds, lacks: the facts that must hold, or must not, besides those of the rung.
            says: what the guard means.
        """
        plain = self.guard
        holds = _names(holds)
        lacks = _names(lacks)
        narrower = Guard(
            guard,
            counter=plain.counter,
            holds=_names_of(holds) + plain.holds,
            lacks=_names_of(lacks) + plain.lacks,
            says=says,
        )
        more_facts = _facts_among((*holds, *lacks))
        return Entry(self, narrower, facts=(*self.facts, *more_facts))


def _names_of(facts: Iterable[Any]) -> Names:
    names = []
    for each in facts:
        names.append(each.name if isinstance(each, Fact) else each)
    return tuple(names)


def _facts_among(facts: Iterable[Any]) -> tuple[Fact, ...]:
    return tuple(each for each in facts if isinstance(each, Fact))


@frozen
class Entry:
    """Hold a rung as it stands in a ladder. `rungwise.Rung.when` makes one.

    Arguments:
        rung: the rung.
        guard: what must hold for it to be taken there.
        facts: the facts of your own that the guard looks at.
    """

    rung: Rung
    guard: Guard
    facts: tuple[Fact, ...] = ()

    @classmethod
    def of(cls, step: Rung | Entry) -> Entry:
        """Return a rung under its own conditions; return what `when` made as it is."""
        if isinstance(step, Entry):
            return step
        return cls(step, step.guard, step.facts)


@frozen(kw_only=True)
class Ending:
    """Declare an outcome in a ladder."""

    outcome: str = field(validator=_name, kw_only=False)  # the name of the state
    # the fact that it needs; None: the last resort
    holds: str | None = field(default=None, validator=_optional_name)
    # what the row does besides; it counts nothing
    effect: str | None = field(default=None, validator=_optional_name)


def ranks_of(rungs: Iterable[Rung]) -> tuple[Names, ...]:
    """Rank the counters of some rungs, the most significant first.

    Theory. A step lowers the variant if the counter that it spends ranks above every counter that
    it refills (see `Table`). So each counter that refills others gets a rank of its own above all
    of them, and the counters that refill nothing share the lowest rank. This is a topological sort:
    it takes the first counter that refills none of those not yet ranked, again and again. With n
    counters it takes n² steps at most; a table has about a dozen.

    Raises:
        TableError: counters refill each other, so that no order exists.
    """
    refills: dict[str, set[str]] = {}
    for rung in rungs:
        refilled = refills.setdefault(rung.counter, set())
        refilled.update(rung.refills)
    plain = tuple(name for name, refilled in refills.items() if not refilled)
    unranked = [name for name, refilled in refills.items() if refilled]
    rising: list[Names] = []
    if plain:
        rising.append(plain)
    while unranked:
        free = [name for name in unranked if refills[name].isdisjoint(unranked)]
        if not free:
            circle = " and ".join(map(repr, unranked))
            raise TableError(
                f"no counter can rank above what it refills where {circle} refill each other"
            )
        rising.append((free[0],))
        unranked.remove(free[0])
    return tuple(reversed(rising))


def by_kind(declared: Iterable[object]) -> dict[type[Any], list[Any]]:
    """Sort declarations into rungs, facts, guards and effects. A rung brings its own of the others.

    Raises:
        TableError: a declaration is none of these.
    """
    kinds: dict[type[Any], list[Any]] = {
        Rung: [],
        Fact: [],
        Guard: [],
        Effect: [],
    }
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
    return kinds


def joined(known: Iterable[Any], new: Iterable[Any]) -> tuple[Any, ...]:
    """Add declarations to others of their kind, each name once.

    Raises:
        TableError: a name is declared already, and otherwise.
    """
    by_name = {each.name: each for each in known}
    for each in new:
        if by_name.setdefault(each.name, each) != each:
            kind = type(each).__name__.lower()
            raise TableError(f"the {kind} {each.name!r} is declared already, and otherwise")
    return tuple(by_name.values())
