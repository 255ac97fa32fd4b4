"""The worst cases of a call: attempts, waits, seconds, output tokens and money, each with the path
to it.

Those of a turn follow from those of its calls: the longest path, and sums along it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

from attrs import define, evolve, field

from rungwise.fsm.analysis.certificate.certificate import (
    BUDGETS,
    NEVER_ALL,
    Certificate,
    WorstCase,
    unknown,
)
from rungwise.fsm.analysis.certificate.enactment import Enacted, enact
from rungwise.fsm.analysis.certificate.money import NO_MORE_INPUT, OWN_TURNS, Cost, Growth, together
from rungwise.fsm.analysis.certificate.turn_enactment import enact_turn
from rungwise.fsm.call.budget.estimate import STAND_IN_TOKENS
from rungwise.fsm.call.budget.metering import COUNTED_BESIDE, most_counted
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.clocks.waiting import RAISING, cap_of, longest_wait
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.facts import EMPTY
from rungwise.fsm.call.table import MAY_ASK, RESEND
from rungwise.fsm.engine.checker.best_values import Number
from rungwise.fsm.engine.checker.branches import Branch
from rungwise.fsm.engine.checker.longest import Longest, TooLarge, Weight, longest
from rungwise.fsm.engine.checker.moves import Move, detours_of, moves_of, openings_of
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS, SUMMARIZE
from rungwise.fsm.values.money import as_money, units_of


def worst_cases(
    policy: Policy,
    limits: Mapping[str, int],  # as far as the chain allows
    prices: Sequence[Prices | None],
    max_tokens: int | None,
    input_tokens: int | None,
    assistant_turns: int | None = None,  # by default as many as the input can hold
    response_format: Mapping[str, Any] | None = None,  # which `input_tokens` counts
    chain: int | Sequence[Link] = 1,  # whose quotas an attempt may wait for
) -> tuple[WorstCase, ...]:
    """Compute the worst cases of a policy."""
    has_quota = not isinstance(chain, int) and any(link.quota for link in chain)
    search = _CallSearch(
        policy,
        limits,
        prices,
        max_tokens,
        input_tokens,
        assistant_turns,
        response_format,
        has_quota,
    )
    attempts = search.worst("attempts", lambda spent: 1, 1, None, "every request that goes out")
    return attempts, _waits(search), _seconds(search), _tokens(search), _money(search)


def _kind(branch: Branch) -> str:
    """Distinguish moves to a rung that waits longer after one event than after another."""
    assert branch.row is not None
    return branch.row.event if branch.row.event in MAY_ASK else ""


def _moves(
    table: Table, limits: Mapping[str, int], kind: Callable[[Branch], str]
) -> tuple[Move, ...]:
    moves = moves_of(table, limits, kind)
    return (*moves, *detours_of(table, limits, moves, kind))


@define
class _CallSearch:
    policy: Policy
    limits: Mapping[str, int]
    prices: Sequence[Prices | None]
    max_tokens: int | None
    input_tokens: int | None
    assistant_turns: int | None
    response_format: Mapping[str, Any] | None
    has_quota: bool
    table: Table = field(init=False)
    moves: tuple[Move, ...] = field(init=False)
    passed: str | None = field(init=False)
    most: int = field(init=False)  # attempts

    def __attrs_post_init__(self) -> None:
        self.table = self.policy.table
        self.moves = _moves(self.table, self.limits, lambda branch: "")
        self.passed = "fallbacks" if self.limits.get("fallbacks") else None
        # A rung that sends nothing makes no more attempts than one that sends.
        sending = [move for move in self.moves if move.via is None]
        self.most = 1 + sum(_uses(sending, self.limits, self.table.ranks).values())

    def cap(self, spent: Any) -> int:
        """Return the most tokens that a reply within its cap may count as; 0 for a resend, which
        repeats a free one.
        """
        if getattr(spent, "rung", None) == RESEND.name:
            return 0
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
        beyond: Number = 0,
    ) -> WorstCase:
        """Search with the budget of attempts and without, apply one more field and what is
        `beyond`, and play it.
        """
        attempts = self.policy.budget.attempts
        table = self.table
        moves = self.moves if kind is None else _moves(table, self.limits, kind)

        def search(most: int | None, moves: Sequence[Move] = moves, **more: Any) -> Longest:
            return longest(moves, table.start, self.limits, table.ranks, weight, most, **more)

        # A backend that cannot be paid for is passed over, as is one for which it is too late.
        skipping: dict[str, Any] = {
            "openings": openings_of(table, self.limits),
            "passed": self.passed,
        }
        alone: Number | None = None
        try:
            heaviest = search(attempts, **skipping)
            # which no script can play
            if any(move.row.target == RESEND.name for move in heaviest.path):
                plain = search(
                    attempts, [move for move in moves if move.row.target != RESEND.name], **skipping
                )
                heaviest = (
                    evolve(heaviest, path=plain.path) if plain.value == heaviest.value else heaviest
                )
            alone = heaviest.value if self.most <= attempts else search(None).value
        except TooLarge as error:
            within = tuple(ceiling * count for count in range(1, min(attempts, self.most) + 1))
            heaviest = Longest(within[-1], (), within)
            note = f"{note}; an upper bound, because there are too many states to search: {error}"
        ended_by = (
            "ladder"
            if alone is not None and math.isclose(alone, heaviest.value)
            else "budget.attempts"
        )
        value = heaviest.value
        most = getattr(self.policy.budget, budget) if budget else None
        most = units_of(most) if budget == "money" and most is not None else most
        if most is not None and most + beyond < value:
            value = most + beyond
            ended_by = f"budget.{budget}"
        enacted = Enacted()
        if alone is not None:  # nobody is late in a play, and what cannot be paid for costs nothing
            enacted = self.enacted(heaviest if name != "money" else search(attempts), name)
        within = tuple(min(each, value) for each in heaviest.within)
        case = WorstCase(name, value, alone, ended_by, enacted, note, within)
        # which takes long
        if case.attained is None or case.is_exact or self.passed is None or name == "money":
            return case
        # The value ignores that an attempt is reserved for each backend to come, and that calls
        # leave early. Without a deadline or a reserve nobody is late, so no rung is spent on the
        # way to the next backend.
        has_detours = self.policy.budget.seconds is not None and self.policy.reserve.is_on
        waiting = [move for move in moves if has_detours or move.via is None]
        with suppress(TooLarge):
            reserved = self.passed if self.policy.reserve.is_on else None
            others = [
                search(attempts),
                *(search(attempts, waiting, kept=reserved, **more) for more in ({}, skipping)),
            ]
            played = [enacted, *(self.enacted(other, name) for other in others)]
            return evolve(case, enacted=max(played, key=lambda each: each.spent[name]))
        return case

    def enacted(self, heaviest: Longest, name: str) -> Enacted:
        """Play a path, also with the repeats after empty replies last: a call leaves other backends
        after a few.
        """
        keys = self.limits.get("rotations", 0) + 1
        request: dict[str, Any] = {
            "keys": keys,
            "max_tokens": self.max_tokens,
            "input_tokens": self.input_tokens,
        }
        late = [
            move for move in heaviest.path if move.row.event in EMPTY and move.takes != "fallbacks"
        ]
        paths = [heaviest.path]
        if late and self.limits.get("fallbacks"):
            kept = [
                move
                for place, move in enumerate(late)
                if late[:place].count(move) < self.limits[move.takes]
            ]
            paths.append((*(move for move in heaviest.path if move not in late), *kept))
        played = [enact(self.policy, self.prices, path, name, **request) for path in paths]
        return max(played, key=lambda each: each.spent[name])


def _waits(search: _CallSearch) -> WorstCase:
    weight, longest = _weight_of_wait(search)
    note = (
        "waits between attempts, with the most jitter and the longest requested waits; "
        "without the attempts"
    )
    note += "; before each attempt as long for the quota of its backend" if search.has_quota else ""
    case = search.worst("waiting seconds", weight, longest, "seconds", note, _kind)
    return (
        evolve(case, note=f"{case.note}; {NEVER_ALL}")
        if case.ended_by == "budget.seconds"
        else case
    )


def _weight_of_wait(search: _CallSearch) -> tuple[Weight, float]:
    """Return a weight of an attempt by the wait before it, and the longest such wait."""
    waits = search.policy.waits
    for_quota = waits.longest_asked if search.has_quota else 0.0

    def weight(spent: Any) -> float:
        rung = search.table.rung(spent.rung)
        if rung is None:
            return for_quota
        return for_quota + longest_wait(
            waits, rung, getattr(spent, rung.counter) if rung.wait else 1, spent.kind
        )

    kinds = ("", *MAY_ASK)
    last = (
        SimpleNamespace(rung=rung, kind=kind, **search.limits)
        for rung in search.table.rungs
        for kind in kinds
    )
    return weight, max(map(weight, last))


def _seconds(search: _CallSearch) -> WorstCase:
    total = search.policy.timeouts.total
    seconds = search.policy.budget.seconds
    if total is None and seconds is None:
        return unknown(
            search.policy.budget,
            "seconds",
            "neither timeouts.total nor budget.seconds bounds an attempt",
        )
    longest = min(each for each in (total, seconds) if each is not None) + CLOSING
    wait, most = _weight_of_wait(search)
    note = (
        "from start to end: every wait, and every attempt as long as it may take, from connecting "
        "to the "
        f"{CLOSING:g} s that close its connection; without the caller's compactor and functions"
        + ("" if seconds is not None else ", and without waiting for a free connection")
    )
    case = search.worst(
        "seconds",
        lambda spent: longest + wait(spent),
        longest + most,
        "seconds",
        note,
        _kind,
        CLOSING,
    )
    return case if total is not None else evolve(case, ladder=None)


def _tokens(search: _CallSearch) -> WorstCase:
    max_tokens = search.max_tokens
    if max_tokens is None:
        note = "without max_tokens, only budget.output_tokens can cap the first request"
        return unknown(search.policy.budget, "output tokens", note)
    policy = search.policy
    ceiling = most_counted(max(policy.largest_cap, max_tokens))
    note = (
        f"the cap of every request, with max_tokens of {max_tokens}, and up to {COUNTED_BESIDE} "
        f"more tokens that a "
        "server may count for each"
    )
    if policy.budget.output_tokens is None and policy.budget.money is None:
        note += (
            "; a stream that exceeds its cap is cut only under a budget of output tokens or money"
        )
    return search.worst("output tokens", search.cap, ceiling, "output_tokens", note)


def _money(search: _CallSearch) -> WorstCase:
    prices = search.prices
    max_tokens = search.max_tokens
    input_tokens = search.input_tokens
    priced = [each for each in prices if each is not None]
    if len(priced) < len(prices):
        return unknown(
            search.policy.budget, "money", f"a backend of the chain has no prices{NO_MORE_INPUT}"
        )
    if max_tokens is None or input_tokens is None:
        missing = "max_tokens" if max_tokens is None else "input_tokens"
        return unknown(search.policy.budget, "money", f"needs {missing}{NO_MORE_INPUT}")
    targets = {move.row.target for move in search.moves}
    cost = Cost(
        search.policy,
        search.limits,
        targets,
        search.cap,
        priced,
        input_tokens,
        search.assistant_turns,
    )
    note = (
        f"every cap used up, with what a server may count besides; {input_tokens} input tokens at "
        f"the dearest input "
        "price, growing by the text of each continuation, correction, compaction and fallback and "
        "by seeds of "
        "reasoning, all as long as the caps allow, and by every hint; assumes that a compaction "
        "shortens the prompt, "
        "that each tool call in the prompt has its result, and that a paused turn holds no more "
        "than was written" + NO_MORE_INPUT
    )
    if search.response_format is None:
        note += (
            "; without a JSON schema that a backend gets in words: give response_format or returns"
        )
    if cost.stand_ins:
        guess = (
            ""
            if search.assistant_turns is not None
            else ", as many as the input can hold: give assistant_turns"
        )
        note += (
            f"; a repair may add {STAND_IN_TOKENS} tokens to each of {cost.turns} assistant "
            f"turns{guess}, "
            f"and to {OWN_TURNS} that the rungs add"
        )
    case = search.worst("money", cost, cost.ceiling(), "money", note)
    ladder = None if case.ladder is None else as_money(int(case.ladder))
    # A text has as many tokens as its provider reported; how many another backend counts, nobody
    # can tell.
    is_certain = not (search.limits.get("fallbacks") and any(cost.inputs[1:]))
    return evolve(case, value=as_money(int(case.value or 0)), ladder=ladder, is_certain=is_certain)


def _uses(
    moves: Sequence[Move], limits: Mapping[str, int], ranks: Iterable[Iterable[str]]
) -> dict[str, int]:
    """Return how often each counter can be spent at most: its limit once, and again after each
    refill.
    """
    uses: dict[str, int] = {}
    for name in (name for group in ranks for name in group):
        refills = {move.takes for move in moves if name in move.refills}
        taken = any(move.takes == name for move in moves)
        uses[name] = (
            limits[name] * (1 + sum(uses[refiller] for refiller in refills)) if taken else 0
        )
    return uses


def worst_of_turn(
    policy: TurnPolicy, table: Table, call: Certificate, prices: Sequence[Prices | None]
) -> tuple[WorstCase, ...]:
    """Compute the worst cases of a turn."""
    search = _TurnSearch(policy, table, call, prices)
    attempts = search.summed("attempts", "every request of every call")
    tools = search.tool_runs(), search.tool_seconds()
    note = "the cap of every request of every call, and what a server may count besides"
    output = search.summed("output tokens", note)
    return (
        search.calls(),
        attempts,
        search.waits(),
        search.seconds(),
        *tools,
        output,
        search.money(),
    )


@define
class _TurnSearch:
    policy: TurnPolicy
    table: Table
    call: Certificate
    prices: Sequence[Prices | None]
    attempts: int = field(init=False)
    most_calls: int = field(init=False)
    most_rounds: int = field(init=False)  # of tools
    rounds: int = field(init=False)  # that the budget allows: each follows an attempt

    def __attrs_post_init__(self) -> None:
        self.attempts, self.most_calls = self.policy.budget.attempts, self.heaviest(CALLS)
        # Each call but the summary may bring a round of tools; nothing else does.
        self.most_rounds = self.heaviest(CALLS - {SUMMARIZE.name})
        self.rounds = min(self.most_rounds, self.attempts)

    def heaviest(self, rungs: Collection[str]) -> int:
        """Find the most of some rungs that a path has."""
        table = self.table
        limits = self.policy.limits
        machine = moves_of(table, limits), table.start, limits, table.ranks
        search = partial(longest, *machine, lambda spent: int(spent.rung in rungs))
        return int(search(int(search(None).value)).value)

    def calls(self) -> WorstCase:
        note = "each model call; the budget may have nothing left for the last of them"
        return self.case("calls", min(self.most_calls, self.attempts + 1), self.most_calls, note)

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
            f"every run takes {self.policy.tool_seconds:g} s, and tools run one after the other; "
            f"a tool with its own "
            "seconds counts with those"
        )
        return self.case("tool seconds", self.rounds * each, self.most_rounds * each, note)

    def waits(self) -> WorstCase:
        case = self.summed(
            "waiting seconds", "the waits of every call; a turn does not wait between calls"
        )
        ended_by = case.ended_by, self.call.worst_of("waiting seconds").ended_by
        return (
            evolve(case, note=f"{case.note}; {NEVER_ALL}") if "budget.seconds" in ended_by else case
        )

    def seconds(self) -> WorstCase:
        note = "the calls and the tools, one after the other, each as long as it may take"
        if self.policy.budget.seconds is None:
            note += "; without the caller's compactor"
        return self.summed(
            "seconds", note, self.policy.calls_per_reply * self.policy.tool_seconds, CLOSING
        )

    def summed(self, name: str, note: str, of_round: Number = 0, beyond: float = 0.0) -> WorstCase:
        """Sum up what all calls can spend within the attempts that they share, and what each round
        of tools can.
        """
        of_call = self.call.worst_of(name)
        if of_call.value is None:
            return unknown(self.policy.budget, name, of_call.note, beyond)
        within = together(of_call.within or (of_call.value,), self.most_calls, self.attempts)
        value = within[-1] + self.rounds * of_round
        ladder = self.most_calls * of_call.value + self.most_rounds * of_round
        return self.case(name, value, ladder, note, of_call.enacted.moves, beyond)

    def money(self) -> WorstCase:
        """Sum up the money of all calls, each with the longest prompt that the calls before it can
        make.
        """
        of_call = self.call.worst_of("money")
        tokens = self.call.worst_of("output tokens")
        if of_call.value is None or tokens.value is None or not of_call.within:
            return unknown(self.policy.budget, "money", of_call.note)
        growth = Growth(self.policy, self.call, [each for each in self.prices if each is not None])
        ladder = growth.alone(self.most_calls, self.most_rounds)
        value = min(ladder, growth.most(self.most_calls, self.most_rounds, self.attempts))
        case = self.case(
            "money", as_money(int(value)), as_money(int(ladder)), growth.note, of_call.enacted.moves
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
        """Apply a field of the budget, which a turn may exceed by `beyond`, and play the path."""
        ended_by = "ladder" if math.isclose(value, ladder) else "budget.attempts"
        budget = BUDGETS.get(name)
        most = getattr(self.policy.budget, budget) if budget else None
        if most is not None and most + beyond < value:
            value = most + beyond
            ended_by = f"budget.{budget}"
        keys = self.call.limits.get("rotations", 0) + 1
        request = self.call.max_tokens, self.call.input_tokens
        enacted = enact_turn(self.policy, self.prices, name, moves, keys, *request)
        return WorstCase(name, value, ladder, ended_by, enacted, note)
