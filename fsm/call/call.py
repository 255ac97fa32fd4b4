"""One model call: the sans-IO core that a driver asks what to send next.

    call = Call(request, policy)
    send = call.begin()
    while send is not None:
        send = call.receive(reply)
    call.result

The call never sleeps, sends, reads a clock or draws a random number: the driver passes the time and the jitter in.
Each round is the same: what came back is observed (`observe.py`), the event is fired with its facts (`facts.py`,
`position.py`), the step is recorded (`recording.py`), and the next send is proposed (`proposer.py`), or the call is
settled (`outcome.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from rungwise.fsm.tracebacks import forget_locals, without_locals

if TYPE_CHECKING:
    from rungwise.fsm.call.budget.budget import Spending
    from rungwise.fsm.call.budget.shared import SharedBudget
    from rungwise.fsm.call.clocks.silence import Clocks
    from rungwise.fsm.call.conversation.link import Lessons, Link
    from rungwise.fsm.call.conversation.observation import Observation
    from rungwise.fsm.call.conversation.reading import TextWatch
    from rungwise.fsm.call.conversation.reply import Reasoning, Reply, Text
    from rungwise.fsm.call.conversation.request import Request, Send, TurnContext
    from rungwise.fsm.call.policy import Policy
    from rungwise.fsm.call.run.delivery import StreamEvent
    from rungwise.fsm.call.run.journal import Journal
    from rungwise.fsm.call.run.position import Position
    from rungwise.fsm.call.run.recording import Observer
    from rungwise.fsm.call.run.result import Result
    from rungwise.fsm.call.run.running import RunningCall
    from rungwise.fsm.failures.failure import Failure


@cache
def _machinery() -> type[RunningCall]:
    """Load what runs calls, with the first of them: two thirds of the modules, which an import of `Call` need not."""
    from rungwise.fsm.call.run.running import RunningCall

    return RunningCall


def _no_jitter() -> float:
    return 0.0


class Call:
    """Run one model call through the machine.

    Arguments:
        request: what the caller asks.
        policy: how the call may recover, and its budget; None for `rungwise.Policy()`.
        chain: the backends in order; the core needs their names and capabilities only. None for a single one.
        turn: what the call cannot see of the turn around it, if there is one.
        jitter: returns a number from 0 to 1 for each wait; the default places none.
        observer: is given each step as it happens; what it raises is logged and goes no further.
        contents: whether the journal may hold texts and tool calls.
        has_compactor: whether the driver can shorten messages that do not fit.
        is_streaming: whether the driver passes deltas to `hear` and hands on what `drain` returns.
        estimate: counts the input tokens of messages or tools, where the request does not say; None by their length.
        prompts: the tokens of each prompt as a journal recorded them, for a replay; None counts them.
        within: the budget that it shares with other calls, beside its own; say `sending` to each send then.
        deadline: when the call must have ended, on the driver's clock, beside the seconds of its budget.
        lessons: what was remembered of each backend, for a replay; None asks them for their `lessons`, once, now.

    Raises:
        ConfigurationError: no backend of the chain is usable, or a budget names money and a backend has no prices.
    """

    __slots__ = ("__weakref__", "_running")

    # Methods that are called for each attempt do by hand what `without_locals` does, which takes 0.25 µs more a call.

    _running: RunningCall

    def __init__(
        self,
        request: Request,
        policy: Policy | None = None,
        chain: Sequence[Link] | None = None,
        turn: TurnContext | None = None,
        *,
        jitter: Callable[[], float] = _no_jitter,
        observer: Observer | None = None,
        contents: bool = False,
        has_compactor: bool = False,
        is_streaming: bool = False,
        estimate: Callable[[Any], int] | None = None,
        prompts: Iterator[int] | None = None,
        within: SharedBudget | None = None,
        deadline: float | None = None,
        lessons: Sequence[Lessons] | None = None,
    ) -> None:
        outer = sys.exception()
        try:
            self._running = _machinery()(  # by place, which takes half as long as by name
                request,
                policy,
                chain,
                turn,
                jitter,
                observer,
                contents,
                has_compactor,
                is_streaming,
                estimate,
                prompts,
                within,
                deadline,
                lessons,
            )
        except BaseException as error:
            forget_locals(error, outer)
            raise

    def __repr__(self) -> str:
        running = getattr(self, "_running", None)  # tracebacks show what is only half made, too
        return f"Call(state={self.position.state!r}, attempts={self.position.attempts})" if running else "Call()"

    @property
    def request(self) -> Request:
        """Return what the caller asks."""
        return self._running.request

    @property
    def policy(self) -> Policy:
        """Return how the call may recover, and its budget."""
        return self._running.policy

    @property
    def turn(self) -> TurnContext:
        """Return what the call cannot see of the turn around it."""
        return self._running.turn

    @property
    def link(self) -> Link:
        """Return the current backend."""
        return self._running.link

    @property
    def backend(self) -> int:
        """Return the index of the current backend in the chain."""
        return self._running.backend

    @property
    def is_streaming(self) -> bool:
        """Tell whether the driver hears deltas."""
        return self._running.is_streaming

    @property
    def is_shared(self) -> bool:
        """Tell whether the call shares a budget with others."""
        return self._running.is_shared

    @property
    def journal(self) -> Journal:
        """Return every step so far."""
        return self._running.journal

    @property
    def position(self) -> Position:
        """Return where the call stands in its machine."""
        return self._running.position

    @property
    def spending(self) -> Spending:
        """Return what is used of the budget."""
        return self._running.spending

    @property
    def is_over(self) -> bool:
        """Tell whether the call has ended."""
        return self._running.is_over

    @property
    @without_locals
    def result(self) -> Result:
        """Return the end of the call.

        Raises:
            IllegalEvent: the call has not ended.
        """
        return self._running.result

    def begin(self, now: float = 0.0) -> Send | None:
        """Start the call and return the first thing to send; None if the budget allows nothing.

        Arguments:
            now: seconds on any clock that only goes forward.

        Raises:
            IllegalEvent: the call has begun already.
        """
        outer = sys.exception()
        try:
            return self._running.begin(now)
        except BaseException as error:
            forget_locals(error, outer)
            raise

    def reserve(self, wake: Callable[[], None], now: float | None = None) -> bool:
        """Reserve what the proposed send may use of a shared budget; tell whether there is nothing to wait for.

        Otherwise other calls hold what it needs, and it waits for them in turn: say `sending` when you are woken, or
        when the time is up.

        Arguments:
            wake: is called, in any thread, when there is nothing to wait for any more.
            now: the time, as for `sending`.
        """
        outer = sys.exception()
        try:
            return self._running.reserve(wake, now)
        except BaseException as error:
            forget_locals(error, outer)
            raise

    def sending(self, now: float | None = None) -> Send | None:
        """Say that the wait is over, and return what goes out now; None if it can no longer be afforded.

        A driver that does not call this is taken to have sent at once. Under a shared budget it must, and send what it
        gets here: that may have a smaller cap. What other calls hold meanwhile cannot be afforded; see `reserve`.
        """
        outer = sys.exception()
        try:
            return self._running.sending(now)
        except BaseException as error:
            forget_locals(error, outer)
            raise

    @without_locals
    def clocks(self) -> Clocks:
        """Return the clocks of the attempt in flight, for a driver that keeps them.

        Raises:
            IllegalEvent: nothing is in flight.
        """
        return self._running.clocks()

    @without_locals
    def text_watch(self) -> TextWatch:
        """Return what tells when the attempt in flight has brought visible text; see `Clocks`.

        Raises:
            IllegalEvent: nothing is in flight.
        """
        return self._running.text_watch()

    def hear(self, delta: Text | Reasoning) -> tuple[StreamEvent, ...]:
        """Take a piece of the reply in flight and return what the consumer may be shown.

        Raises:
            IllegalEvent: nothing is in flight.
            ConfigurationError: this is neither text nor reasoning.
        """
        outer = sys.exception()
        try:
            return self._running.hear(delta)
        except BaseException as error:
            forget_locals(error, outer)
            raise

    def receive(self, reply: Reply | Failure, now: float | None = None) -> Send | None:
        """Take what came back and return the next thing to send; None when the call has ended.

        Arguments:
            reply: a reply, or why there is none.
            now: the time; left out, the wait took as long as it should and the attempt no time.

        Raises:
            IllegalEvent: nothing is in flight.
            ConfigurationError: this is neither a reply nor a failure, or a fact of your own is no bool or raises; the
                call is as it was.
        """
        outer = sys.exception()
        try:
            return self._running.receive(reply, now)
        except BaseException as error:
            forget_locals(error, outer)
            raise

    def observed(self, observation: Observation, facts: tuple[str, ...], now: float) -> Send | None:
        """Take what was observed before, with the facts that held, as a replay does; return the next thing to send."""
        outer = sys.exception()
        try:
            return self._running.observed(observation, facts, now)
        except BaseException as error:
            forget_locals(error, outer)
            raise

    @without_locals
    def settled_facts(self, observation: Observation) -> Mapping[str, bool]:
        """Return the facts that follow from the policy and from what was counted, for a replay under another policy.

        What came back is counted by that; `observed` is to be told of it next.
        """
        return self._running.settled_facts(observation)

    def compacted(self, messages: Sequence[Any]) -> Send | None:
        """Take what the compactor made of the messages and return the send that was waiting for it.

        What is left of the budget may not pay for it: then another backend is asked, or None is returned and the call
        has ended.

        Raises:
            IllegalEvent: no send waits for a compaction.
            ConfigurationError: these are no messages.
        """
        outer = sys.exception()
        try:
            return self._running.compacted(messages)
        except BaseException as error:
            forget_locals(error, outer)
            raise

    @without_locals
    def cancel(self, now: float | None = None, partial: Reply | None = None) -> Result:
        """End the call; what was delivered stays in the result. A call that has ended is left as it is.

        Arguments:
            now: the time; left out, none has passed.
            partial: what had arrived of the reply in flight: its tokens are counted, and its text is kept.
        """
        return self._running.cancel(now, partial)

    def drain(self) -> list[StreamEvent]:
        """Return what a consumer of the stream must be given now, and forget it."""
        return self._running.drain()
