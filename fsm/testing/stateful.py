"""A ready stateful test: many calls at once on the shared machine, in whatever order Hypothesis likes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import attrs
from attrs import define, evolve, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.conversation.reply import Reasoning, Reply, Text
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.policy import DEFAULT_POLICY, Budget, Policy
from rungwise.fsm.call.run.chain import Chain
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.replay.replay import replay
from rungwise.fsm.testing.backend import VirtualClock, links, partial_reply
from rungwise.fsm.testing.callers import requests
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.checks.honesty import assert_call_honest, assert_turn_honest
from rungwise.fsm.testing.compactors import KEEPS_LAST, Compactor, CompactorFailed, compactors
from rungwise.fsm.testing.strategies import failures, replies, texts
from rungwise.fsm.testing.turn_player import TurnPlayer
from rungwise.fsm.testing.turn_script import TurnScript
from rungwise.fsm.testing.turn_strategies import scripts_of_turns
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnPolicy
from rungwise.fsm.values.checks import is_whole
from rungwise.fsm.values.frozen_map import thawed
from rungwise.fsm.values.label import short

APART = "calls on one machine do not touch each other"
REFUSED = "an event out of step raises and changes nothing"

Snapshot = tuple[Any, ...]


@define(eq=False)
class OngoingCall:
    """Follow one call.

    Arguments:
        call: the call.
        send: what it wants sent; None once it has ended.
        is_sent: whether that has gone out.
        deltas: what has arrived of the attempt in flight.
        events: what its consumer was given.
        known: how it looked when it was last touched.
    """

    call: Call
    send: Send | None = None
    is_sent: bool = False
    deltas: list[Text | Reasoning] = field(factory=list)
    events: list[StreamEvent] = field(factory=list)
    known: Snapshot = ()

    def look(self) -> Snapshot:
        """Return all of the call that another one might disturb."""
        call, position = self.call, self.call.position
        return (
            position.state,
            tuple(position.spent),
            position.attempts,
            call.backend,
            call.spending.usage,
            len(call.journal.steps),
        )

    def settle(self) -> None:
        """Take what the consumer is due, and remember how the call looks."""
        if self.call.is_streaming:
            self.events += self.call.drain()
        if self.call.is_over:
            self.send = None
        self.known = self.look()


class CallMachine(RuleBasedStateMachine):
    """Interleave calls: begin, send, hear, receive, cancel, replay, in any order; all of them must stay honest.

    Derive from it, or call `calls_of`, to set what the calls are made of.
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
    def begin(self, request: Request, streams: bool, contents: bool) -> None:
        """Begin a call."""
        call = Call(
            request,
            self.policy,
            links(self.chain),
            jitter=lambda: 1.0,
            contents=contents,
            has_compactor=True,
            is_streaming=streams,
        )
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

    def _compact(self, running: OngoingCall, send: Send, compactor: Compactor) -> bool:
        """Run a compactor; one that raises, or returns what are no messages, ends the call as a driver does."""
        try:
            running.call.compacted(compactor(thawed(send.messages)))
        except (CompactorFailed, ConfigurationError):
            running.call.cancel(self.now)
            running.settle()
            return False
        self.now += compactor.seconds
        return True

    @precondition(lambda self: any(each.call.is_streaming for each in self.in_flight))
    @rule(which=st.integers(0, 3), text=texts(), thinks=st.booleans())
    def hear(self, which: int, text: str, thinks: bool) -> None:
        """Let a piece of a stream arrive."""
        streaming = [each for each in self.in_flight if each.call.is_streaming]
        running = streaming[which % len(streaming)]
        delta = Reasoning(text) if thinks else Text(text)
        running.deltas.append(delta)
        running.events += running.call.hear(delta)
        running.settle()

    @precondition(lambda self: self.in_flight)
    @rule(which=st.integers(0, 3), reply=st.one_of(replies(), failures()), seconds=st.sampled_from((0.0, 0.5, 20.0)))
    def receive(self, which: int, reply: Any, seconds: float) -> None:
        """Let a reply or a failure arrive; a stream has brought some of it already."""
        running = self.in_flight[which % len(self.in_flight)]
        arrived = partial_reply(running.deltas)
        if isinstance(reply, Reply) and running.call.is_streaming:
            text, reasoning = (arrived.text, arrived.reasoning) if arrived is not None else ("", "")
            if reply.text:
                running.events += running.call.hear(Text(reply.text))
            reply = attrs.evolve(reply, text=text + reply.text, reasoning=reasoning + reply.reasoning)
        self.now += seconds
        running.send = running.call.receive(reply, self.now)
        running.is_sent = False
        running.settle()

    @precondition(lambda self: len(self.calls) > len(self.over))
    @rule(which=st.integers(0, 3))
    def cancel(self, which: int) -> None:
        """End a call from outside."""
        going = [each for each in self.calls if each.send is not None]
        running = going[which % len(going)]
        running.call.cancel(self.now, partial_reply(running.deltas) if running.is_sent else None)
        running.settle()

    @precondition(lambda self: self.over)
    @rule(which=st.integers(0, 3))
    def again(self, which: int) -> None:
        """Take a call that has ended away, so that there is room for another: no run ever comes to a standstill."""
        running = self.over[which % len(self.over)]
        self.check(running)
        self.calls.remove(running)

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(0, 3))
    def replay(self, which: int) -> None:
        """Run a journal again, also one whose call still goes on."""
        call = self.calls[which % len(self.calls)].call
        policy = self.policy if self.policy.table is not DEFAULT_POLICY.table else None
        again = replay(call.journal, policy)
        steps = call.journal.steps
        if again.journal.steps[: len(steps)] != steps:
            raise Dishonest(APART, "a replay took other steps")

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(0, 3))
    def get_out_of_step(self, which: int) -> None:
        """Give a call what it cannot take now."""
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
            if running.known != running.look():
                raise Dishonest(APART, f"it was {running.known}, and is {running.look()}")

    def check(self, running: OngoingCall) -> None:
        """Check a call that has ended; derive to pass a certificate."""
        assert_call_honest(running.call, events=running.events if running.call.is_streaming else None)

    def teardown(self) -> None:
        """End what still goes on, and check every call."""
        for running in self.calls:
            running.call.cancel(self.now, partial_reply(running.deltas) if running.is_sent else None)
            running.settle()
            self.check(running)


def calls_of(policy: Policy, *, chain: int | Sequence[Link] = 2, most: int = 4) -> type[CallMachine]:
    """Return the stateful test of a policy: `TestMine = calls_of(policy).TestCase`.

    Arguments:
        policy: how the calls recover.
        chain: their backends, or how many there are.
        most: how many calls there are at once.

    Raises:
        ConfigurationError: the policy is none, no backend can be used, or there is no call.
    """
    if not isinstance(policy, Policy):
        raise ConfigurationError(f"policy must be a Policy, not {type(policy).__name__}")
    Chain.of(links(chain), needs_prices=policy.budget.money is not None)
    if not is_whole(most, 1):
        raise ConfigurationError(f"most must be a whole number of calls, 1 or more, not {short(most)}")
    return type("CallMachine", (CallMachine,), {"policy": policy, "chain": chain, "most": most})


SHARED = "turns never pass the budget that they share"
MOVES = "a turn whose budget is free goes on"
DEFAULT_SHARED = Budget(attempts=40, output_tokens=100_000)


@define(eq=False)
class OngoingTurn:
    """Follow one turn.

    Arguments:
        player: plays it.
        moments: what is still to come.
        is_over: whether nothing is.
    """

    player: TurnPlayer
    moments: Iterator[str]
    is_over: bool = False

    def go_on(self) -> None:
        """Let the next thing happen."""
        self.is_over = next(self.moments, None) is None
        self.player.run.seen.append(self.player.run.turn.messages)

    def cancel(self) -> None:
        """End it from outside."""
        self.player.stop("cancel")
        self.is_over = True
        self.moments = iter(())
        self.player.run.seen.append(self.player.run.turn.messages)


class TurnMachine(RuleBasedStateMachine):
    """Interleave turns that share a budget: begin, go on, cancel; they never pass it, and all stay honest.

    Derive from it, or call `turns_of`, to set what the turns are made of.
    """

    policy: ClassVar[TurnPolicy] = DEFAULT_TURN_POLICY
    """How the turns go on."""
    chain: ClassVar[int | Sequence[Link]] = 2
    """The backends of their calls, or how many there are."""
    shared: ClassVar[Budget] = DEFAULT_SHARED
    """What all of them may spend together."""
    most: ClassVar[int] = 3
    """How many turns there are at once."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.within = SharedBudget(self.shared)
        self.turns: list[OngoingTurn] = []
        self.sent = 0
        self.tokens = 0

    @property
    def able(self) -> list[OngoingTurn]:
        """List the turns that can go on now."""
        return [each for each in self.turns if not each.is_over and not each.player.is_waiting]

    @precondition(lambda self: len(self.turns) < self.most)
    @rule(script=scripts_of_turns(stops=False))
    def begin(self, script: TurnScript) -> None:
        """Begin a turn, at providers that keep to what they are asked for."""
        player = TurnPlayer.of(
            self.policy, evolve(script, is_fair=True), chain=self.chain, within=self.within, clock=self.clock
        )
        player.run.is_interleaved = True
        going = OngoingTurn(player, player.moments())
        self.turns.append(going)
        going.go_on()

    @precondition(lambda self: self.able)
    @rule(which=st.integers(0, 2), times=st.integers(1, 10))
    def go_on(self, which: int, times: int) -> None:
        """Let a turn go on for a while."""
        going = self.able[which % len(self.able)]
        while times and not going.is_over and not going.player.is_waiting:
            going.go_on()
            times -= 1

    @precondition(lambda self: any(not each.is_over for each in self.turns))
    @rule(which=st.integers(0, 2))
    def cancel(self, which: int) -> None:
        """End a turn from outside."""
        ongoing = [each for each in self.turns if not each.is_over]
        ongoing[which % len(ongoing)].cancel()

    @precondition(lambda self: any(each.is_over for each in self.turns))
    @rule(which=st.integers(0, 2))
    def take_away(self, which: int) -> None:
        """Check a turn that is over, and make room for another."""
        over = [each for each in self.turns if each.is_over]
        self._check(over[which % len(over)])
        self.turns.remove(over[which % len(over)])

    @invariant()
    def the_budget_is_never_passed(self) -> None:
        """Count what has gone out and what was used, and compare with the budget."""
        spent = [spent_by(going) for going in self.turns]
        sent, tokens = self.sent + sum(each for each, _ in spent), self.tokens + sum(each for _, each in spent)
        budget = self.shared
        if sent > budget.attempts:
            raise Dishonest(SHARED, f"{sent} requests went out, and it has {budget.attempts} attempts")
        if budget.output_tokens is not None and tokens > budget.output_tokens:
            raise Dishonest(SHARED, f"{tokens} output tokens were used, and it has {budget.output_tokens}")

    @invariant()
    def somebody_can_go_on(self) -> None:
        """Check that not all turns wait for each other."""
        ongoing = [each for each in self.turns if not each.is_over]
        if ongoing and not self.able:
            raise Dishonest(MOVES, f"{len(ongoing)} turns wait, and none of them holds anything that comes back")

    def _check(self, going: OngoingTurn) -> None:
        sent, tokens = spent_by(going)
        self.sent, self.tokens = self.sent + sent, self.tokens + tokens
        self.check(going)

    def check(self, going: OngoingTurn) -> None:
        """Check a turn that is over; derive to pass a certificate."""
        assert_turn_honest(going.player.run)

    def teardown(self) -> None:
        """End what still goes on, and check every turn."""
        for going in self.turns:
            if not going.is_over:
                going.cancel()
            self.check(going)


def spent_by(going: OngoingTurn) -> tuple[int, int]:
    """Return the requests of a turn, and the output tokens that its providers have reported, within the caps."""
    calls = going.player.run.calls
    # What a caller broke off is counted by its words, which nobody has held to the cap.
    steps = [step for each in calls for step in each.call.journal.steps if step.event != "cancelled"]
    return sum(len(each.sent_at) for each in calls), sum(step.usage.output_tokens for step in steps)


def turns_of(
    policy: TurnPolicy,
    *,
    chain: int | Sequence[Link] = 2,
    shared: Budget = DEFAULT_SHARED,
    most: int = 3,
) -> type[TurnMachine]:
    """Return the stateful test of a policy: `TestMine = turns_of(policy).TestCase`.

    Arguments:
        policy: how the turns go on.
        chain: the backends of their calls, or how many there are.
        shared: what all of them may spend together.
        most: how many turns there are at once.

    Raises:
        ConfigurationError: the policy is none, no backend can be used, prices are missing, or there is no turn.
    """
    if not isinstance(policy, TurnPolicy):
        raise ConfigurationError(f"policy must be a TurnPolicy, not {type(policy).__name__}")
    if not isinstance(shared, Budget):
        raise ConfigurationError(f"shared must be a Budget, not {type(shared).__name__}")
    budgets = (policy.budget, policy.of_calls.budget, shared)
    Chain.of(links(chain), needs_prices=any(each.money is not None for each in budgets))
    if not is_whole(most, 1):
        raise ConfigurationError(f"most must be a whole number of turns, 1 or more, not {short(most)}")
    return type("TurnMachine", (TurnMachine,), {"policy": policy, "chain": chain, "shared": shared, "most": most})
