"""Calls under a shared budget, driven by hand."""

import threading
from typing import Any

from rungwise import Prices, SharedBudget, Usage
from rungwise.core import Call, PlainLink, Reply, Request

PRICED = [PlainLink("priced", prices=Prices(2.0, 10.0))]


def begun(
    shared: SharedBudget | None, cap: int | None = 100, now: float = 0.0, **options: Any
) -> Call:
    """Begin a call with an output cap."""
    call = Call(Request("Where?", max_tokens=cap, input_tokens=10), within=shared, **options)
    call.begin(now)
    return call


def sent(shared: SharedBudget, cap: int | None = 100, now: float = 0.0, **options: Any) -> Call:
    """Begin a call and send its first attempt."""
    call = begun(shared, cap, now, **options)
    assert call.sending(now) is not None
    return call


def waiting(
    shared: SharedBudget, cap: int | None = 100, **options: Any
) -> tuple[Call, threading.Event]:
    """Begin a call that waits for others, and return it with the event that is set when it may go
    on.
    """
    call = begun(shared, cap, **options)
    woken = threading.Event()
    assert not call.reserve(woken.set, 0.0)
    assert not woken.is_set()
    return call, woken


def answer(tokens: int, text: str = "In reeds.") -> Reply:
    """Answer with this many tokens by the provider's count."""
    return Reply(
        text,
        stop_reason="stop",
        stop_raw="stop",
        usage=Usage(10, tokens),
    )


def over_budget(call: Call, now: float = 0.0) -> str:
    """Let a call run over its budget and return the cause."""
    assert call.is_over or call.sending(now) is None
    assert call.result.outcome == "over_budget"
    return call.result.cause


def spend(shared: SharedBudget, tokens: int = 108, **options: Any) -> None:
    """Make a call that uses this many output tokens."""
    call = sent(shared, **options)
    call.receive(answer(tokens), 1.0)
