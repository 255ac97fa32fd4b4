"""Verify a policy: check its table, walk over it, find its worst cases, and return the
certificate.

Each property of the certificate has a function that decides it. Worst cases are only worked out for
a table whose required properties all hold, since without them a path may have no end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from attrs import asdict, evolve

from rungwise.fsm.analysis.certificate.call_properties import crashes, reached, reserved, unasked
from rungwise.fsm.analysis.certificate.certificate import Certificate, WorstCase
from rungwise.fsm.analysis.certificate.enactment import links_of
from rungwise.fsm.analysis.certificate.turn_worst import worst_of_turn
from rungwise.fsm.analysis.certificate.worst import worst_cases
from rungwise.fsm.call.budget.shared import SharedBudget, check_within
from rungwise.fsm.call.chain.for_backend import (
    longest_json_instruction,
    most_schema_tokens,
    question_tokens,
)
from rungwise.fsm.call.chain.link import Link, any_background, check_link, most_keys
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.limits import LARGEST_LIMIT, Limits
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.rules import faults_of
from rungwise.fsm.engine.checker.branches import dead_rows, overlaps
from rungwise.fsm.engine.checker.counterexample import Property
from rungwise.fsm.engine.checker.proof import prove
from rungwise.fsm.engine.checker.properties import ALIVE, ORDERED
from rungwise.fsm.engine.checker.structure import problems
from rungwise.fsm.engine.checker.walk import Walk, walk
from rungwise.fsm.engine.machine.table import Row, Table
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.schemas.returns import Returns, returns_of
from rungwise.fsm.turn.policy import TurnPolicy, check_policy
from rungwise.fsm.turn.rules import faults_of_turn
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.values.label import short

WELL_FORMED = "well-formed table"
HONEST = "honest endings"
TERMINATES = "terminates for all limits"
HONEST_CALL = "only an answer is done, and gathered text never becomes an error"
HONEST_TURN = (
    "only an answer is finished, and nothing follows the summary or a round that repeats itself"
)

SMALL = 1_000
"""Counter vectors that a walk covers in about a second."""

Progress = Callable[[int], None]
"""Called with the number of configurations seen, every thousand of them."""


def verify(
    policy: Policy | TurnPolicy = DEFAULT_POLICY,
    chain: int | Sequence[Link] = 1,
    *,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
    assistant_turns: int | None = None,
    response_format: Mapping[str, Any] | None = None,
    returns: Any = None,
    within: SharedBudget | None = None,
    exhaustive: bool = False,
    progress: Progress | None = None,
) -> Certificate:
    """Check a policy with its table, and find its worst cases.

    Arguments:
        policy: of a call, or of a turn.
        chain: the backends, or how many there are; unusable ones and duplicates are skipped, as a
            call skips them.
        max_tokens: the output cap that the caller will give, in tokens; without it the output is
            unbounded.
        input_tokens: the tokens of the prompt, which the worst case in money needs; for a turn, of
            its first prompt.
        assistant_turns: of the prompt, which repairs may lengthen; by default as many as fit.
        response_format, returns: what the caller will ask for; words and schemas count as input.
        within: the budget that calls share; the certificate states what bounds them together.
        exhaustive: walk with the policy's own limits; otherwise large ones are clipped to 1.
        progress: called with the number of configurations seen, each thousandth.

    Raises:
        ConfigurationError: no backend is usable.
    """
    check_policy(policy)
    names, prices, keys = _backends(chain)
    calls = calls_of(policy) if isinstance(policy, TurnPolicy) else policy
    limits = calls.limits.bounded(calls.table.limits, len(names), keys, _keeps(chain))
    blank = Certificate(
        table=calls.table.name,
        limits=limits,
        budget=calls.budget,
        chain=names,
        max_tokens=max_tokens,
        input_tokens=input_tokens,
        assistant_turns=assistant_turns,
        walked=limits if exhaustive else clipped(limits),
        within=_bounds(within),
    )
    certificate = _checked(blank, calls.table, faults_of, HONEST_CALL, progress)
    if certificate.ok:
        wanted = returns_of(returns)
        if wanted is not None:
            response_format = {"type": "json_schema", "schema": wanted.schema}
        if input_tokens is not None:
            input_tokens += _words_for(wanted, chain, calls, response_format)
        request = (max_tokens, input_tokens, assistant_turns, response_format)
        worst = worst_cases(calls, limits, prices, *request, chain)
        certificate = _with_worst(certificate, calls, worst)
    if isinstance(policy, Policy):
        return certificate
    return verify_turn(policy, certificate, prices, exhaustive=exhaustive, progress=progress)


def _bounds(within: SharedBudget | None) -> tuple[str, ...]:
    """Say what all calls within a budget spend together, and within those around it."""
    check_within(within)
    bounds: list[str] = []
    while within is not None:
        ceilings = asdict(within.budget).items()
        most = [f"{name} {ceiling}" for name, ceiling in ceilings if ceiling is not None]
        called = within.name or within.label or "the shared budget"
        bound = f"{called}: {', '.join(most)} at most, by all calls together"
        if within.per is not None:
            bound += f" that begin in one {within.per} (UTC)"
        bounds.append(bound)
        within = within.within
    return tuple(bounds)


def _words_for(
    wanted: Returns | None,
    chain: int | Sequence[Link],
    calls: Policy,
    response_format: Mapping[str, Any] | None,
) -> int:
    """Return how many tokens the words for a schema add to a prompt at most.

    Arguments:
        wanted: what the caller's `returns` asks for.
        chain: the backends, or how many there are.
        calls: the policy.
        response_format: what the caller asks for.
    """
    if isinstance(chain, int):
        return 0
    words = longest_json_instruction(chain, calls.hints, response_format)
    words += question_tokens(wanted, calls.hints)
    return words + most_schema_tokens(wanted, chain)


def _with_worst(
    certificate: Certificate, policy: Policy, worst: tuple[WorstCase, ...]
) -> Certificate:
    """Add the worst cases of a call, and the properties that only hold for calls."""
    table = policy.table
    next_backend = reached(policy)
    kept = None
    if next_backend.holds:
        kept = reserved(policy, certificate.limits, len(certificate.chain))
    properties = (*certificate.properties, next_backend, unasked(table), crashes(table))
    return evolve(certificate, properties=properties, worst=worst, kept=kept)


def clipped(limits: Mapping[str, int]) -> dict[str, int]:
    """Return limits of at most 1, with which a walk sees every row and takes a second."""
    return {name: min(limit, 1) for name, limit in limits.items()}


def calls_of(policy: TurnPolicy) -> Policy:
    """Return the policy of a turn's calls as they run: only the turn has a compactor."""
    calls = policy.of_calls
    if "compactions" not in calls.table.counters:
        return calls
    limits = dict(calls.limits)
    limits["compactions"] = 0
    return evolve(calls, limits=Limits(**limits))


def verify_turn(
    policy: TurnPolicy,
    call: Certificate,
    prices: Sequence[Prices | None],
    *,
    table: Table = TURN,
    exhaustive: bool = False,
    progress: Progress | None = None,
) -> Certificate:
    """Check the policy of a turn, and find its worst cases.

    Arguments:
        policy: of the turn.
        call: the certificate of its calls.
        prices: of each backend; None where they are unknown.
        table: the machine of the turn.
        exhaustive: walk with the policy's own limits.
        progress: called with the number of configurations seen, each thousandth.
    """
    limits = policy.limits
    walks_all = exhaustive or _is_small(limits)
    blank = Certificate(
        table=table.name,
        limits=limits,
        budget=policy.budget,
        chain=call.chain,
        max_tokens=call.max_tokens,
        input_tokens=call.input_tokens,
        assistant_turns=call.assistant_turns,
        within=call.within,
        walked=limits if walks_all else clipped(limits),
        call=call,
        tools={
            "calls_per_reply": policy.calls_per_reply,
            "tool_seconds": policy.tool_seconds,
            "result_tokens": policy.result_tokens,
        },
    )
    certificate = _checked(blank, table, faults_of_turn, HONEST_TURN, progress)
    if not certificate.ok:
        return certificate
    return evolve(certificate, worst=worst_of_turn(policy, table, call, prices))


def worst_by_fallbacks(
    policy: Policy | TurnPolicy,
    most: int,
    *,
    prices: Prices | None = None,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
) -> Mapping[int, tuple[WorstCase, ...]]:
    """Find the worst cases for chains with 0, 1, 2, ... fallbacks.

    Arguments:
        policy: of a call, or of a turn.
        most: the most fallbacks.
        prices: of every backend.
        max_tokens: the caller's output cap.
        input_tokens: the tokens of the prompt.
    """
    request: dict[str, Any] = {"max_tokens": max_tokens, "input_tokens": input_tokens}
    worst = {}
    for count in range(1, most + 2):
        if isinstance(policy, TurnPolicy):
            worst[count - 1] = verify(policy, links_of([prices] * count), **request).worst
        else:
            limits = policy.limits.bounded(policy.table.limits, count, 1)
            worst[count - 1] = worst_cases(policy, limits, [prices] * count, **request)
    return worst


def _checked(
    blank: Certificate,
    table: Table,
    faults_of: Callable[[Table], Iterable[str]],
    honest: str,
    progress: Progress | None = None,
) -> Certificate:
    """Check a table, and return its certificate without worst cases.

    Arguments:
        blank: the certificate, with nothing found.
        table: what is checked.
        faults_of: finds dishonest endings.
        honest: what is said if there are none.
        progress: called with the number of configurations seen.
    """
    malformed = problems(table)
    if malformed:
        return evolve(blank, properties=(Property(WELL_FORMED, False, "; ".join(malformed)),))
    rows = prove(table)
    refused = [proof for proof in rows if proof.verdict == "refused"]
    # larger walks take memory, and are seldom asked for twice
    if progress is None and _is_small(blank.walked):
        explored = _small_walk(table, tuple(blank.walked.items()))
    else:
        explored = walk(table, blank.walked, progress=progress, repeats=False)
    properties = {each.name: each for each in explored.properties}
    together: tuple[tuple[Row, Row], ...] = ()
    if not refused:
        together = overlaps(table)
        if properties[ORDERED].holds:
            detail = (
                f"{len(together)} pairs of guards can hold at once; the machine takes the first "
                f"row, as the table does"
            )
            properties[ORDERED] = Property(ORDERED, True, detail)
        dead = dead_rows(table)
        if dead:
            why = f"the rows before it always win: {'; '.join(map(str, dead))}"
            properties[ALIVE] = Property(ALIVE, False, why)
    shape = f"{len(table.rows)} rows, {len(table.events)} events, {len(table.states)} states"
    dishonest = "; ".join(faults_of(table))
    endless = "; ".join(f"{each.row}: {each.why}" for each in refused)
    proved = f"proved for each of {len(rows)} rows; the argument is below"
    first = (
        Property(WELL_FORMED, True, shape),
        Property(HONEST, not dishonest, dishonest or honest),
        Property(TERMINATES, not endless, endless or proved),
    )
    return evolve(
        blank,
        configurations=len(explored.configurations),
        properties=(*first, *properties.values()),
        rows=rows,
        overlaps=together,
    )


# The tests fire every event anew, which also finds what a machine does beside its table. With the
# limits of the default policy, 1.2 million configurations, that takes hours, and this a minute.
@lru_cache(maxsize=16)
def _small_walk(table: Table, limits: tuple[tuple[str, int], ...]) -> Walk:
    return walk(table, dict(limits), repeats=False)


def _is_small(limits: Mapping[str, int]) -> bool:
    """Tell whether a walk with these limits takes about a second."""
    vectors = prod(limit + 1 for limit in limits.values())
    return max(limits.values()) <= 1 or vectors <= SMALL


def _keeps(chain: int | Sequence[Link]) -> bool:
    """Tell whether a backend goes on with a reply that was cut."""
    return not isinstance(chain, int) and any_background(chain)


def _backends(chain: int | Sequence[Link]) -> tuple[tuple[str, ...], list[Prices | None], int]:
    """Return the names and the prices of the backends that a call can reach, and the most keys of
    one.
    """
    if isinstance(chain, int):
        if isinstance(chain, bool) or not 1 <= chain <= LARGEST_LIMIT + 1:
            raise ConfigurationError(
                f"the chain must have 1 to {LARGEST_LIMIT + 1} backends, not {short(chain)}"
            )
        return tuple(f"backend {number}" for number in range(1, chain + 1)), [None] * chain, 1
    if not isinstance(chain, (list, tuple)):
        raise ConfigurationError(
            f"the chain must be backends, or how many there are, not {type(chain).__name__}"
        )
    usable: list[Link] = []
    for link in chain:
        check_link(link)
        if link.problem is None and not (usable and link.identities & usable[-1].identities):
            usable.append(link)
    if not usable:
        raise ConfigurationError("no backend of the chain can be used")
    names = tuple(link.name for link in usable)
    return names, [link.prices for link in usable], most_keys(chain)
