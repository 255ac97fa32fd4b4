"""The retries of all calls together: a share of the last thousand calls, from the hundredth on."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import Policy, replay
from rungwise.core import Call, Failure, Reply, Request
from rungwise.fsm.call.budget.throttle import LEAST, WINDOW, RetryThrottle

DOWN, LIMITED = Failure("server_error", 503), Failure("rate_limit", 429, asked_wait=3.0)
ANSWER = Reply("An answer.", stop_reason="stop")


def ended(throttle: RetryThrottle | None, *replies: Reply | Failure) -> Call:
    """Run a call whose last reply comes for ever."""
    call = Call(Request("hi"), Policy())
    send = call.begin(0.0, throttle)
    number = 0
    while send is not None:
        send = call.receive(replies[min(number, len(replies) - 1)])
        number += 1
    return call


def used(calls: int, share: float = 0.2) -> RetryThrottle:
    """Return a throttle after so many calls that needed no retry."""
    throttle = RetryThrottle(share)
    for _ in range(calls):
        throttle.begin()
    return throttle


def test_nothing_is_held_back_of_the_first_ninety_nine_calls() -> None:
    throttle = RetryThrottle(0.0)
    assert [ended(throttle, DOWN).result.attempts for _ in range(LEAST)] == [4] * (LEAST - 1) + [1]


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_retries_are_at_most_a_share_of_the_last_calls(share: float) -> None:
    throttle = used(WINDOW, share)
    retries = sum(ended(throttle, DOWN).result.attempts - 1 for _ in range(500))
    assert retries == min(500 * 3, int(share * WINDOW))


def test_old_calls_make_room_for_new_retries() -> None:
    throttle = used(WINDOW)
    for _ in range(100):
        ended(throttle, DOWN)
    assert ended(throttle, DOWN).result.attempts == 1
    for _ in range(WINDOW):
        throttle.begin()
    assert ended(throttle, DOWN).result.attempts == 4


def test_a_retry_that_waited_for_what_a_rate_limit_asked_does_not_count() -> None:
    throttle = used(WINDOW, 0.0)
    assert ended(throttle, LIMITED, LIMITED, ANSWER).result.outcome == "done"
    assert ended(throttle, Failure("rate_limit", 429)).result.attempts == 1


def test_what_led_elsewhere_is_given_back() -> None:
    throttle = used(WINDOW, 0.001)  # one retry for all
    # resent at once
    assert ended(throttle, Failure("connection", is_stale=True), ANSWER).result.attempts == 2
    assert ended(throttle, DOWN).result.attempts == 2
    assert ended(throttle, DOWN).result.attempts == 1


def test_a_call_that_ends_for_this_reason_says_so() -> None:
    result = ended(used(WINDOW, 0.0), DOWN).result
    assert (
        result.cause == "the provider failed; the calls of this client have no retry left together"
    )
    assert "throttled" in result.journal.last.facts
    assert replay(result.journal).cause == result.cause
    assert "throttled" not in ended(None, DOWN).result.journal.last.facts


@given(st.lists(st.booleans(), max_size=40), st.floats(0, 0.3))
def test_the_share_holds_after_each_call(fails: list[bool], share: float) -> None:
    throttle = used(LEAST, share)
    for fail in fails:
        before = throttle._total
        call = ended(throttle, DOWN if fail else ANSWER)
        assert throttle._total == sum(throttle._retries) == before + call.result.attempts - 1
        assert throttle._total <= share * len(throttle._retries)


def test_threads_together_keep_to_the_share() -> None:
    throttle = used(WINDOW)
    with ThreadPoolExecutor(8) as pool:
        calls = list(pool.map(lambda _: ended(throttle, DOWN), range(400)))
    assert sum(call.result.attempts - 1 for call in calls) == 200
