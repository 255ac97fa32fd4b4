"""A turn played from a script in memory: its calls, its tools, its compactor and their clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from attrs import Factory, define, field

from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.call.play import Answers, CameBack, PlayClock, partial_reply
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.reply import Reasoning, Text
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.scripted import VirtualClock, item_of, links
from rungwise.fsm.testing.turn_script import TOOLS, TurnScript
from rungwise.fsm.turn.actions import Action, Compact, MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.play import TurnAnswers, moments_of_turn
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Toolbox, ToolRun
from rungwise.fsm.turn.turn import Turn
from rungwise.fsm.values.frozen_map import thawed

ENDS = "every turn ends in an outcome"

Messages = tuple[PlainMessage | Message, ...]


@define(eq=False)
class CallInTurn:
    """A call of a turn."""

    call: Call
    state: str  # the rung that it was made in
    at: float
    events: list[object] = field(factory=list)
    sent_at: list[float] = field(factory=list)  # when each of its requests went out


@define(eq=False)
class PlayedRound:
    """A round of tools."""

    runs: tuple[ToolRun, ...]
    at: float
    outcomes: list[ToolOutcome] = field(factory=list)  # as far as they have run


@define(eq=False)
class PlayedCompaction:
    """A compaction."""

    before: Messages
    at: float
    made: Any = None  # an error where the compactor raised one


Doing = CallInTurn | PlayedRound | PlayedCompaction


@define(eq=False)
class RunOfTurn:
    """A turn that was played, and what happened in it."""

    turn: Turn
    request: Request  # without the definitions of the tools
    script: TurnScript
    clock: VirtualClock
    began: float
    # its calls, rounds of tools and compactions, in order
    doings: list[Doing] = field(factory=list)
    seen: list[Messages] = field(factory=list)  # its conversation at every moment
    was_stopped: str = ""  # "cancel" or "kill" if the caller ended it
    is_interleaved: bool = False  # whether other turns move its clock as well

    @property
    def calls(self) -> list[CallInTurn]:
        """Return its calls."""
        return [each for each in self.doings if isinstance(each, CallInTurn)]

    @property
    def rounds(self) -> list[PlayedRound]:
        """Return its rounds of tools."""
        return [each for each in self.doings if isinstance(each, PlayedRound)]


@define(eq=False)
class TurnPlayer(TurnAnswers):
    """Play one turn, moment by moment; other turns may run between two moments.

    Arguments:
        run: the turn, and what happens in it.
        sends: how many requests went out.
        runs: how many tools have run.
        deltas: what has arrived of the reply in flight.
        is_waiting: whether a call waits for what other turns hold of a shared budget.
        is_over: whether the turn has ended, by itself or from outside.
    """

    run: RunOfTurn
    sends: int = 0
    runs: int = 0
    deltas: Sequence[Text | Reasoning] = ()
    is_waiting: bool = False
    is_over: bool = False
    _moments: Iterator[str] = Factory(lambda self: self.moments(), takes_self=True)

    @classmethod
    def of(
        cls,
        policy: TurnPolicy,
        script: TurnScript,
        *,
        chain: int | Sequence[Link] = 1,
        tools: Toolbox = TOOLS,
        within: SharedBudget | None = None,
        clock: VirtualClock | None = None,
        request: Request | None = None,
    ) -> TurnPlayer:
        """Make a turn that has not begun.

        Arguments: those of `run_turn`, which raises the same errors.
        """
        clock = clock or VirtualClock()
        first = request or script.request
        turn = Turn(
            first,
            policy,
            links(chain),
            tools=tools,
            within=within,
            contents=script.contents,
            is_streaming=script.streams,
            has_compactor=script.compactor is not None,
            jitter=lambda: 1.0,
        )
        return cls(RunOfTurn(turn, first, script, clock, clock.now))

    def go_on(self) -> None:
        """Play the next moment."""
        self.is_over = next(self._moments, None) is None
        self.run.seen.append(self.run.turn.messages)

    def moments(self) -> Iterator[str]:
        """Play the turn to its end, and yield the name of each moment."""
        run = self.run
        run.began = run.clock.now
        for moment in moments_of_turn(run.turn, self, run.clock):
            if moment == "sent":
                run.calls[-1].sent_at.append(run.clock.now)
            yield moment

    # what comes of each action

    def begins(self, action: Action) -> None:
        """Record a call, a round of tools or a compaction."""
        now = self.run.clock.now
        match action:
            case MakeCall(call):
                row = self.run.turn.position.row
                state = row.source if row is not None else ""
                self.run.doings.append(CallInTurn(call, state, now))
            case RunTools(runs):
                self.run.doings.append(PlayedRound(runs, now))
            case Compact(messages):
                self.run.doings.append(PlayedCompaction(messages, now))

    def of_call(self, call: Call) -> Answers:
        """Answer a call from the script."""
        return _CallAnswers(self, self.run.calls[-1])

    def outcomes(self, action: RunTools) -> Iterator[ToolOutcome]:
        """Run tools side by side: the round takes as long as the longest of them."""
        clock = self.run.clock
        round = self.run.rounds[-1]
        for each in action.runs:
            outcome, seconds = self.run.script.play(self.runs).outcome(each, self.runs)
            self.runs += 1
            clock.advance(max(0.0, round.at + seconds - clock.now))
            round.outcomes.append(outcome)
            yield outcome

    def compacted(self, action: Compact) -> Any:
        """Run the compactor of the script, and return what it made or raised."""
        compactor = self.run.script.compactor
        compaction = self.run.doings[-1]
        assert compactor is not None
        assert isinstance(compaction, PlayedCompaction)
        try:
            made = compactor(thawed(action.messages), action.room)
            compaction.made = list(made) if isinstance(made, Iterator) else made
        except Exception as error:
            compaction.made = error
        self.run.clock.advance(compactor.seconds)
        return compaction.made

    # the end from outside

    def stop(self, kind: str) -> None:
        """End the turn from outside: cancel it as a driver does, or drop it."""
        self.run.was_stopped = kind
        self.is_over = True
        if kind == "cancel":
            self._cancel()
        self.run.seen.append(self.run.turn.messages)

    def _cancel(self) -> None:
        run = self.run
        now = run.clock.now
        last = run.doings[-1] if run.doings else None
        outcomes: list[ToolOutcome | None] = []
        if isinstance(last, CallInTurn) and not last.call.is_over:
            last.call.cancel(now, partial_reply(self.deltas))
            last.events += last.call.drain()
        if isinstance(last, PlayedRound):
            unknown = len(last.runs) - len(last.outcomes)
            outcomes = [*last.outcomes, *[None] * unknown]
        run.turn.cancel(now, outcomes)


@define(eq=False)
class _CallAnswers(Answers):
    """Answer one call of a turn from the script of the turn."""

    player: TurnPlayer
    made: CallInTurn

    def proposed(self, call: Call, send: Send) -> Send:
        """Forget the stream of the attempt before."""
        self.player.deltas = ()
        return send

    def queue(self, call: Call, clock: PlayClock) -> Iterator[str]:
        """Wait until the shared budget has what the next request may use."""
        player = self.player
        player.is_waiting = not call.reserve(self.wake, clock.now)
        while player.is_waiting:
            yield "waiting"

    def wake(self) -> None:
        """Let the call go on."""
        self.player.is_waiting = False

    def answer(self, call: Call, sent: Send, now: float) -> CameBack:
        """Return the next reply of the script, with its deltas."""
        player = self.player
        script = player.run.script
        item = item_of(script.replies, player.sends, sent, is_fair=script.is_fair)
        player.sends += 1
        player.deltas = list(item.deltas()) if call.is_streaming else []
        return CameBack(item.reply, now + script.latency, player.deltas)

    def deliver(self, events: Iterable[StreamEvent]) -> None:
        """Record what a consumer of the stream receives."""
        self.made.events += events


def run_turn(
    policy: TurnPolicy,
    script: TurnScript,
    *,
    chain: int | Sequence[Link] = 1,
    tools: Toolbox = TOOLS,
    within: SharedBudget | None = None,
    clock: VirtualClock | None = None,
    request: Request | None = None,
) -> RunOfTurn:
    """Play one turn over a script, without HTTP and without waiting, to its end or to where the
    script stops it.

    Arguments:
        policy: how the turn goes on.
        script: what happens to it.
        chain: the backends, or how many there are.
        tools: what the model may call; what comes of it, the script says.
        within: a budget that the turn shares with others.
        clock: the time; a new one where None.
        request: what is asked; the script says it where None.

    Raises:
        Dishonest: the turn does not end.
        ConfigurationError: what `rungwise.core.Turn` raises.
    """
    player = TurnPlayer.of(
        policy, script, chain=chain, tools=tools, within=within, clock=clock, request=request
    )
    run = player.run
    stop = script.stop
    # More moments than any turn has: each attempt has a few, and so has what lies around a call.
    most = 10 + 3 * policy.budget.attempts
    most += (most_calls(policy) + policy.limits["compactions"]) * (4 + policy.calls_per_reply)
    run.seen.append(run.turn.messages)
    for number in count():
        if stop is not None and number == stop.at:
            player.stop(stop.kind)
        else:
            player.go_on()
        if player.is_over:
            break
        if number > most:
            raise Dishonest(
                ENDS, f"after {number} moments it is in state {run.turn.position.state!r}"
            )
    return run


def most_calls(policy: TurnPolicy) -> int:
    """Return the most calls that a turn may make: the first, one per automatic continuation, the
    summary.
    """
    limits = policy.limits
    return 1 + limits["auto_continues"] + limits["summaries"]
