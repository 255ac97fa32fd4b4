"""The words of a review: texts that differ, reserves, factors, and rows with their causes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from rungwise.fsm.analysis.certificate.certificate import counted, duration
from rungwise.fsm.analysis.certificate.courses import TroubleChange
from rungwise.fsm.analysis.review.findings import RowGroup, WorstChange
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.engine.machine.table import Row

MOST_NAMED = 6  # how many rows a sentence names
MOST_IN_HEADLINE = 3  # how many events or troubles a headline names
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
    """Split two texts into pieces, each with its kind: `same`, `old` or `new`.

    A piece `left out` replaces text far from any difference. The texts are compared word by word
    with difflib's matcher, after Ratcliff and Obershelp, which a reader finds natural: it keeps the
    longest run of words that both texts have, and so on at either side of it. A word has the space
    before it, so the pieces of a text, put together, are the text.
    """
    before = re.findall(r"\s*\S+|\s+", old)
    after = re.findall(r"\s*\S+|\s+", new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    pieces: list[tuple[str, str]] = []
    for kind, old_begin, old_end, new_begin, new_end in matcher.get_opcodes():
        gone = before[old_begin:old_end]
        come = after[new_begin:new_end]
        if kind == "equal":
            is_first = old_begin == 0 and new_begin == 0
            is_last = old_end == len(before) and new_end == len(after)
            head = 0 if is_first else CONTEXT
            tail = 0 if is_last else CONTEXT
            pieces += _shortened(gone, head, tail)
            continue
        if gone:
            pieces.append(("old", "".join(gone)))
        if come:
            pieces.append(("new", "".join(come)))
    return pieces


def _shortened(same: Sequence[str], head: int, tail: int) -> list[tuple[str, str]]:
    """Return the pieces of words that two texts share.

    Arguments:
        same: the words.
        head, tail: how many words are shown at either end, if more than one lies between them.
    """
    if len(same) <= head + tail + 1:
        return [("same", "".join(same))]
    pieces = []
    if head:
        pieces.append(("same", "".join(same[:head])))
    pieces.append(("left out", "..."))
    if tail:
        pieces.append(("same", "".join(same[-tail:])))
    return pieces


def reserve_text(policy: Policy) -> str:
    """Describe what is reserved for each backend to come."""
    reserve = policy.reserve
    if not reserve.is_on:
        return "nothing is reserved for the backends to come"
    amounts = []
    if reserve.share:
        share = f"up to {reserve.share * 100:g} % of the budget"
        if policy.budget.seconds is not None and reserve.seconds is None:
            share += f" (of the time: {duration(reserve.share * policy.budget.seconds)})"
        amounts.append(share)
    if reserve.seconds is not None:
        amounts.append(f"up to {duration(reserve.seconds)} of the time")
    return f"one attempt is reserved for each backend to come, with {' and '.join(amounts)}"


def factor_text(change: WorstChange) -> str:
    """Write the new worst case divided by the old one, in two or three digits.

    A factor that these digits would round to 1 is written in words.
    """
    factor = change.factor
    if factor is None:
        return "" if change.old.value == change.new.value else "?"
    if factor == 1:
        return "same"
    if 0.995 <= factor < 1.005:
        return "just over 1" if factor > 1 else "just under 1"
    return f"{factor:.3g}" if factor > 1 else f"{factor:.2g}"


def listed(names: Iterable[str]) -> str:
    """Name a few things for a headline, and count the others."""
    names = list(dict.fromkeys(names))
    text = ", ".join(names[:MOST_IN_HEADLINE])
    if len(names) > MOST_IN_HEADLINE:
        text += f" and {len(names) - MOST_IN_HEADLINE} others"
    return text


def worse_in_short(worse: Iterable[TroubleChange]) -> str:
    """Name the troubles that end worse now, and how they end."""
    groups: dict[str, list[str]] = {}
    for each in worse:
        groups.setdefault(each.ends, []).extend(each.names)
    return capitalized("; ".join(f"{listed(names)}: {how}" for how, names in groups.items()))


def worse_texts(worse: Iterable[TroubleChange]) -> list[str]:
    """Say how troubles end worse now: a sentence for each scene, and for each change in it."""
    groups: dict[str, list[str]] = {}
    for each in worse:
        groups.setdefault(f"{each.ends} ({each.scene})", []).extend(each.names)
    return [f"Worse: {how}: {'; '.join(names)}." for how, names in groups.items()]


def row_short(row: Row) -> str:
    """Write a row in short: `came_empty [may_nudge] → nudge`."""
    if row.guard is None:
        return f"{row.event} → {row.target}"
    return f"{row.event} [{row.guard}] → {row.target}"


def named_rows(rows: Sequence[Row]) -> str:
    """Name some rows as code, and count the others."""
    names = [f"`{name}`" for name in dict.fromkeys(map(row_short, rows))]
    named = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        named += f", and {len(names) - MOST_NAMED} more"
    return named


def group_reason(group: RowGroup, *, falls: bool) -> str:
    """Say why rows are off, or were before, and what that means."""
    reason = group.reason if falls else f"before, {group.reason}"
    if group.reason not in MEANINGS:
        return reason
    off, on = MEANINGS[group.reason]
    meaning = off if falls else on
    return f"{meaning} ({reason})"


def group_text(group: RowGroup, *, falls: bool) -> str:
    """Write the rows of one cause in one sentence."""
    can = "can no longer be taken"
    leads = "nothing leads to any more"
    if not falls:
        can = "can be taken now"
        leads = "is entered now"
    parts = []
    if group.rows:
        parts.append(f"{counted(len(group.rows), 'row')} {can}: {named_rows(group.rows)}")
    if group.behind:
        states = ", ".join(dict.fromkeys(row.source for row in group.behind))
        more = "and " if parts else ""
        rows = counted(len(group.behind), "row")
        parts.append(f"{more}{rows} from {states}, which {leads}")
    return capitalized(f"{group_reason(group, falls=falls)}: {', '.join(parts)}.")


def capitalized(text: str) -> str:
    """Begin a text with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"
