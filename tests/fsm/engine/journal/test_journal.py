import orjson
import pytest

import rungwise
from rungwise import Journal, JournalMismatch, Policy, Usage, replay
from rungwise.core import Call, Failure, Reply, Request
from rungwise.fsm.turn.explained import read_call
from support.played import play

EMPTY = Reply(stop_reason="stop", stop_raw="stop", usage=Usage(5, 1))
SECRET = Reply(
    "a private answer", reasoning="private thoughts", stop_reason="length", stop_raw="length"
)
TOOL = Reply(
    tool_calls=(rungwise.ToolCall("1", "read", '{"path": "private"}'),),
    stop_reason="tool_calls",
    stop_raw="tool_calls",
)


def record(*replies, contents=False, **options):
    options.setdefault("jitter", lambda: 0.25)
    call = Call(Request("a private prompt", max_tokens=700), contents=contents, **options)
    return play(call, [(reply, 0.5) for reply in replies], begins=100.0)


def test_every_step_says_what_decided_and_what_it_cost():
    call = record(
        EMPTY,
        SECRET,
        Failure(
            "rate_limit",
            status=429,
            code="slow",
            asked_wait=9.0,
        ),
        TOOL,
    )
    steps = call.result.journal.steps
    assert [step.event for step in steps] == [
        "sent",
        "came_empty",
        "sent",
        "truncated",
        "sent",
        "failed_transiently",
        "sent",
        "called_tools",
    ]
    assert [step.number for step in steps] == list(range(1, 9))
    empty = steps[1]
    limited = steps[5]
    assert (empty.guard, empty.target, empty.effect) == ("may_reask", "reask", "spend_reask")
    assert (empty.wait, empty.draw, empty.usage, empty.spent["reasks"]) == (
        1.125,
        0.25,
        Usage(5, 1),
        1,
    )
    assert (limited.status, limited.reason, limited.code, limited.asked_wait, limited.wait) == (
        429,
        "rate_limit",
        "slow",
        9.0,
        9.0,
    )
    assert [step.cap for step in steps if step.event == "sent"] == [700, 700, 1400, 1400]
    assert [step.at for step in steps][:3] == [0.0, 0.5, pytest.approx(1.625)]


def test_a_call_that_had_not_ended_replays_as_far_as_it_went():
    call = record(EMPTY)
    assert replay(call.journal).outcome == "cancelled"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda d: d["steps"][1].update(target="nudge"),
            "step 2: target is 'nudge' in the journal and 'reask' in the",
        ),
        (lambda d: d["steps"][1].update(wait=99.0), "step 2: wait"),
        (lambda d: d["steps"][1].update(guard="may_nudge"), "step 2: guard"),
        (lambda d: d["steps"][1].update(facts=["same_empty_again"]), "step 2"),
        (lambda d: d["steps"][1].update(event="answered"), "step 2"),
        (lambda d: d["steps"][1].update(event="nonsense"), "step 2"),
        (lambda d: d["steps"][2].update(cap=5), "step 3: cap"),
        (lambda d: d["steps"][1].update(attempts=9), "step 2: attempts"),
        (lambda d: d.update(table="turn"), "'turn'"),
        (lambda d: d.update(outcome="failed"), "'failed'"),
    ],
)
def test_what_differs_first_is_named(change, says):
    document = orjson.loads(record(EMPTY, TOOL).journal.to_json())
    change(document)
    with pytest.raises(JournalMismatch, match=says):
        replay(Journal.from_json(orjson.dumps(document)))


def test_another_policy_is_a_mismatch():
    journal = record(EMPTY, TOOL).journal
    with pytest.raises(
        JournalMismatch, match="step 2: guard is 'may_reask' in the journal and None"
    ):
        replay(journal, Policy(limits=rungwise.Limits(reasks=0)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "no JSON"),
        ("{}", "this is not a journal"),
        ('{"version": 99}', "'version' must be 1"),
        ('{"version": 1}', "is missing"),
        (lambda d: d["steps"][0].update(colour="red"), "step 1"),
        (lambda d: d["steps"][0].update(number=7), "numbered 7"),
        (lambda d: d["policy"].update(limits={"retrys": 1}), "did you mean 'retries'"),
        (lambda d: d["steps"][0].update(at="noon"), "step 1: 'at' must be a number"),
    ],
)
def test_what_is_no_journal_is_refused_with_the_place(text, says):
    if callable(text):
        document = orjson.loads(record(TOOL).journal.to_json())
        text(document)
        text = orjson.dumps(document)
    for read in (Journal.from_json, read_call):
        with pytest.raises(rungwise.ConfigurationError, match=says):
            read(text)
