"""The words of a review: texts that differ, reserves, factors, and rows with their causes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from rungwise.fsm.analysis.certificate.certificate import counted, duration
from rungwise.fsm.analysis.review.findings import RowGroup, WorstChange
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.engine.machine.table import Row

MOST_NAMED = 6  # how many rows a sentence names
CONTEXT = 3  # equal words to show on either side of different ones

MEANINGS: Mapping[str, tuple[str, str]] = {
    "after_refusal is 'end'": ("a refusal no longer falls back", "a refusal falls back now"),
    "nudge_window is 0": (
        "no reply is nudged any more",
        "a reply to tool results may be nudged now",
    ),
    "switch_after.empty is never": (
        "empty replies no longer end the attempts at a backend",
        "empty replies end the attempts at a backend now",
    ),
}
"""What a reason means if it turns rows off, and if it no longer does."""


def words_that_differ(old: str, new: str) -> list[tuple[str, str]]:
    """Split two texts into pieces `same`, `old` and `new`; a piece `left out` replaces text far
    from any difference.
    """
    before, after = (re.findall(r"\s*\S+|\s+", text) for text in (old, new))
    pieces: list[tuple[str, str]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            pieces += [
                (name, "".join(words))
                for name, words in (("old", before[a:b]), ("new", after[c:d]))
                if words
            ]
            continue
        head = 0 if a == c == 0 else CONTEXT
        tail = 0 if b == len(before) and d == len(after) else CONTEXT
        if b - a <= head + tail + 1:
            pieces.append(("same", "".join(before[a:b])))
        else:
            begin = "".join(before[a : a + head])
            end = "".join(before[b - tail : b])
            pieces += [
                each for each in (("same", begin), ("left out", "..."), ("same", end)) if each[1]
            ]
    return pieces


def reserve_text(policy: Policy) -> str:
    """Describe what is reserved for each backend to come."""
    reserve = policy.reserve
    whole = policy.budget.seconds
    if not reserve.is_on:
        return "nothing is reserved for the backends to come"
    share = f"up to {reserve.share * 100:g} % of the budget" if reserve.share else ""
    if share and whole is not None and reserve.seconds is None:
        share += f" (of the time: {duration(reserve.share * whole)})"
    seconds = (
        f"up to {duration(reserve.seconds)} of the time" if reserve.seconds is not None else ""
    )
    return (
        f"one attempt is reserved for each backend to come, with "
        f"{' and '.join(filter(None, (share, seconds)))}"
    )


def factor_text(change: WorstChange) -> str:
    """Write the new worst case divided by the old one, in two or three digits; a factor close to 1
    in words.
    """
    factor = change.factor
    if factor is None:
        return "" if change.old.value == change.new.value else "?"
    if factor == 1:
        return "same"
    if 0.995 <= factor < 1.005:
        return "just over 1" if factor > 1 else "just under 1"
    return f"{factor:.3g}" if factor > 1 else f"{factor:.2g}"


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
    parts = (
        [f"{counted(len(group.rows), 'row')} {can}: {named_rows(group.rows)}"] if group.rows else []
    )
    if group.behind:
        states = ", ".join(dict.fromkeys(row.source for row in group.behind))
        leads = "nothing leads to any more" if falls else "is entered now"
        parts.append(
            f"{'and ' if parts else ''}{counted(len(group.behind), 'row')} from {states}, which "
            f"{leads}"
        )
    return capitalized(f"{group_reason(group, falls=falls)}: {', '.join(parts)}.")


def capitalized(text: str) -> str:
    """Begin a text with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"
