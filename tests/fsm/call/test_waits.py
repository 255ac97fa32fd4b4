import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.call.clocks.waiting import backoff, longest_backoff

SECONDS = st.floats(0, 1e6, allow_nan=False)
SHARE = st.floats(0, 1, allow_nan=False)
COUNT = st.integers(1, 10**30)


@pytest.mark.parametrize(
    ("n", "expected"), [(1, 2.0), (2, 4.0), (3, 8.0), (5, 32.0), (6, 60.0), (7, 60.0), (10_000, 60.0), (10**100, 60.0)]
)
def test_doubles_up_to_the_cap(n: int, expected: float) -> None:
    assert backoff(n, 2, 60, 0.5, 0.0) == expected


def test_jitter_is_added_after_the_cap() -> None:
    assert backoff(9, 5, 120, 0.5, 0.5) == 150
    assert longest_backoff(9, 5, 120, 0.5) == 180
    assert longest_backoff(1, 5, 120, 0.5) == 7.5


def test_a_cap_below_the_base_wins() -> None:
    assert backoff(1, 10, 4, 0.0, 0.9) == 4


def test_a_base_of_nothing_stays_nothing() -> None:
    assert backoff(10**9, 0, 60, 0.5, 0.9) == 0


@given(COUNT, SECONDS, SECONDS, SHARE, st.floats(0, 1, exclude_max=True))
def test_stays_between_no_jitter_and_the_longest(n: int, base: float, cap: float, jitter: float, draw: float) -> None:
    wait = backoff(n, base, cap, jitter, draw)
    assert backoff(n, base, cap, jitter, 0.0) <= wait <= longest_backoff(n, base, cap, jitter)
    assert 0 <= wait <= cap + jitter * cap


@given(COUNT, SECONDS, SECONDS)
def test_never_shrinks_with_n(n: int, base: float, cap: float) -> None:
    assert backoff(n, base, cap, 0.0, 0.0) <= backoff(n + 1, base, cap, 0.0, 0.0)
