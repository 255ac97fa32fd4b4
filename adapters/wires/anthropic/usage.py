"""The tokens of a message, as its provider reports them, in stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rungwise.adapters.wires.draft import count_of
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.fsm.values.usage import Usage

Counts = Mapping[str, Any]
"""A report of the provider's on the tokens of a reply."""


def usage_of(reports: Sequence[Counts]) -> Usage | None:
    """Return the tokens of a reply, or None if the provider counted none.

    Of its reports, later ones win. Cached tokens are counted beside the input, and a compaction
    beside everything: all is paid for, and added up here.
    """
    last: dict[str, Any] = {}
    for report in reports:
        last |= {name: value for name, value in report.items() if value is not None}
    messages: list[Counts] = []
    compactions: list[Counts] = []
    for each in list_of(last.get("iterations")):
        kind = mapping_of(each).get("type")
        if kind == "message":
            messages.append(each)
        elif kind == "compaction":
            compactions.append(each)
    counted = [*(messages or [last]), *compactions]
    fresh = sum(count_of(each.get("input_tokens")) for each in counted)
    output = sum(count_of(each.get("output_tokens")) for each in counted)
    read = sum(count_of(each.get("cache_read_input_tokens")) for each in counted)
    created = sum(map(_created, counted))
    if not fresh + read + created and not output:
        return None
    details = mapping_of(last.get("output_tokens_details"))
    reasoning = count_of(details.get("thinking_tokens"))
    return Usage(
        input_tokens=fresh + read + created,
        output_tokens=output,
        cache_read_tokens=read,
        cache_creation_tokens=created,
        reasoning_tokens=min(reasoning, output),
    )


def _created(usage: Counts) -> int:
    """Return the tokens that were put into the cache: in all, or added up by their lifetime."""
    created = count_of(usage.get("cache_creation_input_tokens"))
    by_lifetime = usage.get("cache_creation")
    if not created and isinstance(by_lifetime, dict):
        return sum(map(count_of, by_lifetime.values()))
    return created
