"""The money that an attempt, a call, and all calls of a turn cost at most.

All costs are counted in units of money, which are whole numbers (`values/money.py`), so sums are
exact. A prompt grows by what earlier attempts wrote; what is estimated here must never be less than
what a call can reserve, or a worst case could be passed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import add
from types import SimpleNamespace
from typing import Any

from attrs import frozen

from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.call.budget.costs import dearest_input, dearest_output
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
from rungwise.fsm.engine.checker.best_values import Number
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.validity import LONGEST_NAME
from rungwise.fsm.values.money import units_of


def together(within: Sequence[Number], calls: int, attempts: int) -> list[Number]:
    """Return the most that calls spend together in 0 attempts, in 1, in 2, ...

    Calls are joined by doubling: what two calls spend, what four spend, ...

    Arguments:
        within: the most that one call spends in 1 attempt, in 2, ...
        calls: how many calls there are.
        attempts: the most of them all.
    """
    last = len(within) - 1
    power: list[Number] = [0]
    power += [within[min(count, last)] for count in range(attempts)]
    best: list[Number] = [0] * (attempts + 1)
    while calls:
        if calls % 2:
            best = joined(best, power)
        calls //= 2
        if calls:
            power = joined(power, power)
    return best


def joined(one: Sequence[Number], other: Sequence[Number]) -> list[Number]:
    """Return the most by number of attempts, split in the dearest way between two."""
    best = []
    for count in range(len(one)):
        splits = map(add, one[: count + 1], other[count::-1])
        best.append(max(splits))
    return best


LEAST_TURN_TOKENS = 3
"""The fewest tokens of an assistant turn: its marks in the usual chat templates, and a word."""

OWN_TURNS = 3
"""The most assistant turns that the rungs add: gathered text, the placeholder before a nudge, the
seed.
"""

NO_MORE_INPUT = (
    "; assumes that no backend counts more input than the call does: `input_tokens` where it is "
    f"given, otherwise a token for every {BYTES_A_TOKEN} bytes and {MESSAGE_TOKENS} for a message; "
    "and a reply's text as it did when that was written"
)
"""What every line on money rests on: providers count input in their own way, and only afterwards.
"""


def beside_tokens(prices: Iterable[Prices]) -> str:
    """Say that what is billed beside tokens is not bounded, if any of it has a price."""
    if any(each.units for own in prices for each in own.every()):
        return "; what is billed beside tokens, such as searches, is charged once it is reported"
    return ""


class Cost:
    """Weigh an attempt by its cost, in units.

    Arguments:
        policy: of the call.
        limits: the limit of each counter.
        targets: the rungs that moves lead to.
        cap: counts a reply within the cap of an attempt, in tokens.
        prices: of each backend.
        input_tokens: the tokens of the prompt.
        assistant_turns: of the prompt; None for as many as it can hold.
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
        self.policy = policy
        self.limits = limits
        self.cap = cap
        self.input_tokens = input_tokens
        self.inputs = [dearest_input(each) for each in prices]
        self.outputs = [dearest_output(each) for each in prices]
        start = policy.table.start
        self.start = start if start not in targets else None
        self.seeded = {rung for rung in targets if self.keeps_seed(rung)}
        # A part is at most as long as the widest cap of a request after so many continuations.
        self.widest = []
        for count in range(limits["continuations"] + 1):
            spent = SimpleNamespace(**limits)
            spent.continuations = count
            self.widest.append(cap(spent))
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
        self.turns = input_tokens // LEAST_TURN_TOKENS
        if assistant_turns is not None:
            self.turns = assistant_turns
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
        """Return the most that an attempt costs; one whose reply counts nothing costs nothing."""
        cap = self.cap(spent)
        if cap == 0:
            return 0
        widest = self.widest[spent.continuations]
        tokens: int = self.input_tokens + self.parts[spent.continuations]
        if spent.rung in self.seeded:
            tokens += self.seeds * cap
        tokens += getattr(spent, "corrections", 0) * (widest + self.correction)
        # An overflow or a broken stream leaves text too, which the next backend continues.
        tokens += (spent.fallbacks + spent.compactions) * widest
        if spent.rung == self.start:
            tokens += self.opening
        else:
            tokens += self.hints + self.stand_ins
        backend = min(spent.fallbacks, len(self.inputs) - 1)
        cost: int = tokens * self.inputs[backend] + cap * self.outputs[backend]
        return cost

    def ceiling(self) -> int:
        """Return more than any attempt costs."""
        corrections = self.limits.get("corrections", 0)
        parts = self.seeds + corrections
        for name in ("continuations", "fallbacks", "compactions"):
            parts += self.limits[name]
        tokens = self.input_tokens + self.hints + self.stand_ins
        tokens += parts * self.widest[-1]
        tokens += corrections * self.correction
        return tokens * max(self.inputs) + self.widest[-1] * max(self.outputs)


MARK_TOKENS = 20
"""Tokens of the mark that replaces the cut part of a result."""

BESIDE_RESULT = MESSAGE_TOKENS + MARK_TOKENS + 3 * tokens_in(LONGEST_NAME)
"""Tokens of a tool call besides its arguments and its result: a message, a mark, a name, and its id
twice.
"""

MOST_JOINED = 3_200
"""The most conversation lengths to distinguish, times the attempts: calls in between count as the
longer.
"""

LEAST_STEPS = 4
"""The fewest conversation lengths to distinguish."""


@frozen(slots=False)
class Growth:
    """Compute the most that a turn costs as its conversation grows, in units.

    Each call has a longer prompt than the one before it. The calls are taken in groups, and each
    group is given the prompt of its last call, so that the sum is an upper bound for any number of
    calls and takes a bounded time.

    Arguments:
        policy: of the turn.
        call: the certificate of its calls.
        prices: of each backend.
    """

    policy: TurnPolicy
    call: Certificate
    prices: Sequence[Prices]

    def most(self, calls: int, rounds: int, attempts: int) -> Number:
        """Return the most that all calls cost together.

        Arguments:
            calls: how many there are.
            rounds: of tools.
            attempts: the most of all calls.
        """
        money = self.call.worst_of("money").within
        tokens = self.call.worst_of("output tokens").within
        step = -(-calls // max(LEAST_STEPS, MOST_JOINED // attempts))
        cost: list[Number] = [0] * (attempts + 1)
        output: list[Number] = cost
        for first in range(0, calls, step):
            count = min(step, calls - first)
            written = together(tokens, count, attempts)
            # what was written before the last of these calls
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
        """Return the most tokens that a prompt grows by.

        Arguments:
            output: the tokens that were written before.
            calls: how many were made before.
            rounds: of tools, at most.
        """
        if not calls:
            return int(self.within_budget(output))
        results = self.policy.result_tokens + self.policy.calls_per_reply * BESIDE_RESULT
        marks = MESSAGE_TOKENS
        if self.call.limits.get("repairs"):
            marks += STAND_IN_TOKENS
        tokens = int(self.within_budget(output)) + self.hints
        tokens += min(calls, rounds) * results
        tokens += calls * marks
        return tokens

    def within_budget(self, output: Number) -> Number:
        """Return the output that the budget of the turn allows."""
        most = self.policy.budget.output_tokens
        return output if most is None else min(output, most)

    @cached_property
    def hints(self) -> int:
        """Return the tokens of the turn's own hints, and of the message around a continued text."""
        tokens = message_tokens(self.policy.of_calls.hints.continuation) + MESSAGE_TOKENS
        if self.policy.limits["summaries"]:
            tokens += message_tokens(self.policy.hints.summary)
        return tokens

    @cached_property
    def dearest(self) -> int:
        """Return the most that a token of a prompt costs."""
        return max(map(dearest_input, self.prices))

    @property
    def note(self) -> str:
        """Say what is counted."""
        note = (
            "as for a call, with a prompt that grows from call to call: by all earlier replies, as "
            f"long as the caps allow; for each round of tools by {self.policy.result_tokens} "
            f"tokens of results, and by {BESIDE_RESULT} for each of {self.policy.calls_per_reply} "
            f"calls, whose ids have at most {LONGEST_NAME} bytes; and by the turn's own hints; "
            "assumes that a compaction shortens the conversation"
        )
        return note + NO_MORE_INPUT + beside_tokens(self.prices)
