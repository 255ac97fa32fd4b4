"""How a change of policy is written for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from rungwise.fsm.review.events import event_groups
from rungwise.fsm.review.headline import (
    NOTHING,
    backends_text,
    chances,
    factor_text,
    figure,
    group_text,
    headline,
    journal_text,
    journals_text,
    path_end,
    refills,
)
from rungwise.fsm.review.troubles import backends_of, course_text, names_of
from rungwise.fsm.review.words import value_text

if TYPE_CHECKING:
    from rungwise.fsm.certificate.verified import WorstCase
    from rungwise.fsm.review.diff import PolicyDiff, WorstChange
    from rungwise.fsm.review.events import EventChange

WIDTH = 100
WIDE = 50  # characters of two values that still stand on one line

Cells = list[tuple[str, ...]]


def as_text(diff: PolicyDiff) -> str:
    """Write a difference for a terminal of 100 columns."""
    if diff.is_empty and not diff.journals:
        return f"{NOTHING}\n"
    lines = [*_wrapped(headline(diff)), ""]
    lines += _part(diff)
    if diff.calls is not None and not diff.calls.is_empty:
        lines += ["Each call", "", *_part(diff.calls)]
    if diff.journals:
        lines += [journals_text(diff.journals)]
        for each in diff.journals:
            lines += _wrapped(f"{each.name}: {journal_text(each)}", 2)
            lines += [line for note in each.notes for line in _wrapped(note, 4)]
        lines.append("")
    return "\n".join(lines)


def _part(diff: PolicyDiff) -> list[str]:
    return [
        *_fields(diff),
        *_troubles(diff),
        *_rows(diff),
        *_waits(diff),
        *_events(diff),
        *_chances(diff),
        *_worst(diff),
        *_paths(diff),
    ]


def _fields(diff: PolicyDiff) -> Iterator[str]:
    if not diff.fields:
        return
    yield f"Fields ({len(diff.fields)})"
    cells = [(each.name, value_text(each.name, each.old), value_text(each.name, each.new)) for each in diff.fields]
    yield from _aligned([(name, old, "->", new) for name, old, new in cells if len(old) + len(new) <= WIDE])
    for name, old, new in cells:
        if len(old) + len(new) > WIDE:
            yield from (f"  {name}", *_wrapped(f"- {old}", 4, 6), *_wrapped(f"+ {new}", 4, 6))
    yield ""


def _troubles(diff: PolicyDiff) -> Iterator[str]:
    changed = [each for each in diff.troubles if each.is_change]
    if changed:
        yield f"What happens on ..., where it comes back from every attempt ({len(changed)} of {len(diff.troubles)})"
        for each in changed:
            yield from _wrapped(f"{names_of(each)}, {backends_of(each)}:", 2, 4)
            yield from (*_wrapped(f"- {course_text(each.old)}", 4, 6), *_wrapped(f"+ {course_text(each.new)}", 4, 6))
        yield ""


def _rows(diff: PolicyDiff) -> Iterator[str]:
    for title, rows in (("Rows that appear", diff.appear), ("Rows that vanish", diff.vanish)):
        if rows:
            yield f"{title} ({len(rows)})"
            yield from (f"  {row}" for row in rows)
            yield ""
    if diff.reordered:
        yield f"Events whose guards are tried in another order ({len(diff.reordered)})"
        yield from (f"  {event} in {source}" for event, source in diff.reordered)
        yield ""
    for falls, groups in ((True, diff.fall), (False, diff.come_back)):
        if groups:
            count = sum(each.count for each in groups)
            yield f"{'Rows that can no longer be taken' if falls else 'Rows that can be taken now'} ({count})"
            for group in groups:
                yield from _wrapped(group_text(group, falls=falls), 2, 4)
            yield ""
    if diff.redeclared:
        yield "Names that mean something else"
        yield from (line for each in diff.redeclared for line in _wrapped(each, 2, 4))
        yield ""


def _waits(diff: PolicyDiff) -> Iterator[str]:
    if diff.waits:
        yield "Waits"
        yield from _aligned([(each.what, each.old, "->", each.new) for each in diff.waits])
        yield ""


def _events(diff: PolicyDiff) -> Iterator[str]:
    for title, changed in event_groups(diff.events):
        yield f"{title} ({len(changed)})"
        yield from (line for each in changed for line in _event(each))
        yield ""


def _event(each: EventChange) -> Iterator[str]:
    told = f"on {each.brought_by} ({each.event})" if each.brought_by else f"{each.event} ({each.says})"
    yield from _wrapped(f"{told}{f', {each.where}' if each.where else ''}:", 2, 4)
    for name, ladder in (("before", each.old), ("now", each.new)):
        yield from _wrapped(f"{name + ':':8}{ladder or 'nothing'}", 4, 12)
    was, now = (set(side.remarks) if side is not None else set() for side in (each.old, each.new))
    if was != now and each.old is not None and each.new is not None:
        yield from (line for text in each.old.remarks if text not in now for line in _wrapped(f"- {text}", 4, 6))
        yield from (line for text in each.new.remarks if text not in was for line in _wrapped(f"+ {text}", 4, 6))


def _chances(diff: PolicyDiff) -> Iterator[str]:
    changed = [each for each in chances(diff) if each[1] != each[2]]
    if changed:
        yield "Which backends get a chance"
        for what, old, new in changed:
            yield from (f"  {what}", *_wrapped(f"- {old}", 4, 6), *_wrapped(f"+ {new}", 4, 6))
        yield ""


def _worst(diff: PolicyDiff) -> Iterator[str]:
    for count, changes in diff.chains.items():
        same = "" if any(change.is_change for change in changes) else ": unchanged"
        yield f"Worst cases of a {diff.table}, with {backends_text(count)}{same}"
        known = [change for change in changes if change.is_known]
        cells = [(each.name, ended_figure(each.old), ended_figure(each.new), factor(each)) for each in known]
        yield from _aligned([("", "before", "now", "factor"), *cells])
        yield ""
    for change in diff.worst:
        if not change.is_known:
            yield from _wrapped(f"{change.name}: not known; {change.new.note}", 2, 4)
    yield ""


def _paths(diff: PolicyDiff) -> Iterator[str]:
    told = [change for change in diff.worst if change.old.rungs and change.new.rungs and change.is_change]
    if not told:
        return
    yield f"The worst paths, with {backends_text(diff.backends)}"
    yield from (line for each in refills(diff) for line in _wrapped(each, 2, 4))
    for change in told:
        yield f"  {change.name}"
        for name, side in (("before", change.old), ("now", change.new)):
            yield from _wrapped(f"{name + ':':8}{side.path} ({path_end(side)})", 4, 12)
    yield ""


def ended_figure(worst: WorstCase) -> str:
    """Write a worst case with the part of the budget that ends it."""
    return figure(worst) + (f" ({worst.ended_by})" if worst.ended_by.startswith("budget.") and worst.value else "")


def factor(change: WorstChange) -> str:
    """Write how many times the old worst case the new one is."""
    if change.factor is None:
        return "" if change.old.value == change.new.value else "?"
    return "same" if change.factor == 1 else f"x {factor_text(change.factor)}"


def _aligned(rows: Cells) -> list[str]:
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _wrapped(line: str, indent: int = 0, further: int | None = None) -> list[str]:
    more = " " * (indent + 2 if further is None else further) if indent else ""
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=more,
        break_on_hyphens=False,
        break_long_words=False,
    )
