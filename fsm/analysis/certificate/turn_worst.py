"""The worst cases of a turn, worked out from those of its calls.

A turn makes at most as many calls as the longest path of its table has (`engine/checker/longest.py`
with a weight of 1 for each call), and shares its attempts among them. So what all calls spend is
the most that attempts can be split up into: the sum of calls in the algebra of max and plus
(`money.together`). Tools and rounds follow from the replies that can ask for them. As for a call,
the path is then played to a real turn.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cached_property

from attrs import evolve, frozen

from rungwise.fsm.analysis.certificate.certificate import (
    BUDGETS,
    NEVER_ALL,
    Certificate,
    WorstCase,
    unknown,
)
from rungwise.fsm.analysis.certificate.money import Growth, together
from rungwise.fsm.analysis.certificate.turn_enactment import enact_turn
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.engine.checker.best_values import Number
from rungwise.fsm.engine.checker.longest import longest
from rungwise.fsm.engine.checker.moves import Move, moves_of
from rungwise.fsm.engine.checker.tracking import SearchProblem
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS, SUMMARIZE
from rungwise.fsm.values.money import as_money


def worst_of_turn(
    policy: TurnPolicy, table: Table, call: Certificate, prices: Sequence[Prices | None]
) -> tuple[WorstCase, ...]:
    """Compute the worst cases of a turn.

    Arguments:
        policy: of the turn.
        table: its machine.
        call: the certificate of its calls.
        prices: of each backend; None where they are unknown.
    """
    search = _TurnSearch(policy, table, call, prices)
    return (
        search.calls(),
        search.attempts_of_calls(),
        search.waits(),
        search.seconds(),
        search.tool_runs(),
        search.tool_seconds(),
        search.output_tokens(),
        search.money(),
    )


@frozen(slots=False)
class _TurnSearch:
    """Search the worst cases of a turn; the fields are the arguments of `worst_of_turn`."""

    policy: TurnPolicy
    table: Table
    call: Certificate
    prices: Sequence[Prices | None]

    @property
    def attempts(self) -> int:
        """Return the attempts that the budget allows."""
        return self.policy.budget.attempts

    @cached_property
    def most_calls(self) -> int:
        """Return the most calls of a path."""
        return self.heaviest(CALLS)

    @cached_property
    def most_rounds(self) -> int:
        """Return the most rounds of tools: each call but the summary may bring one."""
        return self.heaviest(CALLS - {SUMMARIZE.name})

    @property
    def rounds(self) -> int:
        """Return the most rounds of tools that the budget allows: each follows an attempt."""
        return min(self.most_rounds, self.attempts)

    def heaviest(self, rungs: Collection[str]) -> int:
        """Return the most of some rungs that a path has."""
        table = self.table
        limits = self.policy.limits
        moves = moves_of(table, limits)

        def search(attempts: int | None) -> int:
            problem = SearchProblem.of(
                moves,
                table.start,
                limits,
                table.ranks,
                lambda spent: int(spent.rung in rungs),
                attempts,
            )
            return int(longest(problem).value)

        return search(search(None))

    def calls(self) -> WorstCase:
        note = "each model call; the budget may have nothing left for the last of them"
        value = min(self.most_calls, self.attempts + 1)
        return self.case("calls", value, self.most_calls, note)

    def attempts_of_calls(self) -> WorstCase:
        return self.summed("attempts", "every request of every call")

    def output_tokens(self) -> WorstCase:
        note = "the cap of every request of every call, and what a server may count besides"
        return self.summed("output tokens", note)

    def tool_runs(self) -> WorstCase:
        each = self.policy.calls_per_reply
        note = (
            f"{self.rounds} rounds of tools, each with the {each} tool calls that one "
            f"reply may have"
        )
        return self.case("tool runs", self.rounds * each, self.most_rounds * each, note)

    def tool_seconds(self) -> WorstCase:
        each = self.policy.calls_per_reply * self.policy.tool_seconds
        note = (
            f"every run takes {self.policy.tool_seconds:g} s, and tools run one after the other; a "
            "tool with its own seconds counts with those"
        )
        return self.case("tool seconds", self.rounds * each, self.most_rounds * each, note)

    def waits(self) -> WorstCase:
        case = self.summed(
            "waiting seconds", "the waits of every call; a turn does not wait between calls"
        )
        of_call = self.call.worst_of("waiting seconds")
        if "budget.seconds" in (case.ended_by, of_call.ended_by):
            return evolve(case, note=f"{case.note}; {NEVER_ALL}")
        return case

    def seconds(self) -> WorstCase:
        note = "the calls and the tools, one after the other, each as long as it may take"
        if self.policy.budget.seconds is None:
            note += "; without the caller's compactor"
        return self.summed(
            "seconds", note, self.policy.calls_per_reply * self.policy.tool_seconds, CLOSING
        )

    def summed(
        self,
        name: str,
        note: str,
        of_round: Number = 0,
        beyond: float = 0.0,
    ) -> WorstCase:
        """Sum up what all calls can spend within the attempts that they share.

        Arguments:
            name: of the worst case.
            note: what is counted.
            of_round: what each round of tools can spend besides.
            beyond: by how much the turn may exceed its budget.
        """
        of_call = self.call.worst_of(name)
        if of_call.value is None:
            return unknown(self.policy.budget, name, of_call.note, beyond)
        within = together(of_call.within or (of_call.value,), self.most_calls, self.attempts)
        value = within[-1] + self.rounds * of_round
        ladder = self.most_calls * of_call.value + self.most_rounds * of_round
        moves = of_call.enacted.moves
        return self.case(name, value, ladder, note, moves, beyond)

    def money(self) -> WorstCase:
        """Sum up the money of all calls, each with the longest prompt that can precede it."""
        of_call = self.call.worst_of("money")
        tokens = self.call.worst_of("output tokens")
        if of_call.value is None or tokens.value is None or not of_call.within:
            return unknown(self.policy.budget, "money", of_call.note)
        prices = [each for each in self.prices if each is not None]
        growth = Growth(self.policy, self.call, prices)
        ladder = growth.alone(self.most_calls, self.most_rounds)
        value = min(ladder, growth.most(self.most_calls, self.most_rounds, self.attempts))
        case = self.case(
            "money",
            as_money(int(value)),
            as_money(int(ladder)),
            growth.note,
            of_call.enacted.moves,
        )
        return evolve(case, is_certain=False)  # what the tools return is estimated

    def case(
        self,
        name: str,
        value: Number,
        ladder: Number,
        note: str,
        moves: Sequence[Move] = (),
        beyond: float = 0.0,
    ) -> WorstCase:
        """Apply a field of the budget, and play the path.

        Arguments:
            name: of the worst case.
            value: the most within the budget of attempts.
            ladder: the most without any budget.
            note: what is counted.
            moves: the path of each call.
            beyond: by how much the turn may exceed its budget.
        """
        ended_by = "ladder" if math.isclose(value, ladder) else "budget.attempts"
        budget = BUDGETS.get(name)
        most = getattr(self.policy.budget, budget) if budget else None
        if most is not None and most + beyond < value:
            value = most + beyond
            ended_by = f"budget.{budget}"
        enacted = enact_turn(
            self.policy,
            self.prices,
            name,
            moves,
            keys=self.call.limits.get("rotations", 0) + 1,
            max_tokens=self.call.max_tokens,
            input_tokens=self.call.input_tokens,
        )
        return WorstCase(name, value, ladder, ended_by, enacted, note)
