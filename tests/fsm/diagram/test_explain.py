import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import orjson
import pytest

import rungwise
from rungwise import CALL, Budget, ConfigurationError, Policy, Prices, TurnPolicy, Usage
from rungwise.core import TURN, Call, Effect, Failure, Guard, PlainLink, Reply, Request, Row, Table
from rungwise.fsm.analysis.certificate.shown.page import (
    play_policy,
    usual_facts,
    usual_facts_of_turn,
)
from rungwise.fsm.call.run.call_digest import digest_of_call
from rungwise.fsm.diagram.page.machine_page import machine_data
from rungwise.fsm.diagram.page.run_page import Timeline, bars_of
from rungwise.fsm.engine.journal.path import Path as Route
from rungwise.fsm.engine.journal.path import path_of
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.turn.explained import explain_call, read_call
from support.command_line import invoke
from support.elements import Elements
from support.played import play
from support.tables import KNOTTY, ONES

TOOL_RESULT = [
    {"role": "user", "content": "?"},
    {"role": "tool", "tool_call_id": "1", "content": "!"},
]
STORY: tuple[tuple[Reply | Failure, float], ...] = (
    (Reply(stop_reason="stop", stop_raw="stop", usage=Usage(800, 1)), 1.0),
    (
        Reply(
            reasoning="hm",
            stop_reason="stop",
            stop_raw="stop",
            usage=Usage(800, 200),
        ),
        4.0,
    ),
    (
        Reply("The answer", stop_reason="length", stop_raw="length", usage=Usage(900, 700)),
        6.0,
    ),
    (
        Failure(
            "rate_limit",
            status=429,
            code="slow_down",
            asked_wait=12.0,
        ),
        0.5,
    ),
    (Failure("auth", status=401), 0.5),
    (
        Reply(
            " is 4.",
            stop_reason="stop",
            stop_raw="end_turn",
            usage=Usage(1500, 300),
        ),
        5.0,
    ),
)


def record(
    *, names: tuple[str, str] = ("one", "two"), steps: int = len(STORY), **options: Any
) -> rungwise.Journal:
    chain = [
        PlainLink(names[0], prices=Prices(1, 10)),
        PlainLink(f"{names[0]}-off", problem="no key", prices=Prices(1, 10)),
        PlainLink(names[1], prices=Prices(2, 20)),
    ]
    budget = Budget(seconds=90, output_tokens=20_000, money=1.0)
    policy = Policy(budget=budget, switch_after={"empty": 1000})
    call = Call(Request(TOOL_RESULT, max_tokens=700), policy, chain, **options)
    return play(call, STORY[:steps], begins=100.0).journal


def trail(**options: Any) -> Route:
    return read_call(record(**options).to_json())


# Reading a journal


def test_every_step_is_found_in_the_table() -> None:
    found = trail()
    assert [None if row is None else row.guard for row in found.rows if row is None or row.event != "sent"] == [  # noqa: E501
        "may_nudge", "may_prefill", "may_continue", "may_retry", "may_fall_back", None, None,
    ]  # fmt: skip
    skipped = found.steps[found.rows.index(None)]
    assert (skipped.event, skipped.backend, skipped.note) == ("skipped", "one-off", "no key")


def test_a_call_that_has_not_ended_has_a_trail_too() -> None:
    found = trail(steps=2)
    assert found.record.outcome is None
    assert found.steps[-1].target == "prefill"
    assert "not ended" in explain_call(found)


def spoilt(*keys: Any, to: Any) -> str:
    document = orjson.loads(record().to_json())
    place = document
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = to
    return orjson.dumps(document).decode()


BAD = {
    "another table": (spoilt("table", to="turn"), "of the table 'turn', not of 'call'"),
    "a table that is no name": (spoilt("table", to={"a": 1}), "not of 'call'"),
    "no chain": (spoilt("chain", to=[]), "chain is empty"),
    "other counters": (spoilt("counters", to=["retries"]), "counters"),
    "no steps": (spoilt("steps", to=[]), "no steps"),
    "a step that is no row": (
        spoilt("steps", 1, "guard", to="may_frob"),
        r"step 2:.*may_frob.* is no row",
    ),
    "another effect": (
        spoilt("steps", 1, "effect", to="spend_reask"),
        r"step 2:.*spend_reask.* is no row",
    ),
    "an unknown target": (spoilt("steps", 1, "target", to="moon"), r"step 2:.*moon.* is no row"),
    "steps that do not follow": (
        spoilt("steps", 2, "source", to="ask"),
        "step 3: it begins in 'ask'.*'nudge'",
    ),
    "a time before": (spoilt("steps", 3, "at", to=0), "step 4: it was taken at 0 s, before"),
    "an unknown counter": (spoilt("steps", 1, "spent", to={"x": 1}), "step 2: .*counters"),
    "another outcome": (spoilt("outcome", to="failed"), "'failed'.*'done'"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_journal_of_this_table_is_refused_in_one_line(name: str) -> None:
    text, says = BAD[name]
    with pytest.raises(ConfigurationError, match=says) as caught:
        read_call(text)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 300


@pytest.mark.full
def test_a_derived_table_must_be_passed() -> None:
    table = CALL.with_rows(Row("answered", "await", "may_compact", "compact", "spend_compaction"))
    call = Call(Request("?"), Policy(table=table), has_compactor=True)
    call.begin()
    call.receive(Reply("yes", stop_reason="stop"))
    assert path_of(call.journal, table).rows[-1] in table.rows
    with pytest.raises(
        ConfigurationError, match=r"step 2: .*may_compact.* is no row of the table 'call'"
    ):
        path_of(call.journal, CALL)


# The page


PAGES = {
    "explain": lambda: explain_call(trail()),
    "explain with contents": lambda: explain_call(trail(contents=True)),
    "play": lambda: play_policy(Policy(), 2),
    "play a turn": lambda: play_policy(TurnPolicy()),
}


@pytest.mark.parametrize(
    "name",
    [
        "explain",
        "explain with contents",
        "play",
        pytest.param("play a turn", marks=pytest.mark.full),
    ],
)
def test_a_page_is_one_file_that_loads_nothing(name: str) -> None:
    text = PAGES[name]()
    page = Elements(text)
    policy = next(
        meta for meta in page.of("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert (policy["content"] or "").startswith(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    )
    assert page.tags & {"link", "img", "iframe", "object", "embed", "form", "base"} == set()
    assert not {"src", "href", "action"} & page.attributes
    assert not any(name.startswith("on") for name in page.attributes)
    assert [script.get("type") for script in page.of("script")] == ["application/json", None]
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "").replace(
        'createElementNS("http://www.w3.org/2000/svg"', ""
    ).replace("http-equiv", "")


def test_the_page_lists_every_step_and_what_was_left() -> None:
    found = trail()
    page = Elements(explain_call(found))
    options = [attributes for attributes in page.of("li") if attributes.get("role") == "option"]
    assert [option["id"] for option in options] == [f"step-{step.number}" for step in found.steps]
    call = page.data["call"]
    assert [row if row is None else CALL.rows[row] for row in call["rows"]] == list(found.rows)
    assert [step["used"]["attempts"] for step in call["steps"]] == [
        step.attempts for step in found.steps
    ]
    last = call["steps"][-1]["used"]
    assert last["output_tokens"] == 1201
    assert last["money"] == pytest.approx((2500 * 1 + 901 * 10 + 1500 * 2 + 300 * 20) / 1e6)
    assert page.data["budget"]["seconds"] == 90


def test_the_timeline_is_to_scale() -> None:
    lines = digest_of_call(trail()).lines
    times = [
        (bar.kind, bar.start, pytest.approx(bar.seconds)) for line in lines for bar in bars_of(line)
    ]
    assert times == [
        ("attempt", 0.0, 1.0), ("attempt", 1.0, 4.0), ("attempt", 5.0, 6.0), ("attempt", 11.0, 0.5),
        ("wait", 11.5, 12.0), ("attempt", 23.5, 0.5), ("attempt", 24.0, 5.0),
    ]  # fmt: skip
    assert [line.backend for line in lines] == ["one"] * 5 + ["two"]
    page = Elements(explain_call(trail()))
    bars = [
        attributes
        for attributes in page.of("i")
        if (attributes.get("class") or "").startswith("bar ")
    ]
    wait = next(bar for bar in bars if bar["class"] == "bar wait")
    left, width = (float(part) for part in re.findall(r":([\d.]+)%", wait["style"] or ""))
    assert (left, width) == (
        pytest.approx(100 * 11.5 / 29, abs=0.01),
        pytest.approx(100 * 12 / 29, abs=0.01),
    )
    lanes = page.words.split("Attempts over time")[1]
    assert (
        lanes.index("to one") < lanes.index("1ask") < lanes.index("5retry") < lanes.index("to two")
    )


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 0.3, 1.0, 7.0, 41.7, 3600.0, 1e300])
def test_the_axis_has_a_handful_of_round_times(seconds: float) -> None:
    found = Timeline(seconds).ticks
    assert found[0] == 0
    assert len(found) <= 6
    assert found == sorted(set(found))
    assert found[-1] <= seconds * (1 + 1e-6)


def test_a_call_without_times_says_so() -> None:
    call = Call(Request("?"))
    call.begin()
    call.receive(Reply("yes", stop_reason="stop"))
    assert "No time passed" in explain_call(path_of(call.journal, CALL))


# The machine in the page


LIMITS = {**ONES, "retries": 3, "nudges": 0}


@pytest.mark.parametrize(
    "table", [CALL, CALL.without("nudge", "compact"), KNOTTY], ids=["call", "shorter", "knotty"]
)
def test_the_machine_of_the_page_is_what_the_table_declares(table: Table) -> None:
    data = orjson.loads(orjson.dumps(machine_data(table, LIMITS)))
    assert tuple(Row(**row) for row in data["rows"]) == table.rows
    assert (data["limits"], tuple(data["counters"])) == (LIMITS, table.counters)
    for name, plain in data["guards"].items():
        assert Guard(name, says=data["says"][name], **plain) == table.guard(name)
    for name, plain in data["effects"].items():
        assert Effect(name, **plain) == table.effect(name)
    assert {
        name: rungwise.Fact(name, says=table.fact(name).says, **plain)
        for name, plain in data["facts"].items()
    } == {fact.name: fact for fact in table.facts if fact.is_derived}
    assert {*data["guards"]} == {row.guard for row in table.rows if row.guard}
    assert {*data["effects"]} == {row.effect for row in table.rows if row.effect}


def test_the_usual_facts_are_those_that_a_call_finds() -> None:
    usual = usual_facts(Policy(limits=rungwise.Limits(continuations=0)), 2)
    decided = {row.event for row in CALL.rows if row.guard}
    assert set(usual) == decided
    assert usual["came_empty"].now == ("wait_fits", "has_next_backend")
    assert {"has_text", "added_text"} <= set(usual["truncated"].now)
    assert "has_text" in usual["truncated"].later
    assert "added_text" not in usual["truncated"].later
    assert usual["ran_out"].now == ("has_next_backend", "reserve_left")
    alone = usual_facts(Policy(), 1)
    assert "has_next_backend" not in alone["came_empty"].now
    assert alone["ran_out"].now == ()


def test_with_the_usual_facts_every_event_goes_on() -> None:
    for event, usual in usual_facts(Policy(), 2).items():
        run = Run.at_start(CALL, ONES)
        if event not in ("ran_out", "found_open"):  # which come before anything is sent
            run.fire("sent")
        assert run.fire(event, usual.now).target in CALL.rungs, event


def test_the_usual_facts_of_a_turn_let_it_go_on() -> None:
    usual = usual_facts_of_turn()
    assert {row.event for row in TURN.rows if row.guard} <= set(usual)
    assert usual["tools_ran"].now == ("tool_worked", "may_fail_again", "may_go_on_later")
    assert "has_compactor" in usual["overflowed"].now
    for event in ("called_tools", "tools_ran", "truncated", "overflowed", "compacted"):
        run = Run.at_start(TURN, TurnPolicy().limits)
        run.fire("sent")
        assert run.fire(event, usual[event].now).target in TURN.rungs, event


def test_the_play_page_states_the_worst_case_of_its_policy() -> None:
    page = Elements(play_policy(Policy(budget=Budget(attempts=7)), 3))
    assert "a chain of 3 backends, a call makes at most 7 attempts" in page.words
    assert page.data["machine"]["limits"]["fallbacks"] == 2
    assert page.data["usual"]["at_first"] == ["wait_fits", "has_next_backend"]


def test_a_chain_has_a_backend() -> None:
    with pytest.raises(ConfigurationError, match="must have 1 to 1001 backends"):
        play_policy(Policy(), 0)


# The command


@pytest.fixture
def journal(tmp_path: Path) -> str:
    path = tmp_path / "steps.json"
    path.write_text(record().to_json())
    return str(path)


def test_explain_draws_the_path(journal: str) -> None:
    mermaid = invoke("explain", journal, "--format", "mermaid").stdout
    assert "2: came_empty [may_nudge]" in mermaid
    assert "linkStyle" in mermaid
    ladder = invoke("explain", journal, "--format", "mermaid", "--view", "ladder").stdout
    assert "may_nudge → nudge / spend_nudge<br>taken at 2" in ladder
    assert "has_delivered → salvaged / keep_delivered<br>false at 2" in ladder
    svg = invoke("explain", journal, "--format", "svg", "--view", "ladder").stdout
    assert "rw-hollow" in svg
    ET.fromstring(svg)


@pytest.mark.full
def test_explain_plays_a_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[limits]\nretries = 7\n")
    page = Elements(invoke("explain", "--play", str(policy), "--backends", "3").stdout)
    assert (
        page.data["machine"]["limits"] | {"retries": 7, "fallbacks": 2}
        == page.data["machine"]["limits"]
    )
    assert invoke("explain", "--play").stdout.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give a JOURNAL.json"),
        (["nowhere.json"], "nowhere.json"),
        (["{bad}"], "bad.json: journal: no JSON"),
        (["{good}", "--backends", "2"], "--backends is for --play"),
        (["--play", "{bad}"], "bad.json: "),
        (["--play", "--format", "svg"], "--play writes a page"),
        (["{good}", "-o", "{dir}/none/steps.html"], "cannot be written"),
    ],
)
def test_bad_input_is_said_in_one_line(
    arguments: list[str],
    says: str,
    journal: str,
    tmp_path: Path,
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    result = invoke(
        "explain", *(word.format(bad=bad, good=journal, dir=tmp_path) for word in arguments)
    )
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
