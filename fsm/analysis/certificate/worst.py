"""The worst cases of a call: attempts, waits, seconds, output tokens and money, each with the path
to it.

Theory
------

A worst case is found in three steps (`CallSearch.worst` in `call_search.py`).

*Bound.* Weigh each attempt by the most that it can spend: 1, the longest wait before it, the cap of
its reply, its cost. The heaviest path of at most as many attempts as the budget allows
(`engine/checker/longest.py`) is then an upper bound: the search knows rows and counters, and it
lets every row through whose counters allow it, whatever its facts. It also knows three things that
send nothing. A rung may be left for another one before it is sent (a detour), the first rung may be
left at once (an opening), and a backend that cannot be paid for, or for which it is too late, is
passed over. The same search without a limit of attempts says what the ladders alone allow. If there
are too many states to search, the bound is coarse: every attempt at the ceiling of one attempt.

*Apply the budget.* A call stops before it exceeds a field of its budget, so the worst case is at
most that field. Seconds may be exceeded by those in which a connection closes, which is `beyond`.

*Attain.* The bound may be too high: facts can exclude each other, a reserve can forbid what the
counters allow. So the heaviest path is played to a real call (`enactment.py`). If the call spends
as much as the bound, the worst case is exact, since it has happened. If it spends less, other paths
are played: one that passes over no backend, and heaviest paths that leave an attempt to each
backend to come, as the reserve does. The dearest of them is shown; the bound stays.

*Cost.* Some searches of milliseconds, and some plays of a call; a play takes about as long as its
attempts take Python, with no waiting. Money is never played a second time, since its paths carry
texts and take long.

Those of a turn follow from those of its calls: see `turn_worst.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from attrs import evolve

from rungwise.fsm.analysis.certificate.call_search import CallSearch, Measure
from rungwise.fsm.analysis.certificate.certificate import NEVER_ALL, WorstCase, unknown
from rungwise.fsm.analysis.certificate.money import NO_MORE_INPUT, OWN_TURNS, Cost, beside_tokens
from rungwise.fsm.call.budget.estimate import STAND_IN_TOKENS
from rungwise.fsm.call.budget.metering import COUNTED_BESIDE, most_counted
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.clocks.waiting import longest_wait
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.table import MAY_ASK
from rungwise.fsm.engine.checker.branches import Branch
from rungwise.fsm.engine.checker.tracking import Weight
from rungwise.fsm.values.money import as_money


def worst_cases(
    policy: Policy,
    limits: Mapping[str, int],
    prices: Sequence[Prices | None],
    max_tokens: int | None,
    input_tokens: int | None,
    assistant_turns: int | None = None,
    response_format: Mapping[str, Any] | None = None,
    chain: int | Sequence[Link] = 1,
) -> tuple[WorstCase, ...]:
    """Compute the worst cases of a policy.

    Arguments:
        policy: of the call.
        limits: the limit of each counter, as far as the chain allows.
        prices: of each backend; None where they are unknown.
        max_tokens: the caller's output cap.
        input_tokens: the tokens of the prompt.
        assistant_turns: of the prompt; None for as many as the input can hold.
        response_format: what the caller asks for, which `input_tokens` counts.
        chain: the backends, whose quotas an attempt may wait for.
    """
    has_quota = not isinstance(chain, int) and any(link.quota for link in chain)
    search = CallSearch(
        policy=policy,
        limits=limits,
        prices=prices,
        max_tokens=max_tokens,
        input_tokens=input_tokens,
        assistant_turns=assistant_turns,
        response_format=response_format,
        has_quota=has_quota,
    )
    return (
        _attempts(search),
        _waits(search),
        _seconds(search),
        _tokens(search),
        _money(search),
    )


def _attempts(search: CallSearch) -> WorstCase:
    measure = Measure(
        name="attempts",
        weight=lambda spent: 1,
        ceiling=1,
        moves=search.moves,
        note="every request that goes out",
    )
    return search.worst(measure)


def _waits(search: CallSearch) -> WorstCase:
    weight, most = _weight_of_wait(search)
    note = (
        "waits between attempts, with the most jitter and the longest requested waits; "
        "without the attempts"
    )
    if search.has_quota:
        note += "; before each attempt as long for the quota of its backend"
    measure = Measure(
        name="waiting seconds",
        weight=weight,
        ceiling=most,
        moves=search.moves_by(_kind),
        note=note,
    )
    case = search.worst(measure)
    if case.ended_by == "budget.seconds":
        return evolve(case, note=f"{case.note}; {NEVER_ALL}")
    return case


def _kind(branch: Branch) -> str:
    """Distinguish moves to a rung that waits longer after one event than after another."""
    assert branch.row is not None
    return branch.row.event if branch.row.event in MAY_ASK else ""


def _weight_of_wait(search: CallSearch) -> tuple[Weight, float]:
    """Return a weight of an attempt by the wait before it, and the longest wait, in seconds."""
    waits = search.policy.waits
    for_quota = waits.longest_asked if search.has_quota else 0.0

    def weight(spent: Any) -> float:
        rung = search.table.rung(spent.rung)
        if rung is None:
            return for_quota
        number = getattr(spent, rung.counter) if rung.wait else 1
        return for_quota + longest_wait(waits, rung, number, spent.kind)

    most = 0.0
    for rung in search.table.rungs:
        for kind in ("", *MAY_ASK):
            last = SimpleNamespace(rung=rung, kind=kind, **search.limits)
            most = max(most, weight(last))
    return weight, most


def _seconds(search: CallSearch) -> WorstCase:
    budget = search.policy.budget
    ends = [search.policy.timeouts.total, budget.seconds]
    known = [each for each in ends if each is not None]
    if not known:
        why = "neither timeouts.total nor budget.seconds bounds an attempt"
        return unknown(budget, "seconds", why)
    of_attempt = min(known) + CLOSING
    wait, most = _weight_of_wait(search)
    note = (
        "from start to end: every wait, and every attempt as long as it may take, from connecting "
        f"to the {CLOSING:g} s that close its connection; without the caller's compactor and "
        "functions"
    )
    if budget.seconds is None:
        note += ", and without waiting for a free connection"
    measure = Measure(
        name="seconds",
        weight=lambda spent: of_attempt + wait(spent),
        ceiling=of_attempt + most,
        moves=search.moves_by(_kind),
        note=note,
        beyond=CLOSING,
    )
    case = search.worst(measure)
    if search.policy.timeouts.total is None:
        return evolve(case, ladder=None)
    return case


def _tokens(search: CallSearch) -> WorstCase:
    max_tokens = search.max_tokens
    policy = search.policy
    if max_tokens is None:
        why = "without max_tokens, only budget.output_tokens can cap the first request"
        return unknown(policy.budget, "output tokens", why)
    note = (
        f"the cap of every request, with max_tokens of {max_tokens}, and up to {COUNTED_BESIDE} "
        "more tokens that a server may count for each"
    )
    if policy.budget.output_tokens is None and policy.budget.money is None:
        note += (
            "; a stream that exceeds its cap is cut only under a budget of output tokens or money"
        )
    measure = Measure(
        name="output tokens",
        weight=search.cap,
        ceiling=most_counted(max(policy.largest_cap, max_tokens)),
        moves=search.moves,
        note=note,
    )
    return search.worst(measure)


def _money(search: CallSearch) -> WorstCase:
    prices = search.prices
    max_tokens = search.max_tokens
    input_tokens = search.input_tokens
    priced = [each for each in prices if each is not None]
    if len(priced) < len(prices):
        why = f"no price is known for a backend of the chain{NO_MORE_INPUT}"
        return unknown(search.policy.budget, "money", why)
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
        "the dearest input price, growing by the text of each continuation, correction, compaction "
        "and fallback and by seeds of reasoning, all as long as the caps allow, and by every hint; "
        "assumes that a compaction shortens the prompt, that each tool call in the prompt has its "
        "result, and that a paused turn holds no more than was written" + NO_MORE_INPUT
    )
    beside = beside_tokens(priced)
    note += beside
    if search.response_format is None:
        note += (
            "; without a JSON schema that a backend gets in words: give response_format or returns"
        )
    if cost.stand_ins:
        guess = ""
        if search.assistant_turns is None:
            guess = ", as many as the input can hold: give assistant_turns"
        note += (
            f"; a repair may add {STAND_IN_TOKENS} tokens to each of {cost.turns} assistant "
            f"turns{guess}, and to {OWN_TURNS} that the rungs add"
        )
    measure = Measure(
        name="money", weight=cost, ceiling=cost.ceiling(), moves=search.moves, note=note
    )
    case = search.worst(measure)
    ladder = None
    if case.ladder is not None:
        ladder = as_money(int(case.ladder))
    # A text has as many tokens as its provider reported; how many another backend counts, nobody
    # can tell.
    is_certain = not beside and not (search.limits.get("fallbacks") and any(cost.inputs[1:]))
    return evolve(case, value=as_money(int(case.value or 0)), ladder=ladder, is_certain=is_certain)
