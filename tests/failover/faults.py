"""The sixteen faults as data: what a model does, what must hold of the call, and how long that may
take.

The definitions are those of Failover Bench, methodology v0.1; the words, the answer and the code
are ours. Every time is in seconds as published; whoever plays a fault says by how much all of them
are scaled.
"""

from typing import Any, Final, Literal

from attrs import frozen

from failover import checks
from failover.checks import (
    Check,
    asked_again,
    at_most,
    at_most_at_first,
    ends_within,
    no_cut_answer,
)
from rungwise.adapters.exam.answer import ANSWER

TOKENS: Final = len(ANSWER.split())
POLICY_CODE: Final = "content_policy_violation"


@frozen(kw_only=True)
class Behaviour:
    """Say what a model does with one request: without arguments, give the whole answer.

    Arguments:
        status, code: of the error that it answers with, where it is no 200.
        asked_wait: what the error asks to wait, in seconds.
        resets: whether the connection is reset before any byte.
        refuses: whether no connection is accepted at all.
        mute: for how many seconds it sends nothing at all before it closes the connection; None
        answers.
        thinks: seconds from the headers to the first token.
        tokens: of the answer that are sent; with fewer than all, the connection closes without a
        terminating chunk.
        stalls: seconds of silence behind the last of these.
        garbled: the number of an event that is no JSON; None garbles none.
        loses: whether that event was one of the stream's own; otherwise it was put in between.
        says_done: whether `[DONE]` ends the stream.
        refuses_prefill: whether a trailing assistant turn is answered by an error.
        is_empty: whether the stream ends well without a word.
        goes_on: whether the beginning of the answer, as an assistant turn, is gone on from;
            otherwise it is repeated.
    """

    status: int = 200
    code: str | None = None
    asked_wait: float | None = None
    resets: bool = False
    refuses: bool = False
    mute: float | None = None
    thinks: float = 0.0
    tokens: int = TOKENS
    stalls: float = 0.0
    garbled: int | None = None
    loses: bool = False
    says_done: bool = True
    refuses_prefill: bool = False
    is_empty: bool = False
    goes_on: bool = False

    @property
    def is_healthy(self) -> bool:
        """Tell whether this gives the whole answer."""
        return (
            self.status == 200 and not self.resets and self.mute is None and self.tokens == TOKENS
        )


HEALTHY: Final = Behaviour()


@frozen
class Fault:
    """Say what goes wrong, and what must hold of the calls that meet it.

    Arguments:
        name: `S01` to `S16`.
        title: what happens, in a few words.
        primary: what the primary does, request by request; the last is repeated.
        limit: seconds within which each call must have ended; one that has not hangs.
        required, advisory: what must hold, beside that a healthy call works afterwards, and what
        should.
        dead_for: seconds from the first call on after which the primary is healthy; None
        goes by `primary` alone.
        fallback: what the fallback does, always.
        ideal: how the call ends at best.
        calls, every: how many calls there are, and how many seconds lie between their beginnings.
    """

    name: str
    title: str
    primary: tuple[Behaviour, ...]
    limit: float
    required: tuple[Check, ...] = ()
    advisory: tuple[Check, ...] = ()
    dead_for: float | None = None
    fallback: Behaviour = HEALTHY
    ideal: Literal["answer", "reason"] = "answer"
    calls: int = 1
    every: float = 0.0


def _always(status: int, code: str | None = None) -> tuple[Behaviour, ...]:
    return (Behaviour(status=status, code=code),)


def _once(**error: Any) -> tuple[Behaviour, ...]:
    return (Behaviour(**error), HEALTHY)


_OVERLOADED = _always(503, "server_is_overloaded")
_TWO_SECONDS = _once(status=429, code="rate_limit_exceeded", asked_wait=2.0)
_MUTE, _THINKS = (Behaviour(mute=120.0),), (Behaviour(thinks=20.0),)
_CUT, _STALLS = (Behaviour(tokens=40),), (Behaviour(tokens=20, stalls=30.0),)
_AGAIN_IN_TIME = (asked_again, checks.asked_again_after(1.8))
_FEW_AT_FIRST = (at_most_at_first(4, 3.0), at_most(6))
_NO_PREFILL = Behaviour(refuses_prefill=True)
_MEANWHILE = (ends_within(200), checks.answered_meanwhile, checks.back_within(30))

_FAULTS = (
    Fault(
        "S01",
        "429 with Retry-After: 2, once",
        _TWO_SECONDS,
        20,
        (at_most_at_first(2, 1.5),),
        _AGAIN_IN_TIME,
    ),
    Fault(
        "S02",
        "429 without a header, always",
        _always(429, "rate_limit_exceeded"),
        40,
        _FEW_AT_FIRST,
    ),
    Fault("S03", "500 once", _once(status=500), 20, advisory=(asked_again,)),
    Fault("S04", "503 always", _OVERLOADED, 40, (at_most(6),)),
    Fault("S05", "a reset before any byte, once", _once(resets=True), 20),
    Fault("S06", "accepted, never answered", _MUTE, 130, (ends_within(100),), (checks.asked_once,)),
    Fault("S07", "the first token after 20 s", _THINKS, 60, advisory=(ends_within(15),)),
    Fault("S08", "cut after 40 of 60 tokens", _CUT, 40, (no_cut_answer,)),
    Fault("S09", "20 tokens, then silence for 30 s", _STALLS, 70, (ends_within(45), no_cut_answer)),
    Fault(
        "S10",
        "the tenth event is no JSON",
        (Behaviour(garbled=10),),
        30,
        (no_cut_answer,),
        (checks.complete,),
    ),
    Fault(
        "S11",
        "complete, but no [DONE]",
        (Behaviour(says_done=False),),
        30,
        required=(ends_within(8),),
        advisory=(checks.usage_reported,),
    ),
    Fault(
        "S12",
        "the prompt does not fit, always",
        _always(400, "context_length_exceeded"),
        20,
        required=(checks.asked_once_or_smaller,),
    ),
    Fault(
        "S13",
        "a content filter, always",
        _always(400, POLICY_CODE),
        20,
        required=(checks.asked_once,),
        advisory=(checks.not_routed_around,),
        ideal="reason",
    ),
    Fault(
        "S14",
        "as S08; the fallback takes no trailing assistant turn",
        _CUT,
        40,
        required=(checks.shows_no_prefill_error, no_cut_answer),
        fallback=_NO_PREFILL,
    ),
    Fault(
        "S15",
        "503 for 60 s; twenty calls, one every 4 s",
        _OVERLOADED,
        30,
        _MEANWHILE,
        dead_for=60.0,
        calls=20,
        every=4.0,
    ),
    Fault(
        "S16",
        "503 always; whom the caller is told of",
        _OVERLOADED,
        40,
        required=(checks.names_the_fallback, at_most(6)),
        advisory=(checks.usage_reported,),
    ),
)
FAULTS: Final[dict[str, Fault]] = {fault.name: fault for fault in _FAULTS}
