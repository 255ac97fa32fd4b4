"""The worst cases of a turn, from those of its calls: the longest path, and sums along it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial

from attrs import define, evolve, field

from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.certificate.money import Growth, together
from rungwise.fsm.certificate.turn_enactment import enact_turn
from rungwise.fsm.certificate.verified import BUDGETS, NEVER_ALL, Verified, WorstCase, unknown
from rungwise.fsm.checker.best_values import Number
from rungwise.fsm.checker.longest import Longest, longest
from rungwise.fsm.checker.moves import Move, moves_of
from rungwise.fsm.machine.table import Table
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS, SUMMARIZE
from rungwise.fsm.values.money import as_money


def worst_of_turn(
    policy: TurnPolicy, table: Table, call: Verified, prices: Sequence[Prices | None]
) -> tuple[WorstCase, ...]:
    """Compute the worst cases of a turn."""
    search = _TurnSearch(policy, table, call, prices)
    return (
        search.calls(),
        search.summed("attempts", "every request of every call"),
        search.waits(),
        search.seconds(),
        search.tool_runs(),
        search.tool_seconds(),
        search.summed("output tokens", "the cap of every request of every call, and what a server may count besides"),
        search.money(),
    )


@define
class _TurnSearch:
    policy: TurnPolicy
    table: Table
    call: Verified
    prices: Sequence[Prices | None]
    moves: tuple[Move, ...] = field(init=False)
    path: tuple[Move, ...] = field(init=False)
    most_calls: int = field(init=False)
    most_rounds: int = field(init=False)  # of tools

    def __attrs_post_init__(self) -> None:
        self.moves = moves_of(self.table, self.policy.limits)
        most = self.heaviest(CALLS)
        self.path, self.most_calls = most.path, int(most.value)
        # Each call but the summary may bring a round of tools; nothing else does.
        self.most_rounds = int(self.heaviest(CALLS - {SUMMARIZE.name}).value)

    def heaviest(self, rungs: Collection[str]) -> Longest:
        """Find the path with the most of some rungs."""
        machine = self.moves, self.table.start, self.policy.limits, self.table.ranks
        search = partial(longest, *machine, lambda spent: int(spent.rung in rungs))
        return search(int(search(None).value))

    @property
    def attempts(self) -> int:
        """Return the attempts that the whole turn may make."""
        return self.policy.budget.attempts

    @property
    def rounds(self) -> int:
        """Return how many rounds of tools the budget allows: each follows an attempt."""
        return min(self.most_rounds, self.attempts)

    def calls(self) -> WorstCase:
        note = "each model call; the budget may have nothing left for the last of them"
        return self.case("calls", min(self.most_calls, self.attempts + 1), self.most_calls, note)

    def tool_runs(self) -> WorstCase:
        each = self.policy.calls_per_reply
        note = f"{self.rounds} rounds of tools, each with the {each} tool calls that one reply may have"
        return self.case("tool runs", self.rounds * each, self.most_rounds * each, note)

    def tool_seconds(self) -> WorstCase:
        each = self.policy.calls_per_reply * self.policy.tool_seconds
        note = (
            f"every run takes {self.policy.tool_seconds:g} s, and tools run one after the other; a tool with its own "
            "seconds counts with those"
        )
        return self.case("tool seconds", self.rounds * each, self.most_rounds * each, note)

    def waits(self) -> WorstCase:
        case = self.summed("waiting seconds", "the waits of every call; a turn does not wait between calls")
        ended_by = case.ended_by, self.call.worst_of("waiting seconds").ended_by
        return evolve(case, note=f"{case.note}; {NEVER_ALL}") if "budget.seconds" in ended_by else case

    def seconds(self) -> WorstCase:
        """Sum up the time of all calls and of all tools."""
        of_call = self.call.worst_of("seconds")
        note = "the calls and the tools, one after the other, each as long as it may take"
        if of_call.value is None:
            return unknown(self.policy.budget, "seconds", of_call.note, CLOSING)
        within = together(of_call.within or (of_call.value,), self.most_calls, self.attempts)
        each = self.policy.calls_per_reply * self.policy.tool_seconds
        value, ladder = within[-1] + self.rounds * each, self.most_calls * of_call.value + self.most_rounds * each
        if self.policy.budget.seconds is None:
            note += "; without the caller's compactor"
        return self.case("seconds", value, ladder, note, of_call.enacted.moves, CLOSING)

    def summed(self, name: str, note: str) -> WorstCase:
        """Sum up what all calls can spend of something within the attempts that they share."""
        of_call = self.call.worst_of(name)
        if of_call.value is None:
            return unknown(self.policy.budget, name, of_call.note)
        within = together(of_call.within or (of_call.value,), self.most_calls, self.attempts)
        return self.case(name, within[-1], self.most_calls * of_call.value, note, of_call.enacted.moves)

    def money(self) -> WorstCase:
        """Sum up the money of all calls, each with the longest prompt that the calls before it can make."""
        of_call, tokens = self.call.worst_of("money"), self.call.worst_of("output tokens")
        if of_call.value is None or tokens.value is None or not of_call.within:
            return unknown(self.policy.budget, "money", of_call.note)
        growth = Growth(self.policy, self.call, [each for each in self.prices if each is not None])
        ladder = growth.alone(self.most_calls, self.most_rounds)
        value = min(ladder, growth.most(self.most_calls, self.most_rounds, self.attempts))
        case = self.case("money", as_money(int(value)), as_money(int(ladder)), growth.note, of_call.enacted.moves)
        return evolve(case, is_certain=False)  # what the tools return is estimated

    def case(
        self, name: str, value: Number, ladder: Number, note: str, moves: Sequence[Move] = (), beyond: float = 0.0
    ) -> WorstCase:
        """Apply a field of the budget, which a turn may exceed by `beyond`, and play the path."""
        ended_by = "ladder" if math.isclose(value, ladder) else "budget.attempts"
        budget = BUDGETS.get(name)
        most = getattr(self.policy.budget, budget) if budget else None
        if most is not None and most + beyond < value:
            value, ended_by = most + beyond, f"budget.{budget}"
        request = self.call.max_tokens, self.call.input_tokens
        enacted = enact_turn(self.policy, self.prices, name, moves, *request)
        return WorstCase(name, value, ladder, ended_by, enacted, note)
