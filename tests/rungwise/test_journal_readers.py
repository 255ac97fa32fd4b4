"""What reads the journal of a call or of a turn gives a valid one or an error of ours, whatever it
reads.
"""

import copy
import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rungwise
from rungwise import (
    ConfigurationError,
    Journal,
    JournalMismatch,
    TurnJournal,
    TurnPolicy,
    TurnResult,
    replay,
)
from rungwise.adapters.cli.describe import brief_text, steps_text
from rungwise.core import Call, Failure, PlainLink, Reply, Request, Turn
from rungwise.fsm.diagram import Marks
from rungwise.fsm.diagram import render as draw_picture
from rungwise.fsm.engine.journal.path import Path
from rungwise.fsm.turn.explained import (
    explain_call,
    explain_turn,
    read_call,
    read_recorded,
    read_turn,
)
from rungwise.fsm.turn.turn_digest import TurnPath
from support.sampling import examples
from support.spoiling import RETYPED, at, deep, is_clear, spoilt
from support.texts import places
from support.turns import BUSY, OVERFLOW, calling, played, said

MANY = settings(
    max_examples=examples(400),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
END = said("By the lake.")


# calls


def record(*heard: Reply | Failure, chain: int = 2, **options: Any) -> dict[str, Any]:
    """Return the journal of a call as a document."""
    policy = options.pop("policy", rungwise.Policy(budget=rungwise.Budget(seconds=500, money=1.0)))
    links = [
        PlainLink(f"backend {place}", prices=rungwise.Prices(1.0, 2.0, cache_read=0.5))
        for place in range(chain)
    ]
    call = Call(
        Request("?", max_tokens=50), policy, links, jitter=lambda: 0.3, contents=True, **options
    )
    now = 0.0
    given = iter(heard)
    send = call.begin(now)
    while send is not None:
        now += send.wait + 1.5
        reply = next(given, None)
        if reply is None:
            call.cancel(now, Reply("half of"))
            break
        if send.needs_compaction:
            call.compacted([{"role": "user", "content": "short"}])
        send = call.receive(reply, now)
    document: dict[str, Any] = orjson.loads(call.journal.to_json())
    return document


ANSWER = Reply(
    "An answer.",
    stop_reason="stop",
    stop_raw="stop",
    usage=rungwise.Usage(7, 9),
)
CALLED = Reply(
    tool_calls=(rungwise.ToolCall("1", "look", '{"a": 1}'),),
    stop_reason="tool_calls",
    stop_raw="tool_calls",
)
CUT = Reply(
    "The first half of it ", stop_reason="length", stop_raw="length", usage=rungwise.Usage(7, 50)
)
CALL_JOURNALS = (
    record(ANSWER),
    record(
        Reply(stop_reason="stop"), Failure("rate_limit", status=429, asked_wait=3.0), CUT, ANSWER
    ),
    record(Failure("auth", status=401), Reply(reasoning="Hm.", stop_reason="stop"), CALLED),
    record(Failure("context_overflow", status=400), ANSWER, has_compactor=True),
    record(
        Failure("parameter_unsupported", status=400, parameter="temperature"),
        Failure("server_error"),
    ),
    record(CUT, CUT, chain=1, policy=rungwise.Policy(budget=rungwise.Budget(attempts=2))),
)


def test_the_journal_of_a_rung_of_ones_own_is_written_as_it_was_read() -> None:
    document = copy.deepcopy(CALL_JOURNALS[0])
    document["counters"].append("pleas")
    document["policy"]["limits"]["pleas"] = 2
    document["policy"]["hints"]["rungs"] = {"entreat": "Please."}
    for step in document["steps"]:
        step.get("spent", {}).update(pleas=0)
    assert orjson.loads(rungwise.Journal.from_json(orjson.dumps(document)).to_json()) == document


def test_a_journal_without_the_defaults_of_today_is_replayed_without_them() -> None:
    """A policy fills in what its `switch_after` does not name; one that was recorded did not."""
    overloaded = Failure("overloaded", status=529)
    never = rungwise.Policy(switch_after={"overloaded": 1000})
    document = record(overloaded, overloaded, overloaded, ANSWER, policy=never)
    del document["policy"]["switch_after"]["overloaded"]
    assert rungwise.replay(rungwise.Journal.from_json(orjson.dumps(document))).outcome == "done"


def test_a_long_journal_is_replayed_without_comparing_any_step_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = rungwise.Policy(
        limits=rungwise.Limits(continuations=400), budget=rungwise.Budget(attempts=400)
    )
    parts = [Reply(f"Part {n} of it. ", stop_reason="length") for n in range(400)]
    journal = rungwise.Journal.from_json(orjson.dumps(record(*parts, policy=policy)))
    compared = 0

    def count(self: rungwise.Step, other: object) -> bool:
        nonlocal compared
        compared += 1
        return self is other or repr(self) == repr(other)

    monkeypatch.setattr(rungwise.Step, "__eq__", count)
    rungwise.replay(journal)
    assert 0 < compared <= 2 * journal.size


# turns


def document(*replies: Any, **options: Any) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(played(*replies, END, **options).journal.to_json())
    return read


TURN_JOURNALS = (
    document(calling("look", "gone", text="Let me see."), contents=True),
    document(BUSY, OVERFLOW, has_compactor=True),
    document(calling("look"), calling("look"), policy=TurnPolicy(same_calls=2), contents=True),
)
TURN = TURN_JOURNALS[0]
FIRST_CALL = TURN["calls"][0]


# both


@frozen
class Kind:
    """How the journals of calls, or those of turns, are read and shown."""

    journals: tuple[dict[str, Any], ...]
    journal: type[Any]
    result: type[Any]
    read: Callable[[bytes], Any]
    explain: Callable[[Any], str]


CALLS = Kind(CALL_JOURNALS, Journal, rungwise.Result, read_call, explain_call)
TURNS = Kind(TURN_JOURNALS, TurnJournal, TurnResult, read_turn, explain_turn)
EACH_KIND = pytest.mark.parametrize(
    "kind", [pytest.param(CALLS, id="call"), pytest.param(TURNS, marks=pytest.mark.full, id="turn")]
)


def survives(kind: Kind, text: bytes, *, shown: bool = True) -> None:
    """Read a journal; what is accepted can be written, replayed and shown, which takes its time."""
    try:
        journal = kind.journal.from_json(text)
    except ConfigurationError as error:
        is_clear(error, "journal: ")
        with pytest.raises(ConfigurationError):
            kind.read(text)
        return
    assert all(map(str, journal.steps))
    written = journal.to_json()
    assert kind.journal.from_json(written).to_json() == written
    try:
        assert isinstance(replay(journal), kind.result)
    except JournalMismatch as error:
        is_clear(error, "")
    try:
        found = kind.read(text)
    except ConfigurationError as error:
        is_clear(error, "journal: ")
        return
    if not shown:
        return
    kind.explain(found)
    for told in (steps_text(found), brief_text(found)):
        assert all(line.isprintable() for line in told.split("\n"))
    if kind is CALLS:
        for view in ("hub", "ladder"):
            draw_picture(found.table, "svg", view, Marks.along(found.rows))


@EACH_KIND
@MANY
@given(data=st.data())
def test_a_journal_is_refused_or_survives_everything(kind: Kind, data: st.DataObject) -> None:
    document = data.draw(st.sampled_from(kind.journals).flatmap(spoilt))
    # also what other writers would refuse: any reader may meet it
    survives(kind, json.dumps(document).encode())


@pytest.mark.parametrize(
    ("kind", "document"),
    [(kind, document) for kind in (CALLS, TURNS) for document in kind.journals],
    ids=[
        f"{name} {place}"
        for name, kind in (("call", CALLS), ("turn", TURNS))
        for place, _ in enumerate(kind.journals)
    ],
)
def test_what_was_recorded_survives_everything(kind: Kind, document: dict[str, Any]) -> None:
    text = orjson.dumps(document)
    survives(kind, text)
    assert orjson.loads(kind.journal.from_json(text).to_json()) == document
    assert replay(kind.journal.from_json(text)).outcome == document["outcome"]
    assert isinstance(read_recorded(text), TurnPath if kind is TURNS else Path)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "whole"), [(CALLS, CALL_JOURNALS[1]), (TURNS, TURN)], ids=["call", "turn"]
)
def test_every_value_of_a_journal_is_checked(kind: Kind, whole: dict[str, Any]) -> None:
    """Put each of a few odd values at each place, and each value in another type; the calls of a
    turn are calls.
    """
    odd = (None, -1, 1e300, 2**63, "odd", [["a", "b"]], {"a": 1})
    for path in places({**whole, "calls": []} if kind is TURNS else whole):
        for change in (*[lambda _, value=value: value for value in odd], *RETYPED):
            changed = copy.deepcopy(whole)
            inner = at(changed, path[:-1])
            inner[path[-1]] = change(inner[path[-1]])
            survives(kind, json.dumps(changed).encode(), shown=False)


@pytest.mark.parametrize("at", [5e-324, 1e-320, 1e-12, 1e15])
@pytest.mark.parametrize("kind", [CALLS, TURNS], ids=["call", "turn"])
def test_a_journal_of_the_shortest_and_the_longest_times_is_drawn(kind: Kind, at: float) -> None:
    document = copy.deepcopy(kind.journals[0])
    for step in document["steps"]:
        step["at"] = 0.0
    document["steps"][-1]["at"] = at
    assert "<svg" in kind.explain(kind.read(orjson.dumps(document)))


# what is wrong with a turn

BAD = {
    "calls that are none": ({"calls": 5}, "'calls' must be a list of objects"),
    "a call that is none": ({"calls": [5, 5]}, "'calls' must be a list of objects"),
    "a call that is empty": ({"calls": [{}, {}]}, "call 1: this is not a journal"),
    "a turn for a call": ({"calls": [TURN] * 2}, "call 1: 'chain' is missing"),
    "no calls": ({"calls": []}, "it holds 0 calls, but its steps made 2"),
    "a call of another table": (
        {"calls": [{**FIRST_CALL, "table": "x"}] * 2},
        "call 1: .*'call'",
    ),
    "the policy of no call": (
        {"policy": {**TURN["policy"], "call": 5}},
        "Policy must be a table of keys",
    ),
    "no policy": ({"policy": None}, "'policy' must be an object"),
    "a call that took no row": (
        {"calls": [{**FIRST_CALL, "steps": FIRST_CALL["steps"][:1]}] * 2},
        "call 1: its outcome is 'done'",
    ),
    "a turn that took no row": (
        {"steps": TURN["steps"][:1], "calls": TURN["calls"][:1]},
        "its outcome is",
    ),
    "a step of nothing": (
        {"steps": [{**TURN["steps"][0], "event": ""}], "calls": []},
        "step 1: 'ask -- / count_attempt--> await' is no row of the table 'turn'",
    ),
    "nothing": ({"steps": [], "calls": []}, "no steps"),
    "deep contents": (
        {"steps": [{**TURN["steps"][0], "content": {"a": deep(900)}}]},
        "nested",
    ),
    "results that are none": (
        {"steps": [{**TURN["steps"][0], "content": {"results": [["a", "b", "c", 1]]}}]},
        "step 1: 'results' of its content must be a list of results",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_journal_of_a_turn_is_refused_with_its_place(name: str) -> None:
    change, says = BAD[name]
    with pytest.raises(ConfigurationError, match=says) as caught:
        read_recorded(json.dumps({**TURN, **change}))
    is_clear(caught.value, "journal: ")


@pytest.mark.parametrize("text", [b"", b"[", b"\xff", b"[" * 100_000, b'{"calls":' * 5_000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    for read in (read_recorded, TurnJournal.from_json):
        with pytest.raises(ConfigurationError, match="no JSON"):
            read(text)


@pytest.mark.full
def test_thousands_of_calls_are_read_or_refused_in_time() -> None:
    call = FIRST_CALL
    with pytest.raises(ConfigurationError, match="it holds 5000 calls, but its steps made 2"):
        read_turn(orjson.dumps({**TURN, "calls": [call] * 5_000}))


def test_each_kind_is_read_by_what_it_says_it_is() -> None:
    call = orjson.dumps(FIRST_CALL)
    assert isinstance(read_recorded(call), Path)
    assert Journal.from_json(call).outcome == "done"
    for read, text, says in (
        (read_turn, call, "'call', not of 'turn'"),
        (Journal.from_json, orjson.dumps(TURN), "is missing"),
    ):
        with pytest.raises(ConfigurationError, match=says):
            read(text)


def test_a_turn_that_was_cancelled_before_it_began_is_shown_and_replayed() -> None:
    turn = Turn(Request("Where?"))
    turn.cancel(5.0)
    found = read_turn(turn.journal.to_json())
    assert "No time passed in this turn" in explain_turn(found)
    assert steps_text(found).endswith("cancelled: 0 calls, 0 requests, 0.0 s\n")
    assert replay(found.path.record).cause == turn.result.cause


def test_the_steps_that_have_to_do_with_a_call_say_which() -> None:
    found = read_turn(orjson.dumps(TURN))
    assert [found.call_of.get(step.number) for step in found.path.steps] == [1, 1, None, None, 2, 2]
    assert [path.record.outcome for path in found.calls if path] == ["done", "done"]


def test_a_call_that_was_killed_before_its_first_step_has_no_path() -> None:
    killed = copy.deepcopy(TURN)
    killed["steps"] = killed["steps"][:5]
    killed["calls"][1] |= {"steps": [], "outcome": None}
    killed["outcome"] = None
    found = read_turn(orjson.dumps(killed))
    assert [path is None for path in found.calls] == [False, True]
    assert replay(found.path.record).outcome == "cancelled"
