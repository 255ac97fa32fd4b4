"""A ready stateful test: many calls at once on the shared machine, in any order.

It does not play calls with `call/play.py`: Hypothesis chooses the next step of some call each time,
so there is no loop from begin to end that a player could run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
from attrs import define, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rungwise.fsm.analysis.replay.replay import replay
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.chain import Chain
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.play import partial_reply
from rungwise.fsm.call.policy import DEFAULT_POLICY, Budget, Policy
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.call.run.sending import OPEN
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.checks.honesty import assert_call_honest
from rungwise.fsm.testing.compactors import KEEPS_LAST, Compactor, CompactorFailed, compactors
from rungwise.fsm.testing.scripted import can_leave, links
from rungwise.fsm.testing.strategies import failures, replies, requests, texts
from rungwise.fsm.values.checks import is_whole
from rungwise.fsm.values.frozen_map import thawed
from rungwise.fsm.values.label import short

APART = "calls on one machine do not touch each other"
REFUSED = "an event out of step raises and changes nothing"

Snapshot = tuple[Any, ...]


@define(eq=False)
class OngoingCall:
    """A call in progress.

    Arguments:
        call: the call.
        send: what goes out next, or is in flight; None once the call has ended.
        is_sent: whether that has gone out.
        deltas: of the attempt in flight.
        events: what a consumer of the stream has received.
        snapshot: the call after the last step.
    """

    call: Call
    send: Send | None = None
    is_sent: bool = False
    deltas: list[Text | Reasoning] = field(factory=list)
    events: list[StreamEvent] = field(factory=list)
    snapshot: Snapshot = ()

    def look(self) -> Snapshot:
        """Return everything about the call that another call might disturb."""
        call = self.call
        position = call.position
        counts = (tuple(position.spent), position.attempts, len(call.journal.steps))
        return position.state, counts, call.backend, call.spending.usage

    def cancel(self, now: float) -> None:
        """End the call from outside, with what has arrived of the attempt in flight."""
        self.call.cancel(now, partial_reply(self.deltas) if self.is_sent else None)
        self.settle()

    def settle(self) -> None:
        """Deliver pending events, and take a snapshot of the call."""
        if self.call.is_streaming:
            self.events += self.call.drain()
        if self.call.is_over:
            self.send = None
        self.snapshot = self.look()


class CallMachine(RuleBasedStateMachine):
    """Interleave calls: begin, send, hear, receive, cancel, replay, in any order; all of them must
    stay honest.

    Subclass it, or call `calls_of`, to configure the calls.
    """

    policy: ClassVar[Policy] = DEFAULT_POLICY
    """How the calls recover."""
    chain: ClassVar[int | Sequence[Link]] = 2
    """Their backends, or how many there are."""
    most: ClassVar[int] = 4
    """How many calls there are at once."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[OngoingCall] = []
        self.now = 0.0

    @property
    def in_flight(self) -> list[OngoingCall]:
        """List the calls that wait for a reply."""
        return [each for each in self.calls if each.send is not None and each.is_sent]

    @property
    def waiting(self) -> list[OngoingCall]:
        """List the calls that want something sent."""
        return [each for each in self.calls if each.send is not None and not each.is_sent]

    @property
    def over(self) -> list[OngoingCall]:
        """List the calls that have ended."""
        return [each for each in self.calls if each.send is None]

    @precondition(lambda self: len(self.calls) < self.most)
    @rule(request=requests(), streams=st.booleans(), contents=st.booleans())
    def begin(
        self,
        request: Request,
        streams: bool,
        contents: bool,
    ) -> None:
        """Begin a call."""
        options: dict[str, Any] = {
            "contents": contents,
            "has_compactor": True,
            "is_streaming": streams,
        }
        call = Call(request, self.policy, links(self.chain), jitter=lambda: 1.0, **options)
        running = OngoingCall(call, call.begin(self.now))
        running.settle()
        self.calls.append(running)

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 3), compactor=compactors())
    def send(self, which: int, compactor: Compactor = KEEPS_LAST) -> None:
        """Let a request go out after its wait."""
        running = self.waiting[which % len(self.waiting)]
        send = running.send
        assert send is not None
        self.now += send.wait
        if send.needs_compaction and not self._compact(running, send, compactor):
            return
        running.is_sent = running.call.sending(self.now) is not None
        running.deltas = []
        running.settle()

    def _compact(
        self,
        running: OngoingCall,
        send: Send,
        compactor: Compactor,
    ) -> bool:
        """Run a compactor; if it raises or returns no messages, the call ends, as with a driver."""
        try:
            running.call.compacted(compactor(thawed(send.messages)), self.now + compactor.seconds)
        except (CompactorFailed, ConfigurationError):
            running.cancel(self.now)
            return False
        self.now += compactor.seconds
        return True

    @precondition(lambda self: any(can_leave(each.call) for each in self.waiting))
    @rule(which=st.integers(0, 3))
    def find_open(self, which: int) -> None:
        """Let a call pass over a backend that is not asked now."""
        arriving = [each for each in self.waiting if can_leave(each.call)]
        running = arriving[which % len(arriving)]
        running.send = running.call.found_open(f"{OPEN}later", self.now)
        running.settle()

    @precondition(lambda self: any(each.call.is_streaming for each in self.in_flight))
    @rule(which=st.integers(0, 3), text=texts(), thinks=st.booleans())
    def hear(
        self,
        which: int,
        text: str,
        thinks: bool,
    ) -> None:
        """Let a piece of a stream arrive."""
        streaming = [each for each in self.in_flight if each.call.is_streaming]
        running = streaming[which % len(streaming)]
        delta = Reasoning(text) if thinks else Text(text)
        running.deltas.append(delta)
        running.events += running.call.hear(delta)
        running.settle()

    @precondition(lambda self: self.in_flight)
    @rule(
        which=st.integers(0, 3),
        reply=st.one_of(replies(), failures()),
        seconds=st.sampled_from((0.0, 0.5, 20.0)),
    )
    def receive(
        self,
        which: int,
        reply: Any,
        seconds: float,
    ) -> None:
        """Let a reply or a failure arrive; a stream has delivered some of it already."""
        running = self.in_flight[which % len(self.in_flight)]
        arrived = partial_reply(running.deltas)
        if isinstance(reply, Reply) and running.call.is_streaming:
            before = arrived or Reply()
            if reply.text:
                running.events += running.call.hear(Text(reply.text))
            text = before.text + reply.text
            reasoning = before.reasoning + reply.reasoning
            reply = attrs.evolve(reply, text=text, reasoning=reasoning)
        self.now += seconds
        running.send = running.call.receive(reply, self.now)
        running.is_sent = False
        running.settle()

    @precondition(lambda self: len(self.calls) > len(self.over))
    @rule(which=st.integers(0, 3))
    def cancel(self, which: int) -> None:
        """End a call from outside."""
        going = [each for each in self.calls if each.send is not None]
        going[which % len(going)].cancel(self.now)

    @precondition(lambda self: self.over)
    @rule(which=st.integers(0, 3))
    def again(self, which: int) -> None:
        """Remove an ended call to make room for another, so that no run stalls."""
        running = self.over[which % len(self.over)]
        self.check(running)
        self.calls.remove(running)

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(0, 3))
    def replay(self, which: int) -> None:
        """Replay a journal, also of a running call."""
        call = self.calls[which % len(self.calls)].call
        policy = self.policy if self.policy.table is not DEFAULT_POLICY.table else None
        again = replay(call.journal, policy)
        steps = call.journal.steps
        if again.journal.steps[: len(steps)] != steps:
            raise Dishonest(APART, "a replay took other steps")

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(0, 3))
    def get_out_of_step(self, which: int) -> None:
        """Send a call an event out of step."""
        running = self.calls[which % len(self.calls)]
        try:
            if running.send is None:
                running.call.receive(Reply("late", stop_reason="stop"), self.now)
            else:
                running.call.begin(self.now)
        except IllegalEvent:
            return
        raise Dishonest(REFUSED, "nothing was raised")

    @invariant()
    def calls_are_apart(self) -> None:
        """Check that no call has changed since it was touched."""
        for running in self.calls:
            if running.snapshot != running.look():
                raise Dishonest(APART, f"it was {running.snapshot}, and is {running.look()}")

    def check(self, running: OngoingCall) -> None:
        """Check an ended call; override to pass a certificate."""
        assert_call_honest(
            running.call, events=running.events if running.call.is_streaming else None
        )

    def teardown(self) -> None:
        """Cancel the running calls, and check every call."""
        for running in self.calls:
            running.cancel(self.now)
            self.check(running)


def calls_of(
    policy: Policy, *, chain: int | Sequence[Link] = 2, most: int = 4
) -> type[CallMachine]:
    """Return the stateful test of a policy: `TestMine = calls_of(policy).TestCase`.

    Arguments:
        policy: how the calls recover.
        chain: their backends, or how many there are.
        most: how many calls there are at once.

    Raises:
        ConfigurationError: the policy is none, no backend can be used, or there is no call.
    """
    budgets = [policy.budget] if isinstance(policy, Policy) else []
    check_settings(policy, Policy, chain, budgets, most, "calls")
    return type(
        "CallMachine",
        (CallMachine,),
        {
            "policy": policy,
            "chain": chain,
            "most": most,
        },
    )


def check_settings(
    policy: object,
    kind: type,
    chain: int | Sequence[Link],
    budgets: Sequence[Budget],
    most: int,
    what: str,
) -> None:
    """Refuse what cannot be tested.

    Arguments:
        policy: what should be a policy.
        kind: the class of policy that it should be.
        chain: the backends, which must be usable.
        budgets: those of the policy; one with money needs prices.
        most: how many calls or turns there are at once.
        what: their name, in the plural.

    Raises:
        ConfigurationError: one of these is wrong.
    """
    if not isinstance(policy, kind):
        raise ConfigurationError(f"policy must be a {kind.__name__}, not {type(policy).__name__}")
    Chain.of(links(chain), needs_prices=any(each.money is not None for each in budgets))
    if not is_whole(most, 1):
        raise ConfigurationError(
            f"most must be a whole number of {what}, 1 or more, not {short(most)}"
        )
