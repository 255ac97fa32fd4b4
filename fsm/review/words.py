"""The words and figures of a review: durations, fields with their units, worst cases, and courses of calls."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from attrs import evolve

from rungwise.fsm.call.policy import Policy
from rungwise.fsm.certificate.troubles import MOST_PLAYED, Course, TroubleChange
from rungwise.fsm.certificate.verified import WorstCase, number_text
from rungwise.fsm.machine.table import Row
from rungwise.fsm.review.findings import RowGroup, WorstChange

MOST_WAITS = 5
"""How many waits a series lists."""

MOST_NAMED = 6
"""How many rows a sentence names."""

MOST_RUNS = 16
"""How many different rungs in a row the course of a call lists."""

CONTEXT = 3
"""Equal words to show on either side of different ones."""

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
    "budget.seconds": "from start to end, waits included",
    "budget.output_tokens": "output tokens in all",
    "budget.money": "in the currency of the prices",
    "waits.retry_base": "the first wait before a retry; it doubles each time",
    "waits.retry_cap": "the longest wait before a retry",
    "waits.overload_cap": "the longest wait before a retry after an overload",
    "waits.reask_base": "the first wait before asking again after an empty or malformed reply",
    "waits.reask_cap": "the longest wait before asking again",
    "waits.jitter": "the random part of a wait",
    "waits.longest_asked": "the longest Retry-After to wait for; after a longer one, the next backend is asked",
    "timeouts.connect": "until the connection is open",
    "timeouts.first_token": "of silence before the first content",
    "timeouts.stall": "of silence between two pieces of content",
    "timeouts.total": "for one whole attempt",
    "reserve.share": "reserved for each backend to come",
    "reserve.seconds": "of the time, reserved for each backend to come",
    "hints.placeholder": "replaces the empty reply before a nudge",
    "hints.nudge": "the text of a nudge",
    "hints.continuation": "asks for the rest of a cut answer",
    "hints.seed": "hands reasoning back to be finished",
    "hints.json": "asks for JSON in words",
    "hints.json_schema": "asks for JSON of a schema in words",
    "after_refusal": "what follows a refusal",
    "base_cap": "raised output caps start here",
    "largest_cap": "raised output caps end here",
    "handful": "an answer cut at this cap or a smaller one is accepted",
    "nudge_window": "messages to search for a tool result",
    "skip_identical_empties": "whether two identical empty replies are final for a backend",
    "auto_continues": "how often the turn may continue by itself",
    "faults": "rounds of tools in a row that may fail",
    "compactions": "how often the conversation may be shortened",
    "summary": "whether a last call asks for a summary",
    "same_calls": "how often the same tool call may have the same result",
    "calls_per_reply": "tool calls of one reply that run",
    "calls_at_once": "tools that run side by side",
    "tool_seconds": "for one tool",
    "window": "the context of the model",
    "results_share": "for the results of one reply",
    "hints.summary": "asks for the summary",
    "hints.handed_off": "the result of a tool that ends the turn",
    "hints.not_run": "the result of a tool call that did not run",
    "hints.too_many": "the result of a tool call beyond the limit",
}
"""What a field means, as far as its name does not say."""

MEANINGS: Mapping[str, tuple[str, str]] = {
    "after_refusal is 'end'": ("a refusal no longer falls back", "a refusal falls back again"),
    "nudge_window is 0": ("no reply is nudged any more", "a reply to tool results may be nudged again"),
    "the reserve is 0": ("nothing is reserved for the next backend", "the next backend has a reserve again"),
    "switch_after.empty is not set": (
        "empty replies no longer end the attempts at a backend",
        "empty replies end the attempts at a backend again",
    ),
}
"""What a reason means if it turns rows off, and if it no longer does."""


# Fields


def says_of(name: str, policy: object = None) -> str:
    """Describe a field; "" if its name says it all.

    Arguments:
        name: of the field, as in a file.
        policy: of calls; its rungs describe their limits.
    """
    group, _, own = name.partition(".")
    if group == "limits" and isinstance(policy, Policy):
        rung = next((each for each in policy.table.declared_rungs if each.counter == own), None)
        return f"how often: {rung.does}" if rung is not None and rung.does else ""
    if group == "switch_after":
        return "failures of this kind before the next backend is asked"
    if name.startswith("hints.rungs."):
        return f"the text of {own.removeprefix('rungs.')}"
    return SAYS.get(name, "")


def value_text(name: str, value: object) -> str:
    """Write the value of a field with its unit."""
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


def words_that_differ(old: str, new: str) -> list[tuple[str, str]]:
    """Split two texts into pieces `same`, `old` and `new`; a piece `left out` replaces text far from any difference."""
    before, after = (re.findall(r"\s*\S+|\s+", text) for text in (old, new))
    pieces: list[tuple[str, str]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            pieces += [(name, "".join(words)) for name, words in (("old", before[a:b]), ("new", after[c:d])) if words]
            continue
        head = 0 if a == c == 0 else CONTEXT
        tail = 0 if b == len(before) and d == len(after) else CONTEXT
        if b - a <= head + tail + 1:
            pieces.append(("same", "".join(before[a:b])))
        else:
            around = [
                ("same", "".join(before[a : a + head])),
                ("left out", "..."),
                ("same", "".join(before[b - tail : b])),
            ]
            pieces += [each for each in around if each[1]]
    return pieces


# Numbers


def counted(number: float, what: str) -> str:
    """Write a number of things, in the plural unless it is 1."""
    return f"{number_text(number)} {what}{'' if number == 1 else 's'}"


def backends_text(count: int) -> str:
    """Write a number of backends."""
    return {1: "one backend", 2: "two backends", 3: "three backends"}.get(count, f"{count} backends")


def duration(seconds: float) -> str:
    """Write seconds, longer ones in minutes or hours as well: `900 s (15 min)`."""
    plain = f"{number_text(seconds)} s"
    if seconds < 120:
        return plain
    return f"{plain} ({seconds / 3600:.3g} h)" if seconds >= 7200 else f"{plain} ({seconds / 60:.3g} min)"


def reserve_text(policy: Policy) -> str:
    """Describe what is reserved for each backend to come."""
    reserve, whole = policy.reserve, policy.budget.seconds
    if not reserve.is_on:
        return "nothing is reserved for the backends to come"
    share = f"up to {reserve.share * 100:g} % of the budget" if reserve.share else ""
    if share and whole is not None and reserve.seconds is None:
        share += f" (of the time: {duration(reserve.share * whole)})"
    seconds = f"up to {duration(reserve.seconds)} of the time" if reserve.seconds is not None else ""
    return f"one attempt is reserved for each backend to come, with {' and '.join(filter(None, (share, seconds)))}"


# Worst cases


def amount(worst: WorstCase) -> str:
    """Write a worst case with its unit."""
    if worst.value is None:
        return "not known"
    if worst.name == "money":
        return f"{worst.value:,.4g}" if abs(worst.value) < 1000 else f"{worst.value:,.2f}"
    return duration(worst.value) if "seconds" in worst.name else number_text(worst.value)


def figure(worst: WorstCase) -> str:
    """Write a worst case with its unit, and mark an upper bound."""
    return amount(worst) if worst.value is None or is_attained(worst) else f"no more than {amount(worst)}"


def factor_text(change: WorstChange) -> str:
    """Write the new worst case divided by the old one, in two or three digits; a factor close to 1 in words."""
    factor = change.factor
    if factor is None:
        return "" if change.old.value == change.new.value else "?"
    if factor == 1:
        return "same"
    if 0.995 <= factor < 1.005:
        return "just over 1" if factor > 1 else "just under 1"
    return f"{factor:.3g}" if factor > 1 else f"{factor:.2g}"


def is_attained(worst: WorstCase) -> bool:
    """Tell whether some path reaches the figure, as far as is known."""
    return worst.is_exact or (worst.ended_by.startswith("budget.") and worst.ended_by != "budget.attempts")


def path_end(worst: WorstCase) -> str:
    """Say what ends a worst path, and how far the longest path that was played gets if the figure is an upper bound."""
    ends = f"{'the ladder' if worst.ended_by == 'ladder' else worst.ended_by} ends it"
    if is_attained(worst):
        return ends
    if worst.attained is None:
        return f"{ends}; an upper bound"
    return f"{ends}; an upper bound, the longest path played: {amount(evolve(worst, value=worst.attained))}"


# Rows


def row_short(row: Row) -> str:
    """Write a row in short: `came_empty [may_nudge] → nudge`."""
    guard = f" [{row.guard}]" if row.guard else ""
    return f"{row.event}{guard} → {row.target}"


def named_rows(rows: Sequence[Row]) -> str:
    """Name some rows as code, and count the others."""
    names = [f"`{name}`" for name in dict.fromkeys(map(row_short, rows))]
    more = f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def group_reason(group: RowGroup, *, falls: bool) -> str:
    """Say why rows are off, or were before, and what that means."""
    reason = group.reason if falls else f"before, {group.reason}"
    meanings = MEANINGS.get(group.reason)
    return reason if meanings is None else f"{meanings[0 if falls else 1]} ({reason})"


def group_text(group: RowGroup, *, falls: bool) -> str:
    """Write the rows of one cause in one sentence."""
    can = "can no longer be taken" if falls else "can be taken now"
    parts = [f"{counted(len(group.rows), 'row')} {can}: {named_rows(group.rows)}"] if group.rows else []
    if group.behind:
        states = ", ".join(dict.fromkeys(row.source for row in group.behind))
        leads = "nothing leads to any more" if falls else "is entered again"
        parts.append(f"{'and ' if parts else ''}{counted(len(group.behind), 'row')} from {states}, which {leads}")
    return capitalized(f"{group_reason(group, falls=falls)}: {', '.join(parts)}.")


def capitalized(text: str) -> str:
    """Begin a text with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


# Courses


def path_text(course: Course) -> str:
    """Write the rungs of a call with their waits: `retry x3 (2, 4, 8 s), fallback`."""
    if len(course.least.rungs) == 1:
        return "not asked again"
    runs = [(name, [wait for _, wait in run]) for name, run in groupby(course.least.rungs[1:], lambda each: each[0])]
    parts = [f"{name}{f' x{len(waits)}' if len(waits) > 1 else ''}{_waits(waits)}" for name, waits in runs[:MOST_RUNS]]
    return ", ".join([*parts, *(["..."] if len(runs) > MOST_RUNS else [])])


def _waits(waits: Sequence[float]) -> str:
    if not any(waits):
        return ""
    if len(waits) > 1 and len(set(waits)) == 1:
        return f" ({number_text(waits[0])} s each)"
    more = f", ... {number_text(waits[-1])}" if len(waits) > MOST_WAITS else ""
    return f" ({', '.join(map(number_text, waits[:MOST_WAITS]))}{more} s)"


def outcomes_of(course: Course) -> tuple[str, ...]:
    """List how a call ends, with the shortest waits and with the longest; empty if it is not played to its end."""
    return tuple(dict.fromkeys(each.outcome for each in (course.least, course.most) if each.outcome is not None))


def end_text(course: Course) -> str:
    """Say how a call ends."""
    return " or ".join(outcomes_of(course)) or f"more than the {MOST_PLAYED} attempts that are played"


def spent_text(course: Course) -> str:
    """Write the attempts and the seconds, least to most."""
    attempts = sorted({course.least.attempts, course.most.attempts})
    seconds = sorted({round(course.least.seconds, 1), round(course.most.seconds, 1)})
    most = counted(attempts[-1], "attempt")
    text = f"{attempts[0]} to {most}" if len(attempts) > 1 else most
    if seconds != [0.0]:
        text += f", {' to '.join(map(number_text, seconds))} s"
    return text if course.is_one_path else f"{text}; the path is that with the shortest waits"


def course_text(course: Course | None) -> str:
    """Write what a call does and how it ends, on one line."""
    if course is None:
        return "there is no such event"
    return f"{path_text(course)} → {end_text(course)}; {spent_text(course)}"


def backends_of(change: TroubleChange) -> str:
    """Name the numbers of backends that a course applies to."""
    return " or ".join(map(backends_text, change.backends))
