"""Find the tokens of a reply under the names, and in the places, of all protocols.

Each protocol reads its own report with all its details. Gateways that translate leave the report as
they found it, or put it elsewhere: the server's own timings in place of a usage [llama.cpp], the
metrics of an invocation in the last event [Bedrock in front of other protocols], the names of
another protocol, in camel case or not. What stands here is asked where a protocol's reader has
found no count of the output.

Only members that are known to lead to a report are followed: the arguments of a call may hold
anything.

What is billed beside the counts of tokens is read here for all protocols: how long a cache holds
what was put into it, searches and other units, the service tier, and the cost that a gateway
states.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from rungwise.adapters.wires.draft import beyond, count_of
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.usage import COUNTS, Usage


def _spellings(*names: str) -> tuple[str, ...]:
    """Return some names as they are, and in camel case."""
    camel = [_UNDERSCORE.sub(lambda match: match[1].upper(), name) for name in names]
    return tuple(dict.fromkeys([*names, *camel]))


_UNDERSCORE: Final = re.compile("_(.)")
_REPORTS: Final = _spellings(
    "usage",
    "token_usage",
    "tokens",
    "billed_units",
    "usage_metadata",
    "metrics",
    "timings",
    "amazon-bedrock-invocationMetrics",
)
"""The members that are reports."""
_AROUND: Final = _spellings(
    "choices",
    "candidates",
    "message",
    "response",
    "meta",
    "metadata",
    "messageStop",
)
"""The members that reports were seen in."""
_INPUT: Final = _spellings(
    "prompt_tokens",
    "input_tokens",
    "prompt_token_count",
    "input_token_count",
    "prompt_eval_count",
    "prompt_n",
)
_OUTPUT: Final = _spellings(
    "completion_tokens",
    "output_tokens",
    "candidates_token_count",
    "output_token_count",
    "eval_count",
    "predicted_n",
)
_THOUGHTS: Final = _spellings("thoughts_token_count")
"""What Gemini counts beside the output."""
_TOTALS: Final = _spellings("total_tokens", "total_token_count")
_COUNTS: Final = frozenset([*_INPUT, *_OUTPUT, *_TOTALS])
_INSIDE: Final = (*_REPORTS, *_AROUND, "delta")
COUNTING: Final = frozenset([*_REPORTS, *_AROUND, *_COUNTS])
"""The members of an event that counts tokens, or may."""
_DEPTH: Final = 3


def counted_in(value: Any) -> Usage | None:
    """Return the tokens that a body or an event reports in any known place, or None."""
    for report in _reports(value):
        prompt = _first(report, _INPUT)
        thoughts = _first(report, _THOUGHTS)
        output = _first(report, _OUTPUT) + thoughts
        total = _first(report, _TOTALS)
        if prompt or not output:
            output += beyond(total, prompt + output)
        prompt = prompt or beyond(total, output)
        if prompt or output:
            return Usage(prompt, output, reasoning_tokens=thoughts)
    return None


def more_of(
    earlier: Usage | None,
    later: Usage | None,
) -> Usage | None:
    """Return the larger counts of two reports: what one has counted, the next does not lower."""
    if earlier is None or later is None:
        return earlier or later
    both: dict[str, Any] = {}
    for name in COUNTS:
        both[name] = max(getattr(earlier, name), getattr(later, name))
    both["units"] = dict(Counter(earlier.units) | Counter(later.units))
    costs = [each.cost for each in (earlier, later) if each.cost is not None]
    both["cost"] = max(costs, default=None)
    both["tier"] = later.tier or earlier.tier
    both["shares"] = later.shares or earlier.shares
    return evolve(later, **both)


def counted(reply: Reply, found: Usage | None, *, is_all: bool) -> Reply:
    """Return a reply whose output a reader had to estimate with the tokens that were counted.

    Arguments:
        reply: the reply; its reader may have found the input.
        found: what was counted elsewhere; None for nothing.
        is_all: whether nothing of the reply came behind that.
    """
    usage = reply.usage
    if found is None or not usage.estimated:
        return reply
    usage = evolve(usage, input_tokens=max(usage.input_tokens, found.input_tokens))
    if is_all and found.output_tokens:
        thoughts = min(usage.reasoning_tokens, found.output_tokens)
        usage = evolve(
            usage,
            output_tokens=found.output_tokens,
            reasoning_tokens=found.reasoning_tokens or thoughts,
            estimated=False,
        )
    return evolve(reply, usage=usage)


_LARGEST: Final = 10**12
"""No report states more money."""
_LIFETIME: Final = re.compile(r"(?:^|ttl_|ephemeral_|cache_)(\d{1,6})([smhdw])(?![a-z0-9])")
_AN_HOUR: Final = {
    "s": 3_600,
    "m": 60,
    "h": 1,
    "d": 1,
    "w": 1,
}
_OF_CACHES: Final = re.compile("cache|details", re.IGNORECASE)


def lifetimes(report: Mapping[str, Any]) -> tuple[int, int]:
    """Return the tokens that a report says were put into caches: all whose lifetime it states, and
    those for an hour or more.

    The counts stand under names such as `ephemeral_1h_input_tokens` and `ttl_12h_tokens`, or in a
    list, each beside its `ttl`. Where several places have some, the largest counts.
    """
    most = (0, 0)
    places: list[Any] = [report]
    for place in places:
        counts = [*mapping_of(place).items()]
        for each in map(mapping_of, list_of(place)):
            counts.append((f"ttl_{each.get('ttl')}", each.get("inputTokens")))
        total = 0
        long = 0
        for name, value in counts:
            if isinstance(value, dict | list) and _OF_CACHES.search(name):
                places.append(value)
            elif found := _LIFETIME.search(name):
                total += count_of(value)
                if int(found[1]) >= _AN_HOUR[found[2]]:
                    long += count_of(value)
        most = max(most, (total, long))
    return most


def billed(
    usage: Usage,
    report: Mapping[str, Any],
    around: Mapping[str, Any],
) -> Usage:
    """Return a usage with what is billed beside its tokens.

    Arguments:
        usage: what a protocol's own reader has counted.
        report: the report that it has read.
        around: the body, or what is known of it.
    """
    units: dict[str, int] = {}
    tier = None
    for name, value in (*report.items(), *around.items()):
        if _OF_TOOLS.search(name):
            units |= _units_in(mapping_of(value))
        elif name.startswith("num_") and not name.endswith("tokens"):
            units |= _units_in({name: value})
        elif name in _TIERS:
            word = mapping_of(value).get("type", value)  # Bedrock puts it into an object
            word = word.lower().removeprefix("on_demand_") if isinstance(word, str) else ""
            if word not in _USUAL:
                tier = tier or word
    cost = _cost_in(report)
    if tier is None and cost is None and not units:
        return usage
    return evolve(
        usage,
        tier=tier,
        units=units,
        cost=cost,
    )


_TIERS: Final = frozenset(
    [
        *_spellings("service_tier", "traffic_type"),  # the second is Vertex AI's
        "speed",
    ]
)
_USUAL: Final = frozenset(
    [
        "",
        "default",
        "standard",
        "auto",
        "on_demand",
        "unspecified",
        "traffic_type_unspecified",
    ]
)
"""The service tiers that are billed at the usual prices."""
_OF_TOOLS: Final = re.compile("tool_?us(e|age)", re.IGNORECASE)
"""The members that count what the tools of a server were used for."""
_UNIT: Final = re.compile("[a-z][a-z0-9_]{0,39}")
_COUNTING: Final = re.compile("_?(num|requests?|calls?|queries|count)(?=_|$)")
"""What the name of a unit has around it."""
_MOST_UNITS: Final = 20


def _units_in(tools: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of tools by the names of their units, without the word for a count."""
    units: dict[str, int] = {}
    for tool, value in [*tools.items()][:_MOST_UNITS]:
        members = mapping_of(value)
        for name, count in {**members, "": value}.items():
            if name.startswith("total") and len(members) > 1:
                continue  # of the units beside it
            unit = _COUNTING.sub("", f"{tool}_{name}".lower()).strip("_")
            if count_of(count) and _UNIT.fullmatch(unit) and len(units) < _MOST_UNITS:
                units[unit] = count_of(count)
    return units


def _cost_in(report: Mapping[str, Any]) -> float | None:
    """Return the cost that a report states; None for none, or for what cannot be one.

    OpenRouter bills its fee alone where the key is the caller's own, and says apart what the
    provider behind it bills.
    """
    cost = report.get("cost")
    cost = mapping_of(cost).get("total_cost", cost)
    if not is_number(cost, 0, _LARGEST):
        return None
    upstream = mapping_of(report.get("cost_details")).get("upstream_inference_cost")
    if report.get("is_byok") and is_number(upstream, 0, _LARGEST):
        cost += upstream
    return float(cost)


def _reports(value: Any) -> list[dict[str, Any]]:
    """Return what may be a report, this itself or in it."""
    found = []
    pending = [(value, _DEPTH)]
    for each, depth in pending:
        members = each[0] if isinstance(each, list) and each else each
        if not isinstance(members, dict):
            continue
        if not _COUNTS.isdisjoint(members):
            found.append(members)
        for name in _INSIDE if depth else ():
            if name in members:
                pending.append((members[name], depth - 1))
    return found


def _first(report: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """Return the first count under some names; 0 if there is none."""
    for name in names:
        if count := count_of(report.get(name)):
            return count
    return 0
