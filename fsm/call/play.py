"""Play a call in memory, on a virtual clock: no network, no waiting.

`play` is the loop that every player shares: wait, compact, queue for a shared budget, send, hear
the stream, receive. Players differ only in what comes back for each send and in how long that
takes. That is their `Answers`: a script in the fuzz kit, the worst case of a certificate, a
trouble of a review, the examples of a page.

The real drivers in `adapters/http` keep the same order. They have loops of their own, because
sockets, threads and timeouts decide there when something comes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define, frozen

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import PlainMessage, Send
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.reply import Reasoning, Reply, Text


@define(eq=False)
class PlayClock:
    """Tell the time of a play.

    Arguments:
        now: seconds; only `advance` and `sleep` move it.
    """

    now: float = 0.0

    def advance(self, seconds: float) -> None:
        """Move the clock on without a wait, as a request does.

        Raises:
            ValueError: the time would go backward.
        """
        if not seconds >= 0:
            raise ValueError(f"a clock cannot advance by {seconds!r} seconds")
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        """Move the clock on by a wait."""
        self.advance(seconds)


@frozen
class Arrival:
    """Hold what comes back for a send.

    Arguments:
        reply: a reply, or why there is none. None cancels the call with the deltas that arrived.
        at: when it is there, in seconds on the clock.
        deltas: the pieces of its stream, which the call hears first.
    """

    reply: Reply | Failure | None
    at: float
    deltas: Sequence[Text | Reasoning] = ()


class Answers(ABC):
    """Say what comes back for each send of a call.

    A subclass must define `answer`. The other methods do what the simplest driver does.
    """

    __slots__ = ()

    @abstractmethod
    def answer(self, call: Call, sent: Send, now: float) -> Arrival:
        """Return what comes back for a send that went out now."""

    def proposed(self, call: Call, send: Send) -> Send | None:
        """Return what is to go out instead of a proposal; None ends the play there."""
        return send

    def compact(self, call: Call, send: Send, clock: PlayClock) -> bool:
        """Shorten the messages of a proposal that is too long. Return whether the play goes on.

        The simplest driver leaves as much as there was: a worst case is no shorter.
        """
        call.compacted(reworded(send.messages), clock.now)
        return True

    def queue(self, call: Call, clock: PlayClock) -> Iterable[str]:
        """Yield a moment for as long as other calls hold what the proposal needs."""
        return ()

    def deliver(self, events: Iterable[StreamEvent]) -> None:  # noqa: B027, most play without
        """Take what a consumer of the stream receives."""


def reworded(messages: Sequence[PlainMessage | Message]) -> list[PlainMessage | Message]:
    """Return messages of the same length that are not the same, as the least that a compactor may
    do: it swaps the case of the last text.
    """
    changed = list(messages)
    for place, message in enumerate(reversed(changed), 1):
        if isinstance(message, Mapping) and isinstance(message.get("content"), str):
            changed[-place] = {**message, "content": message["content"].swapcase()}
            break
    return changed


def play(call: Call, answers: Answers, clock: PlayClock) -> Call:
    """Play a call that has not begun, to its end or to where its answers stop, and return it.

    Arguments:
        call: the call.
        answers: what comes back for each send.
        clock: the time; waits and answers move it.
    """
    for _ in moments(call, answers, clock):
        pass
    return call


def moments(call: Call, answers: Answers, clock: PlayClock) -> Iterator[str]:
    """Play a call, and yield the name of each moment at which others may run.

    The moments are `waiting` for a shared budget, `sent`, and `arrived`. The clock may be shared:
    it is read anew after each of them. The arguments are those of `play`.
    """
    send = call.begin(clock.now)
    while send is not None:
        send = answers.proposed(call, send)
        if send is None:
            break
        if send.wait > 0:
            clock.sleep(send.wait)
        if send.needs_compaction and not answers.compact(call, send, clock):
            break
        yield from answers.queue(call, clock)
        sent = call.sending(clock.now)
        answers.deliver(call.drain())
        if sent is None:
            break
        yield "sent"
        came = answers.answer(call, sent, clock.now)
        for delta in came.deltas:
            answers.deliver(call.hear(delta))
        clock.now = max(clock.now, came.at)
        yield "arrived"
        if came.reply is None:
            call.cancel(clock.now, partial_reply(came.deltas))
            break
        judged = call.judging(came.reply)
        finding = None if judged is None else judged.run()
        send = call.receive(came.reply, clock.now, finding)
        answers.deliver(call.drain())
    answers.deliver(call.drain())


def partial_reply(deltas: Sequence[Text | Reasoning]) -> Reply | None:
    """Return what had arrived of a reply when the caller cancelled; None if nothing had."""
    if not deltas:
        return None
    text = "".join(delta.text for delta in deltas if isinstance(delta, Text))
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, Reasoning))
    return Reply(text, reasoning=reasoning, interrupted=True)
