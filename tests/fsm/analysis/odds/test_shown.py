"""How odds are shown: tables, pictures and a page, alone or beside those of another policy."""

import random
import re
from collections import defaultdict
from functools import cache
from html import unescape
from itertools import combinations
from xml.etree import ElementTree

import attrs
import orjson
import pytest

from rungwise import Policy, Prices
from rungwise.fsm.analysis.odds.calls import Odds
from rungwise.fsm.analysis.odds.grid import SLACK
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.picture import pictures_of
from rungwise.fsm.analysis.odds.rates import BackendRates, EventRate, Rates
from rungwise.fsm.analysis.odds.shown import (
    FORMS,
    LEAST_SHARE,
    Comparison,
    Figure,
    compare,
    remarks_of,
    tables_of,
)
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.diagram.svg.document import PITCH, SIZES
from support.docs_picture import PICTURE, drawn, is_the_same
from support.sampled_odds import random_rates

NAMES = ("gpt-5 eu", "sonnet us", "haiku")
HOSTILE = ("<b>&\"'</svg><script>", "\x1b[31mred\x07\x00\u202edne", "x" * 3000)
NEW = Policy(limits=Limits(retries=0))


def event(event: str, share: float, seconds: float = 2.0, **more: object) -> EventRate:
    """Return a rate whose seconds and tokens vary."""
    times = [(seconds * part / 4, 1) for part in range(2, 9)]
    tokens = [(60.0 * part, 1) for part in range(2, 9)]
    return EventRate(
        event=event, share=share, seconds=times, input_tokens=900, output_tokens=tokens, **more
    )  # type: ignore[arg-type]


def rates_of(names: tuple[str, ...] = NAMES, often: float = 1.0) -> Rates:
    """Return rates of backends that mostly answer."""
    events = (
        event("failed_transiently", 0.01 * often, 0.4, reason="overloaded"),
        event("came_empty", 0.005 * often),
        event("truncated", 0.005 * often, facts=("added_text",)),
        event("fell_silent", 0.003 * often, 60, reason="silence"),
        event("refused", 0.001 * often),
    )
    every = (event("answered", 1 - sum(each.share for each in events)), *events)
    return Rates([BackendRates(name=name, prices=Prices(1.25, 10), fresh=every) for name in names])


@cache
def odds_of_many() -> list[tuple[Odds, Odds]]:
    """Return odds of the default policy and of another one, for rates of many kinds."""
    found = [rates_of(), rates_of(often=12), rates_of(NAMES[:1]), rates_of(HOSTILE, 5)]
    found += [random_rates(random.Random(seed), 1 + seed % 3) for seed in range(6)]
    return [(odds(Policy(), rates), odds(NEW, rates)) for rates in found]


def usual() -> Odds:
    """Return odds of the default policy."""
    return odds_of_many()[0][0]


def other() -> Odds:
    """Return those of another policy."""
    return odds_of_many()[0][1]


@cache
def of_one_attempt() -> Odds:
    return odds(Policy(budget=Budget(attempts=1)), rates_of(often=5))


PLACES = range(10)
"""Where each pair stands among the odds of many."""


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("which", [0, 1])
def test_curves_are_short_and_agree_with_the_quantiles(place: int, which: int) -> None:
    found = odds_of_many()[place][which]
    for spread in (found.attempts, found.seconds, found.money):
        if spread is None:
            continue
        values, shares = zip(*spread.curve, strict=True)
        assert len(values) <= 200
        assert [*values] == sorted(set(values))
        assert [*shares] == sorted(shares)
        for name, share in (("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)):
            assert (
                next((value for value, up_to in spread.curve if up_to >= share - SLACK), None)
                == spread.quantiles[name]
            )


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("which", [0, 1])
def test_flows_go_on_from_where_they_arrive_and_end_in_the_outcomes(place: int, which: int) -> None:
    found = odds_of_many()[place][which]
    into: defaultdict[object, float] = defaultdict(float, {(1, "ask"): 1.0})
    out = defaultdict[object, float](float)
    ends = defaultdict[str, float](float)
    for each in found.flows:
        key = (each.attempt, each.rung) + ((each.backend,) if each.attempt > 1 else ())
        out[key] += each.share
        if each.to_backend is None:
            ends[each.target] += each.share
        else:
            into[each.attempt + 1, each.target, each.to_backend] += each.share
    assert {key: out[key] for key in into} == pytest.approx(dict(into), abs=1e-4)
    assert {key: into[key] for key in out} == pytest.approx(dict(out), abs=1e-4)
    assert {name: ends[name] for name in found.outcomes} == pytest.approx(found.outcomes, abs=1e-4)


def svgs(found: Odds, old: Odds | None = None) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for *_, svg in pictures_of(found, old)]


@pytest.mark.parametrize("place", PLACES)
def test_what_flows_into_a_node_flows_out_or_ends(place: int) -> None:
    old, new = odds_of_many()[place]
    for svg in svgs(new, old)[:2]:
        into = defaultdict[str, float](float)
        out = defaultdict[str, float](float)
        nodes = {}
        for group in svg.findall(".//*[@data-share]"):
            share = float(group.attrib["data-share"])
            if "data-node" in group.attrib:
                nodes[group.attrib["data-node"]] = share
            else:
                out[group.attrib["data-source"]] += share
                into[group.attrib["data-target"]] += share
        last = max(int(name.split()[0]) for name in nodes)
        for name, share in nodes.items():
            assert name.startswith("1 ") or into[name] == pytest.approx(share, abs=1e-4)
            assert name.startswith(f"{last} ") or out[name] == pytest.approx(share, abs=1e-4)
        assert sum(
            share for name, share in nodes.items() if name.startswith(f"{last} ")
        ) == pytest.approx(1, abs=1e-4)
        assert last <= 8


def test_calls_of_one_attempt_have_one_column_before_their_outcomes() -> None:
    [flows, *_] = svgs(of_one_attempt())
    assert {each.attrib["data-node"] for each in flows.findall(".//*[@data-node]")} == {
        "1 ask at gpt-5 eu",
        "2 done",
        "2 over budget",
    }


def test_curves_are_drawn_to_the_end_though_the_last_value_comes_often() -> None:
    tokens = ((100.0, 3), (200.0, 1))
    every = EventRate(event="answered", share=1, output_tokens=tokens)
    found = odds(Policy(), Rates([BackendRates(name="a", prices=Prices(0, 10_000), fresh=[every])]))
    *_, money = svgs(found)
    [path] = money.findall(".//*[@class='rw-went']")
    assert path.attrib["d"].count("H") >= 2
    assert re.search(r"V[\d.]+H([\d.]+)$", path.attrib["d"])[1] == "316.9"  # type: ignore[index]


def box(text: ElementTree.Element) -> tuple[float, float, float, float]:
    """Return the left, right, top and bottom of a text."""
    size = SIZES[text.attrib["class"].split()[0].removeprefix("rw-")]
    w = len(text.text or "") * PITCH * size
    left = float(text.attrib["x"]) - {"end": w, "middle": w / 2}.get(text.get("text-anchor", ""), 0)
    y = float(text.attrib["y"])
    return left, left + w, y - 0.75 * size, y + 0.2 * size


@pytest.mark.parametrize("place", [*PLACES, None])
def test_no_labels_overlap_or_leave_the_picture(place: int | None) -> None:
    old, new = (of_one_attempt(), usual()) if place is None else odds_of_many()[place]
    for svg in svgs(new, old):
        w = float(svg.attrib["width"])
        h = float(svg.attrib["height"])
        moved = svg.findall("{*}g[@transform]")
        inner = moved[0].findall(".//{*}text") if moved else []
        outer = [text for text in svg.iter() if text.tag.endswith("}text") and text not in inner]
        for texts in (inner, outer):
            boxes = [(text.text, box(text)) for text in texts]
            for (one, a), (other, b) in combinations(boxes, 2):
                assert a[1] <= b[0] or b[1] <= a[0] or a[3] <= b[2] or b[3] <= a[2], (one, other)
            x, y = (70, 66) if texts is inner else (0, 0)
            for one, (left, right, top, bottom) in boxes:
                assert left + x >= 0 and right + x <= w, one  # noqa: PT018
                assert top + y >= 0 and bottom + y <= h, one  # noqa: PT018


def test_the_values_on_the_page_are_those_of_the_odds() -> None:
    page = FORMS[".html"](usual(), None)
    cells = [unescape(cell) for cell in re.findall(r"<td data-heading=[^>]*>(.*?)</td>", page)]
    assert cells == [
        cell for rows in tables_of(usual()) for _, texts, _ in rows[1:] for cell in texts if cell
    ]
    shares = [
        float(cell.removesuffix(" %").removeprefix("< ")) / 100
        for cell in cells[: sum(map(bool, usual().outcomes.values()))]
    ]
    assert shares == pytest.approx(
        [max(share, LEAST_SHARE) for share in usual().outcomes.values() if share], rel=5e-3
    )
    assert "<script" not in page
    for name, value in usual().seconds.quantiles.items():
        assert value is not None
        assert f"{value:.4g}" in cells, name
        assert f">{value:.3g} s</text>" in page


def test_the_page_of_two_policies_shows_both() -> None:
    page = unescape(FORMS[".html"](other(), usual()))
    comparison = compare(usual(), other())
    assert comparison.summary in page
    for title in ("How calls go before", "How calls go now", "Seconds of a call", "Cost of a call"):
        assert title in page
    for figure in comparison.figures:
        for text in figure.texts:
            assert f">{text}</td>" in page


def test_names_from_outside_are_escaped() -> None:
    rates = rates_of(HOSTILE, 5)
    found = odds(Policy(), rates)
    other = odds(NEW, rates)
    for old in (None, found):
        text, svg, page = (FORMS[form](other, old) for form in ("", ".svg", ".html"))
        ElementTree.fromstring(svg)
        for written in (text, svg, page):
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", written)
            assert "x" * 500 not in written
        for written in (svg, page):
            assert "<b>" not in written
            assert "<script" not in written
            assert "&lt;b&gt;&amp;" in written
        assert max(map(len, text.splitlines())) <= 120
    assert [*found.reached] == [*HOSTILE]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (1.9e-218, "< 0.0000001 %"),
        (5e-324, "< 0.0000001 %"),
        (9.99e-10, "< 0.0000001 %"),
        (1e-9, "0.0000001 %"),
        (1.14e-7, "0.0000114 %"),
        (0.0042, "0.42 %"),
        (0.999974, "99.9974 %"),
        (1.0, "100 %"),
    ],
)
def test_no_share_is_written_with_many_zeros(share: float, text: str) -> None:
    found = attrs.evolve(
        of_one_attempt(), outcomes={"done": 1.0, "partial": share}, over_seconds=share
    )
    rows = {name: cells for name, cells, _ in tables_of(found)[0]}
    assert rows.get("partial", ["0 %"]) == [text]
    assert f"{text} of the calls would exceed the budget of seconds." in [*remarks_of(found)]


def test_a_policy_beside_itself_is_no_change() -> None:
    for found, _ in odds_of_many():
        comparison = compare(found, found)
        assert comparison.summary == "no change"
        assert {figure.texts[2] for figure in comparison.figures} == {"="}
    assert "no change" in FORMS[""](usual(), usual())


def test_the_summary_tells_what_changes_most() -> None:
    worse = attrs.evolve(
        usual(),
        outcomes={"done": 0.9991, "failed": 0.0009},
        seconds=attrs.evolve(usual().seconds, quantiles={**usual().seconds.quantiles, "p99": 21.0}),
    )
    better = attrs.evolve(
        worse,
        outcomes={"done": 0.9997, "refused": 0.0003},
        seconds=attrs.evolve(usual().seconds, quantiles={**usual().seconds.quantiles, "p99": 34.0}),
        money=usual().money and attrs.evolve(usual().money, mean=usual().money.mean * 1.03),
    )
    comparison = compare(worse, better)
    assert comparison.summary == "done 99.91 -> 99.97 %, P99 21 -> 34 s, cost +3 %"
    outcomes = comparison.tables[0]
    assert outcomes[0][:2] == ("outcome", ("before", "now", "change"))
    assert {name: cells[2] for name, cells, _ in outcomes[1:]} == {
        "done": "+0.06 points",
        "failed": "-0.09 points",
        "refused": "+0.03 points",
    }
    waits = compare(usual(), attrs.evolve(usual(), waited=usual().waited * 3))
    assert waits.summary == "other figures change, but not done, P99 and cost"
    assert waits.tables[4][2][1][2] == "x 3"


def test_few_digits_tell_figures_apart_and_quantiles_may_lie_beyond_the_grid() -> None:
    assert Figure("of", "name", "share", 0.99991, 0.99992, 1e-6).texts == (
        "99.991 %",
        "99.992 %",
        "+0.001 points",
    )
    assert Figure("of", "name", "number", 3.0, float("inf"), 0.1).texts == ("3", "more", "more")
    assert Figure("of", "name", "number", float("inf"), float("inf"), 0.1).texts == (
        "more",
        "more",
        "=",
    )
    assert Figure("of", "name", "number", 3.0, 3.05, 0.1).texts == ("3", "3.05", "=")
    assert Figure("of", "name", "money", 0.0, 0.5, 0.1).texts == ("0", "0.5", "more")


def test_a_comparison_passes_through_json() -> None:
    comparison = compare(usual(), other())
    data = orjson.loads(orjson.dumps(attrs.asdict(comparison)))
    assert (
        Comparison(data["summary"], tuple([Figure(**each) for each in data["figures"]]))
        == comparison
    )
    flows = orjson.loads(orjson.dumps(attrs.asdict(usual())))["flows"]
    assert flows == [attrs.asdict(each) for each in usual().flows]


def test_the_picture_of_the_docs_is_that_of_the_example() -> None:
    """`python tests/renew.py` draws it anew."""
    assert is_the_same(drawn(), PICTURE.read_text(encoding="utf-8"))
