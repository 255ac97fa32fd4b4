"""What reads the journal of a turn gives a valid one or an error of ours, whatever it reads."""

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rungwise.adapters.cli.describe import brief_text, steps_text
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.errors import ConfigurationError, JournalMismatch
from rungwise.fsm.journal.path import Path
from rungwise.fsm.replay.replay import replay
from rungwise.fsm.turn.explained import TurnPath, explain_turn, read_recorded, read_turn
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.turn import Turn
from support.sampling import examples
from support.spoiling import RETYPED, at, deep, is_clear, spoilt
from support.texts import places
from support.turns import BUSY, OVERFLOW, calling, played, said

MANY = settings(max_examples=examples(300), suppress_health_check=(HealthCheck.too_slow,))
END = said("By the lake.")


def document(*replies: Any, **options: Any) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(played(*replies, END, **options).journal.to_json())
    return read


JOURNALS = (
    document(calling("look", "gone", text="Let me see."), contents=True),
    document(BUSY, OVERFLOW, has_compactor=True),
    document(calling("look"), calling("look"), policy=TurnPolicy(same_calls=2), contents=True),
)


def survives(text: bytes, *, shown: bool = True) -> None:
    """Read a journal; what is accepted can be written, replayed and shown, which takes its time."""
    try:
        journal = TurnJournal.from_json(text)
    except ConfigurationError as error:
        is_clear(error, "journal: ")
        with pytest.raises(ConfigurationError):
            read_turn(text)
        return
    assert all(map(str, journal.steps))
    written = journal.to_json()
    assert TurnJournal.from_json(written).to_json() == written
    try:
        assert isinstance(replay(journal), TurnResult)
    except JournalMismatch as error:
        is_clear(error, "")
    try:
        found = read_turn(text)
    except ConfigurationError as error:
        is_clear(error, "journal: ")
        return
    if not shown:
        return
    explain_turn(found)
    for told in (steps_text(found), brief_text(found)):
        assert all(line.isprintable() for line in told.split("\n"))


@pytest.mark.parametrize("index", range(len(JOURNALS)))
def test_what_was_recorded_survives_everything(index: int) -> None:
    text = orjson.dumps(JOURNALS[index])
    survives(text)
    assert orjson.loads(TurnJournal.from_json(text).to_json()) == JOURNALS[index]
    assert replay(TurnJournal.from_json(text)).outcome == JOURNALS[index]["outcome"]
    assert isinstance(read_recorded(text), TurnPath)


@pytest.mark.full
@MANY
@given(st.sampled_from(JOURNALS).flatmap(spoilt))
def test_a_journal_is_refused_or_survives_everything(spoilt: Any) -> None:
    survives(json.dumps(spoilt).encode())


@pytest.mark.full
def test_every_value_of_a_turn_is_checked() -> None:
    """Put each of a few odd values at each place of the turn's own, and each value in another type."""
    odd = (None, -1, 2**63, "odd", [["a", "b"]], {"a": 1})
    whole = JOURNALS[0]
    for path in places({**whole, "calls": []}):
        for change in (*[lambda _, value=value: value for value in odd], *RETYPED):
            spoilt = copy.deepcopy(whole)
            inner = at(spoilt, path[:-1])
            inner[path[-1]] = change(inner[path[-1]])
            survives(json.dumps(spoilt).encode(), shown=False)


BAD = {
    "calls that are none": ({"calls": 5}, "'calls' must be a list of objects"),
    "a call that is none": ({"calls": [5, 5]}, "'calls' must be a list of objects"),
    "a call that is empty": ({"calls": [{}, {}]}, "call 1: this is not a journal"),
    "a turn for a call": ({"calls": [JOURNALS[0]] * 2}, "call 1: 'chain' is missing"),
    "no calls": ({"calls": []}, "it holds 0 calls, but its steps made 2"),
    "a call of another table": ({"calls": [{**JOURNALS[0]["calls"][0], "table": "x"}] * 2}, "call 1: .*'call'"),
    "the policy of no call": ({"policy": {**JOURNALS[0]["policy"], "call": 5}}, "Policy must be a table of keys"),
    "no policy": ({"policy": None}, "'policy' must be an object"),
    "a call that took no row": (
        {"calls": [{**JOURNALS[0]["calls"][0], "steps": JOURNALS[0]["calls"][0]["steps"][:1]}] * 2},
        "call 1: its outcome is 'done'",
    ),
    "a turn that took no row": (
        {"steps": JOURNALS[0]["steps"][:1], "calls": JOURNALS[0]["calls"][:1]},
        "its outcome is",
    ),
    "a step of nothing": (
        {"steps": [{**JOURNALS[0]["steps"][0], "event": ""}], "calls": []},
        "step 1: 'ask -- / count_attempt--> await' is no row of the table 'turn'",
    ),
    "nothing": ({"steps": [], "calls": []}, "no steps"),
    "deep contents": ({"steps": [{**JOURNALS[0]["steps"][0], "content": {"a": deep(900)}}]}, "nested"),
    "results that are none": (
        {"steps": [{**JOURNALS[0]["steps"][0], "content": {"results": [["a", "b", "c", 1]]}}]},
        "step 1: 'results' of its content must be a list of results",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_journal_of_a_turn_is_refused_with_its_place(name: str) -> None:
    change, says = BAD[name]
    with pytest.raises(ConfigurationError, match=says) as caught:
        read_recorded(json.dumps({**JOURNALS[0], **change}))
    is_clear(caught.value, "journal: ")


@pytest.mark.parametrize("text", [b"", b"[", b"\xff", b"[" * 100_000, b'{"calls":' * 5_000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    for read in (read_recorded, TurnJournal.from_json):
        with pytest.raises(ConfigurationError, match="no JSON"):
            read(text)


@pytest.mark.full
def test_ten_thousand_calls_are_read_or_refused_in_time() -> None:
    call = JOURNALS[0]["calls"][0]
    with pytest.raises(ConfigurationError, match="it holds 10000 calls, but its steps made 2"):
        read_turn(orjson.dumps({**JOURNALS[0], "calls": [call] * 10_000}))


def test_each_kind_is_read_by_what_it_says_it_is() -> None:
    call = orjson.dumps(JOURNALS[0]["calls"][0])
    assert isinstance(read_recorded(call), Path)
    assert Journal.from_json(call).outcome == "done"
    for read, text, says in (
        (read_turn, call, "'call', not of 'turn'"),
        (Journal.from_json, orjson.dumps(JOURNALS[0]), "is missing"),
    ):
        with pytest.raises(ConfigurationError, match=says):
            read(text)


@pytest.mark.parametrize("at", [5e-324, 1e-12, 1e15])
def test_a_turn_of_the_shortest_and_the_longest_times_is_drawn(at: float) -> None:
    spoilt = copy.deepcopy(JOURNALS[0])
    for step in spoilt["steps"]:
        step["at"] = 0.0
    spoilt["steps"][-1]["at"] = at
    assert "<svg" in explain_turn(read_turn(orjson.dumps(spoilt)))


def test_a_turn_that_was_cancelled_before_it_began_is_shown_and_replayed() -> None:
    turn = Turn(Request("Where?"))
    turn.cancel(5.0)
    found = read_turn(turn.journal.to_json())
    assert "No time passed in this turn" in explain_turn(found)
    assert steps_text(found).endswith("cancelled: 0 calls, 0 requests, 0.0 s\n")
    assert isinstance(found.path.record, TurnJournal)
    assert replay(found.path.record).cause == turn.result.cause


def test_the_steps_that_have_to_do_with_a_call_say_which() -> None:
    found = read_turn(orjson.dumps(JOURNALS[0]))
    assert [found.call_of.get(step.number) for step in found.path.steps] == [1, 1, None, None, 2, 2]
    assert [path.record.outcome for path in found.calls if path] == ["done", "done"]


def test_a_call_that_was_killed_before_its_first_step_has_no_path() -> None:
    killed = copy.deepcopy(JOURNALS[0])
    killed["steps"] = killed["steps"][:5]
    killed["calls"][1] |= {"steps": [], "outcome": None}
    killed["outcome"] = None
    found = read_turn(orjson.dumps(killed))
    assert [path is None for path in found.calls] == [False, True]
    assert isinstance(found.path.record, TurnJournal)
    assert replay(found.path.record).outcome == "cancelled"
