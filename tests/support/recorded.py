"""Calls and turns whose records are hard to display: many attempts, microseconds, minutes, hostile
names.
"""

from collections.abc import Sequence

import rungwise
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.engine.journal.path import Path
from rungwise.fsm.turn.explained import read_call, read_turn
from rungwise.fsm.turn.turn_digest import TurnPath
from support.played import play
from support.turns import BUSY, calling, played, said

HTML = "</script><img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>"
ARABIC = "مزود النموذج الأول في القائمة"
LONG = "a-backend-of-a-very-long-name-" * 12

Said = Reply | Failure
OVERLOADED = Failure("overloaded", status=503)
ANSWER = Reply(
    "Yes.",
    stop_reason="stop",
    stop_raw="stop",
    usage=rungwise.Usage(400, 12),
)


def recorded(
    replies: Sequence[Said],
    *,
    seconds: float,
    names: Sequence[str] = ("first",),
    retries: int = 3,
    budget: rungwise.Budget | None = None,
    waits: bool = True,
) -> Call:
    """Play a call in which each reply takes `seconds`."""
    policy = rungwise.Policy(
        limits=rungwise.Limits(retries=retries),
        budget=budget or rungwise.Budget(attempts=24, seconds=10_000),
    )
    chain = [PlainLink(name, prices=rungwise.Prices(1, 10)) for name in names]
    call = Call(Request("?", max_tokens=700), policy, chain, jitter=lambda: 0.5)
    return play(call, [(reply, seconds) for reply in replies], waits=waits)


def shown(call: Call) -> Path:
    """Return the path of a call, read from its journal."""
    return read_call(call.journal.to_json())


def failed() -> Call:
    """A call whose provider failed four times."""
    return recorded([OVERLOADED] * 4, seconds=0.4)


def short() -> Call:
    """A call that was answered at once."""
    return recorded([ANSWER], seconds=1.5)


def in_microseconds() -> Call:
    """A call of 24 attempts in 24 microseconds."""
    return recorded(
        [OVERLOADED] * 23 + [ANSWER],
        seconds=1e-6,
        retries=30,
        waits=False,
    )


def in_minutes() -> Call:
    """A call of 24 attempts in more than a quarter of an hour, nearly all of it waits."""
    return recorded([OVERLOADED] * 24, seconds=0.3, retries=30)


def hostile() -> Call:
    """A call whose backends and failures have hostile names."""
    reason = Failure("rate_limit", status=429, code=HTML, asked_wait=3.0)
    return recorded(
        [reason, *[OVERLOADED] * 4, ANSWER], seconds=0.7, names=(HTML, LONG, ARABIC), retries=1
    )


def long_turn() -> TurnPath:
    """A turn of 27 calls."""
    policy = rungwise.TurnPolicy(same_calls=1000, auto_continues=30)
    replies = [calling("look", "note")] * 25 + [BUSY, calling("look"), said("By the lake.")]
    return read_turn(played(*replies, policy=policy, seed=3).journal.to_json())
