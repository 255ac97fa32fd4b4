"""Check a policy and its table, and write the certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve

from rungwise.fsm.call.budget.reserve import seconds_kept
from rungwise.fsm.call.conversation.json_instruction import longest_json_instruction
from rungwise.fsm.call.conversation.link import Link, PlainLink, Prices
from rungwise.fsm.call.limits import LARGEST_LIMIT
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.rules import faults_of
from rungwise.fsm.call.run.defaults import DEFAULT_POLICY
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.checked import checked
from rungwise.fsm.certificate.reached import reached
from rungwise.fsm.certificate.turns import calls_of, verify_turn
from rungwise.fsm.certificate.worst import worst_cases
from rungwise.fsm.certificate.worst_case import WorstCase
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.values.label import short

HONEST_CALL = "only an answer is done, and text that was gathered is no error"


def verify(
    policy: Policy | TurnPolicy = DEFAULT_POLICY,
    chain: int | Sequence[Link] = 1,
    *,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
    assistant_turns: int | None = None,
    response_format: Mapping[str, Any] | None = None,
    exhaustive: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Certificate:
    """Check a policy with its table, and find its worst cases: those of a turn from the certificate of its calls.

    Arguments:
        policy: of a call, or of a turn.
        chain: the backends, or how many there are; unusable ones and duplicates are left out, as a call does.
        max_tokens: the output cap that the caller will give, in tokens; without it the output is unbounded.
        input_tokens: the tokens of the prompt, which the worst case in money needs; for a turn, those of its first.
        assistant_turns: how many assistant turns the prompt has, to each of which a repair may add tokens; without it
            there are taken to be as many as `input_tokens` can hold.
        response_format: the JSON that the caller will ask for: a backend that cannot be held to it is asked in words,
            which hold the schema, and are more input. Without it the schema is not known.
        exhaustive: walk with the policy's own limits; otherwise each is clipped to 1, and the proof covers the rest
            (those of a turn are walked over as they are where they are as small as the default ones).
        progress: is given the number of configurations looked at, every thousand of them.

    Raises:
        ConfigurationError: no backend is usable.
    """
    if isinstance(policy, TurnPolicy):
        call = verify(
            calls_of(policy),
            chain,
            max_tokens=max_tokens,
            input_tokens=input_tokens,
            assistant_turns=assistant_turns,
            response_format=response_format,
            exhaustive=exhaustive,
            progress=progress,
        )
        prices = [each for _, each in _backends(chain)]
        return verify_turn(policy, call, prices, exhaustive=exhaustive, progress=progress)
    if not isinstance(policy, Policy):
        kinds = "a Policy or a TurnPolicy"
        raise ConfigurationError(f"policy must be {kinds}, not {type(policy).__name__}: Policy.load reads a file")
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
    certificate = checked(blank, table, faults_of, HONEST_CALL, progress)
    if not certificate.ok:
        return certificate
    prices = [each for _, each in backends]
    if input_tokens is not None and not isinstance(chain, int):
        input_tokens += longest_json_instruction(chain, policy.hints, response_format)
    next_backend = reached(policy)
    return evolve(
        certificate,
        properties=(*certificate.properties, next_backend),
        worst=worst_cases(policy, limits, prices, max_tokens, input_tokens, assistant_turns, response_format),
        kept=_kept(policy, limits, len(backends)) if next_backend.holds else None,
    )


def _kept(policy: Policy, limits: Mapping[str, int], backends: int) -> Mapping[str, float] | None:
    """Return what the last of several backends has at least, whatever those before it do."""
    is_reached = "fallback" in policy.table.rungs and limits["fallbacks"] == backends - 1
    if backends == 1 or not policy.reserve.is_on or not is_reached:
        return None
    attempts, seconds = int(policy.budget.attempts >= backends), policy.budget.seconds
    return {"attempts": attempts, **({} if seconds is None else {"seconds": seconds_kept(policy, seconds, backends)})}


def worst_by_fallbacks(
    policy: Policy | TurnPolicy,
    most: int,
    *,
    prices: Prices | None = None,
    max_tokens: int | None = None,
    input_tokens: int | None = None,
    assistant_turns: int | None = None,
) -> Mapping[int, tuple[WorstCase, ...]]:
    """Find the worst cases for chains with 0 to `most` fallbacks, all of them at the same prices."""
    asked = max_tokens, input_tokens, assistant_turns
    found = {}
    for fallbacks in range(most + 1):
        if isinstance(policy, TurnPolicy):
            links = [PlainLink(f"backend {number}", prices=prices) for number in range(1, fallbacks + 2)]
            certificate = verify(
                policy, links, max_tokens=max_tokens, input_tokens=input_tokens, assistant_turns=assistant_turns
            )
            found[fallbacks] = certificate.worst
        else:
            found[fallbacks] = worst_cases(policy, _limits(policy, fallbacks + 1), [prices] * (fallbacks + 1), *asked)
    return found


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
