"""What a machine is declared from: events, facts, rungs and endings; and what a row needs of them,
guards and effects.

All of it is data: the machine that runs is compiled from it (`fsm/engine/machine/run.py`), and the
proof, the walk and the pictures read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import attrs
from attrs import field, frozen

from rungwise.fsm.errors import TableError
from rungwise.fsm.values.checks import where


def _name(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not value.isidentifier():
        form = "a name of letters, digits and underscores"
        raise TableError(f"{where(instance, attribute)} must be {form}, not {value!r}")


_optional_name: Any = attrs.validators.optional(_name)


def _sentence(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        raise TableError(f"{where(instance, attribute)} must be a text, not {type(value).__name__}")


def _names(value: object) -> tuple[Any, ...]:
    """Return one name, one fact or several of them as a tuple."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)


def _only_names(instance: object, attribute: attrs.Attribute[Any], value: tuple[Any, ...]) -> None:
    for each in value:
        _name(instance, attribute, each)


def _names_or_facts(
    instance: object, attribute: attrs.Attribute[Any], value: tuple[Any, ...]
) -> None:
    _only_names(instance, attribute, _names_of(value))


def _function(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and not callable(value):
        raise TableError(
            f"{where(instance, attribute)} must be a function, not {type(value).__name__}"
        )


@frozen
class Event:
    """Declare what can come back, or what whoever runs the machine can do.

    Arguments:
        name: a past participle, such as `came_empty`.
        says: what it means, as every page and message tells it.
        at_last: how the sentence goes on where the machine ends on it.
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
        of: a function of the reply that returns whether the fact holds, for a fact of your own;
            None where whoever runs the machine finds it.
        any_holds, any_lacks: for a fact that follows from others: it holds where one of the first
            holds, or one of the second does not.
        lasts: the counter of which a unit is left as long as the fact holds.

    Raises:
        TableError: a value is not of its form.
    """

    name: str = field(validator=_name, kw_only=False)
    says: str = field(default="", validator=_sentence)
    of: Callable[[Any], bool] | None = field(default=None, validator=_function, hash=False)
    any_holds: tuple[str, ...] = field(default=(), converter=_names, validator=_only_names)
    any_lacks: tuple[str, ...] = field(default=(), converter=_names, validator=_only_names)
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
        counter: the counter of which a unit must be left; None where it looks at none.
        holds: the facts that must hold.
        lacks: the facts that must not hold.
        says: what it means.
    """

    name: str = field(validator=_name, kw_only=False)
    counter: str | None = field(default=None, validator=_optional_name)
    holds: tuple[str, ...] = field(default=(), converter=_names, validator=_only_names)
    lacks: tuple[str, ...] = field(default=(), converter=_names, validator=_only_names)
    says: str = field(default="", validator=_sentence)


@frozen(kw_only=True)
class Effect:
    """Declare what a row counts.

    Arguments:
        name: how rows, journals and pictures name it.
        spends: the counter of which it takes one unit; None where it takes none.
        refills: the counters that it sets back to 0.
        refills_on: the fact on which it does so; None for always.
    """

    name: str = field(validator=_name, kw_only=False)
    spends: str | None = field(default=None, validator=_optional_name)
    refills: tuple[str, ...] = field(default=(), converter=_names, validator=_only_names)
    refills_on: str | None = field(default=None, validator=_optional_name)


def _limit(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise TableError(f"Rung.limit must be a whole number of 0 or more, not {value!r}")


def _plural(unit: str) -> str:
    if unit.endswith("y") and unit[-2:-1] not in "aeiou":
        return f"{unit[:-1]}ies"
    return f"{unit}es" if unit.endswith(("s", "x", "z", "ch", "sh")) else f"{unit}s"


@frozen(kw_only=True)
class Rung:
    """Declare a state in which something is sent: its counter and limit, its guard, its wait, and
    what it says.

    Arguments:
        name: the name of the state.
        limit: how often it may be taken, where a policy says nothing else; None where only its
        owner can tell. holds: the facts that its guard needs, by name, or as facts of your own.
        lacks: the facts that must not hold.
        refills: the counters that it sets back to 0.
        refills_on: the fact on which it does so; None for always.
        wait: the series of waits that it keeps, `retry` or `reask`; None sends at once.
        hint: the text that it adds to the request, for a rung of your own; a policy's hints may say
        another. change: what it changes in the request, given what the request is made of and what
        led to the rung. says: what its guard means.
        does: what it does, in words that follow what happened.
        verb: what its guard is called by, behind `may_`; the name of the rung where left out.
        unit: what its effect is called by, behind `spend_`, and its counter in the plural; the name
            where left out.

    Raises:
        TableError: a value is not of its form.
    """

    name: str = field(validator=_name, kw_only=False)
    limit: int | None = field(default=1, validator=_limit)
    holds: tuple[Any, ...] = field(default=(), converter=_names, validator=_names_or_facts)
    lacks: tuple[Any, ...] = field(default=(), converter=_names, validator=_names_or_facts)
    refills: tuple[str, ...] = field(default=(), converter=_names, validator=_only_names)
    refills_on: str | None = field(default=None, validator=_optional_name)
    wait: str | None = field(default=None, validator=_optional_name)
    hint: str | None = field(default=None, validator=attrs.validators.optional(_sentence))
    change: Callable[[Any, Any], None] | None = field(default=None, validator=_function, hash=False)
    says: str = field(default="", validator=_sentence)
    does: str = field(default="", validator=_sentence)
    verb: str = field(
        default=attrs.Factory(lambda self: self.name, takes_self=True), validator=_name
    )
    unit: str = field(
        default=attrs.Factory(lambda self: self.name, takes_self=True), validator=_name
    )

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
        """Name the counter of which it takes a unit."""
        return _plural(self.unit)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """List the facts of your own that it was given."""
        return _facts_among((*self.holds, *self.lacks))

    @property
    def guard(self) -> Guard:
        """Return what must hold for it to be taken."""
        holds = _names_of(self.holds)
        lacks = _names_of(self.lacks)
        return Guard(
            f"may_{self.verb}", counter=self.counter, holds=holds, lacks=lacks, says=self.says
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

    def when(self, guard: str, *, holds: Any = (), lacks: Any = (), says: str = "") -> Entry:
        """Return this rung under more conditions, with a guard of another name, for the ladder of
        some event.

        Arguments:
            guard: the name of the guard.
            holds, lacks: the facts that must hold, or must not, besides those of the rung.
            says: what the guard means.
        """
        plain = self.guard
        more = _names(holds)
        fewer = _names(lacks)
        wanted = (*_names_of(more), *plain.holds)
        unwanted = (*_names_of(fewer), *plain.lacks)
        facts = (*self.facts, *_facts_among((*more, *fewer)))
        return Entry(
            self,
            Guard(guard, counter=plain.counter, holds=wanted, lacks=unwanted, says=says),
            facts,
        )


def _names_of(facts: Iterable[Any]) -> tuple[str, ...]:
    return tuple(each.name if isinstance(each, Fact) else each for each in facts)


def _facts_among(facts: Iterable[Any]) -> tuple[Fact, ...]:
    return tuple(each for each in facts if isinstance(each, Fact))


@frozen
class Entry:
    """Hold a rung as it stands in a ladder, with facts that it needs only there;
    `rungwise.Rung.when` makes one.

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
        """Return a rung under its own conditions, or what its `when` has returned."""
        return step if isinstance(step, Entry) else cls(step, step.guard, step.facts)


@frozen(kw_only=True)
class Ending:
    """Declare an outcome in a ladder."""

    outcome: str = field(validator=_name, kw_only=False)  # the name of the state
    # the fact that it needs; None: the last resort
    holds: str | None = field(default=None, validator=_optional_name)
    # what the row does besides; it counts nothing
    effect: str | None = field(default=None, validator=_optional_name)


def ranks_of(rungs: Iterable[Rung]) -> tuple[tuple[str, ...], ...]:
    """Rank the counters of some rungs: each that refills others by itself, above all that it
    refills; then the rest.
    """
    refills: dict[str, set[str]] = {}
    for rung in rungs:
        refills.setdefault(rung.counter, set()).update(rung.refills)
    plain = [name for name, refilled in refills.items() if not refilled]
    above: list[str] = []
    todo = [name for name, refilled in refills.items() if refilled]
    while todo:
        lowest = next((name for name in todo if not refills[name] & set(todo)), None)
        if lowest is None:
            circle = " and ".join(map(repr, todo))
            raise TableError(
                f"no counter can rank above what it refills where {circle} refill each other"
            )
        above.append(lowest)
        todo.remove(lowest)
    return (*((name,) for name in reversed(above)), *((tuple(plain),) if plain else ()))


def joined(known: Iterable[Any], new: Iterable[Any]) -> tuple[Any, ...]:
    """Return what is declared with more of its kind, each once; a TableError if a name is declared
    otherwise.
    """
    found = {each.name: each for each in known}
    for each in new:
        if found.setdefault(each.name, each) != each:
            raise TableError(
                f"the {type(each).__name__.lower()} {each.name!r} is declared already, and "
                f"otherwise"
            )
    return tuple(found.values())
