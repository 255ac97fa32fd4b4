"""The journal of a turn, written, read and run again: the same end, or an error that names what
differs.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rungwise.fsm.analysis.replay.replay import replay
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.machine.declare import Fact, Rung
from rungwise.fsm.errors import ConfigurationError, JournalMismatch
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.turn import Turn
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.testing import TurnScript, run_turn
from support.sampling import examples
from support.turns import calling, played, random_turn, said

MANY = settings(max_examples=examples(300), suppress_health_check=(HealthCheck.too_slow,))
END = said("By the lake.")


def again(turn: Turn) -> TurnResult:
    return replay(TurnJournal.from_json(turn.journal.to_json()))


@MANY
@given(st.randoms(use_true_random=False), st.booleans())
def test_every_journal_of_a_turn_replays_to_the_same_end(dice: Random, contents: bool) -> None:
    turn = random_turn(dice, contents=contents)
    in_flight = bool(turn.journal.calls) and turn.journal.calls[-1].outcome is None
    now = again(turn)
    recorded = turn.journal.steps
    was_killed = not turn.is_over
    if was_killed:
        turn.cancel()
        assert now.outcome == "cancelled"
    was = turn.result
    assert now.journal.steps[: len(recorded)] == recorded
    assert [str(step) for step in now.journal.steps] == [str(step) for step in was.journal.steps]
    for name in ("outcome", "seconds", "calls", "attempts", "cause"):
        assert getattr(now, name) == getattr(was, name), name
    # what an attempt has used that was killed is estimated of its prompt, which is not recorded
    if not in_flight:
        assert (now.usage, now.cost) == (was.usage, pytest.approx(was.cost))
    assert turn.position.spent == [
        now.journal.last.spent[name] for name in turn.position.table.counters
    ]
    if contents:
        assert (now.text, now.handed_off) == (was.text, was.handed_off)
        if not was_killed and "compacted" not in [step.event for step in recorded]:
            assert was.messages[3:] == now.messages
    else:
        assert (now.text, now.messages, now.handed_off) == ("", (), ())


def test_with_contents_the_answer_the_results_and_what_was_handed_off_are_there() -> None:
    asked = calling("look", "ask", text="Let me see.")
    result = again(played(asked, policy=TurnPolicy(same_calls=1000), contents=True))
    assert result.outcome == "handed_off"
    assert [call.name for call in result.handed_off] == ["ask"]
    assert result.text == "Let me see."
    assert [part["name"] for part in result.messages[1]["parts"]] == ["look", "ask"]


@pytest.mark.full
def test_a_journal_replays_with_its_own_rungs_or_those_of_a_given_policy() -> None:
    entreat = Rung(
        "entreat",
        limit=1,
        holds=Fact("is_off_topic", of=lambda reply: "sky" in reply.text),
        hint="Herons!",
    )
    policy = TurnPolicy(call=Policy(table=CALL.with_rung(entreat, answered=None)))
    turn = played(said("The sky."), END, policy=policy)
    assert replay(turn.journal).outcome == "finished"
    read = TurnJournal.from_json(turn.journal.to_json())
    with pytest.raises(JournalMismatch, match="call 1: the journal counts what its table does not"):
        replay(read)
    assert replay(read, policy).attempts == turn.result.attempts == 2
    assert read.to_json() == turn.journal.to_json()


def test_the_limits_are_those_of_the_policy_that_is_given() -> None:
    journal = played(calling("look"), END).journal
    with pytest.raises(
        JournalMismatch, match=r"step 2: facts is .*may_go_on_later.* in the journal"
    ):
        replay(journal, TurnPolicy(auto_continues=0))


Change = Callable[[dict[str, Any]], object]
WRONG: dict[str, tuple[Change, str]] = {
    "calls in another order": (
        lambda d: d["calls"].reverse(),
        "step 2: event is 'called_tools' in the journal",
    ),
    "a step of a call": (
        lambda d: d["calls"][1]["steps"][1].update(attempts=9),
        "call 2, step 2: attempts is 9",
    ),
    "the end of a call": (
        lambda d: d["calls"][0].update(outcome="failed"),
        "call 1: the journal ends in 'failed'",
    ),
    "the table of a call": (
        lambda d: d["calls"][0].update(table="x"),
        "call 1: the journal is of the table 'x'",
    ),
    "a fact of the counters": (lambda d: d["steps"][1].update(facts=[]), "step 2: .*facts"),
    "a fact that is none": (lambda d: d["steps"][3]["facts"].append("moon"), "step 4: facts"),
    "a summary that is none": (
        lambda d: d["steps"][-1]["facts"].append("is_summary"),
        "step 10: facts",
    ),
    "another event": (
        lambda d: d["steps"][1].update(event="answered"),
        "step 2: event is 'answered'",
    ),
    "another state": (
        lambda d: d["steps"][1].update(target="finished"),
        "step 2: target is 'finished'",
    ),
    "what was not done": (
        lambda d: d["steps"][3].update(event="compacted"),
        "step 4: 'compacted' cannot come back",
    ),
    "a count": (lambda d: d["steps"][3]["spent"].update(faults=3), "step 4: spent"),
    "n of max": (
        lambda d: d["steps"][3].update(note="auto-continue 9/25"),
        "step 4: note is 'auto-continue 9/25'",
    ),
    "an attempt": (lambda d: d["steps"][2].update(attempts=7), "step 3: attempts is 7"),
    "what a call used": (
        lambda d: d["steps"][1].update(usage={"input_tokens": 1}),
        "step 2: usage",
    ),
    "whom a call asked": (lambda d: d["steps"][1].update(backend="x"), "step 2: backend is 'x'"),
    "a time before": (lambda d: d["steps"][3].update(at=0.0), "step 4: at is 0"),
    "steps after the end": (
        lambda d: d["steps"].append({**d["steps"][-1], "number": 11}),
        "step 11: .*'answered'",
    ),
    "an outcome": (
        lambda d: d.update(outcome="failed"),
        "ends in 'failed', the replay in 'finished'",
    ),
    "an end that was not": (
        lambda d: d["steps"].pop(),
        "ends in 'finished', the replay in 'cancelled'",
    ),
    "another table": (lambda d: d.update(table="call"), "is of the table 'call'"),
    "a result of nobody": (
        lambda d: d["steps"][3]["content"].update(results=[["x", "y", "", True]]),
        "of no call",
    ),
    "a result too few": (
        lambda d: d["steps"][3]["content"]["results"].pop(),
        "holds 1 results of 2 calls",
    ),
    "a result that is another": (
        lambda d: d["steps"][3]["content"]["results"][0].__setitem__(3, True),
        "step 4: ",
    ),
    "one handed off": (lambda d: d["steps"][3]["content"].update(handed_off=["c0"]), "step 4: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_follow_is_named_with_its_place(name: str) -> None:
    turn = played(calling("look", "gone"), calling("look"), END, contents=True, seed=3)
    assert (turn.result.outcome, len(turn.journal.steps)) == ("finished", 10)
    document = orjson.loads(turn.journal.to_json())
    change, says = WRONG[name]
    change(document)
    with pytest.raises(JournalMismatch, match=says) as caught:
        replay(TurnJournal.from_json(orjson.dumps(document)))
    assert len(str(caught.value).splitlines()) == 1


def test_a_journal_holds_the_calls_that_its_steps_made() -> None:
    journal = played(calling("look"), END).journal
    journal.calls.append(journal.calls[0])
    with pytest.raises(JournalMismatch, match="holds 3 calls, but its steps made 2"):
        replay(journal)
    with pytest.raises(ConfigurationError, match="holds 3 calls, but its steps made 2"):
        TurnJournal.from_json(journal.to_json())


@pytest.mark.parametrize(
    ("journal", "policy"),
    [(None, None), (played(END).journal, Policy()), (played(END).journal.calls[0], TurnPolicy())],
)
def test_refuses_what_is_no_journal_or_has_no_policy(journal: Any, policy: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a"):
        replay(journal, policy)


def test_ids_that_were_changed_for_the_caller_s_own_messages_replay() -> None:
    reply = Reply(
        tool_calls=[
            ToolCall("call_1", "ask_user", '{"n": 1}'),
            ToolCall("call_1", "ask_user", '{"n": 2}'),
        ],
        stop_reason="tool_calls",
    )
    run = run_turn(TurnPolicy(), TurnScript([reply], asked="after tools", contents=True))
    now = again(run.turn)
    was = run.turn.result
    assert [call.id for call in was.handed_off] == ["call_1_2", "call_1_3"]
    assert (now.handed_off, now.messages) == (was.handed_off, was.messages[3:])
