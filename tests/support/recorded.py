"""Calls and turns whose records are hard to show: very many attempts, hardly any time or very much, hostile names."""

from __future__ import annotations

from collections.abc import Sequence

import rungwise
from rungwise.fsm.call.run.explained import read_call
from rungwise.fsm.journal.path import Path
from rungwise.fsm.turn.explained import TurnPath, read_turn
from support.turns import BUSY, calling, played, said

HTML = "</script><img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>"
ARABIC = "مزود النموذج الأول في القائمة"
LONG = "a-backend-of-a-very-long-name-" * 12

Said = rungwise.Reply | rungwise.Failure
OVERLOADED = rungwise.Failure("overloaded", status=503)
ANSWER = rungwise.Reply("Yes.", stop_reason="stop", stop_raw="stop", usage=rungwise.Usage(400, 12))


def recorded(
    replies: Sequence[Said],
    *,
    seconds: float,
    names: Sequence[str] = ("first",),
    retries: int = 3,
    budget: rungwise.Budget | None = None,
    waits: bool = True,
) -> rungwise.Call:
    """Play a call in which each reply takes so many seconds."""
    policy = rungwise.Policy(
        limits=rungwise.Limits(retries=retries), budget=budget or rungwise.Budget(attempts=24, seconds=10_000)
    )
    chain = [rungwise.PlainLink(name, prices=rungwise.Prices(1, 10)) for name in names]
    call = rungwise.Call(rungwise.Request("?", max_tokens=700), policy, chain, jitter=lambda: 0.5)
    now, send = 0.0, call.begin(0.0)
    for reply in replies:
        assert send is not None
        now += send.wait if waits else 0.0
        call.sending(now)
        now += seconds
        send = call.receive(reply, now)
    return call


def shown(call: rungwise.Call) -> Path:
    """Return the path of a call as its journal tells it."""
    return read_call(call.journal.to_json())


def failed() -> rungwise.Call:
    """A call that its provider failed four times."""
    return recorded([OVERLOADED] * 4, seconds=0.4)


def short() -> rungwise.Call:
    """A call that was answered at once."""
    return recorded([ANSWER], seconds=1.5)


def in_microseconds() -> rungwise.Call:
    """A call of 24 attempts that took no more than 24 microseconds."""
    return recorded([OVERLOADED] * 23 + [ANSWER], seconds=1e-6, retries=30, waits=False)


def in_minutes() -> rungwise.Call:
    """A call of 24 attempts that took more than a quarter of an hour, nearly all of it waits."""
    return recorded([OVERLOADED] * 24, seconds=0.3, retries=30)


def hostile() -> rungwise.Call:
    """A call whose backends and failures are named as nobody should name them."""
    reason = rungwise.Failure("rate_limit", status=429, code=HTML, asked_wait=3.0)
    return recorded([reason, *[OVERLOADED] * 4, ANSWER], seconds=0.7, names=(HTML, LONG, ARABIC), retries=1)


def long_turn() -> TurnPath:
    """A turn of 27 calls."""
    policy = rungwise.TurnPolicy(same_calls=1000, auto_continues=30)
    replies = [calling("look", "note")] * 25 + [BUSY, calling("look"), said("By the lake.")]
    return read_turn(played(*replies, policy=policy, seed=3).journal.to_json())
