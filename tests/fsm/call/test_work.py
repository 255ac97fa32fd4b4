"""How much work a call is, by what can be counted: calls of functions, and bytes held. No clock is
read here.
"""

import gc
import sys
import tracemalloc

import pytest

import rungwise
from rungwise import Budget, Limits, Policy, SharedBudget, Usage
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from support.growth import calls_made

REQUEST = Request([{"role": "user", "content": "Where does the bittern nest?"}])
ANSWER = Reply(
    "In the reeds.",
    stop_reason="stop",
    stop_raw="stop",
    usage=Usage(10, 5),
)
FAILED, EMPTY = (
    Failure("server_error", status=503),
    Reply("", stop_reason="stop", usage=Usage(10, 0)),
)
ONE = (PlainLink("one"),)
FIVE = tuple(PlainLink(f"backend {number}") for number in range(5))
PRICED = (PlainLink("priced", prices=rungwise.Prices(1.0, 2.0)),)
PATIENT = Limits(retries=19, reasks=19)
TWENTY = Budget(attempts=20, seconds=100_000.0)
COUNTED = Budget(
    attempts=20,
    seconds=100_000.0,
    output_tokens=10**6,
    money=1e6,
)


def answered() -> None:
    call = Call(REQUEST)
    call.begin(0.0)
    call.receive(ANSWER, 0.1)
    assert call.result.outcome == "done"


def test_a_call_that_is_simply_answered_makes_few_calls_of_functions() -> None:
    answered()  # which builds the machine
    assert calls_made(answered) < 420


def test_the_clocks_of_an_attempt_cost_a_fraction_of_it() -> None:
    call = Call(REQUEST)
    call.begin(0.0)
    call.sending(0.0)
    call.clocks()  # which looks up the rungs
    assert calls_made(call.clocks) < 120


def work_of_attempts(call: Call, came: Reply | Failure, *, keeps_clocks: bool) -> list[int]:
    """Return the calls of functions that each attempt makes, from its reply to the next request."""
    counts = []
    waiting = [call.begin(0.0)]
    now = 0.0
    for _ in range(20):
        now += waiting[-1].wait

        def attempt(now: float = now) -> None:
            call.sending(now)
            if keeps_clocks:
                call.clocks()
            waiting.append(call.receive(came, now))

        counts.append(calls_made(attempt))
    assert call.result.attempts == 20
    return counts


@pytest.mark.parametrize(
    ("came", "most"), [(FAILED, 390), (EMPTY, 445)], ids=["failures", "empties"]
)
def test_an_attempt_after_another_makes_few_calls_of_functions(
    came: Reply | Failure, most: int
) -> None:
    first, second = (Call(REQUEST, Policy(budget=TWENTY, limits=PATIENT), ONE) for _ in range(2))
    # which builds the machine, and the table's sentences at its end
    work_of_attempts(first, came, keeps_clocks=False)
    assert max(work_of_attempts(second, came, keeps_clocks=False)[1:]) < most


@pytest.mark.parametrize("came", [FAILED, EMPTY], ids=["failures", "empties"])
@pytest.mark.parametrize("keeps_clocks", [False, True], ids=["", "clocks"])
@pytest.mark.parametrize(
    ("budget", "within"),
    [(TWENTY, None), (COUNTED, None), (TWENTY, Budget(attempts=1_000, seconds=None, money=1e6))],
    ids=["attempts", "money", "shared"],
)
def test_the_twentieth_attempt_is_no_more_work_than_the_second(
    budget: Budget,
    within: Budget | None,
    came: Reply | Failure,
    keeps_clocks: bool,
) -> None:
    shared = None if within is None else SharedBudget(within)
    first, second = (
        Call(REQUEST, Policy(budget=budget, limits=PATIENT), PRICED, within=shared)
        for _ in range(2)
    )
    work_of_attempts(first, came, keeps_clocks=keeps_clocks)  # which builds what calls share
    counts = work_of_attempts(second, came, keeps_clocks=keeps_clocks)
    assert max(counts[2:-1]) <= max(counts[1:3])
    assert counts[-1] <= 1.1 * max(counts[1:3])  # the end of the call tries more rows


def test_what_asks_for_each_part_of_a_text_is_built_once() -> None:
    call = Call(REQUEST, Policy(budget=TWENTY), ONE)
    call.begin(0.0)
    cut = Reply("In the reeds of the river, and then", stop_reason="length", usage=Usage(10, 5))
    first = call.receive(cut, 0.1)
    second = call.receive(cut, 0.2)
    assert first.rung == second.rung == "continuation"
    assert first.messages[-1] is second.messages[-1]


def test_the_fourth_backend_is_no_more_work_than_the_second() -> None:
    counts = work_of_attempts(Call(REQUEST, Policy(budget=TWENTY), FIVE), FAILED, keeps_clocks=True)
    assert sum(counts[12:16]) <= sum(counts[4:8])


def test_a_call_that_waits_holds_less_than_four_thousand_bytes() -> None:
    policy = Policy()

    def waiting() -> Call:
        call = Call(REQUEST, policy, ONE)
        call.begin()
        call.sending()
        return call

    waiting()
    gc.collect()
    tracemalloc.start()
    try:
        held = [waiting() for _ in range(100)]
        bytes_held = tracemalloc.get_traced_memory()[0] / len(held)
    finally:
        tracemalloc.stop()
    # From Python 3.12 on, an object that can be referred to weakly holds two words for that, and
    # not one.
    assert bytes_held < (3_960 if sys.version_info < (3, 12) else 4_000)  # other threads add to it
