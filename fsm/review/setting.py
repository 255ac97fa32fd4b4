"""What the figures of a change of policy are for: the files, the caller's numbers, and limits that cut each other."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from attrs import frozen

from rungwise.fsm.call.clocks.waiting import longest_wait
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.certificate.shown.settings import limits_of
from rungwise.fsm.certificate.verified import number_text
from rungwise.fsm.review.words import duration

LONGEST_NAME = 120
"""Characters of the name of a policy."""


@frozen
class Setting:
    """Hold what a comparison was asked for.

    Arguments:
        names: what the policies are called, as they were given; None where they were given as objects.
        max_tokens: the output cap of the caller, in tokens.
        input_tokens: the tokens of the prompt.
        prices: of every backend, where they are told by their number.
    """

    names: tuple[str, str] | None = None
    max_tokens: int | None = None
    input_tokens: int | None = None
    prices: Prices | None = None


def setting_text(setting: Setting) -> str:
    """Say what was compared, and what the figures are for."""
    parts = []
    if setting.names is not None:
        old, new = map(_short, setting.names)
        parts.append(f"OLD is {old}, NEW is {new}")
    for what, number in (("an output cap of", setting.max_tokens), ("a prompt of", setting.input_tokens)):
        parts.append(f"{what} {number_text(number)} tokens" if number is not None else f"{what} no given size")
    if setting.prices is not None:
        paid = f"{number_text(setting.prices.input)} for input and {number_text(setting.prices.output)} for output"
        parts.append(f"prices for a million tokens of {paid}, at every backend")
    try:
        by = f"rungwise {version('rungwise')}"
    except PackageNotFoundError:  # run from its sources
        by = "rungwise"
    return f"{'; '.join(parts)}; compared by {by}."


def _short(name: str) -> str:
    plain = " ".join("".join(each if each.isprintable() else "?" for each in name).split())
    return plain if len(plain) <= LONGEST_NAME else f"...{plain[-LONGEST_NAME:]}"


def conflicts_of(policy: Policy) -> Iterator[str]:
    """Yield where one limit of a policy cuts what another one grants."""
    seconds, total = policy.budget.seconds, policy.timeouts.total
    if seconds is None:
        return
    if total is None or total > seconds:
        granted = "as long as it likes" if total is None else duration(total)
        yield f"an attempt may take {granted} (timeouts.total), but the call ends at {duration(seconds)}"
    limit, rung = limits_of(policy).get("retries") or 0, policy.table.rung("retry")
    kept = policy.reserve.seconds or policy.reserve.share * seconds
    if rung is None or not policy.reserve.is_on:
        return
    waits = sum(longest_wait(policy.waits, rung, number, "fell_silent") for number in range(1, limit + 1))
    if waits > kept:
        yield f"all retries of one backend may wait {duration(waits)}, more than the {duration(kept)} kept for the next"
