"""The worst that a call can cost: attempts, waiting seconds, output tokens and money, each with the path to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from types import SimpleNamespace
from typing import Any

from attrs import frozen

from fsm.checker.longest import Longest, TooLarge, Weight, longest
from fsm.checker.maxplus import Number
from fsm.checker.moves import Move, moves_of
from fsm.ledger import TOKENS_PRICED
from fsm.plan import cap_of, longest_wait
from fsm.policy import Policy
from fsm.request import Prices
from fsm.transcript import Cue, Transcript


@frozen
class WorstCase:
    """Hold the worst case of one thing that a call spends.

    Arguments:
        name: what is spent.
        value: the most that can be spent; None if nothing bounds it or too little is known.
        ladder: what the ladder could spend without any budget; None if it is unbounded, unknown or too hard to find.
        ended_by: what ends the worst path: `ladder`, or the field of the budget.
        start: the first rung of the path.
        moves: the path that attains it; without its last send where a budget cuts that one short.
        is_exact: whether a path attains the value; otherwise it is an upper bound.
        note: what is counted and what is not.
    """

    name: str
    value: Number | None
    ladder: Number | None
    ended_by: str
    start: str
    moves: tuple[Move, ...]
    is_exact: bool
    note: str

    @property
    def rungs(self) -> tuple[str, ...]:
        """List the rungs of the path."""
        return (self.start, *(move.row.target for move in self.moves))

    @property
    def path(self) -> str:
        """Write the rungs of the path, those that repeat only once: `ask, retry x3, continuation`."""
        return compressed(self.rungs)

    def to_json(self) -> dict[str, Any]:
        """Return the worst case as plain values."""
        return {
            "name": self.name,
            "value": self.value,
            "ladder": self.ladder,
            "ended_by": self.ended_by,
            "path": self.path,
            "events": [move.row.event for move in self.moves],
            "exact": self.is_exact,
            "note": self.note,
        }


def worst_cases(
    policy: Policy,
    limits: Mapping[str, int],
    prices: Sequence[Prices | None],
    max_tokens: int | None,
    input_tokens: int | None,
) -> tuple[WorstCase, ...]:
    """Compute the worst cases of a policy.

    Arguments:
        limits: the limit of each counter, the fallbacks bounded by the chain.
        prices: of each backend, in the order in which they are asked.
        max_tokens: the output cap that the caller gives, in tokens.
        input_tokens: the tokens of the prompt.

    Raises:
        Refusal: the table's guards or effects cannot be followed.
    """
    search = _Search(policy, limits)
    return (
        search.worst("attempts", lambda ladder: 1, 1, None, "every request that goes out"),
        _waits(search),
        _tokens(search, max_tokens),
        _money(search, prices, max_tokens, input_tokens),
    )


class _Search:
    def __init__(self, policy: Policy, limits: Mapping[str, int]) -> None:
        self.policy, self.limits, self.table = policy, limits, policy.table
        self.moves = moves_of(policy.table, limits)
        self.most = 1 + sum(_uses(self.moves, limits, policy.table.ranks).values())

    def longest(self, weight: Weight, attempts: int | None) -> Longest:
        return longest(self.moves, self.table.start, self.limits, self.table.ranks, weight, attempts)

    def worst(self, name: str, weight: Weight, ceiling: Number, budget: str | None, note: str) -> WorstCase:
        """Search with the budget of attempts and without, and apply one more field of the budget."""
        attempts = self.policy.budget.attempts
        alone: Number | None = None
        try:
            found = self.longest(weight, attempts)
            alone = found.value if self.most <= attempts else self.longest(weight, None).value
        except TooLarge as error:
            found = Longest(ceiling * min(attempts, self.most), (), False)
            note = f"{note}; this is an upper bound, as there are too many states to be exact: {error}"
        ended_by = "ladder" if alone is not None and math.isclose(alone, found.value) else "budget.attempts"
        value, most = found.value, getattr(self.policy.budget, budget) if budget else None
        if most is not None and most < value:
            value, ended_by = most, f"budget.{budget}"
        return WorstCase(name, value, alone, ended_by, self.table.start, found.path, found.is_exact, note)

    def unknown(self, name: str, budget: str, why: str) -> WorstCase:
        """Return a worst case that only one field of the budget bounds, if anything does."""
        most = getattr(self.policy.budget, budget)
        return WorstCase(name, most, None, f"budget.{budget}" if most else "nothing", self.table.start, (), False, why)


def _waits(search: _Search) -> WorstCase:
    waits = search.policy.waits
    last: list[Any] = [SimpleNamespace(rung=rung, **search.limits) for rung in search.table.rungs]
    ceiling = max(longest_wait(waits, ladder) for ladder in last)
    note = "waits between attempts, with jitter and waits that a service asks for at their longest; not the attempts"
    return search.worst("waiting seconds", lambda ladder: longest_wait(waits, ladder), ceiling, "seconds", note)


def _tokens(search: _Search, max_tokens: int | None) -> WorstCase:
    if max_tokens is None:
        note = "without max_tokens nothing caps the first request but budget.output_tokens, where that is set"
        return search.unknown("output tokens", "output_tokens", note)
    policy = search.policy
    ceiling = max(policy.largest_cap, max_tokens)
    note = f"the cap of every request, with max_tokens of {max_tokens}"

    def cap(ladder: Any) -> int:
        return cap_of(policy, ladder, max_tokens) or 0

    return search.worst("output tokens", cap, ceiling, "output_tokens", note)


def _money(
    search: _Search, prices: Sequence[Prices | None], max_tokens: int | None, input_tokens: int | None
) -> WorstCase:
    known = [each for each in prices if each is not None]
    if len(known) < len(prices):
        return search.unknown("money", "money", "a backend of the chain has no prices")
    if max_tokens is None or input_tokens is None:
        missing = "max_tokens" if max_tokens is None else "input_tokens"
        return search.unknown("money", "money", f"needs {missing}")
    cost = _Cost(search, known, max_tokens, input_tokens)
    note = (
        f"every cap used up; {input_tokens} input tokens at the dearest input price, growing by the text of each "
        "continuation and fallback and by the seeds of reasoning, all as long as the caps allow; hints, a few tokens "
        "each, are not counted, and a compaction is taken to shorten what it is given"
    )
    return search.worst("money", cost, cost.ceiling(), "money", note)


def _uses(moves: Sequence[Move], limits: Mapping[str, int], ranks: Iterable[Iterable[str]]) -> dict[str, int]:
    """Return how often each counter can be taken from, at most: its limit once, and again with each refill."""
    uses: dict[str, int] = {}
    for name in (name for group in ranks for name in group):
        refills = {move.takes for move in moves if name in move.refills}
        taken = any(move.takes == name for move in moves)
        uses[name] = limits[name] * (1 + sum(uses[refiller] for refiller in refills)) if taken else 0
    return uses


class _Cost:
    """Weigh an attempt by what it costs, in the currency of the prices."""

    def __init__(self, search: _Search, prices: Sequence[Prices], max_tokens: int, input_tokens: int) -> None:
        self.policy, self.limits, self.prices = search.policy, search.limits, prices
        self.max_tokens, self.input_tokens = max_tokens, input_tokens
        self.inputs = [max(each.input, each.cache_read or 0, each.cache_creation or 0) for each in prices]
        self.seeded = {rung for rung in search.table.rungs if rung != search.table.start and self.keeps_seed(rung)}
        counts = range(self.limits["continuations"] + 1)
        # A part is as long, at most, as the widest cap that a request could have after so many continuations.
        self.widest = [self.cap(SimpleNamespace(**{**self.limits, "continuations": count})) for count in counts]
        self.parts = [0, *accumulate(self.widest)]

    def keeps_seed(self, rung: str) -> bool:
        """Tell whether the reasoning seeded by an earlier attempt is still sent in a rung."""
        transcript = Transcript((), self.policy.hints, seed="seed")
        transcript.prepare(rung, Cue())
        return bool(transcript.seed)

    def cap(self, ladder: Any) -> int:
        return cap_of(self.policy, ladder, self.max_tokens) or 0

    def __call__(self, ladder: Any) -> float:
        backend = min(ladder.fallbacks, len(self.prices) - 1)
        seed = self.limits["prefills"] * self.cap(ladder) if ladder.rung in self.seeded else 0
        others = ladder.fallbacks * self.widest[ladder.continuations]
        tokens = self.input_tokens + self.parts[ladder.continuations] + others + seed
        cost: Number = (tokens * self.inputs[backend] + self.cap(ladder) * self.prices[backend].output) / TOKENS_PRICED
        return cost

    def ceiling(self) -> float:
        """Return more than any attempt costs."""
        parts = sum(self.limits[name] for name in ("continuations", "fallbacks", "prefills"))
        tokens = self.input_tokens + parts * self.widest[-1]
        dearest = max(each.output for each in self.prices)
        return (tokens * max(self.inputs) + self.widest[-1] * dearest) / TOKENS_PRICED


def compressed(names: Sequence[str]) -> str:
    """Write a list of names, each run of equal ones once with its length."""
    runs = [(name, len(list(group))) for name, group in groupby(names)]
    return ", ".join(name if length == 1 else f"{name} x{length}" for name, length in runs)
