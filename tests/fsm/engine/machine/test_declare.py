"""What is declared of a wrong form is refused with the field that it was given for."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rungwise import Fact, Rung
from rungwise.core import Effect, Event, Guard, Row, TableError
from rungwise.fsm.engine.machine.declare import Ending, Entry, ranks_of

NAMES: list[tuple[str, Callable[[Any], Any]]] = [
    ("Event.name", Event),
    ("Fact.name", Fact),
    ("Fact.lasts", lambda value: Fact("x", lasts=value)),
    ("Guard.name", Guard),
    ("Guard.counter", lambda value: Guard("x", counter=value)),
    ("Effect.name", Effect),
    ("Effect.spends", lambda value: Effect("x", spends=value)),
    ("Effect.refills_on", lambda value: Effect("x", refills_on=value)),
    ("Rung.name", Rung),
    ("Rung.verb", lambda value: Rung("x", verb=value)),
    ("Rung.unit", lambda value: Rung("x", unit=value)),
    ("Rung.refills_on", lambda value: Rung("x", refills_on=value)),
    ("Guard.name", lambda value: Rung("x").when(value)),
    ("Ending.outcome", Ending),
    ("Ending.holds", lambda value: Ending("x", holds=value)),
    ("Ending.effect", lambda value: Ending("x", effect=value)),
]
LISTS: list[tuple[str, Callable[[Any], Any]]] = [
    *(
        (f"Fact.{name}", lambda value, name=name: Fact("x", **{name: value}))
        for name in ("any_holds", "any_lacks")
    ),
    *(
        (f"Guard.{name}", lambda value, name=name: Guard("x", **{name: value}))
        for name in ("holds", "lacks")
    ),
    *(
        (f"Rung.{name}", lambda value, name=name: Rung("x", **{name: value}))
        for name in ("holds", "lacks", "refills")
    ),
    *(
        (f"Guard.{name}", lambda value, name=name: Rung("x").when("g", **{name: value}))
        for name in ("holds", "lacks")
    ),
    ("Effect.refills", lambda value: Effect("x", refills=value)),
]


@pytest.mark.parametrize("wrong", ["", "two words", "2nd", "a-b", 5, b"x"])
@pytest.mark.parametrize(("where", "build"), NAMES, ids=[where for where, _ in NAMES])
def test_a_name_is_of_letters_digits_and_underscores(
    where: str, build: Callable[[Any], Any], wrong: Any
) -> None:
    with pytest.raises(
        TableError,
        match=f"{where} must be a name of letters, digits and underscores, not {wrong!r}",
    ):
        build(wrong)


@pytest.mark.parametrize("wrong", ["", ("has_text", "two words"), 5, [None], (["has_text"],)])
@pytest.mark.parametrize(("where", "build"), LISTS, ids=[where for where, _ in LISTS])
def test_facts_and_counters_are_given_by_their_names(
    where: str, build: Callable[[Any], Any], wrong: Any
) -> None:
    with pytest.raises(TableError, match=f"{where} must be a name"):
        build(wrong)


def test_only_a_rung_takes_facts_themselves() -> None:
    fact = Fact("is_odd")
    assert Rung("lap", holds=fact, lacks=(fact, "has_text")).guard == Guard(
        "may_lap", counter="laps", holds="is_odd", lacks=("is_odd", "has_text")
    )
    with pytest.raises(TableError, match=r"Guard\.holds must be a name"):
        Guard("x", holds=(fact,))


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Event("x", says=5), r"Event\.says must be a text, not int"),
        (lambda: Fact("x", says=None), r"Fact\.says must be a text, not NoneType"),
        (lambda: Guard("x", says=5), r"Guard\.says must be a text"),
        (lambda: Rung("x", says=5), r"Rung\.says must be a text"),
        (lambda: Rung("x", hint=5), r"Rung\.hint must be a text, not int"),
        (lambda: Rung("x", hint=" \n"), r"Rung\('x'\)\.hint must be a text that is not blank"),
        (
            lambda: Rung("x", wait="soon"),
            r"Rung\('x'\)\.wait must be 'retry' or 'reask', or left out, not 'soon'",
        ),
        (lambda: Rung("x", change="soon"), r"Rung\.change must be a function, not str"),
        (lambda: Fact("x", of=True), r"Fact\.of must be a function, not bool"),
        *(
            (partial(Rung, "x", limit=limit), r"Rung\.limit must be a whole number")
            for limit in (-1, 1.0, True, "1")
        ),
        *(
            (partial(Row, *row), r"Row\.\w+ must be a name")
            for row in [(5, "a", None, "b"), ("e", "a", " ", "b")]
        ),
        (lambda: Row("e", "a", None, ""), r"Row\.target must be a name, not ''"),
    ],
)
def test_a_value_of_another_kind_is_named(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(TableError, match=says):
        build()


def test_a_rung_declares_its_guard_its_effect_and_its_counter() -> None:
    rung = Rung(
        "entreat",
        unit="plea",
        verb="beg",
        holds="has_text",
        refills="retries",
        refills_on="added_text",
    )
    assert rung.counter == "pleas"
    assert rung.guard == Guard("may_beg", counter="pleas", holds="has_text")
    assert rung.effect == Effect(
        "spend_plea", spends="pleas", refills="retries", refills_on="added_text"
    )


@pytest.mark.parametrize(
    ("unit", "counter"),
    [
        ("nudge", "nudges"),
        ("retry", "retries"),
        ("display", "displays"),
        ("switch", "switches"),
        ("pass", "passes"),
    ],
)
def test_a_counter_is_named_by_its_unit_in_the_plural(unit: str, counter: str) -> None:
    assert Rung("x", unit=unit).counter == counter


def test_an_entry_adds_to_the_conditions_of_its_rung() -> None:
    odd = Fact("is_odd")
    even = Fact("is_even")
    rung = Rung("entreat", holds=("wait_fits", odd), lacks="has_text")
    entry = rung.when("may_entreat_now", holds=(even, "added_text"), lacks="overran", says="now")
    assert entry == Entry(
        rung,
        Guard(
            "may_entreat_now",
            counter="entreats",
            holds=("is_even", "added_text", "wait_fits", "is_odd"),
            lacks=("overran", "has_text"),
            says="now",
        ),
        facts=(odd, even),
    )
    assert Entry.of(entry) is entry
    assert Entry.of(rung) == Entry(rung, rung.guard, (odd,))


# counters rank above what they refill, or are refused


def test_counters_rank_above_what_they_refill() -> None:
    low = Rung("low")
    other = Rung("other")
    middle = Rung("middle", refills="lows")
    high = Rung("high", refills=("middles", "others"))
    for rungs in (
        (low, other, middle, high),
        (high, middle, low, other),
        (middle, low, high, other),
    ):
        assert ranks_of(rungs) == (("highs",), ("middles",), ("lows", "others"))
    assert ranks_of([high, middle]) == (("highs",), ("middles",))
    assert ranks_of([low]) == (("lows",),)
    assert ranks_of([]) == ()


@pytest.mark.parametrize(
    "refills",
    [
        {"a": "as"},
        {"a": "bs", "b": "as"},
        {
            "a": "bs",
            "b": "cs",
            "c": "as",
        },
    ],
)
def test_counters_that_refill_each_other_or_themselves_have_no_rank(
    refills: dict[str, str],
) -> None:
    names = " and ".join(f"'{name}s'" for name in refills)
    with pytest.raises(
        TableError,
        match=f"no counter can rank above what it refills where {names} refill each other",
    ):
        ranks_of(
            [Rung("free"), *(Rung(name, refills=refilled) for name, refilled in refills.items())]
        )
