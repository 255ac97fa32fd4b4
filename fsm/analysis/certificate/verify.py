"""Verify a policy: check its table, walk over it, find its worst cases, and return the
certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from attrs import evolve

from rungwise.fsm.analysis.certificate.certificate import Certificate, WorstCase
from rungwise.fsm.analysis.certificate.enactment import links_of
from rungwise.fsm.analysis.certificate.worst import worst_cases, worst_of_turn
from rungwise.fsm.call.budget.reserve import reserved_seconds
from rungwise.fsm.call.chain.for_backend import longest_json_instruction, most_schema_tokens
from rungwise.fsm.call.chain.link import Link, check_link, most_keys
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.observation import ANSWERS, RAISED
from rungwise.fsm.call.limits import LARGEST_LIMIT, Limits
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.rules import faults_of
from rungwise.fsm.call.run.outcome import LAST_RESORTS
from rungwise.fsm.call.table import CALL, UNSENT
from rungwise.fsm.engine.checker.branches import Branch, branches, dead_rows, overlaps
from rungwise.fsm.engine.checker.counterexample import Property
from rungwise.fsm.engine.checker.proof import prove
from rungwise.fsm.engine.checker.properties import ALIVE, ORDERED
from rungwise.fsm.engine.checker.structure import problems
from rungwise.fsm.engine.checker.walk import Walk, walk
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure, event_of_failure
from rungwise.fsm.replies.schemas.returns import returns_of
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.rules import faults_of_turn
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.values.label import short

WELL_FORMED = "well-formed table"
HONEST = "honest endings"
TERMINATES = "terminates for all limits"
REACHED = "the next backend is reached"
UNASKED = "the figures hold with health and without"
CRASHES = "the figures hold over any number of crashes"

HONEST_CALL = "only an answer is done, and gathered text never becomes an error"
HONEST_TURN = (
    "only an answer is finished, and nothing follows the summary or a round that repeats itself"
)

SMALL = 1_000
"""Counter vectors that a walk covers in about a second."""

NO_FAILURES = ANSWERS | {RAISED, "sent", "cancelled", *UNSENT, "truncated"}
"""The events that no other backend need mend: an answer, what the driver or a verdict does, text
cut at the cap.
"""

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
    exhaustive: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Check a policy with its table, and find its worst cases: those of a turn from the certificate
    of its calls.

    Arguments:
        policy: of a call, or of a turn.
        chain: the backends, or how many there are; unusable ones and duplicates are skipped, as a
        call skips them. max_tokens: the output cap that the caller will give, in tokens; without it
        the output is unbounded. input_tokens: the tokens of the prompt, which the worst case in
        money needs; for a turn, of its first prompt. assistant_turns: of the prompt; a repair may
        add tokens to each. By default as many as `input_tokens` can hold. response_format, returns:
        what the caller will ask for; a schema, or the words for it, count as input. exhaustive:
        walk with the policy's own limits; otherwise each but those of a small turn is clipped to 1.
        progress: called with the number of configurations seen, each thousandth.

    Raises:
        ConfigurationError: no backend is usable.
    """
    if not isinstance(policy, (Policy, TurnPolicy)):
        kind = type(policy).__name__
        raise ConfigurationError(
            f"policy must be a Policy or a TurnPolicy, not {kind}; see Policy.load"
        )
    backends = _backends(chain)
    calls = calls_of(policy) if isinstance(policy, TurnPolicy) else policy
    prices = [each for _, each in backends]
    keys = 1 if isinstance(chain, int) else most_keys(chain)
    limits = calls.limits.bounded(calls.table.limits, len(backends), keys)
    blank = Certificate(
        table=calls.table.name,
        limits=limits,
        budget=calls.budget,
        chain=tuple(name for name, _ in backends),
        max_tokens=max_tokens,
        input_tokens=input_tokens,
        assistant_turns=assistant_turns,
        walked=limits if exhaustive else {name: min(limit, 1) for name, limit in limits.items()},
    )
    certificate = _checked(blank, calls.table, faults_of, HONEST_CALL, progress)
    if certificate.ok:
        wanted = returns_of(returns)
        response_format = (
            response_format if wanted is None else {"type": "json_schema", "schema": wanted.schema}
        )
        if input_tokens is not None and not isinstance(chain, int):
            input_tokens += longest_json_instruction(chain, calls.hints, response_format)
            input_tokens += most_schema_tokens(wanted, chain)
        next_backend = _reached(calls)
        certificate = evolve(
            certificate,
            properties=(
                *certificate.properties,
                next_backend,
                _unasked(calls.table),
                _crashes(calls.table),
            ),
            worst=worst_cases(
                calls,
                limits,
                prices,
                max_tokens,
                input_tokens,
                assistant_turns,
                response_format,
                chain,
            ),
            kept=_reserved(calls, limits, len(backends)) if next_backend.holds else None,
        )
    if isinstance(policy, Policy):
        return certificate
    return verify_turn(policy, certificate, prices, exhaustive=exhaustive, progress=progress)


def calls_of(policy: TurnPolicy) -> Policy:
    """Return the policy for checking a turn's calls: the turn has the compactor, and its calls have
    none.
    """
    calls = policy.of_calls
    if "compactions" not in calls.table.counters:
        return calls
    return evolve(calls, limits=Limits(**{**calls.limits, "compactions": 0}))


def verify_turn(
    policy: TurnPolicy,
    call: Certificate,
    prices: Sequence[Prices | None],
    *,
    table: Table = TURN,
    exhaustive: bool = False,
    progress: Progress | None = None,
) -> Certificate:
    """Check the policy of a turn, and find its worst cases."""
    limits = policy.limits
    blank = Certificate(
        table=table.name,
        limits=limits,
        budget=policy.budget,
        chain=call.chain,
        max_tokens=call.max_tokens,
        input_tokens=call.input_tokens,
        assistant_turns=call.assistant_turns,
        walked=limits
        if exhaustive or _is_small(limits)
        else {name: min(limit, 1) for name, limit in limits.items()},
        call=call,
        tools={
            name: getattr(policy, name)
            for name in ("calls_per_reply", "tool_seconds", "result_tokens")
        },
    )
    certificate = _checked(blank, table, faults_of_turn, HONEST_TURN, progress)
    return (
        evolve(certificate, worst=worst_of_turn(policy, table, call, prices))
        if certificate.ok
        else certificate
    )


def worst_by_fallbacks(
    policy: Policy | TurnPolicy,
    most: int,
    *,
    prices: Prices | None = None,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
) -> Mapping[int, tuple[WorstCase, ...]]:
    """Find the worst cases for chains with 0 to `most` fallbacks, all of them at the same
    prices.
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
    together = () if refused else overlaps(table)
    if not refused:
        if properties[ORDERED].holds:
            detail = (
                "pairs of guards can hold at once; the machine takes the first row, as "
                "the table does"
            )
            properties[ORDERED] = Property(ORDERED, True, f"{len(together)} {detail}")
        if dead := dead_rows(table):
            properties[ALIVE] = Property(
                ALIVE, False, f"the rows before it always win: {'; '.join(map(str, dead))}"
            )
    shape = f"{len(table.rows)} rows, {len(table.events)} events, {len(table.states)} states"
    dishonest = "; ".join(faults_of(table))
    endless = "; ".join(f"{each.row}: {each.why}" for each in refused)
    first = (
        Property(WELL_FORMED, True, shape),
        Property(HONEST, not dishonest, dishonest or honest),
        Property(
            TERMINATES,
            not endless,
            endless or f"proved for each of {len(rows)} rows; the argument is below",
        ),
    )
    found = (*first, *properties.values())
    count = len(explored.configurations)
    return evolve(blank, configurations=count, properties=found, rows=rows, overlaps=together)


# The tests fire every event anew, which also finds what a machine does beside its table. With the
# limits of the default policy, 1.2 million configurations, that takes hours, and this a minute.
@lru_cache(maxsize=16)
def _small_walk(table: Table, limits: tuple[tuple[str, int], ...]) -> Walk:
    return walk(table, dict(limits), repeats=False)


def _is_small(limits: Mapping[str, int]) -> bool:
    return max(limits.values()) <= 1 or prod(limit + 1 for limit in limits.values()) <= SMALL


def _reached(policy: Policy) -> Property:
    """Check row by row that no failure ends a call while a usable backend follows and a fallback is
    left.

    A table of your own may do without: the certificate then says so, and still holds.
    """
    table = policy.table
    early = list(dict.fromkeys(_early_ends(table)))
    if early:
        detail = f"a backend may follow and not be asked after {', '.join(early)}"
        return Property(REACHED, False, detail, is_required=False)
    paths = sum(len(branches(table, event, table.hub)) for event in _failures(table))
    refusals = (
        "; a refusal ends the call, as the policy says" if policy.after_refusal == "end" else ""
    )
    detail = (
        f"no failure ends a call before it: {paths} paths through "
        f"{len(_failures(table))} events{refusals}"
    )
    return Property(REACHED, True, f"{detail}; nothing else uses its reserve", is_required=False)


def _early_ends(table: Table) -> Iterator[str]:
    """Name the events that can end a call though another backend could be asked."""
    for event in _failures(table):
        if any(_ends_early(each, LAST_RESORTS) for each in branches(table, event, table.hub)):
            yield event
    for rung in table.rungs:
        if any(_ends_early(each, table.outcomes) for each in branches(table, "found_open", rung)):
            yield f"found_open in {rung}"
        # Nothing is reserved from the first attempt at a backend, so it never runs out because of a
        # reserve.
        ends = [
            each for each in branches(table, "ran_out", rung) if _ends_early(each, table.outcomes)
        ]
        if rung != "fallback" and any(each.facts.get("reserve_left", True) for each in ends):
            yield f"ran_out in {rung}"


def _unasked(table: Table) -> Property:
    missing = [
        rung for rung in table.rungs if rung != "fallback" and not table.ladder("found_open", rung)
    ]
    detail = (
        "any backend may be passed over when a call arrives there; then its attempts go to the next"
    )
    wrong = f"found_open is not counted in {', '.join(missing)}"
    return Property(UNASKED, not missing, wrong if missing else detail, is_required=False)


def _crashes(table: Table) -> Property:
    event = event_of_failure(Failure("crashed"))
    detail = (
        f"an attempt of a durable call that a crash cuts off is {event}, counted and "
        f"charged before it was sent"
    )
    return Property(CRASHES, bool(table.ladder(event, table.hub)), detail, is_required=False)


def _ends_early(branch: Branch, ends: Collection[str]) -> bool:
    if branch.row is None or branch.row.target not in ends or branch.facts.get("refusal_ends"):
        return False
    return branch.facts.get("has_next_backend", True) and "fallbacks" not in branch.spent


def _failures(table: Table) -> list[str]:
    return [
        event
        for event in CALL.events
        if event not in NO_FAILURES and table.ladder(event, table.hub)
    ]


def _reserved(
    policy: Policy, limits: Mapping[str, int], backends: int
) -> Mapping[str, float] | None:
    """Return what the last of several backends has at least, whatever those before it do."""
    is_reached = "fallback" in policy.table.rungs and limits["fallbacks"] == backends - 1
    if backends == 1 or not policy.reserve.is_on or not is_reached:
        return None
    seconds = policy.budget.seconds
    kept = {} if seconds is None else {"seconds": reserved_seconds(policy, seconds, backends)}
    return {"attempts": int(policy.budget.attempts >= backends), **kept}


def _backends(chain: int | Sequence[Link]) -> list[tuple[str, Prices | None]]:
    """List the backends that a call can reach, by the rule that a call follows."""
    if isinstance(chain, int):
        if isinstance(chain, bool) or not 1 <= chain <= LARGEST_LIMIT + 1:
            raise ConfigurationError(
                f"the chain must have 1 to {LARGEST_LIMIT + 1} backends, not {short(chain)}"
            )
        return [(f"backend {number}", None) for number in range(1, chain + 1)]
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
    return [(link.name, link.prices) for link in usable]
