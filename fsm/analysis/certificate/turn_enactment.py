"""Play a turn at its dearest to a real `Turn` and see what it spends, so that every worst case has
happened once.

Each call takes the dearest path of one call and ends with as many tool calls as a reply may have.
Every tool works, so the turn continues as often as it can.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product

from attrs import define, evolve, field

from rungwise.fsm.analysis.certificate.enactment import (
    AFTER_A_TOOL,
    PASSING,
    Enacted,
    Play,
    links_of,
    waited,
)
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.engine.checker.moves import Move
from rungwise.fsm.replies.failures.failure import Reason
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.turn.actions import Compact, MakeCall, RunTools, ToolOutcome
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
    """Play a turn in every way that might be dearest, and return the dearest."""
    if None in prices:  # without them, nothing counts against a budget of money
        calls = evolve(policy.of_calls, budget=evolve(policy.of_calls.budget, money=None))
        policy = evolve(policy, call=calls, budget=evolve(policy.budget, money=None))
    request = Request(AFTER_A_TOOL, max_tokens=max_tokens, input_tokens=input_tokens)
    is_timed = policy.of_calls.budget.seconds is not None or policy.budget.seconds is not None
    ways = [*product([moves], PASSING, (True, False) if is_timed else (True,))] if moves else []
    if not moves or name == "seconds":  # a call that takes all of its time may get no answer
        ways.append(((), PASSING[0], True))
    enacted = [
        _TurnPlay(policy, prices, keys, request, path, reason, name, asks).run()
        for path, reason, asks in ways
    ]
    return max(enacted, key=lambda each: each.spent[name])


@define
class _TurnPlay:
    policy: TurnPolicy
    prices: Sequence[Prices | None]
    keys: int  # of each backend
    request: Request
    moves: Sequence[Move]
    passing: Reason
    name: str  # of the worst case
    asks: bool
    now: float = 0.0
    runs: int = 0
    tool_seconds: float = 0.0
    number: int = 0  # of the tool calls
    play: Play = field(init=False)

    def __attrs_post_init__(self) -> None:
        calls = self.policy.of_calls
        tokens = self.request.input_tokens or 0
        lasts = self.name == "seconds"
        fills = self.name == "waiting seconds"
        self.play = Play(
            calls, self.prices, tokens, self.passing, lasts=lasts, asks=self.asks, fills=fills
        )

    def run(self) -> Enacted:
        links = links_of(self.prices, self.keys)
        turn = Turn(
            self.request, self.policy, links, tools=[WORKS], jitter=lambda: 1.0, observer=silent
        )
        action = turn.begin(self.now)
        while action is not None:
            match action:
                case MakeCall(call):
                    self.play.began = self.now
                    self.play.run(call, self.moves, self.last())
                    self.now += call.spending.elapsed
                    action = turn.called(call.result, self.now)
                case RunTools():
                    action = turn.tools_ran(self.outcomes(action), self.now)
                case Compact():  # never without a compactor
                    action = turn.compacted(action.messages, self.now)
        return self.enacted(turn)

    def last(self) -> Reply:
        """Return the reply that ends a call; all tool calls differ."""
        most = self.policy.calls_per_reply
        count = most if most * (self.policy.auto_continues + 1) <= MOST_RUNS else 1
        self.number += count
        numbers = range(self.number - count, self.number)
        calls = [
            ToolCall(f"call_{number}", "work", f'{{"number": {number}}}') for number in numbers
        ]
        # any other reason would be a cut at the cap
        return Reply(tool_calls=tuple(calls), stop_reason="stop")

    def outcomes(self, action: RunTools) -> list[ToolOutcome]:
        """Run tools one after the other, each as long as it may if time is what counts."""
        outcomes = []
        remaining = 0.0
        if self.name in ("seconds", "tool seconds"):
            remaining = math.inf if action.seconds is None else action.seconds
        for run in action.runs:
            took = min(run.seconds, remaining)
            remaining -= took
            self.runs += 1
            self.now += took
            self.tool_seconds += took
            outcomes.append(ToolOutcome(value=run.arguments["number"]))
        return outcomes

    def enacted(self, turn: Turn) -> Enacted:
        result = turn.result
        path = turn.journal.steps
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
        led = tuple(
            step for step, after in pairwise(path) if step.event != "sent" and after.event == "sent"
        )
        rungs = tuple(step.source for step in path if step.event == "sent")
        return Enacted(led, rungs, spent, attempts=tuple(self.play.attempts), messages=AFTER_A_TOOL)
