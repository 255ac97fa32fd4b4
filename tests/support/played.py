"""Play replies to a call on a clock of its own."""

from collections.abc import Iterable

from rungwise.core import Call, Failure, Reply


def play(
    call: Call,
    replies: Iterable[tuple[Reply | Failure, float]],
    *,
    begins: float = 0.0,
    waits: bool = True,
) -> Call:
    """Begin a call and give it replies, each after its seconds; return the call, which may not have
    ended.

    Arguments:
        begins: the time at the beginning.
        waits: whether the waits of the call pass too.
    """
    now = begins
    send = call.begin(begins)
    for reply, seconds in replies:
        now += send.wait if waits else 0.0
        assert call.sending(now) is not None
        now += seconds
        send = call.receive(reply, now)
    return call
