"""Search for the worst case of a call, whatever is measured; see `worst.py` for the theory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import evolve, frozen

from rungwise.fsm.analysis.certificate.certificate import BUDGETS, WorstCase
from rungwise.fsm.analysis.certificate.enactment import Enacted, enact
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.clocks.waiting import RAISING, cap_of
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.facts import EMPTY
from rungwise.fsm.call.table import RESEND
from rungwise.fsm.engine.checker.best_values import Number
from rungwise.fsm.engine.checker.branches import Branch
from rungwise.fsm.engine.checker.longest import Longest, longest
from rungwise.fsm.engine.checker.moves import Move, detours_of, moves_of, openings_of
from rungwise.fsm.engine.checker.tracking import SearchProblem, TooLarge, Weight
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.values.money import units_of


@frozen
class Measure:
    """Hold what is spent, and how it is weighed.

    Arguments:
        name: of the worst case.
        weight: the most that an attempt may spend.
        ceiling: the most that any attempt may spend.
        moves: those of the table, as far apart as the weight needs.
        note: what is counted and what is not.
        beyond: by how much a call may exceed its budget.
    """

    name: str
    weight: Weight
    ceiling: Number
    moves: Sequence[Move]
    note: str
    beyond: Number = 0


@frozen
class _Bound:
    """Hold the heaviest path, and what bounds it.

    Arguments:
        heaviest: the path, or only values if it was too hard to find.
        ladder: the weight without a budget; None if that was too hard to find.
        note: what is counted, and whether the bound is coarse.
    """

    heaviest: Longest
    ladder: Number | None
    note: str


@frozen(slots=False)
class CallSearch:
    """Search the worst cases of a call; the fields are the arguments of `worst_cases`."""

    policy: Policy
    limits: Mapping[str, int]
    prices: Sequence[Prices | None]
    max_tokens: int | None
    input_tokens: int | None
    assistant_turns: int | None
    response_format: Mapping[str, Any] | None
    has_quota: bool

    @cached_property
    def table(self) -> Table:
        """Return the table of the policy."""
        return self.policy.table

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Return the moves that differ in more than their kind."""
        return self.moves_by(lambda branch: "")

    @cached_property
    def passed(self) -> str | None:
        """Return the counter of backends that may be passed over; None for a single backend."""
        return "fallbacks" if self.limits.get("fallbacks") else None

    @cached_property
    def most(self) -> int:
        """Return the most attempts that the ladders allow.

        A rung that sends nothing makes no more attempts than one that sends.
        """
        sending = [move for move in self.moves if move.via is None]
        return 1 + sum(_uses(sending, self.limits, self.table.ranks).values())

    @property
    def skipping(self) -> dict[str, Any]:
        """Return how backends are passed over that cannot be paid for, or come too late."""
        return {"openings": openings_of(self.table, self.limits), "passed": self.passed}

    def moves_by(self, kind: Callable[[Branch], str]) -> tuple[Move, ...]:
        """List the moves and detours of the table, set apart by a kind."""
        moves = moves_of(self.table, self.limits, kind)
        return (*moves, *detours_of(self.table, self.limits, moves, kind))

    def cap(self, spent: Any) -> int:
        """Return the most tokens that a reply within its cap may count as; 0 for a resend, which
        repeats a free one, and for a rung that sends no prompt: its reply was counted when it was
        asked for.
        """
        rung = self.table.rung(getattr(spent, "rung", ""))
        if rung is not None and (rung.name == RESEND.name or not rung.sends_prompt):
            return 0
        raises = sum(getattr(spent, name, 0) for name in RAISING)
        return most_counted(cap_of(self.policy, raises, self.max_tokens) or 0)

    def worst(self, measure: Measure) -> WorstCase:
        """Bound what is spent, apply the budget, and attain it by playing the path."""
        bound = self.bound(measure)
        case = self.apply_budget(measure, bound)
        if bound.ladder is None:  # no path was found
            return case
        return self.attain(measure, case, bound.heaviest)

    # the three steps

    def bound(self, measure: Measure) -> _Bound:
        """Find the heaviest path within the budget of attempts, and its weight without any."""
        attempts = self.policy.budget.attempts
        try:
            heaviest = self.heaviest(measure)
            ladder = heaviest.value
            if self.most > attempts:
                ladder = self.search(measure, None).value
        except TooLarge as error:
            counts = range(1, min(attempts, self.most) + 1)
            within = tuple(measure.ceiling * count for count in counts)
            note = (
                f"{measure.note}; an upper bound, because there are too many states to search: "
                f"{error}"
            )
            return _Bound(Longest(within[-1], (), within), None, note)
        return _Bound(heaviest, ladder, measure.note)

    def apply_budget(self, measure: Measure, bound: _Bound) -> WorstCase:
        """Cut the bound to the field of the budget, and say what ends the path."""
        value = bound.heaviest.value
        ended_by = "budget.attempts"
        if bound.ladder is not None and math.isclose(bound.ladder, value):
            ended_by = "ladder"
        if measure.name != "attempts":  # which the search has limited already
            field = BUDGETS[measure.name]
            most = getattr(self.policy.budget, field)
            if most is not None and measure.name == "money":
                most = units_of(most)
            if most is not None and most + measure.beyond < value:
                value = most + measure.beyond
                ended_by = f"budget.{field}"
        within = tuple([min(each, value) for each in bound.heaviest.within])
        return WorstCase(
            name=measure.name,
            value=value,
            ladder=bound.ladder,
            ended_by=ended_by,
            enacted=Enacted(),
            note=bound.note,
            within=within,
        )

    def attain(
        self,
        measure: Measure,
        case: WorstCase,
        heaviest: Longest,
    ) -> WorstCase:
        """Play the heaviest path, and others if a call spends less on it than the bound.

        The bound ignores that an attempt is reserved for each backend to come, and that calls leave
        a backend early.
        """
        if measure.name == "money":
            # Nobody is late in a play, and what cannot be paid for costs nothing. It takes long,
            # so no other path is played.
            heaviest = self.search(measure, self.policy.budget.attempts)
            return evolve(case, enacted=self.enacted(heaviest, measure.name))
        case = evolve(case, enacted=self.enacted(heaviest, measure.name))
        if case.is_exact or self.passed is None:
            return case
        try:
            others = self.others(measure)
        except TooLarge:
            return case
        played = [case.enacted, *(self.enacted(other, measure.name) for other in others)]
        return evolve(case, enacted=max(played, key=lambda each: each.spent[measure.name]))

    # the paths

    def search(
        self,
        measure: Measure,
        attempts: int | None,
        moves: Sequence[Move] | None = None,
        **more: Any,
    ) -> Longest:
        """Find a heaviest path.

        Arguments:
            measure: what is weighed.
            attempts: the most of the path; None for any number.
            moves: those that may be taken; None for all.
            more: further arguments of `SearchProblem.of`.
        """
        if moves is None:
            moves = measure.moves
        problem = SearchProblem.of(
            moves,
            self.table.start,
            self.limits,
            self.table.ranks,
            measure.weight,
            attempts,
            **more,
        )
        return longest(problem)

    def heaviest(self, measure: Measure) -> Longest:
        """Find the heaviest path, of several one without resends, which no script can play."""
        attempts = self.policy.budget.attempts
        heaviest = self.search(measure, attempts, **self.skipping)
        if all(move.row.target != RESEND.name for move in heaviest.path):
            return heaviest
        moves = [move for move in measure.moves if move.row.target != RESEND.name]
        plain = self.search(measure, attempts, moves, **self.skipping)
        if plain.value != heaviest.value:
            return heaviest
        return evolve(heaviest, path=plain.path)

    def others(self, measure: Measure) -> list[Longest]:
        """Find heaviest paths of other kinds: they pass over no backend, or respect the reserve.

        Without a deadline or a reserve nobody is late, so no rung is spent on the way to the next
        backend.
        """
        attempts = self.policy.budget.attempts
        has_reserve = self.policy.reserve.is_on
        kept = self.passed if has_reserve else None
        moves = measure.moves
        if not has_reserve or self.policy.budget.seconds is None:
            moves = [move for move in moves if move.via is None]
        return [
            self.search(measure, attempts),
            self.search(measure, attempts, moves, kept=kept),
            self.search(measure, attempts, moves, kept=kept, **self.skipping),
        ]

    def enacted(self, heaviest: Longest, name: str) -> Enacted:
        """Play a path, also with the repeats after empty replies last.

        A call leaves other backends after a few empty replies.
        """
        paths = [heaviest.path]
        if self.limits.get("fallbacks"):
            late = [
                move
                for move in heaviest.path
                if move.row.event in EMPTY and move.takes != "fallbacks"
            ]
            if late:
                early = [move for move in heaviest.path if move not in late]
                paths.append((*early, *self.within_limits(late)))
        played = [
            enact(
                self.policy,
                self.prices,
                path,
                name,
                keys=self.limits.get("rotations", 0) + 1,
                max_tokens=self.max_tokens,
                input_tokens=self.input_tokens,
            )
            for path in paths
        ]
        return max(played, key=lambda each: each.spent[name])

    def within_limits(self, moves: Sequence[Move]) -> list[Move]:
        """Drop each move that its counter no longer allows, since nothing refills it."""
        return [
            move
            for place, move in enumerate(moves)
            if moves[:place].count(move) < self.limits[move.takes]
        ]


def _uses(
    moves: Sequence[Move], limits: Mapping[str, int], ranks: Iterable[Iterable[str]]
) -> dict[str, int]:
    """Return how often each counter can be spent at most: its limit once, and again after each
    refill.
    """
    uses: dict[str, int] = {}
    for group in ranks:
        for name in group:
            uses[name] = 0
            if any(move.takes == name for move in moves):
                # Only counters that rank above it refill it, and these are counted already.
                refillers = {move.takes for move in moves if name in move.refills}
                refills = sum(uses[refiller] for refiller in refillers)
                uses[name] = limits[name] * (1 + refills)
    return uses
