"""The money that an attempt, a call, and all calls of a turn cost at most."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import add
from types import SimpleNamespace
from typing import Any

from attrs import frozen

from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.call.budget.costs import dearest_input, price_of_token
from rungwise.fsm.call.budget.estimate import (
    BYTES_A_TOKEN,
    MESSAGE_TOKENS,
    STAND_IN_TOKENS,
    message_tokens,
    tokens_in,
)
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.changes import most_of_correction
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.transcript import Transcript
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.table import RESEND
from rungwise.fsm.engine.checker.best_values import Number
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.validity import LONGEST_NAME
from rungwise.fsm.values.money import units_of


def together(within: Sequence[Number], calls: int, attempts: int) -> list[Number]:
    """Return the most that calls spend together in 0 attempts, in 1, ..., from what one spends in
    1, in 2, ...
    """
    power: list[Number] = [0, *(within[min(count, len(within) - 1)] for count in range(attempts))]
    best: list[Number] = [0] * (attempts + 1)
    while calls:  # by doubling: what two calls can, what four can, ...
        if calls % 2:
            best = joined(best, power)
        calls //= 2
        if calls:
            power = joined(power, power)
    return best


def joined(one: Sequence[Number], other: Sequence[Number]) -> list[Number]:
    """Return the most by number of attempts, split in the dearest way between two."""
    return [max(map(add, one[: count + 1], other[count::-1])) for count in range(len(one))]


LEAST_TURN_TOKENS = 3
"""The fewest tokens of an assistant turn: its marks in the usual chat templates, and a word."""

OWN_TURNS = 3
"""The most assistant turns that the rungs add: gathered text, the placeholder before a nudge, the
seed.
"""

NO_MORE_INPUT = (
    "; assumes that no backend counts more input than the call does: `input_tokens` where it is "
    "given, otherwise a "
    f"token for every {BYTES_A_TOKEN} bytes and {MESSAGE_TOKENS} for a message; and a reply's "
    f"text as it did when "
    "that was written"
)
"""What every line on money rests on: providers count input in their own way, and only afterwards.
"""


class Cost:
    """Weigh an attempt by its cost, in units."""

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
        # which counts a reply within the cap of an attempt
        self.policy = policy
        self.limits = limits
        self.cap = cap
        self.input_tokens = input_tokens
        self.inputs = [dearest_input(each) for each in prices]
        self.outputs = [price_of_token(each.output) for each in prices]
        start = policy.table.start
        self.start = start if start not in targets else None
        self.seeded = {rung for rung in targets if self.keeps_seed(rung)}
        counts = range(limits["continuations"] + 1)
        # A part is at most as long as the widest cap of a request after so many continuations.
        self.widest = [
            cap(SimpleNamespace(**{**limits, "continuations": count})) for count in counts
        ]
        self.parts = [0, *accumulate(self.widest)]
        hints = policy.hints
        texts = [
            hints.placeholder,
            hints.nudge,
            hints.continuation,
            hints.seed,
            *hints.rungs.values(),
        ]
        # all that one request may contain
        self.hints = sum(map(message_tokens, texts)) + MESSAGE_TOKENS
        self.seeds = limits["prefills"] * policy.hints.seed.count("{reasoning}")
        self.turns = (
            input_tokens // LEAST_TURN_TOKENS if assistant_turns is None else assistant_turns
        )
        # A wrong reply goes back with the reasons, and stays until another backend is asked.
        self.correction = most_of_correction(hints) if "correct" in targets else 0
        # If a prompt ends with an assistant turn and cannot be prefilled, the first request adds a
        # hint.
        self.opening = message_tokens(policy.hints.continuation) if self.turns else 0
        # After a repair, each assistant turn may carry a stand-in for missing reasoning.
        self.stand_ins = STAND_IN_TOKENS * (self.turns + OWN_TURNS) if "repair" in targets else 0

    def keeps_seed(self, rung: str) -> bool:
        """Tell whether a rung still sends the reasoning that an earlier attempt seeded."""
        transcript = Transcript((), self.policy.hints)
        declared = self.policy.table.rung(rung)
        transcript.changes.seed = "seed"
        if declared is not None:
            transcript.prepare(declared, Observation(evidence=Evidence(event="")))
        return bool(transcript.changes.seed)

    def __call__(self, spent: Any) -> int:
        """Return the most that an attempt costs; a resend replaces an attempt that was free."""
        if spent.rung == RESEND.name:
            return 0
        backend = min(spent.fallbacks, len(self.inputs) - 1)
        tokens = self.input_tokens + self.parts[spent.continuations]
        if spent.rung in self.seeded:
            tokens += self.seeds * self.cap(spent)
        tokens += getattr(spent, "corrections", 0) * (
            self.widest[spent.continuations] + self.correction
        )
        # An overflow or a broken stream leaves text too, which the next backend continues.
        tokens += (spent.fallbacks + spent.compactions) * self.widest[spent.continuations]
        tokens += self.opening if spent.rung == self.start else self.hints + self.stand_ins
        cost: int = tokens * self.inputs[backend] + self.cap(spent) * self.outputs[backend]
        return cost

    def ceiling(self) -> int:
        """Return more than any attempt costs."""
        parts = (
            sum(self.limits[name] for name in ("continuations", "fallbacks", "compactions"))
            + self.seeds
        )
        corrections = self.limits.get("corrections", 0)
        tokens = (
            self.input_tokens
            + (parts + corrections) * self.widest[-1]
            + self.hints
            + self.stand_ins
        )
        tokens += corrections * self.correction
        return tokens * max(self.inputs) + self.widest[-1] * max(self.outputs)


MARK_TOKENS = 20
"""Tokens of the mark that replaces the cut part of a result."""

BESIDE_RESULT = MESSAGE_TOKENS + MARK_TOKENS + 3 * tokens_in(LONGEST_NAME)
"""Tokens of a tool call besides its arguments and its result: a message, a mark, a name, and its id
twice.
"""

MOST_JOINED, LEAST_STEPS = 3_200, 4
"""How many conversation lengths to distinguish, by the attempts: calls in between count as the
longer.
"""


@frozen(slots=False)
class Growth:
    """Compute the most that a turn costs as its conversation grows, in units."""

    policy: TurnPolicy
    call: Certificate
    prices: Sequence[Prices]

    def most(self, calls: int, rounds: int, attempts: int) -> Number:
        """Return the most that all calls cost together."""
        money = self.call.worst_of("money").within
        tokens = self.call.worst_of("output tokens").within
        step = -(-calls // max(LEAST_STEPS, MOST_JOINED // attempts))
        cost: list[Number] = [0] * (attempts + 1)
        output: list[Number] = cost
        for first in range(0, calls, step):
            count = min(step, calls - first)
            written = together(tokens, count, attempts)
            # the last of these calls
            before = joined(output, together(tokens, count - 1, attempts))[-1]
            added = self.added(before, first + count - 1, rounds) * self.dearest
            within = [self.capped(each + tries * added) for tries, each in enumerate(money, 1)]
            cost = joined(cost, together(within, count, attempts))
            output = joined(output, written)
        return cost[-1]

    def alone(self, calls: int, rounds: int) -> Number:
        """Return the most that all calls cost together if only their own budgets end them."""
        within = self.call.worst_of("money").within
        tokens = self.call.worst_of("output tokens").value or 0
        added = (self.added(before * tokens, before, rounds) for before in range(calls))
        return sum(self.capped(within[-1] + len(within) * more * self.dearest) for more in added)

    def capped(self, cost: Number) -> Number:
        """Return what a call costs within its own budget."""
        most = self.policy.of_calls.budget.money
        return cost if most is None else min(cost, units_of(most))

    def added(self, output: Number, calls: int, rounds: int) -> int:
        """Return the most tokens that a prompt grows by after this output, so many calls and rounds
        of tools.
        """
        most = self.policy.budget.output_tokens
        results = self.policy.result_tokens + self.policy.calls_per_reply * BESIDE_RESULT
        marks = MESSAGE_TOKENS + (STAND_IN_TOKENS if self.call.limits.get("repairs") else 0)
        written = output if most is None else min(output, most)
        return (
            int(written)
            + min(calls, rounds) * results
            + calls * marks
            + (self.hints if calls else 0)
        )

    @cached_property
    def hints(self) -> int:
        """Return the tokens of the turn's own hints, and of the message around a text that is
        continued.
        """
        summary = (
            message_tokens(self.policy.hints.summary) if self.policy.limits["summaries"] else 0
        )
        return summary + message_tokens(self.policy.of_calls.hints.continuation) + MESSAGE_TOKENS

    @cached_property
    def dearest(self) -> int:
        """Return the most that a token of a prompt costs."""
        return max(map(dearest_input, self.prices))

    @property
    def note(self) -> str:
        """Say what is counted."""
        return (
            "as for a call, with a prompt that grows from call to call: by all earlier replies, "
            "as long as the caps "
            f"allow; for each round of tools by {self.policy.result_tokens} tokens of results, "
            f"and by {BESIDE_RESULT} "
            f"for each of {self.policy.calls_per_reply} calls, whose ids have at most "
            f"{LONGEST_NAME} bytes; and by the "
            "turn's own hints; assumes that a compaction shortens the conversation" + NO_MORE_INPUT
        )
