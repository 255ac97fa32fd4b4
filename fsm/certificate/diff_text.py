"""How a change of policy is written down: as text for a terminal, as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from rungwise.fsm.certificate.worst_case import WorstCase, number_text
from rungwise.fsm.diagram.markdown import markdown_table

if TYPE_CHECKING:
    from rungwise.fsm.certificate.diff import FieldChange, PolicyDiff, WorstChange

NOTHING = "Nothing changes: the two policies are the same."
UNLIMITED = {"limits.fallbacks": "as many as the chain has", "reserve.seconds": "its share"}
SECONDS = ("waits.", "timeouts.", "budget.seconds", "reserve.seconds", "tool_seconds")
WITHOUT_UNIT = ("waits.jitter",)
WIDE = 50  # characters of two values that still stand on one line

Lines = list[tuple[str, ...]]


def as_text(diff: PolicyDiff) -> str:
    """Write a difference for a terminal."""
    if diff.is_empty:
        return f"{NOTHING}\n"
    of_calls = f"\nEach call\n\n{as_text(diff.calls)}" if diff.calls is not None and not diff.calls.is_empty else ""
    lines: list[str] = []
    for title, rows in _parts(diff):
        lines += [title, *_aligned([row for row in rows if not _is_long(row)])]
        for name, before, _, after in filter(_is_long, rows):
            lines += [f"  {name}", f"    - {before}", f"    + {after}"]
        lines.append("")
    worst = [("", "before", "after", "factor"), *_worst(diff.worst)]
    unknown = [f"  {name}: {why}" for name, why in _unknown(diff.worst)]
    return "\n".join([*lines, _worst_title(diff), *_aligned(worst), *unknown]) + "\n" + of_calls


def as_markdown(diff: PolicyDiff) -> str:
    """Write a difference as Markdown."""
    if diff.is_empty:
        return f"{NOTHING}\n"
    of_calls = (
        f"\n### Each call\n\n{as_markdown(diff.calls)}" if diff.calls is not None and not diff.calls.is_empty else ""
    )
    lines: list[str] = []
    for title, rows in _parts(diff):
        lines += [f"**{title}**", ""]
        if len(rows[0]) > 2:
            lines += _table(["field", "before", "after"], ((row[0], row[1], row[3]) for row in rows))
        else:
            lines += [f"* `{row[0]}`{f' ({row[1]})' if row[1:] else ''}" for row in rows]
        lines.append("")
    worst = _table(["worst case", "before", "after", "factor"], _worst(diff.worst))
    unknown = [line for name, why in _unknown(diff.worst) for line in ("", f"{name}: {why}")]
    return "\n".join([*lines, f"**{_worst_title(diff)}**", "", *worst, *unknown]) + "\n" + of_calls


def _parts(diff: PolicyDiff) -> Iterator[tuple[str, Lines]]:
    """Yield each part that is not empty, under its title."""
    parts: dict[str, Lines] = {
        "Fields": [_field(change) for change in diff.fields],
        "Rows that appear": [(str(row),) for row in diff.appear],
        "Rows that vanish": [(str(row),) for row in diff.vanish],
        "Events whose guards are tried in another order": [(f"{event} in {at}",) for event, at in diff.reordered],
        "Rows that can no longer be taken": [(str(row), reason) for row, reason in diff.die.items()],
        "Rows that can be taken now": [(str(row), f"before, {reason}") for row, reason in diff.revive.items()],
    }
    return ((f"{title} ({len(lines)})", lines) for title, lines in parts.items() if lines)


def _field(change: FieldChange) -> tuple[str, ...]:
    return change.name, _value(change.name, change.old), "->", _value(change.name, change.new)


def _value(name: str, value: object) -> str:
    if value is None:
        return UNLIMITED.get(name, "none" if name.startswith("switch_after.") else "no limit")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number_text(value) + (" s" if name.startswith(SECONDS) and name not in WITHOUT_UNIT else "")
    return repr(value)


def _worst_title(diff: PolicyDiff) -> str:
    backends = "one backend" if diff.backends == 1 else f"{diff.backends} backends"
    same = "" if any(change.is_change for change in diff.worst) else ": unchanged"
    return f"Worst cases of a {diff.table}, with {backends}{same}"


def _worst(changes: Iterable[WorstChange]) -> Lines:
    known = [change for change in changes if change.is_known]
    return [(change.name, _figure(change.old), _figure(change.new), _factor(change)) for change in known]


def _unknown(changes: Iterable[WorstChange]) -> Lines:
    return [(change.name, f"not known; {change.new.note}") for change in changes if not change.is_known]


def _is_long(row: tuple[str, ...]) -> bool:
    return len(row) > 2 and len(row[1]) + len(row[3]) > WIDE


def _figure(worst: WorstCase) -> str:
    if worst.value is None:
        return "not known"
    is_budget = worst.ended_by.startswith("budget.")
    least = "" if worst.is_exact or (is_budget and worst.ended_by != "budget.attempts") else "no more than "
    ended = f" ({worst.ended_by})" if is_budget else ""
    return f"{least}{number_text(worst.value)}{ended}"


def _factor(change: WorstChange) -> str:
    if change.factor is None:
        return "" if change.old.value == change.new.value else "?"
    return "same" if change.factor == 1 else f"x {change.factor:.3g}"


def _aligned(rows: Lines) -> list[str]:
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _table(head: list[str], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return markdown_table(head, [[_cell(cell) for cell in row] for row in rows]).splitlines()


def _cell(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", r"\|").replace("`", r"\`")
