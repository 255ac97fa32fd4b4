"""A deadline of a call, whatever comes back: nothing is sent behind it, and no wait begins that it
would cut.
"""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rungwise
from rungwise import Budget, ConfigurationError, Journal, Policy, Reserve, SharedBudget, replay
from rungwise.core import Call, Failure, IllegalEvent, PlainLink, Reply, Request
from rungwise.fsm.analysis.certificate.worst import worst_cases
from rungwise.fsm.call.budget.budget import Spending
from support.healthy import ANSWER, BEGAN, Scene, Stage, scenes
from support.sampling import examples

BEGINS = 100.0
REPLIES = st.sampled_from(
    [
        Reply(stop_reason="stop", stop_raw="stop"),
        Reply("Herons nest in the reeds ", stop_reason="length", stop_raw="length"),
        Failure("silence"),
        Failure("overloaded", status=503),
        Failure("rate_limit", status=429, asked_wait=7.5),
        Failure("rate_limit", status=429, asked_wait=0.25),
        Failure("auth", status=401),
    ]
)
TOOK = st.sampled_from([0.0, 0.5, 3.0, 20.0])


def allowed(draw: Any) -> tuple[Call, float]:
    """Return a call whose time is limited in one way or another, and when it must have ended."""
    deadline = draw(st.sampled_from([90.0, 100.0, 101.0, 107.5, 115.0, 160.0]))
    own, shared = (draw(st.sampled_from([None, 8.0, 50.0])) for _ in range(2))
    policy = Policy(
        budget=Budget(seconds=own),
        reserve=Reserve(share=draw(st.sampled_from([0.0, 0.25]))),
        switch_after={"silence": 3},
    )
    chain = [PlainLink(name) for name in ("first", "second", "third")[: draw(st.integers(1, 3))]]
    within = None if shared is None else SharedBudget(Budget(seconds=shared))
    jitter = draw(st.floats(0, 1))
    call = Call(
        Request("Where?"), policy, chain, within=within, deadline=deadline, jitter=lambda: jitter
    )
    return call, min(
        deadline, *(BEGINS + each for each in (own, shared) if each is not None), math.inf
    )


@settings(max_examples=examples(120))
@given(st.data())
def test_nothing_is_sent_behind_it_and_every_wait_that_begins_can_be_kept(
    data: st.DataObject,
) -> None:
    call, ends = allowed(data.draw)
    now = BEGINS
    send = call.begin(now)
    while send is not None:
        assert send.deadline == ends
        assert now + send.wait < ends, "a wait that ends too late is not begun"
        # a place among the connections has to be waited for
        now += send.wait + data.draw(TOOK) / 10
        send = call.sending(now)
        if send is None:
            break
        assert now < ends, "nothing is sent behind it"
        clocks = call.clocks()
        assert clocks.ends_by <= ends
        now += data.draw(TOOK)
        send = call.receive(data.draw(REPLIES), now)
    assert call.result.attempts == 0 or ends > BEGINS
    journal = Journal.from_json(call.journal.to_json())
    again = replay(journal)
    assert (again.outcome, again.cause) == (call.result.outcome, call.result.cause)


@pytest.mark.parametrize("deadline", [math.nan, False, "soon", [1.0]])
def test_what_is_no_moment_is_refused(deadline: Any) -> None:
    with pytest.raises(
        rungwise.ConfigurationError, match="deadline must be a moment on the driver's clock"
    ):
        Call(Request("Where?"), deadline=deadline)


@pytest.mark.parametrize("begins", [0.0, 100.0])
def test_time_is_up_at_its_moment_and_not_before(begins: float) -> None:
    spending = Spending(Budget(seconds=10.0))
    spending.begin(begins)
    assert (spending.deadline(), spending.limit) == (begins + 10.0, 10.0)
    spending.pass_time(begins + 4.0)
    assert [spending.allows_wait(wait) for wait in (5.5, 6.0)] == [True, False]
    spending.given_deadline = begins + 7.0
    assert (spending.deadline(), spending.limit) == (begins + 7.0, 7.0)
    assert [spending.allows_wait(wait) for wait in (2.5, 3.0)] == [True, False]
    assert spending.shortfall(2.5, None, 0, None) is None
    assert spending.shortfall(3.0, None, 0, None) == (
        "the next attempt would begin after the deadline"
    )


def test_the_time_of_a_shared_budget_is_up_at_its_moment_and_not_before() -> None:
    shared = SharedBudget(Budget(seconds=10.0))
    shared.begin(0.0)
    spending = Spending(Budget(seconds=None), shared.share())
    spending.begin(0.0)
    spending.pass_time(4.0)
    assert [spending.allows_wait(wait) for wait in (5.5, 6.0)] == [True, False]
    assert spending.deadline() == 10.0


def test_time_is_a_number_and_passes_in_a_call_that_has_begun() -> None:
    spending = Spending(Budget())
    with pytest.raises(IllegalEvent, match="has not begun"):
        spending.pass_time(1.0)
    for now, shown in (("soon", "not str"), (math.nan, "not nan")):
        with pytest.raises(ConfigurationError, match=shown):
            spending.begin(now)  # type: ignore[arg-type]
    spending.begin(0.0)
    with pytest.raises(IllegalEvent, match="has begun already"):
        spending.begin(1.0)
    assert spending.began == 0.0


# a healthy backend anywhere in a chain is asked in time, within what is certified


def told(call: Call) -> str:
    return f"{call.result.outcome} ({call.result.cause})\n" + "\n".join(
        map(str, call.journal.steps)
    )


def bound(policy: Policy, backends: int) -> float:
    found = worst_cases(
        policy, policy.limits.bounded(policy.table.limits, backends), [None] * backends, None, None
    )
    return next(each.value for each in found if each.name == "seconds")


@pytest.mark.slowest
@pytest.mark.parametrize(
    "examples",
    [5, pytest.param(50, marks=pytest.mark.full), pytest.param(200, marks=pytest.mark.soak)],
)
def test_whatever_the_others_do_the_call_is_done(examples: int) -> None:
    @given(scenes())
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    def check(scene: Scene) -> None:
        stage = Stage(scene)
        call = stage.play()
        assert call.result.outcome == "done", told(call)
        text = call.result.text
        parts = [part.strip() for part in stage.said]
        assert text.endswith(ANSWER)
        assert text.count(ANSWER) == 1
        assert [text.count(part) for part in parts] == [1] * len(parts), (
            "something is lost, or said twice"
        )
        assert sorted(parts, key=text.index) == parts
        assert stage.now - BEGAN <= bound(scene.policy, len(scene.troubles)) + 1e-6, told(call)
        assert replay(Journal.from_json(call.journal.to_json())).journal.steps == call.journal.steps

    check()
