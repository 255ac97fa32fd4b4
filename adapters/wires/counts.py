"""Find the tokens of a reply under the names, and in the places, of all protocols.

Each protocol reads its own report with all its details. Gateways that translate leave the report as
they found it, or put it elsewhere: the server's own timings in place of a usage [llama.cpp], the
metrics of an invocation in the last event [Bedrock in front of other protocols], the names of
another protocol, in camel case or not. What stands here is asked where a protocol's reader has
found no count of the output.

Only members that are known to lead to a report are followed: the arguments of a call may hold
anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from rungwise.adapters.wires.draft import beyond, count_of
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import Usage


def _spellings(*names: str) -> tuple[str, ...]:
    """Return some names as they are, and in camel case."""
    camel = [_UNDERSCORE.sub(lambda match: match[1].upper(), name) for name in names]
    return tuple(dict.fromkeys([*names, *camel]))


_UNDERSCORE: Final = re.compile("_(.)")
_REPORTS: Final = _spellings(
    "usage",
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


def more_of(earlier: Usage | None, later: Usage | None) -> Usage | None:
    """Return the larger counts of two reports: what one has counted, the next does not lower."""
    if earlier is None or later is None:
        return earlier or later
    return Usage(
        input_tokens=max(earlier.input_tokens, later.input_tokens),
        output_tokens=max(earlier.output_tokens, later.output_tokens),
        reasoning_tokens=max(earlier.reasoning_tokens, later.reasoning_tokens),
    )


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
