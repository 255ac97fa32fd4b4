"""A budget that many calls share: what they reserve before they send never passes it, and what they used is the sum."""

from __future__ import annotations

import threading
from typing import Any

from rungwise import Budget, Call, Reply, Request, SharedBudget, Usage


def begun(shared: SharedBudget | None, cap: int | None = 100, now: float = 0.0, **options: Any) -> Call:
    """Begin a call that may use so many output tokens in an attempt."""
    call = Call(Request("Where?", max_tokens=cap, input_tokens=10), within=shared, **options)
    call.begin(now)
    return call


def sent(shared: SharedBudget, cap: int | None = 100, **options: Any) -> Call:
    """Begin a call and let its first attempt go out."""
    call = begun(shared, cap, **options)
    assert call.sending(0.0) is not None
    return call


def answer(tokens: int, text: str = "In reeds.") -> Reply:
    return Reply(text, stop_reason="stop", stop_raw="stop", usage=Usage(10, tokens))


def test_what_is_used_is_paid_and_the_rest_comes_back() -> None:
    shared = SharedBudget(Budget(output_tokens=1000))
    call = sent(shared, 500)
    call.receive(answer(40), 1.0)
    assert call.result.outcome == "done"
    assert (shared.attempts, shared.usage, shared.lacking()) == (1, Usage(10, 40), None)


def test_who_needs_what_others_hold_waits_and_is_woken_when_they_settle() -> None:
    shared = SharedBudget(Budget(output_tokens=250))
    first, second = sent(shared), sent(shared, 100)
    third, woken = begun(shared), threading.Event()
    assert not third.reserve(woken.set, 0.0)
    assert not woken.is_set()
    first.receive(answer(30), 1.0)
    assert woken.is_set()
    send = third.sending(1.0)
    assert send is not None
    assert send.max_tokens == 100
    second.receive(answer(100), 1.0)
    third.receive(answer(90), 1.0)
    assert shared.usage.output_tokens == 220


def test_without_a_wait_what_others_hold_cannot_be_afforded() -> None:
    shared = SharedBudget(Budget(output_tokens=150))
    other, call = sent(shared), begun(shared)
    assert call.sending(0.0) is None
    assert call.result.outcome == "over_budget"
    assert call.result.cause == "other calls hold what is left of the shared budget"
    other.receive(answer(10), 1.0)
    assert shared.usage.output_tokens == 10
