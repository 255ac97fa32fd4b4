"""The limits of one attempt: what they come to on the driver's clock and on ours."""

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest

from rungwise import Cancellation, Timeouts
from rungwise.adapters.http import limits as module
from rungwise.adapters.http.limits import GRACE, LINGER, AttemptLimits
from rungwise.core import Failure, Reply, Request
from rungwise.fsm.call.clocks.silence import AttemptClocks
from rungwise.fsm.call.conversation.request import Send

NOW = 1000.0
DRIVERS = 7.0  # the time on the driver's clock at that moment


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set the time: `clock(seconds)` after the beginning."""

    def at(seconds: float) -> float:
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: NOW + seconds))
        return NOW + seconds

    at(0.0)
    return at


def limits(
    *, streams: bool = True, deadline: float | None = None, total: float | None = 600, **clocks: Any
) -> Any:
    given = {
        "first_token": 60.0,
        "stall": 25.0,
        "ends_by": None,
        "before_text": math.inf,
        "after_text": math.inf,
    }
    return AttemptLimits.of(
        Send(
            rung="ask",
            backend=0,
            wait=0,
            messages=(),
            max_tokens=None,
            request=Request("?"),
            deadline=deadline,
        ),
        Timeouts(total=total),
        AttemptClocks(**{**given, **clocks}),
        DRIVERS,
        streams=streams,
        cancellation=Cancellation(),
        is_fresh=False,
    )


@pytest.mark.parametrize(
    ("total", "deadline", "ends_by", "lasts", "by_call"),
    [
        (600, None, None, 600, False),
        (600, DRIVERS + 30, None, 30, True),
        (600, DRIVERS + 30, DRIVERS + 20, 20, True),
        (600, DRIVERS + 700, DRIVERS + 650, 600, False),
        (None, None, None, math.inf, False),
        (None, DRIVERS + 5, None, 5, True),
        (600, DRIVERS - 5, DRIVERS - 8, 0.001, True),
    ],
)
def test_an_attempt_ends_with_its_own_time_or_with_what_is_left_for_it(
    clock: Any,
    total: float | None,
    deadline: float | None,
    ends_by: float | None,
    lasts: float,
    by_call: bool,
) -> None:
    made = limits(total=total, deadline=deadline, ends_by=ends_by, first_token=None)
    assert made.ends_at == NOW + lasts
    assert made.by_call == by_call
    assert made.until == made.ends_at
    assert made.remaining == (None if lasts == math.inf else pytest.approx(max(lasts, 0.001)))


def test_silence_begins_with_the_attempt_and_anew_with_each_piece_of_content(clock: Any) -> None:
    made = limits()
    assert made.silent_at == NOW + 60
    assert made.until == NOW + 60
    made.hear(clock(50))
    assert made.silent_at == NOW + 75
    made.hear(clock(590))
    assert made.silent_at == NOW + 615
    assert made.until == NOW + 600
    clock(599.9)
    assert made.is_over is False
    assert made.is_silent is False
    clock(600)
    assert made.is_over


@pytest.mark.parametrize(("thinking", "silent_after_head"), [(300.0, 40 + 300), (None, 60)])
def test_the_long_silence_of_a_model_that_thinks_begins_with_the_head(
    clock: Any, thinking: float | None, silent_after_head: float
) -> None:
    made = limits(thinking=thinking)
    assert made.silent_at == NOW + 60
    clock(40)
    made.hear_head()
    assert made.silent_at == NOW + silent_after_head
    made.hear(clock(50))
    assert made.silent_at == NOW + 75


def test_silence_ends_an_attempt_only_up_to_its_latest_moment(clock: Any) -> None:
    made = limits(before_text=DRIVERS + 59.5, after_text=DRIVERS + 100)
    assert made.silent_at == math.inf  # it would be too late for another first token by then
    made.hear(clock(30))
    assert made.silent_at == NOW + 55
    made.hear(clock(40))
    assert made.silent_at == math.inf
    made.has_text = True
    assert made.silent_at == NOW + 65
    made.hear(clock(75))
    assert made.silent_at == NOW + 100
    made.hear(clock(75.1))
    assert made.silent_at == math.inf
    assert made.until == NOW + 600


@pytest.mark.parametrize(
    "given",
    [{"streams": False}, {"before_text": None}, {"first_token": None}],
    ids=["not streamed", "never", "no limit"],
)
def test_where_silence_says_nothing_only_the_end_counts(clock: Any, given: dict[str, Any]) -> None:
    made = limits(**given)
    assert made.silent_at == math.inf
    assert made.until == NOW + 600
    made.hear(clock(10))
    assert made.silent_at == (NOW + 35 if "first_token" in given else math.inf)


def test_a_body_that_comes_whole_and_one_of_an_error_have_times_of_their_own(clock: Any) -> None:
    whole = limits()
    whole.ignore_silence()
    whole.hear(clock(1))
    assert whole.until == NOW + 600
    for streams in (True, False):
        clock(0)
        error = limits(streams=streams, before_text=None, after_text=None)
        clock(40)
        error.hurry()
        assert error.silent_at == NOW + 65
    endless = limits(stall=None)
    endless.hurry()
    assert endless.silent_at == math.inf


def test_the_end_of_a_body_gets_a_moment_and_no_more(clock: Any) -> None:
    made = limits(ends_by=DRIVERS + 10)
    made.linger()
    assert made.until == NOW + LINGER
    clock(9.95)
    made = limits(ends_by=DRIVERS + 0.05)
    made.linger()
    assert made.until == pytest.approx(NOW + 10)


def test_the_timeouts_of_a_client_that_was_passed_in_come_after_our_own(clock: Any) -> None:
    given = limits(ends_by=DRIVERS + 20).timeout_extension()
    assert given == {
        "connect": 10,
        "pool": 20 + GRACE,
        "write": 20 + GRACE,
        "read": 20 + GRACE,
    }
    assert limits(first_token=4.0).timeout_extension()["connect"] == 4
    endless = limits(total=None, first_token=None).timeout_extension()
    assert endless == {
        "connect": 10,
        "pool": None,
        "write": None,
        "read": None,
    }


def test_a_reply_is_cut_by_the_call_only_where_its_time_did_it(clock: Any) -> None:
    made = limits(ends_by=DRIVERS + 20)
    cut = Reply("Herons", interrupted=True, failure=Failure("timeout"))
    assert not made.mark(cut).halted
    clock(20)
    assert made.mark(cut).halted
    assert not made.mark(Reply("Herons", interrupted=True, failure=Failure("silence"))).halted
    assert not made.mark(Reply("Herons", stop_reason="stop")).halted


def test_moments_are_those_of_the_real_clock() -> None:
    made = limits()
    assert made.until - time.monotonic() == pytest.approx(60, abs=5)
