"""The core by itself: whole calls in memory, journal included."""

import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence

import rungwise
from rungwise.core import Call, Link, PlainLink, Request
from rungwise.fsm.replies.failures.failure import Failure
from support.turns import cut, said

REQUEST = Request([{"role": "user", "content": "What is a state machine?"}])
ANSWER = said("An answer.")
EMPTY = said("")
CUT = cut("A part of a longer answer, which is cut. ")
BUSY = Failure("server_error", status=503)

CHAIN = tuple(PlainLink(f"backend {number}") for number in range(5))
DEFAULT = rungwise.Policy()
LONG = rungwise.Policy(
    limits=rungwise.Limits(reasks=19, continuations=19),
    budget=rungwise.Budget(attempts=20, seconds=100_000),
)
OF_FIVE = rungwise.Policy(budget=rungwise.Budget(attempts=20, seconds=100_000))


def _play(
    policy: rungwise.Policy,
    chain: Sequence[Link],
    reply: object,
    attempts: int,
) -> Callable[[], None]:
    def play() -> None:
        call = Call(REQUEST, policy, chain)
        send = call.begin(0.0)
        now = 0.0
        while send is not None:
            now += send.wait
            send = call.receive(reply, now)  # type: ignore[arg-type]
        assert call.result.attempts == attempts, (call.result.attempts, call.result.outcome)

    return play


PLAYS = {
    "happy": _play(DEFAULT, CHAIN[:1], ANSWER, 1),
    "empties": _play(DEFAULT, CHAIN[:1], EMPTY, 4),
    "failures": _play(OF_FIVE, CHAIN, BUSY, 20),
    "many empties": _play(LONG, CHAIN[:1], EMPTY, 20),
    "cuts": _play(LONG, CHAIN[:1], CUT, 20),
}
BATCH = 40


def play(name: str) -> float:
    """Return the seconds of the processor that one call takes, out of a few."""
    run = PLAYS[name]
    count = BATCH if name == "happy" else 5
    run()
    start = time.thread_time()
    for _ in range(count):
        run()
    return (time.thread_time() - start) / count


def bytes_held(count: int = 2_000) -> float:
    """Return what a call in flight holds, the texts aside."""
    Call(REQUEST, DEFAULT, CHAIN[:1]).begin()
    gc.collect()
    tracemalloc.start()
    calls = []
    for _ in range(count):
        call = Call(REQUEST, DEFAULT, CHAIN[:1])
        call.begin()
        call.sending()
        calls.append(call)
    held = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    return held
