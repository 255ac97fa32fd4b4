"""The tokens of a message, as its provider reports them, in stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from rungwise.adapters.wires.counts import billed, lifetimes, more_of
from rungwise.adapters.wires.draft import count_of
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.fsm.values.usage import NO_USAGE, Usage

Counts = Mapping[str, Any]
"""A report of the provider's on the tokens of a reply."""

_BESIDE: Final = (
    "compaction",
    "advisor_message",
)
"""The iterations that the counts of the message itself do not include."""


def usage_of(
    report: Counts,
    message: Counts,
) -> Usage | None:
    """Return the tokens of a reply, or None if the provider counted none.

    The server may run a model several times for one message, and another model: each iteration is
    paid for, at the price of its own model. Without a list of them, or where it holds less, the
    counts of the message itself stand.

    Arguments:
        report: of the tokens.
        message: that it is a report of.
    """
    own = _counts_of(report)
    total = NO_USAGE
    shares: list[Usage] = []
    iterations = [each for each in list_of(report.get("iterations")) if isinstance(each, dict)]
    kinds = [each.get("type") for each in iterations]
    for kind, each in zip(kinds, iterations, strict=True):
        counts = _counts_of(each)
        total += counts
        model = each.get("model")
        # Beside a fallback, a pass without a name may be that of the model that declined.
        if isinstance(model, str):
            shares.append(evolve(counts, model=model))
        elif kind == "message" and "fallback_message" in kinds:
            shares.append(counts)
    if all(kind in _BESIDE for kind in kinds):
        total += own
    counted = more_of(own, evolve(total, shares=tuple(shares))) or own
    return billed(counted, report, message) if counted.total_tokens else None


def _counts_of(report: Counts) -> Usage:
    """Return the counts of a report; cached tokens are counted beside the input."""
    output = count_of(report.get("output_tokens"))
    read = count_of(report.get("cache_read_input_tokens"))
    created, long = lifetimes(report)
    created = max(created, count_of(report.get("cache_creation_input_tokens")))
    details = mapping_of(report.get("output_tokens_details"))
    fresh = count_of(report.get("input_tokens"))
    thinking = count_of(details.get("thinking_tokens"))
    return Usage(
        input_tokens=fresh + read + created,
        output_tokens=output,
        cache_read_tokens=read,
        cache_creation_tokens=created,
        cache_creation_long_tokens=long,
        reasoning_tokens=min(output, thinking),
    )
