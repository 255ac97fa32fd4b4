"""The sixteen faults as data: what a model does, what must hold of the call, and how long that may take.

The definitions are those of Failover Bench, methodology v0.1; the words, the answer and the code are ours. Every time
is in seconds as published; whoever plays a fault says by how much all of them are scaled.
"""

from typing import Final, Literal

from attrs import field, frozen

from failover.checks import (
    Check,
    alive,
    answered_meanwhile,
    asked_again,
    asked_again_after,
    asked_once,
    asked_once_or_smaller,
    at_most,
    at_most_at_first,
    back_within,
    complete,
    ends_within,
    names_the_fallback,
    no_cut_answer,
    not_routed_around,
    shows_no_prefill_error,
    usage_reported,
)

ANSWER: Final = (
    "A call that fails well says so in time, keeps what it was given, and leaves nobody waiting for a reply that will "
    "never come. It asks again only where asking helps, turns to another when it does not, and returns either the "
    "whole answer or a plain error, within limits that anyone can read before the first byte leaves."
)
"""What a healthy model answers, whatever it is asked."""

TOKENS: Final = len(ANSWER.split())
PROMPT: Final = "In sixty words, what should a caller expect of a call when its provider misbehaves?"
POLICY_CODE: Final = "content_policy_violation"


@frozen(kw_only=True)
class Behaviour:
    """Say what a model does with one request: without arguments, give the whole answer.

    Arguments:
        status, code: of the error that it answers with, where it is no 200.
        asked_wait: what the error asks to wait, in seconds.
        resets: whether the connection is reset before any byte.
        mute: for how many seconds it sends nothing at all before it closes the connection; None answers.
        thinks: seconds from the headers to the first token.
        tokens: of the answer that are sent; with fewer than all, the connection closes without a terminating chunk.
        stalls: seconds of silence behind the last of these.
        garbled: the number of an event that is no JSON; None garbles none.
        loses: whether that event was one of the stream's own; otherwise it was put in between.
        says_done: whether `[DONE]` ends the stream.
        refuses_prefill: whether a trailing assistant turn is answered by an error.
        goes_on: whether the beginning of the answer, as an assistant turn, is gone on from; otherwise it is repeated.
    """

    status: int = 200
    code: str | None = None
    asked_wait: float | None = None
    resets: bool = False
    mute: float | None = None
    thinks: float = 0.0
    tokens: int = TOKENS
    stalls: float = 0.0
    garbled: int | None = None
    loses: bool = False
    says_done: bool = True
    refuses_prefill: bool = False
    goes_on: bool = False

    @property
    def is_healthy(self) -> bool:
        """Tell whether this gives the whole answer."""
        return self.status == 200 and not self.resets and self.mute is None and self.tokens == TOKENS


HEALTHY: Final = Behaviour()


@frozen(kw_only=True)
class Fault:
    """Say what goes wrong, and what must hold of the calls that meet it.

    Arguments:
        name: `S01` to `S16`.
        title: what happens, in a few words.
        primary: what the primary does, request by request; the last is repeated.
        dead_for: seconds from the first call on after which the primary is healthy; None goes by `primary` alone.
        fallback: what the fallback does, always.
        limit: seconds within which each call must have ended; one that has not hangs.
        required, advisory: what must hold, and what should.
        ideal: how the call ends at best.
        calls, every: how many calls there are, and how many seconds lie between their beginnings.
    """

    name: str
    title: str
    primary: tuple[Behaviour, ...]
    dead_for: float | None = None
    fallback: Behaviour = HEALTHY
    limit: float
    required: tuple[Check, ...] = field(default=())
    advisory: tuple[Check, ...] = field(default=())
    ideal: Literal["answer", "reason"] = "answer"
    calls: int = 1
    every: float = 0.0


def _error(status: int, code: str | None = None, asked_wait: float | None = None) -> Behaviour:
    return Behaviour(status=status, code=code, asked_wait=asked_wait)


_OVERLOADED = _error(503, "server_is_overloaded")
_CUT = Behaviour(tokens=40)

FAULTS: Final[dict[str, Fault]] = {
    fault.name: fault
    for fault in (
        Fault(
            name="S01",
            title="429 with Retry-After: 2, once",
            primary=(_error(429, "rate_limit_exceeded", 2.0), HEALTHY),
            limit=20,
            required=(at_most_at_first(2, 1.5), alive),
            advisory=(asked_again, asked_again_after(1.8)),
        ),
        Fault(
            name="S02",
            title="429 without a header, always",
            primary=(_error(429, "rate_limit_exceeded"),),
            limit=40,
            required=(at_most_at_first(4, 3.0), at_most(6), alive),
        ),
        Fault(
            name="S03",
            title="500 once",
            primary=(_error(500), HEALTHY),
            limit=20,
            required=(alive,),
            advisory=(asked_again,),
        ),
        Fault(name="S04", title="503 always", primary=(_OVERLOADED,), limit=40, required=(at_most(6), alive)),
        Fault(
            name="S05",
            title="a reset before any byte, once",
            primary=(Behaviour(resets=True), HEALTHY),
            limit=20,
            required=(alive,),
        ),
        Fault(
            name="S06",
            title="accepted, never answered",
            primary=(Behaviour(mute=120.0),),
            limit=130,
            required=(ends_within(100), alive),
            advisory=(asked_once,),
        ),
        Fault(
            name="S07",
            title="the first token after 20 s",
            primary=(Behaviour(thinks=20.0),),
            limit=60,
            required=(alive,),
            advisory=(ends_within(15),),
        ),
        Fault(
            name="S08", title="cut after 40 of 60 tokens", primary=(_CUT,), limit=40, required=(no_cut_answer, alive)
        ),
        Fault(
            name="S09",
            title="20 tokens, then silence for 30 s",
            primary=(Behaviour(tokens=20, stalls=30.0),),
            limit=70,
            required=(ends_within(45), no_cut_answer, alive),
        ),
        Fault(
            name="S10",
            title="the tenth event is no JSON",
            primary=(Behaviour(garbled=10),),
            limit=30,
            required=(no_cut_answer, alive),
            advisory=(complete,),
        ),
        Fault(
            name="S11",
            title="complete, but no [DONE]",
            primary=(Behaviour(says_done=False),),
            limit=30,
            required=(ends_within(8), alive),
            advisory=(usage_reported,),
        ),
        Fault(
            name="S12",
            title="the prompt does not fit, always",
            primary=(_error(400, "context_length_exceeded"),),
            limit=20,
            required=(asked_once_or_smaller, alive),
        ),
        Fault(
            name="S13",
            title="a content filter, always",
            primary=(_error(400, POLICY_CODE),),
            limit=20,
            required=(asked_once, alive),
            advisory=(not_routed_around,),
            ideal="reason",
        ),
        Fault(
            name="S14",
            title="as S08; the fallback takes no trailing assistant turn",
            primary=(_CUT,),
            fallback=Behaviour(refuses_prefill=True),
            limit=40,
            required=(shows_no_prefill_error, no_cut_answer, alive),
        ),
        Fault(
            name="S15",
            title="503 for 60 s; twenty calls, one every 4 s",
            primary=(_OVERLOADED,),
            dead_for=60.0,
            limit=30,
            required=(ends_within(200), answered_meanwhile, back_within(30), alive),
            calls=20,
            every=4.0,
        ),
        Fault(
            name="S16",
            title="503 always; whom the caller is told of",
            primary=(_OVERLOADED,),
            limit=40,
            required=(names_the_fallback, at_most(6), alive),
            advisory=(usage_reported,),
        ),
    )
}
