"""Random turns: replies, tool outcomes, compactions, cancellations and budgets."""

from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import define, field

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import PlainLink
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Budget, Policy
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.turn.actions import Action, Compact, MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tools import Tool
from rungwise.fsm.turn.turn import Turn
from rungwise.fsm.values.usage import Usage

USAGE = Usage(10, 5)
OVERFLOW = Failure("context_overflow", status=400)
BUSY = Failure("rate_limit", status=429, asked_wait=2.0)
QUESTION = {"role": "user", "content": "Where do herons nest?"}
HISTORY = (
    {
        "role": "user",
        "content": "Tell me of the herons in the reeds, the owls in the barn and the swifts. " * 9,
    },
    {"role": "assistant", "content": "They all nest here. " * 9},
)


def said(text: str) -> Reply:
    """Answer."""
    return Reply(text, stop_reason="stop", stop_raw="stop", usage=USAGE)


def cut(text: str) -> Reply:
    """Answer up to the output cap."""
    return Reply(text, stop_reason="length", stop_raw="length", usage=USAGE)


def calling(*names: str, text: str = "", arguments: str = "{}") -> Reply:
    """Call tools."""
    calls = [ToolCall(f"c{place % 3}", name, arguments) for place, name in enumerate(names)]
    return Reply(
        text, tool_calls=calls, stop_reason="tool_calls", stop_raw="tool_calls", usage=USAGE
    )


TOOLS: dict[str, Any] = {
    "look": Tool(lambda: "three herons", description="Look.", parameters={"type": "object"}),
    "note": Tool(lambda: "noted", housekeeping=True, parameters={"type": "object"}),
    "ask": Tool(terminating=True, parameters={"type": "object"}),
}
PARTS = (
    "Herons nest in the reeds ",
    "by the lake, where nobody ",
    "walks before the end of June ",
    "or so I have read.",
)


def a_reply(dice: Random) -> Reply | Failure:
    """Return a random reply."""
    names = [
        dice.choice(("look", "look", "note", "ask", "gone", "odd name!"))
        for _ in range(dice.randint(1, 4))
    ]
    tools = calling(
        *names,
        text=dice.choice(("", "Let me see.")),
        arguments=dice.choice(("{}", '{"a": 1}', "[]")),
    )
    return dice.choice(
        (
            tools,
            tools,
            tools,
            tools,
            said("".join(PARTS)),
            cut(dice.choice(PARTS)),
            cut("nest nest " * 40),
            Reply(stop_reason="stop", usage=USAGE),
            Reply(reasoning="Hm.", stop_reason="stop", usage=USAGE),
            OVERFLOW,
            OVERFLOW,
            OVERFLOW,
            BUSY,
            Failure("content_policy", status=400),
            Failure("server_error", status=500),
            Failure("auth", status=401),
        )
    )


def a_policy(dice: Random) -> TurnPolicy:
    """Return a random policy with low ceilings."""
    few = {
        name: dice.randint(0, 2)
        for name in ("retries", "reasks", "nudges", "continuations", "fallbacks")
    }
    return TurnPolicy(
        call=Policy(limits=Limits(**few), budget=Budget(attempts=dice.randint(1, 6))),
        budget=Budget(
            attempts=dice.choice((3, 30, 100)),
            seconds=dice.choice((None, None, 9.0)),
            output_tokens=dice.choice((None, None, 400)),
            money=dice.choice((None, None, 0.001)),
        ),
        auto_continues=dice.randint(0, 6),
        faults=dice.randint(1, 3),
        compactions=dice.randint(0, 2),
        summary=dice.random() < 0.7,
        same_calls=dice.choice((2, 5)),
        calls_per_reply=dice.choice((2, 32)),
    )


@define
class Player:
    """Play one turn.

    Arguments:
        dice: decides everything.
        turn: the turn.
        now: the time.
        stops: whether it may be cancelled or killed; otherwise it runs to its end.
    """

    dice: Random
    turn: Turn
    now: float = 100.0
    stops: bool = True
    replies: Sequence[Reply | Failure] = field(default=())
    _heard: int = field(default=0, init=False)

    def play(self) -> Turn:
        """Play to the end, or until the turn is cancelled or killed."""
        action = self.turn.begin(self.now)
        while action is not None:
            self._pass_time()
            if self._stops():
                self._stop(action)
                break
            action = self._do(action)
        return self.turn

    def _pass_time(self) -> None:
        self.now += self.dice.choice((0.0, 0.25, 1.5))

    def _stops(self) -> bool:
        return self.stops and self.dice.random() < 0.04

    def _stop(self, action: Action) -> None:
        """Cancel the turn, with some of its tools done; or kill it, so that its journal ends
        half-way.
        """
        if self.dice.random() < 0.4:
            return
        done: list[ToolOutcome | None] = []
        if isinstance(action, RunTools):
            done = [self.dice.choice((None, ToolOutcome("three herons"))) for _ in action.runs]
        self.turn.cancel(self.now, done)

    def _do(self, action: Action) -> Action | None:
        match action:
            case MakeCall(call):
                if not self._make(call):
                    if self.dice.random() < 0.5:
                        self.turn.cancel(self.now)
                    return None
                return self.turn.called(call.result, self.now)
            case RunTools(runs):
                outcomes = [self._outcome() for _ in runs]
                self._pass_time()
                return self.turn.tools_ran(outcomes, self.now)
            case Compact(messages):
                shorter = [each for each in messages if each not in HISTORY]
                left = self.dice.choice((shorter, shorter, shorter, messages, [], ValueError("no")))
                return self.turn.compacted(left, self.now)

    def _make(self, call: Call) -> bool:
        """Make a call and return whether it ended."""
        send = call.begin(self.now)
        while send is not None:
            if self._stops():
                return False
            self.now += send.wait
            if call.sending(self.now) is None:
                break
            self._pass_time()
            if self._stops():
                return False
            send = call.receive(self._reply(), self.now)
        return True

    def _reply(self) -> Reply | Failure:
        self._heard += 1
        return (
            self.replies[self._heard - 1]
            if self._heard <= len(self.replies)
            else a_reply(self.dice)
        )

    def _outcome(self) -> ToolOutcome:
        fault = ToolOutcome(fault="the lake is closed")
        return self.dice.choice((ToolOutcome("three herons"), ToolOutcome({"herons": 3}), fault))


def random_turn(dice: Random, *, contents: bool) -> Turn:
    """Return a random turn, which may have been killed half-way."""
    chain = [
        PlainLink(name, prices=Prices(1.0, 2.0))
        for name in ("first", "second")[: dice.randint(1, 2)]
    ]
    cap = dice.choice((None, 50))
    turn = Turn(
        Request([*HISTORY, QUESTION], max_tokens=cap),
        a_policy(dice),
        chain,
        tools=TOOLS,
        has_compactor=dice.random() < 0.7,
        contents=contents,
        jitter=dice.random,
        deadline=dice.choice((None, None, None, 99.0, 100.5, 106.0)),
    )
    return Player(dice, turn).play()


def played(
    *replies: Reply | Failure, policy: TurnPolicy | None = None, seed: int = 1, **options: Any
) -> Turn:
    """Return a turn with these replies and then random ones, not cancelled."""
    dice = Random(seed)
    chain = options.pop("chain", None) or [PlainLink("first", prices=Prices(1.0, 2.0))]
    turn = Turn(
        Request([*HISTORY, QUESTION]), policy or TurnPolicy(), chain, tools=TOOLS, **options
    )
    return Player(dice, turn, stops=False, replies=replies).play()
