"""Play a turn at its dearest to a real `Turn` and see what it spends, so that every worst case has
happened once.

Each call takes the dearest path of one call and ends with as many tool calls as a reply may have.
Every tool works, so the turn continues as often as it can.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from attrs import define, evolve, field

from rungwise.fsm.analysis.certificate.enactment import (
    AFTER_A_TOOL,
    PASSING,
    Enacted,
    links_of,
    waited,
    without_money,
)
from rungwise.fsm.analysis.certificate.path_answers import PathAnswers
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.call.play import Answers, PlayClock
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.engine.checker.moves import Move
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.turn.actions import Compact, RunTools, ToolOutcome
from rungwise.fsm.turn.play import TurnAnswers, play_turn
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Tool
from rungwise.fsm.turn.turn import Turn

MOST_RUNS = 20_000
"""Tool runs of one turn at most; if more are possible, each reply calls one tool."""

WORKS = Tool(
    lambda number: number, name="work", parameters={"type": "object", "properties": {"number": {}}}
)


def enact_turn(
    policy: TurnPolicy,
    prices: Sequence[Prices | None],
    name: str,
    moves: Sequence[Move],
    keys: int,
    max_tokens: int | None,
    input_tokens: int | None,
) -> Enacted:
    """Play a turn in every way that might be dearest, and return the dearest.

    Arguments:
        policy: of the turn.
        prices: of each backend; None where they are unknown.
        name: of the worst case, which says what is dear.
        moves: the dearest path of one call; empty where a call has none.
        keys: of each backend.
        max_tokens: the caller's output cap.
        input_tokens: the tokens of the first prompt.
    """
    if None in prices:
        policy = without_money(evolve(policy, call=without_money(policy.of_calls)))
    request = Request(AFTER_A_TOOL, max_tokens=max_tokens, input_tokens=input_tokens)
    is_timed = policy.of_calls.budget.seconds is not None or policy.budget.seconds is not None
    ways: list[tuple[Sequence[Move], Reason, bool]] = []
    if moves:
        ways += product([moves], PASSING, (True, False) if is_timed else (True,))
    if not moves or name == "seconds":  # a call that takes all of its time may get no answer
        ways.append(((), PASSING[0], True))
    enacted = []
    for path, passing, asks in ways:
        turn = Turn(
            request,
            policy,
            links_of(prices, keys),
            tools=[WORKS],
            jitter=lambda: 1.0,
            observer=silent,
        )
        input_size = request.input_tokens or 0
        play = PathAnswers(policy.of_calls, prices, input_size, passing, name, asks=asks)
        answers = _TurnPlay(policy, path, play)
        play_turn(turn, answers, answers.clock)
        enacted.append(answers.enacted(turn))
    return max(enacted, key=lambda each: each.spent[name])


@define
class _TurnPlay(TurnAnswers):
    """Answer every call of a turn along a path, and let every tool work.

    Arguments:
        policy: of the turn.
        moves: the path of each call.
        play: what the calls are answered with.
        runs: how many tools have run, and `tool_seconds` how long they took.
        number: how many tools were called.
    """

    policy: TurnPolicy
    moves: Sequence[Move]
    play: PathAnswers
    clock: PlayClock = field(factory=PlayClock, init=False)
    runs: int = field(default=0, init=False)
    tool_seconds: float = field(default=0.0, init=False)
    number: int = field(default=0, init=False)

    def of_call(self, call: Call) -> Answers:
        """Play the path to a call, and end it with tool calls."""
        return self.play.along(self.moves, self.last())

    def last(self) -> Reply:
        """Return the reply that ends a call; all tool calls differ."""
        most = self.policy.calls_per_reply
        count = most if most * (self.policy.auto_continues + 1) <= MOST_RUNS else 1
        numbers = range(self.number, self.number + count)
        self.number += count
        calls = [
            ToolCall(f"call_{number}", "work", f'{{"number": {number}}}') for number in numbers
        ]
        # any other reason would be a cut at the cap
        return Reply(tool_calls=tuple(calls), stop_reason="stop")

    def outcomes(self, action: RunTools) -> Iterator[ToolOutcome]:
        """Run tools one after the other, each as long as it may if time is what counts."""
        remaining = 0.0
        if self.play.name in ("seconds", "tool seconds"):
            remaining = math.inf if action.seconds is None else action.seconds
        for run in action.runs:
            seconds = min(run.seconds, remaining)
            remaining -= seconds
            self.runs += 1
            self.tool_seconds += seconds
            self.clock.advance(seconds)
            yield ToolOutcome(value=run.arguments["number"])

    def compacted(self, action: Compact) -> Sequence[PlainMessage]:
        """Return the conversation as it is: there is no compactor."""
        return action.messages

    def enacted(self, turn: Turn) -> Enacted:
        """Return what a turn did that has ended."""
        result = turn.result
        spent = {
            "calls": result.calls,
            "attempts": result.attempts,
            "waiting seconds": sum(map(waited, turn.journal.calls)),
            "seconds": result.seconds,
            "tool runs": self.runs,
            "tool seconds": self.tool_seconds,
            "output tokens": result.usage.output_tokens,
            "money": result.cost or 0.0,
        }
        path = turn.journal.steps
        led = [
            step for step, after in pairwise(path) if step.event != "sent" and after.event == "sent"
        ]
        rungs = tuple([step.source for step in path if step.event == "sent"])
        return Enacted(
            steps=tuple(led),
            rungs=rungs,
            spent=spent,
            attempts=tuple(self.play.attempts),
            messages=AFTER_A_TOOL,
        )
