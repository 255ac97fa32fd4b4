"""Check a policy and its table, and write the certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from attrs import evolve

from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.request import Link, Prices
from rungwise.fsm.call.rules import faults_of
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.worst import WorstCase, worst_cases
from rungwise.fsm.checker.branches import dead_rows, overlaps
from rungwise.fsm.checker.counterexample import Property
from rungwise.fsm.checker.firing import ORDERED
from rungwise.fsm.checker.proof import prove
from rungwise.fsm.checker.structure import problems
from rungwise.fsm.checker.walk import Walk, walk
from rungwise.fsm.checker.walked import ALIVE
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.machine.table import Table
from rungwise.fsm.values.label import short

WELL_FORMED = "well-formed table"
HONEST = "honest endings"
TERMINATES = "terminates for all limits"


def verify(
    policy: Policy = DEFAULT_POLICY,
    chain: int | Sequence[Link] = 1,
    *,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
    assistant_turns: int | None = None,
    exhaustive: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Check a policy with its table, and find its worst cases.

    Arguments:
        policy: what to check.
        chain: the backends, or how many there are; unusable ones and duplicates are left out, as a call does.
        max_tokens: the output cap that the caller will give, in tokens; without it the output is unbounded.
        input_tokens: the tokens of the prompt, which the worst case in money needs.
        assistant_turns: how many assistant turns the prompt has, to each of which a repair may add tokens; without it
            there are taken to be as many as `input_tokens` can hold.
        exhaustive: walk with the policy's own limits; otherwise each is clipped to 1, and the proof covers the rest.
        progress: is given the number of configurations looked at, every thousand of them.

    Raises:
        ConfigurationError: no backend is usable.
    """
    if not isinstance(policy, Policy):
        raise ConfigurationError(f"policy must be a Policy, not {type(policy).__name__}: Policy.load reads a file")
    backends = _backends(chain)
    table, limits = policy.table, _limits(policy, len(backends))
    walked = limits if exhaustive else {name: min(limit, 1) for name, limit in limits.items()}
    blank = Certificate(
        table=table.name,
        limits=limits,
        budget=policy.budget,
        chain=tuple(name for name, _ in backends),
        max_tokens=max_tokens,
        input_tokens=input_tokens,
        assistant_turns=assistant_turns,
        walked=walked,
    )
    found = problems(table)
    if found:
        return evolve(blank, properties=(Property(WELL_FORMED, False, "; ".join(found)),))
    certificate = _checked(blank, table, progress)
    if not certificate.ok:
        return certificate
    prices = [each for _, each in backends]
    return evolve(certificate, worst=worst_cases(policy, limits, prices, max_tokens, input_tokens, assistant_turns))


def worst_by_fallbacks(
    policy: Policy,
    most: int,
    *,
    prices: Prices | None = None,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
    assistant_turns: int | None = None,
) -> Mapping[int, tuple[WorstCase, ...]]:
    """Find the worst cases for chains with 0 to `most` fallbacks, all of them at the same prices."""
    asked = max_tokens, input_tokens, assistant_turns
    chains = {fallbacks: fallbacks + 1 for fallbacks in range(most + 1)}
    return {
        fallbacks: worst_cases(policy, _limits(policy, backends), [prices] * backends, *asked)
        for fallbacks, backends in chains.items()
    }


@lru_cache(maxsize=16)
def _walk(table: Table, limits: tuple[tuple[str, int], ...]) -> Walk:
    return walk(table, dict(limits))


def _checked(blank: Certificate, table: Table, progress: Callable[[int], None] | None) -> Certificate:
    """Fill in the proof and the walk."""
    rows = prove(table)
    refused = [proof for proof in rows if proof.verdict == "refused"]
    if progress is None and max(blank.walked.values()) <= 1:  # a larger one takes memory, and is seldom asked for twice
        seen = _walk(table, tuple(blank.walked.items()))
    else:
        seen = walk(table, blank.walked, progress=progress)
    properties = {each.name: each for each in seen.properties}
    together = () if refused else overlaps(table)
    if not refused:
        if properties[ORDERED].holds:
            detail = "pairs of guards can hold at once; the machine takes the first row, as the table does"
            properties[ORDERED] = Property(ORDERED, True, f"{len(together)} {detail}")
        if dead := dead_rows(table):
            properties[ALIVE] = Property(ALIVE, False, f"the rows before it always win: {'; '.join(map(str, dead))}")
    shape = f"{len(table.rows)} rows, {len(table.events)} events, {len(table.states)} states"
    dishonest = "; ".join(faults_of(table))
    endless = "; ".join(f"{each.row}: {each.why}" for each in refused)
    first = (
        Property(WELL_FORMED, True, shape),
        Property(HONEST, not dishonest, dishonest or "only an answer is done, and text that was gathered is no error"),
        Property(TERMINATES, not endless, endless or f"proved for each of {len(rows)} rows; the argument is below"),
    )
    return evolve(
        blank,
        configurations=len(seen.configurations),
        properties=(*first, *properties.values()),
        rows=rows,
        overlaps=together,
    )


def _backends(chain: int | Sequence[Link]) -> list[tuple[str, Prices | None]]:
    """List the backends that a call can come to, by the rule that a call follows."""
    if isinstance(chain, int):
        if isinstance(chain, bool) or not 1 <= chain <= LARGEST_LIMIT + 1:
            raise ConfigurationError(f"the chain must have 1 to {LARGEST_LIMIT + 1} backends, not {short(chain)}")
        return [(f"backend {number}", None) for number in range(1, chain + 1)]
    taken: list[Link] = []
    if not isinstance(chain, (list, tuple)):
        raise ConfigurationError(f"the chain must be backends, or how many there are, not {type(chain).__name__}")
    for link in chain:
        if not hasattr(link, "identities"):
            raise ConfigurationError(f"the chain must hold backends, not {type(link).__name__}")
        if link.problem is None and not (taken and link.identities & taken[-1].identities):
            taken.append(link)
    if not taken:
        raise ConfigurationError("no backend of the chain can be used")
    return [(link.name, link.prices) for link in taken]


def _limits(policy: Policy, backends: int) -> Mapping[str, int]:
    return policy.limits.bounded(policy.table.limits, backends)
