"""What the calls of a turn cost together, as the conversation grows from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from attrs import frozen

from rungwise.fsm.call.budget.estimate import MESSAGE_TOKENS, STAND_IN_TOKENS, estimate_tokens, message_tokens
from rungwise.fsm.call.budget.prices import TOKENS_PRICED, dearest_input
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.together import joined, together
from rungwise.fsm.certificate.worst_case import WorstCase
from rungwise.fsm.checker.best_values import Number
from rungwise.fsm.turn.names import LONGEST_NAME
from rungwise.fsm.turn.policy import TurnPolicy

MARK_TOKENS = 20
"""Tokens of the mark that stands in a result for what was cut out of it."""

BESIDE_RESULT = MESSAGE_TOKENS + MARK_TOKENS + 3 * estimate_tokens("x" * LONGEST_NAME)
"""Tokens that a tool call has besides its arguments and its result: a message, a mark, a name, and its id twice."""

MOST_JOINED, LEAST_STEPS = 3_200, 4
"""How finely the lengths of the conversation are told apart, by the attempts: calls between two count as the longer."""


@frozen(slots=False)
class Growth:
    """Work out the most money of a turn.

    Arguments:
        policy: of the turn.
        call: the certificate of one call, in which the money is known.
        prices: of each backend.
    """

    policy: TurnPolicy
    call: Certificate
    prices: Sequence[Prices]

    def most(self, calls: int, rounds: int, attempts: int) -> Number:
        """Return the most that some calls cost together.

        Arguments:
            calls: how many there are.
            rounds: how many rounds of tools there are among them.
            attempts: how many attempts all calls have together.
        """
        step = -(-calls // max(LEAST_STEPS, MOST_JOINED // attempts))
        cost: list[Number] = [0] * (attempts + 1)
        said: list[Number] = cost
        for first in range(0, calls, step):
            count = min(step, calls - first)
            written = together(self.tokens.within, count, attempts)
            before = joined(said, together(self.tokens.within, count - 1, attempts))[-1]  # the last of these calls
            added = self.added(before, first + count - 1, rounds) * self.dearest
            within = [self.capped(each + tries * added) for tries, each in enumerate(self.money.within, 1)]
            cost, said = joined(cost, together(within, count, attempts)), joined(said, written)
        return cost[-1]

    def alone(self, calls: int, rounds: int) -> Number:
        """Return the most that some calls cost together where only their own budgets end them."""
        each, tries, tokens = self.money.value or 0, len(self.money.within), self.tokens.value or 0
        added = (self.added(before * tokens, before, rounds) for before in range(calls))
        return sum(self.capped(each + tries * more * self.dearest) for more in added)

    def capped(self, cost: Number) -> Number:
        """Return what a call costs within its own budget."""
        most = self.policy.of_calls.budget.money
        return cost if most is None else min(cost, most)

    def added(self, said: Number, calls: int, rounds: int) -> int:
        """Return the tokens by which a prompt is longer than the first, at most.

        Arguments:
            said: the tokens that were written before it.
            calls: how many calls were made before it.
            rounds: how many rounds of tools a turn may have.
        """
        most = self.policy.budget.output_tokens
        results = self.policy.result_tokens + self.policy.calls_per_reply * BESIDE_RESULT
        marks = MESSAGE_TOKENS + (STAND_IN_TOKENS if self.call.limits.get("repairs") else 0)
        written = said if most is None else min(said, most)
        return int(written) + min(calls, rounds) * results + calls * marks + (self.hints if calls else 0)

    @cached_property
    def hints(self) -> int:
        """Return the tokens of what the turn says by itself, and of what stands around a text that is gone on from."""
        summary = message_tokens(self.policy.hints.summary) if self.policy.limits["summaries"] else 0
        return summary + message_tokens(self.policy.of_calls.hints.continuation) + MESSAGE_TOKENS

    @cached_property
    def dearest(self) -> float:
        """Return what a token of a prompt costs at most."""
        return max(map(dearest_input, self.prices)) / TOKENS_PRICED

    @cached_property
    def money(self) -> WorstCase:
        """Return the worst case of one call in money."""
        return self._of_call("money")

    @cached_property
    def tokens(self) -> WorstCase:
        """Return the worst case of one call in output tokens."""
        return self._of_call("output tokens")

    def _of_call(self, name: str) -> WorstCase:
        return next(each for each in self.call.worst if each.name == name)

    @property
    def note(self) -> str:
        """Say what is counted."""
        return (
            "as for a call, and the prompt grows from one call to the next: by all that was written before, as long as "
            f"the caps allow; for each round of tools by {self.policy.result_tokens} tokens of results, and by "
            f"{BESIDE_RESULT} for each of {self.policy.calls_per_reply} calls, with ids of {LONGEST_NAME} bytes at "
            "most; and by what the turn itself says; a compaction is taken to shorten what it is given"
        )
