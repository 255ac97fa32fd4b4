"""The reserve: what is kept of a budget for the backends that are still to come."""

import math
from typing import Any

import pytest

import rungwise
from rungwise import (
    Budget,
    ConfigurationError,
    Policy,
    Prices,
    Reserve,
    SharedBudget,
    Timeouts,
    Usage,
)
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.call.budget.reserve import reserved_seconds

PRICES = Prices(1.0, 2.0)
CHAIN = tuple(PlainLink(name, prices=PRICES) for name in ("one", "two", "three"))
BUSY = Failure("server_error", status=500)
HUNG = Failure("timeout")


def sent(budget: Budget, chain: tuple[PlainLink, ...] = CHAIN[:2], **more: object) -> Call:
    asked = {name: more.pop(name) for name in ("max_tokens", "input_tokens") if name in more}
    within = more.pop("within", None)
    deadline = more.pop("deadline", None)
    request = Request("Where does it nest?", **asked)  # type: ignore[arg-type]
    call = Call(request, Policy(budget=budget, **more), chain, within=within, deadline=deadline)  # type: ignore[arg-type]
    call.begin(0.0)
    assert call.sending(0.0) is not None
    return call


def assert_replays(call: Call) -> None:
    replayed = rungwise.replay(rungwise.Journal.from_json(call.journal.to_json()))
    assert replayed.journal.steps == call.journal.steps


def asked_by(call: Call) -> list[str]:
    return [step.backend for step in call.journal.steps if step.event == "sent"]


def path(call: Call) -> list[str]:
    return [
        f"{step.event} [{step.guard}] -> {step.target}"
        for step in call.journal.steps
        if step.event != "sent"
    ]


# seconds


@pytest.mark.parametrize(
    ("reserve", "backends", "ends"),
    [
        (Reserve(), 1, [100]),
        (Reserve(), 2, [75, 100]),
        (Reserve(), 3, [50, 75, 100]),
        (Reserve(share=0.1), 3, [80, 90, 100]),
        (Reserve(share=0.9), 3, [pytest.approx(100 / 3), pytest.approx(200 / 3), 100]),
        (Reserve(seconds=7), 3, [86, 93, 100]),
    ],
)
def test_each_attempt_ends_in_time_for_the_backends_to_come(
    reserve: Reserve, backends: int, ends: list[float]
) -> None:
    call = sent(Budget(seconds=100), CHAIN[:backends], reserve=reserve)
    found = []
    for _ in range(backends):
        clocks = call.clocks()
        found.append(clocks.ends_by)
        if call.receive(HUNG, clocks.ends_by) is not None:
            call.sending(clocks.ends_by)
    assert found == ends


def test_no_more_is_kept_than_an_attempt_may_take() -> None:
    assert reserved_seconds(Policy(timeouts=Timeouts(total=30)), 900.0, 2) == 30.0
    assert reserved_seconds(Policy(timeouts=Timeouts(total=None)), 900.0, 2) == 225.0


def test_without_a_budget_of_seconds_no_attempt_must_end_for_another() -> None:
    assert sent(Budget(seconds=None)).clocks().ends_by is None


def test_a_wait_that_was_asked_for_and_would_use_the_reserve_does_not_fit() -> None:
    for wait, target in ((70.0, "retry"), (75.0, "fallback")):
        call = sent(Budget(seconds=100))
        call.receive(Failure("rate_limit", status=429, asked_wait=wait), 0.0)
        assert call.position.state == target


def test_does_not_begin_a_custom_wait_that_would_use_the_reserve() -> None:
    call = sent(Budget(seconds=100))
    send = call.receive(BUSY, 74.0)
    assert (send.backend, send.wait) == (1, 0.0)
    assert path(call) == [
        "failed_transiently [may_retry] -> retry",
        "ran_out [must_yield] -> fallback",
    ]
    assert call.journal.last.note == "25 s of the budget are kept for each backend to come"


def test_the_last_backend_may_use_all_that_is_left() -> None:
    call = sent(Budget(seconds=100), CHAIN[:1])
    call.receive(BUSY, 99.0)
    assert call.result.outcome == "over_budget"


def test_a_late_start_still_leaves_each_its_part() -> None:
    call = sent(Budget(seconds=100), CHAIN)
    call.receive(HUNG, 80.0)  # thirty seconds later than it should have been
    call.sending(80.0)
    assert call.clocks().ends_by == 90.0


# attempts


def test_an_attempt_is_kept_for_each_backend() -> None:
    call = sent(Budget(attempts=4), CHAIN)
    call.receive(BUSY, 0.0)
    call.receive(BUSY, 0.0)
    assert asked_by(call) == ["one", "one"]
    call.receive(BUSY, 0.0)
    call.receive(Reply("In the reeds.", stop_reason="stop"), 0.0)
    assert asked_by(call) == [
        "one",
        "one",
        "two",
        "three",
    ]
    assert call.result.outcome == "done"


def test_who_comes_first_is_asked_first_where_there_are_too_few_attempts() -> None:
    call = sent(Budget(attempts=2), CHAIN)
    assert call.receive(BUSY, 0.0) is not None
    assert call.receive(BUSY, 0.0) is None
    assert asked_by(call) == ["one", "two"]
    assert call.result.outcome == "over_budget"


# tokens and money


def test_the_next_backend_goes_on_with_what_was_kept() -> None:
    call = sent(Budget(output_tokens=1008), max_tokens=900)
    cut = Reply("The bittern booms by night in", stop_reason="length", usage=Usage(10, 748))
    send = call.receive(cut, 0.0)
    assert (send.backend, send.max_tokens) == (1, 252)
    assert path(call) == [
        "truncated [may_continue] -> continuation",
        "ran_out [must_yield] -> fallback",
    ]
    call.receive(Reply("The bittern booms by night in the reeds.", stop_reason="stop"), 0.0)
    assert (call.result.outcome, call.result.text) == (
        "done",
        "The bittern booms by night in the reeds.",
    )


def test_no_more_tokens_are_kept_than_one_attempt_needs() -> None:
    call = sent(Budget(output_tokens=100_008), max_tokens=900)
    call.receive(Reply("The bittern booms by", stop_reason="length", usage=Usage(10, 900)), 0.0)
    assert call.sending(0.0) is not None
    assert call.journal.last.cap == 1800


def test_a_cheap_backend_is_asked_with_what_would_buy_nothing_from_a_dear_one() -> None:
    dear = PlainLink("dear", prices=Prices(10.0, 40.0))
    cheap = PlainLink("cheap", prices=Prices(0.01, 0.02))
    call = sent(Budget(money=0.05), (dear, cheap), max_tokens=1000, input_tokens=100)
    for cap in (1000, 190):
        assert call.journal.last.cap == cap
        call.receive(Reply(reasoning="hm", stop_reason="length", usage=Usage(100, cap)), 0.0)
        assert call.sending(0.0) is not None
    assert call.backend == 1
    call.receive(Reply("In the reeds.", stop_reason="stop", usage=Usage(100, 4)), 0.0)
    assert call.result.outcome == "done"


def test_nothing_is_kept_that_would_leave_the_first_backend_without_an_attempt() -> None:
    call = sent(Budget(money=0.0021), input_tokens=1000, max_tokens=10_000)
    cap = call.journal.last.cap
    assert cap >= 1


# what else bounds a call


def test_the_deadline_of_a_shared_budget_counts_likewise() -> None:
    shared = SharedBudget(Budget(attempts=100, seconds=40.0))
    call = sent(Budget(seconds=900), within=shared)
    assert call.clocks().ends_by == 30.0


# shared budgets


@pytest.mark.parametrize(
    "shared",
    [Budget(attempts=3), Budget(attempts=50, output_tokens=3000), Budget(attempts=50, money=0.04)],
)
def test_a_first_backend_does_not_use_up_what_is_shared(shared: Budget) -> None:
    dear = (PlainLink("one", prices=Prices(1.0, 10.0)), PlainLink("two", prices=Prices(1.0, 10.0)))
    call = sent(
        Budget(),
        dear,
        within=SharedBudget(shared),
        input_tokens=10,
        max_tokens=1500,
    )
    for _ in range(8):
        if call.backend == 1:
            break
        cap = call.journal.last.cap or 0
        call.receive(Reply(reasoning="hm", stop_reason="length", usage=Usage(10, cap)), 0.0)
        assert call.sending(0.0) is not None
    assert call.backend == 1
    assert path(call)[-1] == "ran_out [must_yield] -> fallback"
    call.receive(Reply("In the reeds.", stop_reason="stop", usage=Usage(10, 4)), 0.0)
    assert call.result.outcome == "done"
    assert_replays(call)


# what is not kept


@pytest.mark.parametrize(
    ("budget", "shared", "reply", "note"),
    [
        (
            Budget(),
            Budget(output_tokens=101),
            Reply(usage=Usage(10, 900)),
            "a reply was longer than its output cap",
        ),
        (
            Budget(output_tokens=1),
            Budget(output_tokens=9000),
            Reply(usage=Usage(10, 1)),
            "the output tokens of",
        ),
        (
            Budget(attempts=1),
            Budget(output_tokens=9000),
            Reply(usage=Usage(10, 30)),
            "all 1 attempts of the budget",
        ),
    ],
)
def test_the_limit_of_the_call_is_named_before_that_of_a_shared_budget(
    budget: Budget,
    shared: Budget,
    reply: Reply,
    note: str,
) -> None:
    call = sent(
        budget,
        within=SharedBudget(shared),
        max_tokens=300,
        reserve=Reserve(share=1.0),
    )
    assert call.receive(reply, 1.0) is None
    last = call.journal.steps[-1]
    assert (last.event, last.target) == ("ran_out", "over_budget")
    assert last.note.startswith(note)
    assert_replays(call)


def test_nothing_is_kept_for_a_backend_that_cannot_be_asked() -> None:
    for policy in (
        {"limits": rungwise.Limits(fallbacks=0)},
        {"table": rungwise.CALL.without("fallback")},
        {"budget": Budget(attempts=1, seconds=100)},
    ):
        call = sent(**{"budget": Budget(seconds=100), **policy})  # type: ignore[arg-type]
        assert call.clocks().ends_by == 100
    assert sent(Budget(attempts=1)).clocks().before_text is None


def test_an_affordable_backend_is_reached_behind_several_that_are_not() -> None:
    dear = [PlainLink(name, prices=Prices(1e9, 1e9)) for name in ("one", "two", "three")]
    call = Call(
        Request("Where does it nest?", max_tokens=100),
        Policy(budget=Budget(money=0.5)),
        [*dear, CHAIN[0]],
    )
    gone = call.begin(0.0)
    assert gone is not None
    assert (gone.rung, gone.backend) == ("fallback", 3)
    call.receive(Reply("In reeds.", stop_reason="stop", usage=Usage(10, 5)), 1.0)
    notes = [step.note for step in call.journal.steps if step.event == "skipped"]
    assert (
        notes
        == [
            "the money of the budget cannot pay for another attempt: "
            "0.5 is left, and it needs 26000.00"
        ]
        * 2
    )
    assert path(call) == [
        "ran_out [must_yield] -> fallback",
        "skipped [None] -> fallback",
        "skipped [None] -> fallback",
        "answered [None] -> done",
    ]
    assert_replays(call)


def test_reserves_money_for_a_prompt_with_the_continued_text() -> None:
    call = sent(Budget(money=0.1), input_tokens=100, max_tokens=1000)
    call.receive(Reply("The bittern booms by", interrupted=True, usage=Usage(100, 1000)), 0.0)
    assert call.sending(0.0) is not None
    # the prompt, what this attempt may add to it, and an answer
    needed = (100 + 2000 + 1000 * 2) / 1e6
    assert call._context.reserved.money >= needed


# times


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf, 10**400, "1", None])
def test_refuses_what_is_no_time_and_changes_nothing(now: Any) -> None:
    call = Call(Request("Where?"), Policy(), CHAIN, within=SharedBudget(Budget()))
    with pytest.raises(ConfigurationError, match="now must be seconds, a finite number, not"):
        call.begin(now)
    call.begin(0.0)
    if now is not None:  # which says that none has passed
        with pytest.raises(ConfigurationError, match="now must be seconds, a finite number, not"):
            call.sending(now)


@pytest.mark.parametrize("began", [0.0, 65159.297, -3.7, 1e9 + 0.1])
def test_attempts_that_end_exactly_when_they_must_replay(began: float) -> None:
    call = Call(Request("Where?"), Policy(budget=Budget(seconds=10.1)), CHAIN, deadline=began + 7.3)
    call.begin(began)
    while not call.is_over and call.sending(call.spending.now) is not None:
        ends_by = call.clocks().ends_by
        assert ends_by is not None
        call.receive(BUSY, ends_by)
    assert_replays(call)


def test_a_chain_of_a_thousand_unaffordable_backends_ends_at_once() -> None:
    chain = tuple(PlainLink(f"link {number}", prices=PRICES) for number in range(1000))
    call = Call(
        Request("Where?", max_tokens=10, input_tokens=10**9),
        Policy(budget=Budget(money=0.001)),
        chain,
    )
    assert call.begin(0.0) is None
    assert call.result.outcome == "over_budget"
