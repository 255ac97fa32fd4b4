"""The worst that a call can cost: attempts, seconds, output tokens and money, each with the path to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from attrs import define, evolve, field

from rungwise.fsm.call.budget.estimate import STAND_IN_TOKENS
from rungwise.fsm.call.budget.metering import COUNTED_BESIDE, most_counted
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.clocks.waiting import RAISING, cap_of, longest_wait
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.table import LEAVES, MAY_ASK
from rungwise.fsm.certificate.cost import OWN_TURNS, Cost
from rungwise.fsm.certificate.enactment import Enacted, enact
from rungwise.fsm.certificate.worst_case import NEVER_ALL, WorstCase
from rungwise.fsm.checker.best_values import Number
from rungwise.fsm.checker.branches import Branch
from rungwise.fsm.checker.longest import Longest, TooLarge, Weight, longest
from rungwise.fsm.checker.moves import Move, detours_of, moves_of
from rungwise.fsm.machine.table import Table


def worst_cases(
    policy: Policy,
    limits: Mapping[str, int],
    prices: Sequence[Prices | None],
    max_tokens: int | None,
    input_tokens: int | None,
    assistant_turns: int | None = None,
    response_format: Mapping[str, Any] | None = None,
) -> tuple[WorstCase, ...]:
    """Compute the worst cases of a policy.

    Arguments:
        limits: the limit of each counter, the fallbacks bounded by the chain.
        prices: of each backend, in the order in which they are asked.
        max_tokens: the output cap that the caller gives, in tokens.
        input_tokens: the tokens of the prompt.
        assistant_turns: how many assistant turns the prompt has; None takes as many as `input_tokens` can hold.
        response_format: the JSON that is asked for, whose words are counted in `input_tokens`; None where nobody said.
    """
    search = _Search(policy, limits, prices, max_tokens, input_tokens, assistant_turns, response_format)
    return (
        search.worst("attempts", lambda spent: 1, 1, None, "every request that goes out"),
        _waits(search),
        _seconds(search),
        _tokens(search),
        _money(search),
    )


RESENT = "resent"
"""The kind of a move that repeats what nobody had read, at once."""

RESENT_WHEN_ASKED = "resent when asked"
"""The kind of one that repeats it likewise, but keeps a wait that the service asks for."""


def _is_resent(branch: Branch) -> str:
    return RESENT if branch.facts.get("connection_was_stale") else ""


def _kind(branch: Branch) -> str:
    """Tell apart the moves to a rung that waits longer after one event than after another."""
    assert branch.row is not None
    event = branch.row.event if branch.row.event in MAY_ASK else ""
    if _is_resent(branch):
        return RESENT_WHEN_ASKED if event else RESENT
    return event


def _moves(table: Table, limits: Mapping[str, int], kind: Callable[[Branch], str]) -> tuple[Move, ...]:
    """List the moves of a table, but for what is sent again at once where the same can be sent after a longer wait."""
    found = [(move, (move.row.target, move.takes, move.refills)) for move in moves_of(table, limits, kind)]
    own = {what for move, what in found if move.kind not in (RESENT, RESENT_WHEN_ASKED)}
    asked = {what for move, what in found if move.kind in MAY_ASK}
    outdone = {RESENT: own, RESENT_WHEN_ASKED: asked}
    moves = tuple(move for move, what in found if what not in outdone.get(move.kind, ()))
    return (*moves, *detours_of(table, limits, moves, kind))


@define
class _Search:
    policy: Policy
    limits: Mapping[str, int]
    prices: Sequence[Prices | None]
    max_tokens: int | None
    input_tokens: int | None
    assistant_turns: int | None
    response_format: Mapping[str, Any] | None
    table: Table = field(init=False)
    moves: tuple[Move, ...] = field(init=False)
    most: int = field(init=False)  # attempts

    def __attrs_post_init__(self) -> None:
        self.table = self.policy.table
        self.moves = _moves(self.table, self.limits, _is_resent)
        # To send nothing from a rung makes no more attempts than to send something.
        sending = [move for move in self.moves if move.via is None]
        self.most = 1 + sum(_uses(sending, self.limits, self.table.ranks).values())

    def cap(self, spent: Any) -> int:
        """Return what a reply within its cap may be counted as."""
        raises = sum(getattr(spent, name, 0) for name in RAISING)
        return most_counted(cap_of(self.policy, raises, self.max_tokens) or 0)

    def worst(
        self,
        name: str,
        weight: Weight,
        ceiling: Number,
        budget: str | None,
        note: str,
        kind: Callable[[Branch], str] | None = None,
        beyond: float = 0.0,
    ) -> WorstCase:
        """Search with the budget of attempts and without, apply one more field of the budget, and play the path.

        Arguments:
            beyond: what may be spent after that field of the budget is used up.
        """
        attempts, table = self.policy.budget.attempts, self.table
        moves = self.moves if kind is None else _moves(table, self.limits, kind)

        def search(most: int | None, moves: Sequence[Move] = moves, kept: str | None = None) -> Longest:
            return longest(moves, table.start, self.limits, table.ranks, weight, most, kept)

        alone: Number | None = None
        try:
            found = search(attempts)
            alone = found.value if self.most <= attempts else search(None).value
        except TooLarge as error:
            within = tuple(ceiling * count for count in range(1, min(attempts, self.most) + 1))
            found = Longest(within[-1], (), within)
            note = f"{note}; this is an upper bound, as there are too many states to be exact: {error}"
        ended_by = "ladder" if alone is not None and math.isclose(alone, found.value) else "budget.attempts"
        value, most = found.value, getattr(self.policy.budget, budget) if budget else None
        if most is not None and most + beyond < value:
            value, ended_by = most + beyond, f"budget.{budget}"
        enacted = self.enacted(found, name) if alone is not None else Enacted()
        case = WorstCase(name, value, alone, ended_by, enacted, note, tuple(min(each, value) for each in found.within))
        if case.attained is None or case.is_exact or not self.keeps or name == "money":  # which takes long
            return case
        # An attempt is kept for each backend to come, of which the value knows nothing; and without a deadline nobody
        # is late, so that no rung is spent on the way to one.
        sent = moves if self.policy.budget.seconds is not None else [move for move in moves if move.via is None]
        with suppress(TooLarge):
            other = self.enacted(search(attempts, sent, "fallbacks"), name)
            return evolve(case, enacted=max(enacted, other, key=lambda each: each.spent[name]))
        return case

    def enacted(self, found: Longest, name: str) -> Enacted:
        """Play a path."""
        asked = {"max_tokens": self.max_tokens, "input_tokens": self.input_tokens}
        return enact(self.policy, self.prices, found.path, name, **asked)

    @property
    def keeps(self) -> bool:
        """Tell whether attempts are kept for backends to come."""
        return self.limits.get("fallbacks", 0) > 0 and self.policy.reserve.is_on

    def unknown(self, name: str, budget: str, why: str) -> WorstCase:
        """Return a worst case that only one field of the budget bounds, if anything does."""
        most = getattr(self.policy.budget, budget)
        return WorstCase(name, most, None, f"budget.{budget}" if most else "nothing", Enacted(), why)


def _waits(search: _Search) -> WorstCase:
    weight, longest = _weight_of_wait(search)
    note = "waits between attempts, with jitter and waits that a service asks for at their longest; not the attempts"
    found = search.worst("waiting seconds", weight, longest, "seconds", note, _kind)
    return evolve(found, note=f"{found.note}; {NEVER_ALL}") if found.ended_by == "budget.seconds" else found


def _weight_of_wait(search: _Search) -> tuple[Weight, float]:
    """Return what weighs an attempt by the wait before it, and the longest such wait."""
    waits = search.policy.waits

    def weight(spent: Any) -> float:
        rung = search.table.rung(spent.rung)
        if rung is None or spent.kind == RESENT:
            return 0.0
        if spent.kind == RESENT_WHEN_ASKED:
            return 0.0 if rung.name in LEAVES else waits.longest_asked
        return longest_wait(waits, rung, getattr(spent, rung.counter) if rung.wait else 1, spent.kind)

    kinds = ("", RESENT, RESENT_WHEN_ASKED, *MAY_ASK)
    last: list[Any] = [
        SimpleNamespace(rung=rung, kind=kind, **search.limits) for rung in search.table.rungs for kind in kinds
    ]
    return weight, max(map(weight, last))


def _seconds(search: _Search) -> WorstCase:
    total, seconds = search.policy.timeouts.total, search.policy.budget.seconds
    if total is None and seconds is None:
        return search.unknown("seconds", "seconds", "neither timeouts.total nor budget.seconds bounds an attempt")
    longest = min(each for each in (total, seconds) if each is not None) + CLOSING
    wait, most = _weight_of_wait(search)
    note = (
        "from the beginning of the call to its end: every attempt as long as it may be, connecting included, with "
        f"{CLOSING:g} s to close its connection, and every wait; not what the caller's own compactor and functions "
        "take" + ("" if seconds is not None else ", nor waiting for a place among the connections")
    )
    found = search.worst(
        *("seconds", lambda spent: longest + wait(spent), longest + most, "seconds", note, _kind, CLOSING)
    )
    return found if total is not None else evolve(found, ladder=None)


def _tokens(search: _Search) -> WorstCase:
    max_tokens = search.max_tokens
    if max_tokens is None:
        note = "without max_tokens nothing caps the first request but budget.output_tokens, where that is set"
        return search.unknown("output tokens", "output_tokens", note)
    policy = search.policy
    ceiling = most_counted(max(policy.largest_cap, max_tokens))
    note = (
        f"the cap of every request, with max_tokens of {max_tokens}, and up to {COUNTED_BESIDE} tokens that a server "
        "may count beside each"
    )
    if policy.budget.output_tokens is None and policy.budget.money is None:
        note += "; a stream that passes its cap is cut only under a budget of output tokens or money"
    return search.worst("output tokens", search.cap, ceiling, "output_tokens", note)


def _money(search: _Search) -> WorstCase:
    prices, max_tokens, input_tokens = search.prices, search.max_tokens, search.input_tokens
    known = [each for each in prices if each is not None]
    if len(known) < len(prices):
        return search.unknown("money", "money", "a backend of the chain has no prices")
    if max_tokens is None or input_tokens is None:
        missing = "max_tokens" if max_tokens is None else "input_tokens"
        return search.unknown("money", "money", f"needs {missing}")
    targets = {move.row.target for move in search.moves}
    cost = Cost(search.policy, search.limits, targets, search.cap, known, input_tokens, search.assistant_turns)
    note = (
        f"every cap used up, with what is counted beside it; {input_tokens} input tokens at the dearest input price, "
        "growing by the text of each continuation, compaction and fallback, by the seeds of reasoning, all as long as "
        "the caps allow, and by every hint; a compaction is taken to shorten what it is given, each tool call of the "
        "prompt to have its result, and a turn that its provider has paused to hold no more than was written"
    )
    if search.response_format is None:
        note += "; not a JSON schema of the caller's that a backend is told in words: give response_format"
    if cost.stand_ins:
        given = "" if search.assistant_turns is not None else ", as many as the input can hold: give assistant_turns"
        note += (
            f"; a repair may add {STAND_IN_TOKENS} tokens to each of {cost.turns} assistant turns{given}, "
            f"and of {OWN_TURNS} that the rungs add"
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
