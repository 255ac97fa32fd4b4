"""The words and figures of a change of policy: durations, fields with their units, waits, and words that differ."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from html import escape

from attrs import frozen

from rungwise.fsm.call.clocks.waiting import backoff
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.certificate.shown.settings import limits_of
from rungwise.fsm.certificate.verified import number_text

A_WHILE = 120
"""Seconds from which on a duration is told in minutes as well."""

MOST_WAITS = 5
"""Waits that are told one by one."""

CONTEXT = 3
"""Words that stay on either side of those that differ."""

AFTER_OVERLOAD = " after an overload"
NEVER = "never taken"
SECONDS = ("waits.", "timeouts.", "budget.seconds", "reserve.seconds", "tool_seconds")
TOKENS = ("budget.output_tokens", "base_cap", "largest_cap", "handful", "window")
SHARES = {
    "waits.jitter": "up to {} of the wait",
    "reserve.share": "{} of the budget",
    "results_share": "{} of the window",
}
UNLIMITED = {"limits.fallbacks": "as many as the chain has", "reserve.seconds": "its share"}

SAYS = {
    "budget.attempts": "requests in all",
    "budget.seconds": "from the beginning to the end, waits included",
    "budget.output_tokens": "output tokens in all",
    "budget.money": "in the currency of the prices",
    "waits.retry_base": "the first wait before a retry, doubled each time",
    "waits.retry_cap": "the longest such wait",
    "waits.overload_cap": "the longest such wait after an overload",
    "waits.reask_base": "the first wait before asking again after an empty or malformed reply",
    "waits.reask_cap": "the longest such wait",
    "waits.jitter": "what chance adds to a wait",
    "waits.longest_asked": "the longest wait that a service may ask for; a longer one leaves the backend",
    "timeouts.connect": "until there is a connection",
    "timeouts.first_token": "of silence before the first content",
    "timeouts.stall": "of silence between two pieces of content",
    "timeouts.total": "for one whole attempt",
    "reserve.share": "kept for each backend to come",
    "reserve.seconds": "kept for each backend to come, of the time",
    "hints.placeholder": "stands for the empty reply where it is nudged",
    "hints.nudge": "what a nudge says",
    "hints.continuation": "what asks for the rest of a cut answer",
    "hints.seed": "what hands reasoning back to be finished",
    "hints.json": "what asks for JSON in words",
    "hints.json_schema": "what asks for JSON of a schema in words",
    "after_refusal": "what a refusal leads to",
    "base_cap": "what raised output caps start from",
    "largest_cap": "where raised output caps end",
    "handful": "a cut answer to a cap of so many or fewer is taken as it is",
    "nudge_window": "messages searched for a tool result",
    "skip_identical_empties": "whether two identical empty replies are final for a backend",
    "auto_continues": "how often the turn may go on by itself",
    "faults": "rounds of tools in a row that may only fail",
    "compactions": "how often the conversation may be shortened",
    "summary": "whether a last call asks for a summary",
    "same_calls": "how often the same call may bring the same result",
    "calls_per_reply": "tool calls of one reply that are run",
    "calls_at_once": "tools that run side by side",
    "tool_seconds": "for one tool",
    "window": "what the context of the model holds",
    "results_share": "what the results of one reply may fill",
    "hints.summary": "what asks for the summary",
    "hints.handed_off": "the result of a tool that ends the turn",
    "hints.not_run": "the result of a call that was not run",
    "hints.too_many": "the result of a call beyond the most",
}
"""What a field is about, as far as its name does not say."""


def duration(seconds: float) -> str:
    """Write seconds, longer ones in minutes as well: `900 s (15 min)`."""
    plain = f"{number_text(seconds)} s"
    if seconds < A_WHILE:
        return plain
    return f"{plain} ({seconds / 3600:.3g} h)" if seconds >= 7200 else f"{plain} ({seconds / 60:.3g} min)"


def broken(text: str) -> str:
    """Write text for a page so that its names may break behind a dot or an underscore, and nowhere else."""
    return re.sub(r"(?<=\w)([._])(?=\w)", r"\1<wbr>", escape(text))


def counted(number: float, what: str) -> str:
    """Write a number of things, in the plural unless it is 1."""
    return f"{number_text(number)} {what}{'' if number == 1 else 's'}"


def kept_for_others(policy: Policy) -> str:
    """Say what is kept for each backend that is still to come."""
    reserve, whole = policy.reserve, policy.budget.seconds
    if not reserve.is_on:
        return "nothing is kept for the backends to come"
    share = f"up to {reserve.share * 100:g} % of the budget" if reserve.share else ""
    if share and whole is not None and reserve.seconds is None:
        share += f" (of the time: {duration(reserve.share * whole)})"
    seconds = f"up to {duration(reserve.seconds)} of the time" if reserve.seconds is not None else ""
    return f"for each backend to come one attempt is kept, with {' and '.join(filter(None, (share, seconds)))}"


def says_of(name: str, policy: object = None) -> str:
    """Say what a field is about; "" where its name is all.

    Arguments:
        name: of the field, as a file has it.
        policy: of calls, whose rungs say what their limits are about.
    """
    group, _, own = name.partition(".")
    if group == "limits" and isinstance(policy, Policy):
        rung = next((each for each in policy.table.declared_rungs if each.counter == own), None)
        return f"how often: {rung.does}" if rung is not None and rung.does else ""
    if group == "switch_after":
        return "failures of this kind after which a backend is left"
    if name.startswith("hints.rungs."):
        return f"what {own.removeprefix('rungs.')} says"
    return SAYS.get(name, "")


def value_text(name: str, value: object) -> str:
    """Write what a field holds, with its unit."""
    if value is None and (name.startswith("hints.rungs.") or (name.startswith("limits.") and name not in UNLIMITED)):
        return "there is none"
    if value is None:
        return UNLIMITED.get(name, "never" if name.startswith("switch_after.") else "no limit")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return repr(value)
    if name in SHARES:
        return SHARES[name].format(f"{value * 100:g} %")
    if name.startswith(SECONDS):
        return duration(value)
    if name.startswith("switch_after.") and value >= 1000:
        return "never"
    return f"{number_text(value)}{' tokens' if name in TOKENS else ''}"


@frozen
class WaitChange:
    """Hold a series of waits before and now.

    Arguments:
        what: before what is waited.
        old, new: the waits, in words.
    """

    what: str
    old: str
    new: str


def waits_of(old: Policy, new: Policy) -> Iterator[WaitChange]:
    """Yield each series of waits that differs: what a change of numbers does to them."""
    before, after = dict(_series(old)), dict(_series(new))

    def both(what: str) -> tuple[str, str]:
        return before.get(what) or _without_series(what, old), after.get(what) or _without_series(what, new)

    for what in dict.fromkeys((*before, *after)):
        was, now = both(what)
        plain = what.removesuffix(AFTER_OVERLOAD)
        if was != now and (plain == what or (was, now) != both(plain)):
            yield WaitChange(what, was, now)


def _without_series(what: str, policy: Policy) -> str:
    limits, rungs = limits_of(policy), policy.table.rungs
    taken = {each.name for each in policy.table.declared_rungs if each.name in rungs and limits.get(each.counter) != 0}
    return "none" if what.removesuffix(AFTER_OVERLOAD).removeprefix("before a ") in taken else NEVER


def _series(policy: Policy) -> Iterator[tuple[str, str]]:
    waits, limits = policy.waits, limits_of(policy)
    for rung in policy.table.declared_rungs:
        limit = limits.get(rung.counter)
        if rung.wait is None or rung.name not in policy.table.rungs or limit == 0:
            continue
        if rung.wait == "reask":
            yield f"before a {rung.name}", _listed(policy, limit, waits.reask_base, waits.reask_cap)
            continue
        yield f"before a {rung.name}", _listed(policy, limit, waits.retry_base, waits.retry_cap)
        overloaded = _listed(policy, limit, waits.retry_base, waits.overload_cap)
        yield f"before a {rung.name}{AFTER_OVERLOAD}", overloaded


def retries_after_malformed(policy: Policy) -> str:
    """Write the waits before a retry where the reply had no usable shape."""
    waits = policy.waits
    return _listed(policy, limits_of(policy).get("retries"), waits.reask_base, waits.reask_cap)


def _listed(policy: Policy, limit: int | None, base: float, cap: float) -> str:
    count = limit or 1
    each = [backoff(number, base, cap, 0.0, 0.0) for number in range(1, min(count, MOST_WAITS) + 1)]
    more = f", ... up to {cap:g}" if count > MOST_WAITS else ""
    chance = f" and up to {policy.waits.jitter * 100:g} % more" if policy.waits.jitter and any(each) else ""
    return f"{', '.join(f'{wait:g}' for wait in each)}{more} s{chance}"


Piece = tuple[str, str]
"""A piece of a text, behind `same`, `old`, `new` or `left out`."""


def words_that_differ(old: str, new: str) -> list[Piece]:
    """Split two texts into pieces that both have and that only one has; what is far from any difference is left out."""
    before, after = _words(old), _words(new)
    found: list[Piece] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            found += _shortened(before[a:b], is_first=a == 0 and c == 0, is_last=b == len(before) and d == len(after))
        else:
            found += [("old", "".join(before[a:b]))] if b > a else []
            found += [("new", "".join(after[c:d]))] if d > c else []
    return found


def _shortened(words: list[str], *, is_first: bool, is_last: bool) -> list[Piece]:
    head, tail = (0 if is_first else CONTEXT), (0 if is_last else CONTEXT)
    if len(words) <= head + tail + 1:
        return [("same", "".join(words))]
    kept = [("same", "".join(words[:head]))] if head else []
    return [*kept, ("left out", "..."), *([("same", "".join(words[-tail:]))] if tail else [])]


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+", text)
