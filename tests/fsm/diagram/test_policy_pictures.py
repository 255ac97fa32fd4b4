"""The picture of a policy: what it shows changes when, and only when, what the policy makes of the
machine does.
"""

import re
from typing import Any

import pytest
from attrs import evolve
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rungwise
from rungwise import CALL, Budget, Hints, Limits, Policy, Reserve, Rung, Timeouts, TurnPolicy, Waits
from rungwise.fsm.analysis.certificate.shown.settings import settings_of, table_of
from rungwise.fsm.diagram import FORMATS, VIEWS, Format, View, draw
from rungwise.fsm.diagram.extract import picture_of
from rungwise.fsm.diagram.merge import change_of
from rungwise.fsm.diagram.model import Picture
from support.parsed_pictures import PARSERS, parts, words
from support.pictures import CHANGES, LONG, POLICIES, SWAPPED, picture, pictures, policy_of
from support.sampling import examples

pytestmark = pytest.mark.sampled(4)

PICTURES = [(format, view) for format in FORMATS for view in VIEWS]
COUNTERS = tuple(CALL.counters)
WITH_TITLES = ("svg", "dot")
"""The formats in which pointing at something tells more."""

seconds = st.floats(0, 10_000)
waits = st.builds(
    Waits,
    retry_base=seconds,
    retry_cap=seconds,
    overload_cap=seconds,
    reask_base=seconds,
    reask_cap=seconds,
)
limits = st.fixed_dictionaries({name: st.integers(0, 1000) for name in COUNTERS}).map(
    lambda each: Limits(**each)
)
budgets = st.builds(
    Budget,
    attempts=st.integers(1, 1000),
    seconds=st.none() | st.floats(0.1, 1e6),
    output_tokens=st.none() | st.integers(1, 10**12),
    money=st.none() | st.floats(0.001, 1e6),
)
policies = st.builds(Policy, limits=limits, waits=waits, budget=budgets)


def drawn(policy: Policy | TurnPolicy) -> dict[tuple[Format, View], str]:
    shown = picture(policy)
    return {(format, view): draw(shown, format, view) for format, view in PICTURES}


def differ(one: Policy, other: Policy) -> list[tuple[Format, View]]:
    before = drawn(one)
    after = drawn(other)
    return [kind for kind in PICTURES if before[kind] != after[kind]]


@given(policies, st.sampled_from(COUNTERS), st.integers(0, 1000))
@settings(max_examples=examples(40))
def test_another_limit_is_seen_in_every_format(policy: Policy, counter: str, limit: int) -> None:
    assume(policy.limits[counter] != limit)
    assert (
        differ(policy, evolve(policy, limits=Limits(**{**policy.limits, counter: limit})))
        == PICTURES
    )


@given(policies, budgets)
@settings(max_examples=examples(40))
def test_another_budget_is_seen_in_every_format(policy: Policy, budget: Budget) -> None:
    assume(policy.budget != budget)
    assert differ(policy, evolve(policy, budget=budget)) == PICTURES


@given(policies, waits)
@settings(max_examples=examples(40))
def test_another_wait_that_a_rung_keeps_is_seen_in_every_format(
    policy: Policy, other: Waits
) -> None:
    def kept(waits: Waits) -> set[tuple[object, ...]]:
        """List the series that rungs keep; what stands above the cap, or is doubled from 0, makes
        no difference.
        """
        series = {
            "retries": (
                (waits.retry_base, waits.retry_cap),
                (waits.retry_base, waits.overload_cap),
            ),
            "reasks": ((waits.reask_base, waits.reask_cap),),
        }
        return {
            (name, place, min(base, cap), cap if base else 0)
            for name, several in series.items()
            if policy.limits[name]
            for place, (base, cap) in enumerate(several)
        }

    changed = evolve(policy, waits=evolve(other, jitter=policy.waits.jitter))
    expected = PICTURES if kept(policy.waits) != kept(changed.waits) else []
    found = differ(policy, changed)
    # a retry after `malformed` keeps a reask's waits: told in its title
    if policy.limits["retries"] and not expected:
        found = [each for each in found if each[0] not in WITH_TITLES]
    assert found == expected


def test_chance_is_told_where_pointing_tells_more() -> None:
    found = differ(Policy(), Policy(waits=Waits(jitter=0.1)))
    assert found == [
        (format, view)
        for format, view in PICTURES
        if format == "svg" or (format, view) == ("dot", "hub")
    ]


UNSEEN: list[dict[str, Any]] = [
    {
        "timeouts": Timeouts(
            connect=1.0,
            first_token=2.0,
            stall=None,
            total=3.0,
        )
    },
    {"hints": Hints(nudge="Well?")},
    {"reserve": Reserve(share=0.5)},
    {"reserve": Reserve(share=0.0)},  # a backend that cannot be paid is left for the next even so
    {"base_cap": 1},
    {"largest_cap": 2},
    {"handful": 3},
    {"nudge_window": 4},
    {"switch_after": {"overloaded": 9}},
    {"switch_after": {"empty": 3}},
    {"waits": Waits(longest_asked=1.0)},
    {"handful": 0},  # which leaves every row something to be taken for
]
SEEN: list[dict[str, Any]] = [
    {"after_refusal": "end"},
    {"nudge_window": 0},
    {"switch_after": {"empty": 1000}},
]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [*((fields, []) for fields in UNSEEN), *((fields, PICTURES) for fields in SEEN)],
    ids=[str(fields) for fields in (*UNSEEN, *SEEN)],
)
def test_only_what_switches_a_row_off_or_on_is_seen_in_every_format(
    fields: dict[str, Any], expected: list[tuple[Format, View]]
) -> None:
    assert differ(Policy(), Policy(**fields)) == expected


def rows_of(policy: Policy | TurnPolicy) -> list[tuple[str, ...]]:
    table = table_of(policy)
    return sorted((row.event, row.source, row.guard or "", row.target) for row in table.rows)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(("format", "view"), PICTURES)
def test_no_row_is_missing_whatever_is_off(format: Format, view: View, name: str) -> None:
    policy = policy_of(name)
    found = PARSERS[format, view](table_of(policy), draw(pictures()[name], format, view))
    assert sorted(row[:4] for row in found) == rows_of(policy)


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_off_can_be_left_out(name: str) -> None:
    policy = policy_of(name)
    shown = pictures()[f"{name}, nothing off"]
    off = settings_of(policy).off
    on = sorted(
        (row.event, row.source, row.guard or "", row.target)
        for row in table_of(policy).rows
        if row not in off
    )
    for (format, view), parse in PARSERS.items():
        if format in ("svg", "dot", "mermaid"):  # the lists of Markdown name their sources in words
            narrowed = evolve(
                table_of(policy), rows=[row for row in table_of(policy).rows if row not in off]
            )
            assert sorted(row[:4] for row in parse(narrowed, draw(shown, format, view))) == on
    assert not shown.is_struck
    assert shown.hidden == len(off)


@pytest.mark.parametrize(("old", "new"), CHANGES)
@pytest.mark.parametrize(("format", "view"), PICTURES)
def test_a_change_shows_the_rows_of_both(
    format: Format,
    view: View,
    old: str,
    new: str,
) -> None:
    """Where a state is gone, the words that name the states of a shared list need not name it; its
    arcs show it.
    """
    tables = [table_of(policy_of(name)) for name in (old, new)]
    both = evolve(tables[1], rows=dict.fromkeys(row for table in tables for row in table.rows))
    found = {
        row[:4]
        for row in PARSERS[format, view](both, draw(pictures()[f"{old} to {new}"], format, view))
    }
    wanted = {*rows_of(policy_of(old)), *rows_of(policy_of(new))}
    assert {row for row in found if row[1] == both.hub} == {
        row for row in wanted if row[1] == both.hub
    }
    assert found <= wanted


def test_the_counts_are_those_of_what_is_drawn() -> None:
    found = pictures()
    count = len(CALL.rows)
    assert found["default"].rows == f"{count} rows"
    off = len(settings_of(policy_of("narrow")).off)
    assert found["narrow"].rows == f"{count} rows, {off} of them off"
    assert found["narrow, nothing off"].rows == f"{count - off} rows, {off} that are off left out"
    assert found["turn"].rows == f"{len(table_of(policy_of('turn')).rows)} rows"
    for format, view in PICTURES:
        assert found["narrow"].rows.replace(f"{count} ", "") in draw(found["narrow"], format, view)


def test_one_call_draws_a_policy() -> None:
    narrow = policy_of("narrow")
    for (format, view), text in drawn(narrow).items():
        assert rungwise.draw_policy(narrow, format, view) == text
    assert rungwise.draw_policy(narrow, hides_off=True) == draw(
        pictures()["narrow, nothing off"], "svg"
    )
    with pytest.raises(rungwise.ConfigurationError, match="no picture of format 'png'"):
        rungwise.draw_policy(narrow, "png")  # type: ignore[arg-type]


@pytest.mark.parametrize(("format", "view"), PICTURES)
def test_every_rung_shows_its_detail_and_every_picture_its_budget(
    format: Format, view: View
) -> None:
    for name in ("default", "wide", "own", "turn"):
        shown = pictures()[name]
        text = re.sub("<[^>]*>", "", draw(shown, format, view).replace("&quot;", '"'))
        for node in shown.of_kind("rung"):
            assert node.detail in text
        assert shown.caption in text
    assert LONG in draw(pictures()["own"], format, view)


def test_what_is_off_says_why_where_it_is_pointed_at() -> None:
    titles = {}
    for view in VIEWS:
        for group in parts(draw(pictures()["narrow"], "svg", view), "g"):
            if group.get("data-target") == "retry" and words(group):
                title = next(iter(group)).text or ""
                titles[view, group.attrib["data-event"], group.attrib["data-guard"]] = title
                assert {"rw-struck"} <= {
                    each for text in group.iter() for each in (text.get("class") or "").split()
                }
    assert len(titles) == 8
    assert all("off: the limit of retries is 0" in title for title in titles.values())
    assert "off: the limit of retries is 0" in draw(pictures()["narrow"], "rows", "ladder")
    assert "off: the limit of retries is 0" in draw(pictures()["narrow"], "mermaid", "ladder")


@pytest.mark.parametrize("view", VIEWS)
def test_pointing_at_a_rung_tells_its_waits(view: View) -> None:
    text = draw(pictures()["default"], "svg", view)
    assert "at most 3 times, after 2, 4, 8 s and up to 50 % more" in text
    assert "once for each further backend" in text


MARKED: dict[Format, tuple[str, ...]] = {
    "svg": (">+<", ">−<", "now off", "rw-struck", "rw-new", "rw-idle"),
    "mermaid": ("<b>+</b> ", "<b>−</b> ", "<b>now off</b>", "<s>", "Marked", ":::idle"),
    "dot": ("<b>+</b> ", "<b>−</b> ", "<b>now off</b>", "<s>", "dashed"),
    "rows": ("**+ new**", "**− gone**", "**now off**", "~~"),
}
ENTREAT = Rung("entreat", hint="Please.")


@pytest.mark.parametrize(("format", "view"), PICTURES)
def test_a_change_is_told_by_signs_and_not_by_colours_alone(format: Format, view: View) -> None:
    one = Policy(switch_after={"empty": 2})
    table = (
        CALL.without("prefill")
        .reordered("malformed", SWAPPED)
        .with_rung(ENTREAT, came_empty="may_nudge")
    )
    text = draw(
        change_of(picture(one), picture(Policy(table=table, switch_after={"empty": 1000}))),
        format,
        view,
    )
    for mark in MARKED[format]:
        assert mark in text, mark
    for words_ in ("+ new", "− gone"):
        assert words_ in text, "the key"
    if view == "ladder":
        assert "was 1." in text
        assert "was 2." in text
    assert "+ new" not in re.sub(r"\*\*\+ new\*\*", "", draw(picture(one), format, view))


@pytest.mark.parametrize(("format", "view"), PICTURES)
def test_what_a_limit_was_is_struck_before_an_arrow(format: Format, view: View) -> None:
    other = Policy(limits=Limits(retries=5))
    text = draw(change_of(picture(Policy()), picture(other)), format, view)
    struck = {
        "svg": ">×3</text>",
        "mermaid": "<s>×3</s> → ×5",
        "dot": "<s>×3</s> → ×5",
        "rows": "~~×3~~ → ×5",
    }[format]
    assert struck in text
    assert "→ ×5" in text


def kinds_of(shown: Picture) -> dict[str, str]:
    return {node.name: node.kind for node in shown.nodes}


def test_outcomes_have_shapes_of_their_own() -> None:
    svg: dict[str, tuple[str, ...]] = {}
    for group in parts(draw(pictures()["default"], "svg"), "g"):
        if "data-state" in group.attrib:
            drawn_ = [child for child in group if child.tag.endswith(("rect", "path"))]
            corners = [re.sub("[^LM]", "", child.get("d", "")) for child in drawn_]
            svg[group.attrib["data-state"]] = tuple(each or "rect" for each in corners)
    kinds = kinds_of(pictures()["default"])
    by_kind = {
        kinds[name]: shape
        for name, shape in svg.items()
        if kinds[name] in ("answer", "lesser", "error")
    }
    assert by_kind == {
        "answer": ("rect", "rect"),
        "lesser": ("MLLLL", "MLLLL"),
        "error": ("MLLLLLLL",),
    }
    mermaid = draw(pictures()["default"], "mermaid")
    assert '  done[["<b>done</b>"]]:::answer' in mermaid
    assert '  partial>"<b>partial</b>"]:::lesser' in mermaid
    assert '  refused{{"<b>refused</b>"}}:::error' in mermaid
    dot = draw(pictures()["default"], "dot")
    for name, shape in (("done", "box"), ("partial", "note"), ("refused", "octagon")):
        assert f'"{name}" [shape={shape}, style="filled"' in dot
    cards = draw(pictures()["default"], "dot", "ladder")
    assert all(f">{sign}<" in cards for sign in ("✓ done", "◐ partial", "✕ refused"))


def test_ends_of_a_table_that_names_no_answers_look_alike() -> None:
    plain = evolve(CALL, answers=(), lesser=())
    assert {
        node.kind for node in picture_of(plain).of_kind("answer", "lesser", "error", "outcome")
    } == {"outcome"}
    svg = draw(picture_of(plain), "svg")
    assert "an end<" in svg
    assert not re.search("an answer<|less than one<|an error<", svg)
