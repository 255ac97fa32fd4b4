"""A budget that many calls share: what is reserved, in which order, and which ceiling is used up."""

import copy
import pickle
from typing import Any

import pytest

import rungwise
from rungwise import Budget, Policy, Prices, SharedBudget, Usage
from rungwise.core import Call, Failure, IllegalEvent, PlainLink, Reply, Request
from rungwise.fsm.call.budget.metering import most_counted
from support.sharing import PRICED, answer, begun, over_budget, sent, spend, waiting

BUSY = Failure("rate_limit", status=429, asked_wait=30.0)


# what is reserved


def test_who_needs_what_others_hold_waits_and_is_woken_when_they_settle() -> None:
    shared = SharedBudget(Budget(output_tokens=250))
    first, second = sent(shared), sent(shared)
    third, woken = waiting(shared)
    first.receive(answer(30), 1.0)
    assert woken.is_set()
    send = third.sending(1.0)
    assert send.max_tokens == 100
    second.receive(answer(100), 1.0)
    third.receive(answer(90), 1.0)
    assert shared.usage.output_tokens == 220


def test_without_a_wait_what_others_hold_cannot_be_afforded() -> None:
    shared = SharedBudget(Budget(output_tokens=150))
    other, call = sent(shared), begun(shared)
    assert over_budget(call) == "other calls hold what is left of the shared budget"
    other.receive(answer(10), 1.0)
    assert shared.usage.output_tokens == 10


def test_the_budget_that_others_hold_is_named() -> None:
    session = SharedBudget(Budget(output_tokens=150))
    other = sent(SharedBudget(Budget(), within=session))
    inner = SharedBudget(Budget(), within=session, name="the budget of the tests")
    assert over_budget(begun(inner)) == "other calls hold what is left of the shared budget"
    own = SharedBudget(Budget(output_tokens=150), within=SharedBudget(Budget()), name="the budget of the tests")
    mine = sent(own)
    assert over_budget(begun(own)) == "other calls hold what is left of the budget of the tests"
    assert not other.is_over
    assert not mine.is_over


def test_what_a_server_may_count_beside_a_cap_is_reserved() -> None:
    shared = SharedBudget(Budget(output_tokens=2 * most_counted(100)))
    calls = [sent(shared), sent(shared)]
    for call in calls:
        call.receive(answer(most_counted(100)), 1.0)
    assert [call.result.overran for call in calls] == [False, False]
    assert shared.usage.output_tokens == 2 * most_counted(100)
    exact = SharedBudget(Budget(output_tokens=2 * most_counted(100) - 1))
    holder = sent(exact)
    assert not begun(exact).reserve(lambda: None)
    assert holder.position.attempts == 1


def test_a_call_without_a_cap_asks_for_the_base_cap() -> None:
    policy = Policy(base_cap=300)
    assert sent(SharedBudget(Budget(output_tokens=10_000)), None, policy=policy).journal.last.cap == 300
    assert sent(SharedBudget(Budget(attempts=5)), None, policy=policy).journal.last.cap is None


def test_a_cap_is_made_smaller_only_to_what_is_left_when_all_have_settled() -> None:
    shared = SharedBudget(Budget(output_tokens=200))
    first = sent(shared, 150)
    second, woken = waiting(shared, 150)
    first.receive(answer(150), 1.0)
    assert woken.is_set()
    send = second.sending(1.0)
    assert most_counted(send.max_tokens or 0) == 50
    assert [step.cap for step in second.journal.steps if step.event == "sent"] == [send.max_tokens]
    second.receive(answer(44), 2.0)
    assert shared.usage.output_tokens == 194


@pytest.mark.parametrize(("money", "waits"), [(0.00222, False), (0.00219, True)])
def test_money_is_reserved_for_the_prompt_and_the_longest_answer(money: float, waits: bool) -> None:
    shared = SharedBudget(Budget(money=money))  # 10 tokens in at 2, and 108 out at 10, for each of the two
    first = sent(shared, chain=PRICED)
    second = begun(shared, chain=PRICED)
    assert second.reserve(lambda: None, 0.0) is not waits
    first.receive(answer(20), 1.0)
    assert shared.cost == pytest.approx(0.00022)
    assert second.sending(1.0) is not None


def test_the_dearest_price_of_a_prompt_is_reserved() -> None:
    dear = [PlainLink("dear", prices=Prices(2.0, 10.0, cache_creation=500.0))]
    assert "money" in over_budget(begun(SharedBudget(Budget(money=0.004)), chain=dear))


def test_the_own_budget_of_a_call_holds_beside_the_shared_one() -> None:
    shared = SharedBudget(Budget(output_tokens=10_000))
    call = sent(shared, 500, policy=Policy(budget=Budget(output_tokens=208)))
    assert call.journal.last.cap == 200
    cause = over_budget(begun(shared, policy=Policy(budget=Budget(money=0.00001)), chain=PRICED))
    assert cause == "the money of the budget cannot pay for another attempt"


# the shortfall


@pytest.mark.parametrize(
    ("budget", "cause"),
    [
        (Budget(attempts=1), "all 1 attempts of the shared budget are used"),
        (Budget(output_tokens=108), "the output tokens of the shared budget cannot pay for another attempt"),
        (Budget(money=0.0011), "the money of the shared budget cannot pay for another attempt"),
        (Budget(seconds=1), "the next attempt would begin after the 1 s of the shared budget"),
    ],
    ids=["attempts", "tokens", "money", "seconds"],
)
def test_the_part_that_ends_a_call_is_named(budget: Budget, cause: str) -> None:
    shared = SharedBudget(budget)
    spend(shared, chain=PRICED)
    assert shared.shortfall(1.0, input_tokens=10, prices=PRICED[0].prices) == cause
    late = begun(shared, now=1.0, chain=PRICED)
    assert over_budget(late, 1.0) == cause
    assert (late.result.attempts, shared.attempts) == (0, 1)
    assert cause in str(rungwise.fsm.call.run.result.error_of(late.result))


def test_a_level_around_is_named_apart() -> None:
    session = SharedBudget(Budget(attempts=1))
    turn = SharedBudget(Budget(attempts=5), within=session)
    spend(turn)
    assert over_budget(begun(turn)) == "all 1 attempts of the shared budget are used"
    inner = SharedBudget(Budget(attempts=1), within=SharedBudget(Budget()))
    spend(inner)
    assert over_budget(begun(inner)) == "all 1 attempts of the inner shared budget are used"


def test_a_reply_that_passes_its_cap_closes_the_budget_for_everybody() -> None:
    shared = SharedBudget(Budget(output_tokens=250))
    first, second = sent(shared), sent(shared)
    third, woken = waiting(shared)
    first.receive(answer(200), 1.0)
    assert first.result.overran
    assert woken.is_set()
    cause = "a reply under the shared budget was longer than its output cap of 100 tokens, so no cap can be relied on"
    assert over_budget(third, 1.0) == over_budget(begun(shared)) == shared.shortfall() == cause
    second.receive(Reply("", stop_reason="stop", usage=Usage(10, 3)), 1.0)
    assert over_budget(second, 1.0) == cause
    assert shared.attempts == 2


def test_a_budget_that_rests_on_no_cap_stays_open() -> None:
    shared = SharedBudget(Budget(attempts=3))
    call = sent(shared, policy=Policy(budget=Budget(output_tokens=1000)))
    call.receive(answer(900), 1.0)
    assert call.result.overran
    assert shared.shortfall() is None


def test_the_attempts_of_a_recovery_are_counted() -> None:
    shared = SharedBudget(Budget(attempts=2))
    call = sent(shared)
    call.receive(Reply("", stop_reason="stop", usage=Usage(10, 1)), 1.0)
    assert call.sending(6.0) is not None
    call.receive(Reply("", stop_reason="stop", usage=Usage(10, 1)), 7.0)
    assert over_budget(call, 20.0) == "all 2 attempts of the shared budget are used"
    assert call.result.attempts == shared.attempts == 2


# time


def test_the_tightest_deadline_is_that_of_a_send() -> None:
    session = SharedBudget(Budget(seconds=60))
    session.begin(100.0)
    session.begin(150.0)
    turn = SharedBudget(Budget(seconds=30), within=session)
    assert (session.deadline, turn.deadline) == (160.0, 160.0)
    for seconds, expected in ((5, 125.0), (None, 150.0), (500, 150.0)):
        call = Call(Request("Where?"), Policy(budget=Budget(seconds=seconds)), within=turn)
        send = call.begin(120.0)
        assert (send.deadline, turn.deadline) == (expected, 150.0)


def test_a_wait_that_the_shared_budget_does_not_allow_leaves_the_backend() -> None:
    chain = [PlainLink("one"), PlainLink("two")]
    for seconds, target in ((60, "retry"), (25, "fallback")):
        call = sent(SharedBudget(Budget(seconds=seconds)), chain=chain)
        call.receive(BUSY, 0.0)
        assert call.position.state == target


def test_a_call_that_never_began_begins_no_time() -> None:
    shared = SharedBudget(Budget(seconds=5))
    Call(Request("Where?"), within=shared).cancel()
    assert shared.deadline is None


# levels


def test_nobody_passes_by_where_another_waits_and_others_are_not_held_up() -> None:
    session = SharedBudget(Budget(output_tokens=2000))
    one, other = (SharedBudget(Budget(output_tokens=400), within=session) for _ in range(2))
    holder = sent(one, 200)
    large, large_woken = waiting(one, 300)
    _small, small_woken = waiting(one, 50)  # for which there would be room
    elsewhere = begun(other)
    assert elsewhere.reserve(lambda: None)
    holder.receive(answer(60), 1.0)
    assert large_woken.is_set()
    assert not small_woken.is_set()
    assert large.sending(1.0) is not None
    large.receive(answer(10), 2.0)
    assert small_woken.is_set()


# what is refused


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(rungwise.ConfigurationError, match="budget must be a Budget, not int"):
        SharedBudget(5)  # type: ignore[arg-type]
    with pytest.raises(rungwise.ConfigurationError, match="within must be a SharedBudget, not Budget"):
        SharedBudget(Budget(), Budget())  # type: ignore[arg-type]
    with pytest.raises(rungwise.ConfigurationError, match="within must be a SharedBudget, not Budget"):
        Call(Request("Where?"), within=Budget())  # type: ignore[arg-type]
    with pytest.raises(rungwise.ConfigurationError, match="now must be seconds, a finite number, not 'soon'"):
        SharedBudget(Budget()).begin("soon")  # type: ignore[arg-type]
    with pytest.raises(rungwise.ConfigurationError, match="a finite number, not nan"):
        SharedBudget(Budget(seconds=1)).begin(float("nan"))
    deep = SharedBudget(Budget())
    for _ in range(31):
        deep = SharedBudget(Budget(), deep)
    with pytest.raises(rungwise.ConfigurationError, match="more than 32 deep"):
        SharedBudget(Budget(), deep)


@pytest.mark.parametrize("is_inner", [False, True])
def test_a_shared_budget_of_money_needs_prices(is_inner: bool) -> None:
    shared = SharedBudget(Budget(money=1.0))
    with pytest.raises(rungwise.ConfigurationError, match="money needs prices on every backend; 'plain' has none"):
        Call(
            Request("Where?"), chain=[PlainLink("plain")], within=SharedBudget(Budget(), shared) if is_inner else shared
        )


@pytest.mark.parametrize("act", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_is_not_copied(act: Any) -> None:
    with pytest.raises(TypeError, match="counted in one place"):
        act(SharedBudget(Budget()))


def test_its_ceilings_are_not_changed() -> None:
    shared = SharedBudget(Budget())
    with pytest.raises(AttributeError):
        shared.budget = Budget(attempts=500)  # type: ignore[misc]


def test_nothing_is_taken_to_have_gone_out_by_itself() -> None:
    call = begun(SharedBudget(Budget(output_tokens=1000)))
    with pytest.raises(IllegalEvent, match="`sending`"):
        call.receive(answer(5))
