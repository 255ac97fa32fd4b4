"""What one attempt of a call costs at most, prompt and reply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

from rungwise.fsm.call.budget.estimate import MESSAGE_TOKENS, STAND_IN_TOKENS, estimate_tokens, message_tokens
from rungwise.fsm.call.budget.prices import TOKENS_PRICED, dearest_input
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.transcript import Transcript
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.checker.best_values import Number
from rungwise.fsm.journal.record import Evidence

LEAST_TURN_TOKENS = 3
"""Tokens that an assistant turn has at least: what marks it in the usual chat templates, and a word."""

OWN_TURNS = 3
"""Assistant turns that the rungs add at most: the text gathered, the placeholder before a nudge, the seed."""


class Cost:
    """Weigh an attempt by what it costs, in the currency of the prices.

    Arguments:
        policy: how the call recovers.
        limits: the limit of each counter, the fallbacks bounded by the chain.
        targets: the rungs that some row leads to.
        cap: returns what a reply within the cap of an attempt may be counted as.
        prices: of each backend.
        input_tokens: the tokens of the prompt.
        assistant_turns: how many assistant turns it has; None takes as many as it can hold.
    """

    def __init__(
        self,
        policy: Policy,
        limits: Mapping[str, int],
        targets: Collection[str],
        cap: Callable[[Any], int],
        prices: Sequence[Prices],
        input_tokens: int,
        assistant_turns: int | None,
    ) -> None:
        self.policy, self.limits, self.cap = policy, limits, cap
        self.prices, self.input_tokens = prices, input_tokens
        self.inputs = [dearest_input(each) for each in prices]
        start = policy.table.start
        self.start = start if start not in targets else None
        self.seeded = {rung for rung in targets if self.keeps_seed(rung)}
        counts = range(limits["continuations"] + 1)
        # A part is as long, at most, as the widest cap that a request could have after so many continuations.
        self.widest = [cap(SimpleNamespace(**{**limits, "continuations": count})) for count in counts]
        self.parts = [0, *accumulate(self.widest)]
        self.hints = _hint_tokens(policy)
        self.seeds = limits["prefills"] * policy.hints.seed.count("{reasoning}")
        self.turns = input_tokens // LEAST_TURN_TOKENS if assistant_turns is None else assistant_turns
        # A conversation that ends with an assistant turn is continued by a hint at once, where it cannot be prefilled.
        self.opening = message_tokens(policy.hints.continuation) if self.turns else 0
        # After a repair, each assistant turn may carry a stand-in for reasoning that is not there.
        self.stand_ins = STAND_IN_TOKENS * (self.turns + OWN_TURNS) if "repair" in targets else 0

    def keeps_seed(self, rung: str) -> bool:
        """Tell whether the reasoning seeded by an earlier attempt is still sent in a rung."""
        transcript, declared = Transcript((), self.policy.hints, seed="seed"), self.policy.table.rung(rung)
        if declared is not None:
            transcript.prepare(declared, Observation(evidence=Evidence(event="")))
        return bool(transcript.seed)

    def __call__(self, spent: Any) -> float:
        """Return what an attempt costs at most."""
        backend = min(spent.fallbacks, len(self.prices) - 1)
        tokens = self.input_tokens + self.parts[spent.continuations]
        if spent.rung in self.seeded:
            tokens += self.seeds * self.cap(spent)
        # Text is also gathered where a context overflows or a stream breaks, and another backend goes on from it.
        tokens += (spent.fallbacks + spent.compactions) * self.widest[spent.continuations]
        tokens += self.opening if spent.rung == self.start else self.hints + self.stand_ins
        cost: Number = (tokens * self.inputs[backend] + self.cap(spent) * self.prices[backend].output) / TOKENS_PRICED
        return cost

    def ceiling(self) -> float:
        """Return more than any attempt costs."""
        parts = sum(self.limits[name] for name in ("continuations", "fallbacks", "compactions")) + self.seeds
        tokens = self.input_tokens + parts * self.widest[-1] + self.hints + self.stand_ins
        dearest = max(each.output for each in self.prices)
        return (tokens * max(self.inputs) + self.widest[-1] * dearest) / TOKENS_PRICED


def _hint_tokens(policy: Policy) -> int:
    """Return the tokens of everything that the rungs may say of themselves in one request."""
    hints = policy.hints
    texts = [hints.placeholder, hints.nudge, hints.continuation, hints.seed, *hints.rungs.values()]
    gathered = 1  # what was gathered stands in a message of its own
    return sum(map(estimate_tokens, texts)) + (len(texts) + gathered) * MESSAGE_TOKENS
