"""Play a turn in memory: its calls, its tools, its compactor, and the virtual clock of them all.

As in `fsm/call/play.py`, players share one loop and differ in their answers: what comes back for
each send of a call, what the tools return, what the compactor makes of the conversation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.play import Answers, PlayClock, moments
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.turn.actions import Action, Compact, MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.turn import Turn


class TurnAnswers(ABC):
    """Say what comes of each action of a turn.

    A subclass must define `of_call`, `outcomes` and `compacted`.
    """

    __slots__ = ()

    def begins(self, action: Action) -> None:  # noqa: B027, most note nothing
        """Note an action that begins now."""

    @abstractmethod
    def of_call(self, call: Call) -> Answers:
        """Return what comes back for each send of a call."""

    @abstractmethod
    def outcomes(self, action: RunTools) -> Iterable[ToolOutcome]:
        """Yield the outcome of each tool, in order; each moves the clock on by what it takes."""

    @abstractmethod
    def compacted(self, action: Compact) -> Sequence[PlainMessage | Message] | Exception:
        """Return the shortened conversation, or what the compactor raised."""


def play_turn(turn: Turn, answers: TurnAnswers, clock: PlayClock) -> Turn:
    """Play a turn that has not begun to its end, and return it.

    Arguments:
        turn: the turn.
        answers: what comes of each action.
        clock: the time; waits and answers move it.
    """
    for _ in moments_of_turn(turn, answers, clock):
        pass
    return turn


def moments_of_turn(turn: Turn, answers: TurnAnswers, clock: PlayClock) -> Iterator[str]:
    """Play a turn, and yield the name of each moment at which others may run.

    The moments are `call`, `tools` and `compaction` before each action, `ran` after each tool, and
    those of each call. The arguments are those of `play_turn`.
    """
    action = turn.begin(clock.now)
    while action is not None:
        answers.begins(action)
        match action:
            case MakeCall(call):
                yield "call"
                yield from moments(call, answers.of_call(call), clock)
                action = turn.called(call.result, clock.now)
            case RunTools():
                yield "tools"
                outcomes: list[ToolOutcome] = []
                for outcome in answers.outcomes(action):
                    outcomes.append(outcome)
                    yield "ran"
                action = turn.tools_ran(outcomes, clock.now)
            case Compact():
                yield "compaction"
                messages = answers.compacted(action)
                action = turn.compacted(messages, clock.now)
