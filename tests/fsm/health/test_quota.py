"""Whatever calls ask of a quota, the backend receives no more than that, and they are served in
turn.
"""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rungwise import ConfigurationError, Quota
from rungwise.fsm.health.quota import FORGOTTEN, MINUTE, POLL, Claim, QuotaMeter, Settlement

LEASE = 100.0
NEVER = float("inf")


def claim(name: str, tokens: int = 0, longest: float = NEVER) -> Claim:
    return Claim(name, tokens, longest, LEASE)


class Bucket:
    """Count as a provider does: so much is there at first, and comes back each minute, and no more
    fits.
    """

    def __init__(self, size: int) -> None:
        self.size, self.left, self.at = size, float(size), 0.0

    def take(self, units: int, at: float) -> None:
        self.left = min(self.size, self.left + (at - self.at) * self.size / MINUTE) - units
        self.at = at
        assert self.left >= -1e-3  # a wait of less than a microsecond is none


STEPS = st.lists(st.tuples(st.floats(0, 20), st.integers(0, 900), st.floats(0, 90)), max_size=60)


@given(STEPS, st.integers(1, 30), st.integers(900, 5_000))
def test_a_provider_never_finds_its_bucket_empty_and_callers_are_served_in_turn(
    steps: list[tuple[float, int, float]], requests: int, tokens: int
) -> None:
    quota = Quota(requests_per_minute=requests, tokens_per_minute=tokens)
    meter = QuotaMeter()
    now = 1000.0
    of_requests = Bucket(requests)
    of_tokens = Bucket(tokens)
    last = 0.0
    for number, (passes, units, longest) in enumerate(steps):
        now += passes
        wait, is_given = meter.take(quota, claim(str(number), units, longest), now)
        assert is_given == (wait <= longest)
        if is_given:
            assert now + wait >= last - 1e-6
            last = now + wait
            of_requests.take(1, last)
            of_tokens.take(units, last)


@given(st.floats(0, 2e9), st.integers(1, 100_000))
@example(0.1, 600)
def test_the_last_of_a_minute_s_tokens_does_not_wait_for_a_rounding_error(
    now: float, tokens: int
) -> None:
    assert QuotaMeter().take(Quota(tokens_per_minute=tokens), claim("a", tokens), now) == (
        0.0,
        True,
    )


@given(
    st.lists(st.tuples(st.sampled_from(["take", "end", "lose"]), st.integers(0, 9)), max_size=80),
    st.integers(1, 4),
)
def test_no_more_are_out_at_once_and_who_came_first_goes_first(
    steps: list[tuple[str, int]], most: int
) -> None:
    quota = Quota(concurrent=most)
    meter = QuotaMeter()
    now = 0.0
    out: set[str] = set()
    waiting: list[str] = []
    for what, number in steps:
        name = str(number)
        now = now + 0.01
        if what == "take":
            wait, is_given = meter.take(quota, claim(name), now)
            if name not in out and name not in waiting:
                waiting.append(name)
            assert is_given == (name in out or waiting.index(name) < most - len(out))
            assert wait == (0.0 if is_given else POLL * (1 + waiting.index(name) // (2 * most)))
            if is_given and name in waiting:
                waiting.remove(name)
                out.add(name)
        elif what == "end":
            meter.settle(quota, Settlement(name), now)
            out.discard(name)
            waiting = [each for each in waiting if each != name]
        assert len(meter.leases) == len(out) <= most


def test_who_does_not_come_back_has_left_the_queue_and_a_lost_attempt_frees_its_place() -> None:
    quota = Quota(concurrent=1)
    meter = QuotaMeter()
    assert meter.take(quota, claim("first"), 0.0) == (0.0, True)
    assert meter.take(quota, claim("second"), 1.0) == (POLL, False)
    assert meter.take(quota, claim("third"), 1.1) == (POLL, False)
    meter.settle(quota, Settlement("first"), 1.2)
    assert meter.take(quota, claim("third"), 1.3) == (POLL, False)  # the second is still there
    assert meter.take(quota, claim("third"), 1.1 + FORGOTTEN) == (0.0, True)
    assert meter.take(quota, claim("fourth"), 2.0 + FORGOTTEN + LEASE) == (0.0, True)


def test_those_far_behind_in_the_queue_ask_seldom() -> None:
    quota = Quota(concurrent=1)
    meter = QuotaMeter()
    meter.take(quota, claim("out"), 0.0)
    waits = [meter.take(quota, claim(str(place)), 0.0)[0] for place in range(6)]
    assert waits == [POLL, POLL, 2 * POLL, 2 * POLL, 3 * POLL, 3 * POLL]
    # each stays for as long as it was told to wait, and a little more
    assert [until - FORGOTTEN for until in meter.queue.values()] == pytest.approx(waits)


def test_a_lease_ends_at_its_moment_and_begins_when_the_wait_is_over() -> None:
    quota = Quota(concurrent=1, requests_per_minute=1)
    meter = QuotaMeter()
    assert meter.take(quota, claim("one"), 0.0) == (0.0, True)
    assert meter.take(quota, claim("two"), LEASE - 0.1) == (POLL, False)
    assert meter.take(quota, claim("three", longest=0.0), LEASE) == (POLL, False)  # in turn
    assert meter.take(quota, claim("two"), LEASE) == (0.0, True)
    meter.settle(quota, Settlement("two"), LEASE)
    assert meter.take(quota, claim("three"), LEASE) == (60.0, True)
    assert meter.leases == {"three": LEASE + 60.0 + LEASE}


def test_who_gives_up_leaves_the_queue() -> None:
    quota = Quota(concurrent=1)
    meter = QuotaMeter()
    meter.take(quota, claim("one"), 0.0)
    meter.take(quota, claim("two"), 0.0)
    meter.settle(quota, Settlement("two", was_sent=False), 0.0)
    assert meter.queue == {}


def test_what_was_not_sent_and_what_was_not_used_is_given_back_once() -> None:
    quota = Quota(requests_per_minute=2, tokens_per_minute=60)
    meter = QuotaMeter()
    assert meter.take(quota, claim("one", 60), 0.0) == (0.0, True)
    assert (meter.requests, meter.tokens) == (30.0, 60.0)
    meter.settle(quota, Settlement("one", unused=45), 0.0)
    assert (meter.requests, meter.tokens) == (30.0, 15.0)
    meter.settle(quota, Settlement("one", unused=45, was_sent=False), 0.0)  # a second word
    assert (meter.requests, meter.tokens) == (30.0, 15.0)
    assert meter.take(quota, claim("two", 15), 0.0) == (0.0, True)
    meter.settle(quota, Settlement("two", unused=15, was_sent=False), 0.0)
    assert (meter.requests, meter.tokens) == (30.0, 15.0)
    only_requests = Quota(requests_per_minute=2)
    only_tokens = Quota(tokens_per_minute=60)
    for some in (only_requests, only_tokens):
        meter = QuotaMeter()
        meter.take(some, claim("one", 60), 0.0)
        meter.settle(some, Settlement("one", unused=60, was_sent=False), 0.0)
        assert (meter.requests, meter.tokens) == (0.0, 0.0)


def test_a_wait_that_is_as_long_as_may_be_is_waited_for() -> None:
    quota = Quota(requests_per_minute=1)
    meter = QuotaMeter()
    meter.take(quota, claim("one"), 0.0)
    assert meter.take(quota, claim("two", longest=59.0), 0.0) == (60.0, False)
    assert meter.take(quota, claim("two", longest=60.0), 0.0) == (60.0, True)


def test_a_settlement_that_says_nothing_gives_nothing_back() -> None:
    quota = Quota(tokens_per_minute=60)
    meter = QuotaMeter()
    meter.take(quota, claim("one", 60), 0.0)
    meter.settle(quota, Settlement("one"), 0.0)
    assert meter.tokens == 60.0


def test_the_moments_of_a_queue_and_the_largest_quota() -> None:
    assert (MINUTE, POLL, FORGOTTEN) == (60.0, 0.05, 2.0)
    assert Quota(tokens_per_minute=10**12).tokens_per_minute == 10**12
    with pytest.raises(ConfigurationError):
        Quota(tokens_per_minute=10**12 + 1)
    with pytest.raises(ConfigurationError, match="by name"):
        Quota(3)  # type: ignore[misc]


def test_half_a_second_is_waited_for_too() -> None:
    quota = Quota(requests_per_minute=1)
    meter = QuotaMeter()
    meter.take(quota, claim("one"), 0.0)
    assert meter.take(quota, claim("two"), 59.5) == (0.5, True)


def test_who_has_not_come_back_by_the_moment_has_left_the_queue() -> None:
    quota = Quota(concurrent=1)
    meter = QuotaMeter()
    meter.take(quota, claim("one"), 0.0)
    meter.take(quota, claim("two"), 0.0)
    leaves_at = meter.queue["two"]
    meter.settle(quota, Settlement("one"), 1.0)
    assert meter.take(quota, claim("three"), leaves_at) == (0.0, True)


def test_what_a_provider_says_is_left_counts_as_a_share_of_the_minute() -> None:
    quota = Quota(requests_per_minute=4, tokens_per_minute=100)
    meter = QuotaMeter()
    meter.settle(quota, Settlement("one", requests_left=1, tokens_left=75), 1000.0)
    assert (meter.requests, meter.tokens) == (1045.0, 1015.0)


def test_processes_share_a_quota_evenly_and_each_has_something() -> None:
    quota = Quota(requests_per_minute=9, concurrent=2)
    assert quota.shared_by(4) == Quota(requests_per_minute=2, concurrent=1)
    assert quota.shared_by(1) == quota


def test_an_attempt_is_counted_once() -> None:
    quota = Quota(requests_per_minute=1)
    meter = QuotaMeter()
    assert (
        meter.take(quota, claim("one"), 0.0) == meter.take(quota, claim("one"), 0.0) == (0.0, True)
    )
    assert meter.take(quota, claim("two"), 0.0) == (60.0, True)


def test_what_waits_for_too_long_takes_nothing() -> None:
    quota = Quota(requests_per_minute=1)
    meter = QuotaMeter()
    meter.take(quota, claim("one"), 0.0)
    assert meter.take(quota, claim("two", longest=30.0), 0.0) == (60.0, False)
    assert meter.take(quota, claim("three"), 30.0) == (30.0, True)


def test_what_a_reply_leaves_of_its_cap_is_given_back_once() -> None:
    quota = Quota(tokens_per_minute=1000)
    meter = QuotaMeter()
    meter.take(quota, claim("one", 1000), 0.0)
    for _ in range(2):
        meter.settle(quota, Settlement("one", unused=900), 0.0)
    assert meter.take(quota, claim("two", 900), 0.0) == (0.0, True)
    assert meter.take(quota, claim("three", 100), 0.0)[0] == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("paid", "wait"),
    [
        (Settlement("x"), 0.0),
        (Settlement("x", requests_left=0), 6.0),
        (Settlement("x", requests_left=1), 0.0),
        (Settlement("x", requests_left=500), 0.0),
        (Settlement("x", tokens_left=100), 54.0),
        (Settlement("x", tokens_left=10**12), 0.0),
        (Settlement("x", asked_wait=20.0), 20.0),
    ],
)
def test_the_provider_is_believed_where_it_says_that_less_is_left(
    paid: Settlement, wait: float
) -> None:
    quota = Quota(requests_per_minute=10, tokens_per_minute=1000)
    meter = QuotaMeter()
    meter.settle(quota, paid, 0.0)
    assert meter.take(quota, claim("one", 1000), 0.0)[0] == pytest.approx(wait)
    # it is never believed that more is
    assert meter.take(quota, claim("two", 1000), 0.0)[0] >= 60.0


def test_the_provider_is_believed_where_only_requests_at_once_are_counted() -> None:
    quota = Quota(concurrent=3)
    meter = QuotaMeter()
    meter.settle(
        quota,
        Settlement(
            "x",
            requests_left=0,
            tokens_left=0,
            asked_wait=20.0,
        ),
        5.0,
    )
    assert meter.take(quota, claim("one"), 5.0)[0] == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "Quota needs requests_per_minute, tokens_per_minute or concurrent"),
        ({"requests_per_minute": 0}, "Quota.requests_per_minute must be a whole number from 1"),
        ({"tokens_per_minute": 0}, "Quota.tokens_per_minute must be a whole number from 1"),
        ({"concurrent": 0}, "Quota.concurrent must be a whole number from 1"),
        ({"requests_per_minute": 2.5}, "Quota.requests_per_minute must be a whole number"),
        ({"tokens_per_minute": True}, "Quota.tokens_per_minute must be a whole number"),
    ],
)
def test_a_malformed_quota_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Quota(**values)
