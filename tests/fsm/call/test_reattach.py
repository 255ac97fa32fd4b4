"""The rung `reattach`: the rest of a reply that its provider goes on with is fetched."""

from __future__ import annotations

import pytest
from attrs import evolve

from rungwise import Budget, Limits, Policy, Prices, Text, Usage, verify
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.analysis.replay.replay import replay
from rungwise.fsm.call.table import CALL

LINK = PlainLink("kept", background=True, prices=Prices(1, 10))
LOST = Failure("connection", generation="resp_1")
HALF = Reply("The first half, ", interrupted=True, failure=LOST)
WHOLE = Reply("The first half, and the second.", stop_reason="stop", usage=Usage(5, 9))
ASKED = Request("Say it.", max_tokens=100, input_tokens=5)


def begun(policy: Policy | None = None, **more: object) -> Call:
    call = Call(ASKED, policy, [LINK], contents=True, **more)
    call.begin(0.0)
    return call


@pytest.mark.parametrize("cut", [HALF, LOST, evolve(LOST, reason="silence")])
def test_a_cut_reply_is_fetched_and_counts_once(cut):
    call = begun(Policy(budget=Budget(output_tokens=300)))
    send = call.receive(cut, 1.0)
    assert send.rung == "reattach"
    assert send.max_tokens == 100
    assert call.spending.charged_tokens == 0  # it stays reserved, and is not paid
    call.sending(2.0)
    assert call.receive(WHOLE, 3.0) is None
    assert call.result.outcome == "done"
    assert call.result.text == WHOLE.text
    assert call.result.usage == WHOLE.usage
    assert call.result.attempts == 2
    assert call.position.spent_of("reattaches") == 1


def test_a_budget_for_one_reply_is_enough():
    call = begun(Policy(budget=Budget(output_tokens=140)))
    assert call.receive(HALF, 1.0).rung == "reattach"
    call.sending(2.0)
    call.receive(WHOLE, 3.0)
    assert call.result.outcome == "done"


def test_the_limit_is_three_and_then_the_text_is_continued():
    call = begun()
    rungs = [call.receive(HALF, 1.0).rung for _ in range(4)]
    assert rungs == ["reattach", "reattach", "reattach", "continuation"]
    assert call._context.transcript.answer.gathered == HALF.text
    assert call.position.spent_of("reattaches") == 0  # a continuation that added text refills it


def test_a_reply_that_is_gone_is_continued():
    call = begun()
    call.receive(HALF, 1.0)
    gone = evolve(HALF, failure=Failure("connection"))
    assert call.receive(gone, 2.0).rung == "continuation"
    call.receive(Reply("and the second.", stop_reason="stop"), 3.0)
    assert call.result.text == WHOLE.text


def test_a_stream_repeats_nothing():
    call = begun(is_streaming=True)
    call.sending(0.0)
    shown = [*call.hear(Text("The first half, "))]
    call.receive(HALF, 1.0)
    call.sending(2.0)
    shown += call.hear(Text("and the second."))
    call.receive(WHOLE, 3.0)
    shown += [event for event in call.drain() if not hasattr(event, "row")]
    texts = [event for event in shown if isinstance(event, Text)]
    assert "".join(each.text for each in texts) == WHOLE.text
    assert all(type(event).__name__ != "Discard" for event in shown)
    assert call.result.text == WHOLE.text


@pytest.mark.parametrize("how", ["late", "cancel", "found_open"])
def test_what_is_never_fetched_is_kept_and_paid(how):
    call = begun(Policy(budget=Budget(output_tokens=300, seconds=60)))
    call.receive(HALF, 1.0)
    if how == "late":
        call.sending(61.0)
    elif how == "cancel":
        call.cancel(2.0)
    else:
        call.found_open("open until later", 2.0)
    assert call.result.text == HALF.text
    assert call.result.usage.output_tokens > 0
    assert call.spending.charged_tokens >= 100


def test_a_journal_replays():
    call = begun()
    call.receive(HALF, 1.0)
    call.sending(2.0)
    call.receive(WHOLE, 3.0)
    assert replay(call.journal).text == WHOLE.text


@pytest.mark.full
def test_it_costs_nothing_more_and_is_off_elsewhere():
    without = verify(Policy(), [evolve(LINK, background=False)], max_tokens=100, input_tokens=5)
    off = Policy(limits=Limits(reattaches=0))
    with_it = verify(Policy(), [LINK], max_tokens=100, input_tokens=5)
    assert verify(off, [LINK], max_tokens=100, input_tokens=5).worst == without.worst
    assert without.limits["reattaches"] == 0
    assert with_it.limits["reattaches"] == 3
    tokens = {each.name: each.value for each in with_it.worst}
    bare = {each.name: each.value for each in without.worst}
    assert tokens["output tokens"] == bare["output tokens"], tokens
    assert tokens["money"] == bare["money"]


def test_it_stands_first():
    for event in ("interrupted", "fell_silent"):
        assert CALL.ladder(event, "await")[0].target == "reattach"
