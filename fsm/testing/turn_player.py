"""A turn played from a script in memory: its calls, its tools, its compactor and their clock."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import count
from typing import Any

from attrs import Factory, define, field

from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.request import PlainMessage, Request, Send
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.reply import Reasoning, Text
from rungwise.fsm.testing.checks.ended import Dishonest
from rungwise.fsm.testing.scripted import VirtualClock, item_of, links, partial_reply
from rungwise.fsm.testing.turn_script import TOOLS, TurnScript
from rungwise.fsm.turn.actions import Compact, MakeCall, RunTools, ToolOutcome
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
class TurnPlayer:
    """Play one turn, moment by moment; other turns may run between two moments."""

    run: RunOfTurn
    number: int = 0
    runs: int = 0
    deltas: list[Text | Reasoning] = field(factory=list)
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
        """Make a turn that has not begun; takes and raises the same as `run_turn`."""
        clock = clock or VirtualClock()
        first = request or script.request
        options: dict[str, Any] = {"contents": script.contents, "is_streaming": script.streams}
        options |= {"has_compactor": script.compactor is not None, "jitter": lambda: 1.0}
        turn = Turn(first, policy, links(chain), tools=tools, within=within, **options)
        return cls(RunOfTurn(turn, first, script, clock, clock.now))

    def go_on(self) -> None:
        """Play the next moment."""
        self.is_over = next(self._moments, None) is None
        self.run.seen.append(self.run.turn.messages)

    def moments(self) -> Iterator[str]:
        """Play the turn to its end, and yield the name of each moment."""
        turn = self.run.turn
        clock = self.run.clock
        self.run.began = clock.now
        action = turn.begin(clock.now)
        while action is not None:
            match action:
                case MakeCall(call):
                    yield from self._make(call)
                    action = turn.called(call.result, clock.now)
                case RunTools(runs):
                    outcomes = yield from self._run_tools(runs)
                    action = turn.tools_ran(outcomes, clock.now)
                case Compact(messages, room):
                    made = yield from self._compact(messages, room)
                    action = turn.compacted(made, clock.now)

    def _make(self, call: Call) -> Iterator[str]:
        run, clock = self.run, self.run.clock
        row = run.turn.position.row
        made = CallInTurn(call, row.source if row is not None else "", clock.now)
        run.doings.append(made)
        yield "call"
        send = call.begin(clock.now)
        while send is not None:
            clock.sleep(send.wait)
            self.is_waiting = not call.reserve(self._wake, clock.now)
            while self.is_waiting:
                yield "waiting"
            sent = call.sending(clock.now)
            made.events += call.drain()
            if sent is None:
                break
            made.sent_at.append(clock.now)
            yield "sent"
            send = yield from self._receive(made, sent)
        made.events += call.drain()

    def _receive(self, made: CallInTurn, sent: Send) -> Generator[str, None, Send | None]:
        """Let the next reply of the script arrive, with its deltas before it."""
        call = made.call
        script = self.run.script
        played = item_of(script.replies, self.number, sent, is_fair=script.is_fair)
        self.number += 1
        self.deltas = list(played.deltas()) if call.is_streaming else []
        for delta in self.deltas:
            made.events += call.hear(delta)
        self.run.clock.advance(script.latency)
        yield "arrived"
        self.deltas = []
        send = call.receive(played.reply, self.run.clock.now)
        made.events += call.drain()
        return send

    def _wake(self) -> None:
        self.is_waiting = False

    def _run_tools(self, runs: tuple[ToolRun, ...]) -> Generator[str, None, list[ToolOutcome]]:
        """Run tools side by side: the round takes as long as the longest of them."""
        clock = self.run.clock
        round = PlayedRound(runs, clock.now)
        self.run.doings.append(round)
        yield "tools"
        for each in runs:
            outcome, seconds = self.run.script.play(self.runs).outcome(each, self.runs)
            self.runs += 1
            clock.advance(max(0.0, round.at + seconds - clock.now))
            round.outcomes.append(outcome)
            yield "ran"
        return list(round.outcomes)

    def _compact(self, messages: Messages, room: int) -> Generator[str, None, Any]:
        compactor = self.run.script.compactor
        assert compactor is not None
        compaction = PlayedCompaction(messages, self.run.clock.now)
        self.run.doings.append(compaction)
        yield "compaction"
        try:
            made = compactor(thawed(messages), room)
            compaction.made = list(made) if isinstance(made, Iterator) else made
        except Exception as error:
            compaction.made = error
        self.run.clock.advance(compactor.seconds)
        return compaction.made

    def stop(self, kind: str) -> None:
        """End the turn from outside: cancel it as a driver does, or drop it."""
        self.run.was_stopped, self.is_over = kind, True
        if kind == "cancel":
            self._cancel()
        self.run.seen.append(self.run.turn.messages)

    def _cancel(self) -> None:
        run, now = self.run, self.run.clock.now
        last = run.doings[-1] if run.doings else None
        outcomes: list[ToolOutcome | None] = []
        if isinstance(last, CallInTurn) and not last.call.is_over:
            last.call.cancel(now, partial_reply(self.deltas))
            last.events += last.call.drain()
        if isinstance(last, PlayedRound):
            outcomes = [*last.outcomes, *[None] * (len(last.runs) - len(last.outcomes))]
        run.turn.cancel(now, outcomes if isinstance(last, PlayedRound) else ())


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
