"""The clocks of a call: when silence may end an attempt, when it has brought text, how long its own
waits are.
"""

import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rungwise
from rungwise import Budget, Limits, Policy, Reasoning, Text, Timeouts, Waits
from rungwise.core import Call, Failure, IllegalEvent, PlainLink, Reply, Request
from rungwise.fsm.call.clocks.waiting import backoff

SILENCE = Failure("silence")
UNLIMITED = Budget(seconds=None)
CHAIN = (PlainLink("one"), PlainLink("two"))


def sent(
    policy: Policy | None = None, chain: tuple[PlainLink, ...] = CHAIN, **asked: object
) -> Call:
    call = Call(Request("Where does it nest?", **asked), policy or Policy(budget=UNLIMITED), chain)  # type: ignore[arg-type]
    call.begin(0.0)
    assert call.sending(0.0) is not None
    return call


# where it leads


@pytest.mark.parametrize("begun", ["Sto", "Storks ne", "Storks nest"])
def test_does_not_repeat_a_restart_that_breaks_off_early(begun: str) -> None:
    call = sent(Policy(budget=UNLIMITED, switch_after={"silence": 9}), CHAIN[:1])
    call.receive(Reply("Storks nest by the l", interrupted=True, failure=SILENCE))
    call.receive(Reply(begun, interrupted=True, failure=SILENCE))
    call.receive(Reply("Storks nest by the lake in spring.", stop_reason="stop"))
    assert (call.result.outcome, call.result.text) == ("done", "Storks nest by the lake in spring.")


def test_an_attempt_that_was_silent_is_paid_for_like_one_that_hung() -> None:
    policy = Policy(budget=Budget(seconds=None, output_tokens=4000))
    call = sent(policy, max_tokens=1000)
    call.receive(SILENCE)
    assert call.spending.usage.output_tokens == 1000


# when it may end an attempt


def test_where_another_backend_is_asked_it_may_at_any_moment() -> None:
    clocks = sent(Policy()).clocks()
    assert (clocks.first_token, clocks.stall) == (60.0, 25.0)
    assert (clocks.before_text, clocks.after_text) == (math.inf, math.inf)


def test_the_last_backend_needs_time_for_a_first_token_after_the_wait() -> None:
    policy = Policy(budget=Budget(seconds=200.0), waits=Waits(retry_base=4.0, jitter=0.5))
    clocks = sent(policy, CHAIN[:1]).clocks()
    assert (clocks.before_text, clocks.after_text) == (200 - 60 - 6, 200 - 60)


def test_on_the_last_backend_it_may_not_where_nothing_is_left_to_ask_again() -> None:
    policy = Policy(budget=UNLIMITED, limits=Limits(retries=0, continuations=1))
    clocks = sent(policy, CHAIN[:1]).clocks()
    assert (clocks.before_text, clocks.after_text) == (None, math.inf)
    call = sent(Policy(budget=Budget(attempts=1)), CHAIN[:1])
    assert (call.clocks().before_text, call.clocks().after_text) == (None, None)


def test_it_may_not_where_the_tokens_do_not_last_for_another_attempt() -> None:
    for tokens, moment in ((1000, None), (2100, math.inf)):
        call = sent(
            Policy(budget=Budget(seconds=None, output_tokens=tokens)), CHAIN[:1], max_tokens=1000
        )
        assert call.clocks().before_text == moment


def test_does_not_continue_discarded_text() -> None:
    policy = Policy(budget=UNLIMITED, limits=Limits(retries=0))
    assert sent(policy, CHAIN[:1], max_tokens=10).clocks().after_text is None
    assert sent(policy, CHAIN[:1], max_tokens=100).clocks().after_text == math.inf


def test_a_table_that_ends_on_silence_is_never_made_to_end_by_it() -> None:
    table = rungwise.CALL.without("retry", "continuation", "fallback")
    clocks = sent(Policy(budget=UNLIMITED, table=table)).clocks()
    assert (clocks.before_text, clocks.after_text) == (None, None)


def test_a_backend_may_have_clocks_of_its_own() -> None:
    chain = (PlainLink("thinker", first_token=300.0), PlainLink("fast", stall=5.0))
    call = sent(Policy(timeouts=Timeouts(first_token=20, stall=10)), chain)
    assert (call.clocks().first_token, call.clocks().stall) == (300.0, 10.0)
    call.receive(SILENCE, 300.0)
    call.sending(300.0)
    assert (call.clocks().first_token, call.clocks().stall) == (20.0, 5.0)


THINKER = PlainLink("thinker", thinks_for=300.0)


@pytest.mark.parametrize(
    ("policy", "link", "expected"),
    [
        (Policy(), THINKER, (60.0, 300.0)),
        (Policy(timeouts=Timeouts(stall=5)), THINKER, (60.0, 300.0)),
        (Policy(timeouts=Timeouts(first_token=60)), THINKER, (60.0, None)),
        (Policy(timeouts=Timeouts(first_token=None)), THINKER, (None, None)),
        (Policy.interactive(), THINKER, (10.0, None)),
        (Policy.from_toml("[timeouts]\nfirst_token = 60"), THINKER, (60.0, None)),
        (Policy.from_toml("[timeouts]\nstall = 60"), THINKER, (60.0, 300.0)),
        (Policy(), PlainLink("thinker", thinks_for=300.0, first_token=20.0), (20.0, None)),
        (Policy(), PlainLink("one"), (60.0, None)),
    ],
)
def test_what_is_known_of_a_model_replaces_only_a_clock_that_nobody_set(
    policy: Policy, link: PlainLink, expected: tuple[float | None, float | None]
) -> None:
    clocks = sent(attrs.evolve(policy, base_cap=100), (link, PlainLink("two"))).clocks()
    assert (clocks.first_token, clocks.thinking) == expected


def test_the_last_backend_needs_time_for_the_thinking_of_another_attempt() -> None:
    clocks = sent(Policy(budget=Budget(seconds=500), waits=Waits(jitter=0)), (THINKER,)).clocks()
    assert clocks.before_text == 500 - 2 - 300


def test_asking_for_the_clocks_changes_nothing() -> None:
    call = sent(Policy(budget=Budget(attempts=4, seconds=50, output_tokens=3000)), max_tokens=100)
    before = (
        list(call.position.spent),
        call.position.state,
        call.position.facts,
        len(call.journal.steps),
    )
    call.clocks(), call.clocks()
    assert (
        list(call.position.spent),
        call.position.state,
        call.position.facts,
        len(call.journal.steps),
    ) == before


# what else leaves a backend


def test_empty_replies_leave_the_backend_after_as_many_as_the_policy_says() -> None:
    for most, rungs in ((1, ["fallback"]), (2, ["reask", "fallback"])):
        call = sent(Policy(budget=UNLIMITED, switch_after={"empty": most}))
        assert [
            send.rung for _ in rungs if (send := call.receive(Reply(stop_reason="stop")))
        ] == rungs


# when an attempt has brought enough visible text to go on from


THOUGHT = "Herons like reeds."


def watch(
    *replies: Reply, prefills: bool = False
) -> rungwise.fsm.call.conversation.reading.TextWatch:
    """Return the watch of the attempt behind some replies."""
    call = Call(Request("Where?"), chain=[PlainLink(prefills=prefills)])
    call.begin()
    call.sending()
    for reply in replies:
        call.receive(reply)
        call.sending()
    return call.text_watch()


@pytest.mark.parametrize(
    ("pieces", "has_text"),
    [
        (["Herons"], True),
        (["He", "r", "on", "s"], True),
        (["Hero"], False),
        (["      ", "\n\n", "    "], False),
        (["<think>", THOUGHT], False),
        (["<th", "ink>", THOUGHT, "</think>In the reeds"], True),
        (["<think>", THOUGHT, "</think>\n\n"], False),
        ([Reasoning(THOUGHT)], False),
        ([Reasoning(THOUGHT), "In the reeds"], True),
    ],
)
def test_visible_text_is_what_a_consumer_would_be_shown(
    pieces: list[str | Reasoning], has_text: bool
) -> None:
    watching = watch()
    told = [watching.has_text(Text(piece) if isinstance(piece, str) else piece) for piece in pieces]
    assert told[-1] is has_text
    assert not any(told[:-1])


def test_behind_an_echo_of_what_was_gathered_any_more_is_enough() -> None:
    part = Reply("Herons nest in tall dead trees, ", stop_reason="length")
    watching = watch(part)
    assert not watching.has_text(Text("Herons nest in "))
    assert not watching.has_text(Text("tall dead trees, "))
    assert watching.has_text(Text("as"))


def test_a_few_letters_behind_text_that_was_gathered_may_be_its_beginning_again() -> None:
    watching = watch(Reply("Herons nest in tall dead trees, ", stop_reason="length"))
    assert not watching.has_text(Text("as"))
    assert watching.has_text(Text(" well"))


def test_text_that_turns_out_to_be_reasoning_is_no_text() -> None:
    watching = watch()
    assert not watching.has_text(Text("Hm. "))
    assert not watching.has_text(Text("\n</think>\n"))
    assert watching.has_text(Text("In the reeds."))


def test_there_is_none_of_what_is_not_in_flight() -> None:
    call = Call(Request("Where?"))
    with pytest.raises(IllegalEvent, match="nothing is in flight"):
        call.text_watch()


# how long a wait of its own is


SECONDS = st.floats(0, 1e6, allow_nan=False)
SHARE = st.floats(0, 1, allow_nan=False)
COUNT = st.integers(1, 10**30)


@pytest.mark.parametrize(
    ("n", "expected"),
    [(1, 2.0), (2, 4.0), (3, 8.0), (5, 32.0), (6, 60.0), (7, 60.0), (10**100, 60.0)],
)
def test_doubles_up_to_the_cap(n: int, expected: float) -> None:
    assert backoff(n, 2, 60, 0.5, 0.0) == expected


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ((9, 5, 120, 0.5, 0.5), 150),
        ((9, 5, 120, 0.5, 1.0), 180),
        ((1, 5, 120, 0.5, 1.0), 7.5),
        ((1, 10, 4, 0.0, 0.9), 4),
        ((10**9, 0, 60, 0.5, 0.9), 0),
    ],
    ids=["half", "whole", "below the cap", "a cap below the base", "a base of nothing"],
)
def test_jitter_is_added_after_the_cap(given_: Any, expected: float) -> None:
    assert backoff(*given_) == expected


@given(COUNT, SECONDS, SECONDS, SHARE, st.floats(0, 1, exclude_max=True))
def test_stays_between_no_jitter_and_the_longest(
    n: int,
    base: float,
    cap: float,
    jitter: float,
    draw: float,
) -> None:
    wait = backoff(n, base, cap, jitter, draw)
    assert backoff(n, base, cap, jitter, 0.0) <= wait <= backoff(n, base, cap, jitter, 1.0)
    assert 0 <= wait <= cap + jitter * cap


@given(COUNT, SECONDS, SECONDS)
def test_never_shrinks_with_n(n: int, base: float, cap: float) -> None:
    assert backoff(n, base, cap, 0.0, 0.0) <= backoff(n + 1, base, cap, 0.0, 0.0)
