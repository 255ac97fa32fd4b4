"""Turns through the real core whose replies, tools and compactions are drawn from rates, and random
ones of these.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

from attrs import define, evolve, field

from rungwise import Tool, TurnPolicy, Usage
from rungwise.core import (
    Compact,
    Failure,
    MakeCall,
    PlainLink,
    Reply,
    Request,
    RunTools,
    ToolOutcome,
    Turn,
)
from rungwise.fsm.analysis.odds.rates import POSITIONS, BackendRates, EventRate, Rates, TurnRate
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.turn.turn_journal import TurnJournal
from support.sampled_odds import came, drawn, histogram, make, random_policy, random_rates

TOOLS: dict[str, Any] = {
    "look": Tool(lambda **given: given, parameters={"type": "object"}),
    "send": Tool(lambda **given: given, needs_approval=True, parameters={"type": "object"}),
    "hand": Tool(terminating=True, parameters={"type": "object"}),
}
SAME_CALLS = 2
CALLS_PER_REPLY = 4
ENDLESS = Budget(attempts=1000, seconds=None)

ROUNDS = (
    ("tool_worked",),
    (),
    ("repeats_calls",),
    ("repeats_calls", "tool_worked"),
    ("over_tool_limit", "tool_worked"),
    ("over_tool_limit",),
    ("awaits_approval",),
    ("awaits_approval", "tool_worked"),
    ("tool_worked", "was_handed_off"),
    ("awaits_approval", "over_tool_limit", "tool_worked", "was_handed_off"),
)


@define
class TurnSample:
    """Hold what many turns came to."""

    turns: int = 0
    outcomes: Counter[str] = field(factory=Counter)
    calls: list[int] = field(factory=list)
    rounds: list[int] = field(factory=list)
    attempts: list[int] = field(factory=list)
    seconds: list[float] = field(factory=list)
    tokens: list[float] = field(factory=list)
    money: list[float] = field(factory=list)
    rows: Counter[str] = field(factory=Counter)


@define
class Script:
    """Draw what comes back in one turn.

    A round of tools is drawn when its calls come, since they decide most of its facts.
    """

    rates: Rates
    numbers: Iterator[int] = field(factory=lambda: count(1))
    round: TurnRate = field(init=False)
    sizes: list[int] = field(factory=list)

    def reply(
        self,
        rate: EventRate,
        number: int,
        chance: random.Random,
    ) -> tuple[Reply | Failure, Usage]:
        """Return what a backend sends for an event."""
        reply, usage = came(rate, number, chance)
        if rate.event != "called_tools":
            return reply, usage
        assert isinstance(reply, Reply)
        every = self.rates.of("rounds of tools")
        self.round = chance.choices(every, [each.share for each in every])[0]
        facts = self.round.facts
        own = f'{{"number": {number}}}'
        names = ["hand"] * ("was_handed_off" in facts) + ["send"] * ("awaits_approval" in facts)
        names += ["look"] * (SAME_CALLS if "repeats_calls" in facts else 1)
        more = max(CALLS_PER_REPLY + 1 - len(names), 0) if "over_tool_limit" in facts else 0
        calls = [ToolCall(f"c{number}-{place}", name, own) for place, name in enumerate(names)]
        calls += [
            ToolCall(f"d{place}", "look", f'{{"more": {number}, "place": {place}}}')
            for place in range(more)
        ]
        text = f"Part {number}: let me see." if "has_text" in rate.facts else ""
        return Reply(
            text,
            tool_calls=tuple(calls),
            stop_reason="tool_calls",
            usage=usage,
        ), usage

    def outcomes(self, runs: Sequence[Any]) -> list[ToolOutcome]:
        """Return what the tools bring."""
        works = "tool_worked" in self.round.facts
        return [ToolOutcome("herons") if works else ToolOutcome(fault="no herons") for _ in runs]

    def count(self, messages: object) -> int:
        """Count the tokens of messages: what the next compaction is to look like."""
        return self.sizes.pop() if self.sizes else 1000


def play_turn(
    policy: TurnPolicy,
    rates: Rates,
    chance: random.Random,
    sample: TurnSample,
) -> TurnJournal:
    """Play one turn and count it."""
    links = [PlainLink(each.name, prices=each.prices) for each in rates.backend]
    script = Script(rates)
    compactions = rates.of("compactions")
    now = 0.0
    turn = Turn(
        Request("say"),
        policy,
        links,
        tools=TOOLS,
        has_compactor=bool(compactions),
        count=script.count,
        observer=silent,
        jitter=chance.random,
    )
    calls = 0
    rounds = 0
    tokens = 0.0
    money = 0.0
    action = turn.begin(now)
    while action is not None:
        match action:
            case MakeCall(call):
                # on a clock of its own,
                taken = make(call, rates, chance, comes=script.reply, numbers=script.numbers)
                # so that a call that is cut ends at its budget to the last bit
                now = now + taken.now
                calls = calls + 1
                tokens = tokens + taken.tokens
                money = money + taken.money
                action = turn.called(call.result, now)
            case RunTools(runs):
                now = now + drawn(script.round.seconds, chance)
                rounds = rounds + 1
                action = turn.tools_ran(script.outcomes(runs), now)
                facts = {*turn.journal.steps[-1 if action is None else -2].facts}
                assert facts - {"may_fail_again", "may_go_on_later"} == {*script.round.facts}, (
                    facts,
                    script.round,
                )
            case Compact(messages):
                rate = chance.choices(compactions, [each.share for each in compactions])[0]
                now += drawn(rate.seconds, chance)
                script.sizes = [100, 1000]
                action = turn.compacted(
                    messages if rate.event == "compacted" else ValueError("no"), now
                )
                script.sizes = []
    sample.turns += 1
    sample.outcomes[turn.result.outcome] += 1
    sample.calls.append(calls)
    sample.rounds.append(rounds)
    sample.attempts.append(turn.result.attempts)
    sample.seconds.append(now)
    sample.tokens.append(tokens)
    sample.money.append(money)
    return turn.journal


def with_tools(
    rates: tuple[EventRate, ...], chance: random.Random, calm: float
) -> tuple[EventRate, ...]:
    """Let tools be called instead of some of the answers; only so much of the troubles comes."""
    found = []
    troubles = sum(each.share for each in rates if each.event != "answered")
    for each in rates:
        if each.event != "answered":
            found.append(evolve(each, share=each.share * calm))
            continue
        each = evolve(each, share=1 - troubles * calm)
        part = chance.choice((0.5, 0.9, 0.97))
        found.append(evolve(each, share=each.share * (1 - part)))
        amounts: dict[str, Any] = {
            "seconds": histogram(chance, 2),
            "output_tokens": histogram(chance, 50, whole=True),
        }
        calls = partial(
            EventRate,
            event="called_tools",
            input_tokens=each.input_tokens,
            **amounts,
        )
        found += [
            calls(share=each.share * part * 0.7),
            calls(share=each.share * part * 0.3, facts=("has_text",)),
        ]
    return tuple(found)


def random_turn_rates(chance: random.Random) -> Rates:
    """Return random rates of backends, tools and compactions."""
    found = list[BackendRates]()
    calm = chance.choice((1.0, 0.2))
    for of in random_rates(chance, chance.randint(1, 2), is_played=True).backend:
        by_position: dict[str, Any] = {
            name: with_tools(getattr(of, name), chance, calm) for name in POSITIONS
        }
        found.append(evolve(of, **by_position))
    rounds = [ROUNDS[0], *chance.sample(ROUNDS[1:], 4)]
    weights = [chance.uniform(8, 200), *(chance.uniform(0.5, 4) for _ in rounds[1:])]
    turn = [
        TurnRate(
            event="tools_ran",
            facts=facts,
            share=weight / sum(weights),
            seconds=histogram(chance, 1),
        )
        for facts, weight in zip(rounds, weights, strict=True)
    ]
    if chance.random() < 0.8:
        share = chance.uniform(0.2, 0.8)
        turn += [
            TurnRate(event="compacted", share=share, seconds=histogram(chance, 4)),
            TurnRate(event="stayed_long", share=1 - share, seconds=histogram(chance, 4)),
        ]
    return Rates(tuple(found), tuple(turn))


def random_turn_policy(chance: random.Random, *, is_timed: bool = False) -> TurnPolicy:
    """Return a random policy whose own budget always suffices; without nudges, as tool results
    allow those.
    """
    call = random_policy(chance, is_timed=is_timed)
    return TurnPolicy(
        call=evolve(call, limits=Limits(**{**call.limits, "nudges": 0})),
        budget=ENDLESS,
        auto_continues=chance.choice((0, 1, 3, 6, 15, 25)),
        faults=chance.randint(1, 3),
        compactions=chance.randint(0, 2),
        summary=chance.random() < 0.7,
        same_calls=SAME_CALLS,
        calls_per_reply=CALLS_PER_REPLY,
    )
