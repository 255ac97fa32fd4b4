"""How a change of policy is written as Markdown that fits a comment on a pull request, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from rungwise.fsm.diagram import draw
from rungwise.fsm.diagram.markdown import markdown_table
from rungwise.fsm.diagram.page.ladder import change_in
from rungwise.fsm.review.events import event_groups
from rungwise.fsm.review.headline import (
    NOTHING,
    backends_text,
    chances,
    headline,
    journal_text,
    journals_text,
    path_end,
    refills,
    row_short,
    verdicts,
)
from rungwise.fsm.review.setting import setting_text
from rungwise.fsm.review.text import ended_figure, factor
from rungwise.fsm.review.troubles import backends_of, course_text, names_of
from rungwise.fsm.review.words import value_text

if TYPE_CHECKING:
    from rungwise.fsm.machine.table import Row
    from rungwise.fsm.review.diff import PolicyDiff
    from rungwise.fsm.review.events import EventChange, Ladder

LARGEST = 60_000
"""Characters of the whole: GitHub takes 65 536 in a comment, and what posts it may add a few."""

MOST_ROWS = 40
"""Lines of a table or list."""

LONGEST = 240
"""Characters of a text from outside."""

LARGEST_PICTURE = 6_000
"""Characters of a picture that a comment has room for."""

SIGNS = {"more": "🔺", "less": "🔽", "same": "⚪", "added": "`+`", "removed": "`-`", "note": "`~`"}

_MARKUP = re.compile(r"[^\w\s,.;:?'\"()/=+×→·“”…%-]|(?<!\w)_|_(?!\w)|(?<=[wW]{3})\.|:(?=/)")
_PLAIN = re.compile(r"[\w ,.;:?'()\[\]/=+×→·-]*")
"""What may stand between backticks, also in a cell of a table."""


def as_markdown(diff: PolicyDiff) -> str:
    """Write a difference as Markdown; what there is no room for is named at its end."""
    if diff.is_empty and not diff.journals:
        return f"{NOTHING}\n"
    written, left_out = f"**{prose(headline(diff))}**\n", []
    for title, block in _blocks(diff):
        if len(written) + len(block) > LARGEST:
            left_out.append(title)
        else:
            written += f"\n{block}"
    if left_out:
        written += (
            f"\nLeft out, for there is no room: {', '.join(left_out)}. `rungwise diff -o page.html` has all of it.\n"
        )
    return written


def prose(text: str) -> str:
    """Write text so that Markdown finds nothing in it: no markup, no HTML, no link, no mention."""
    cut = text if len(text) <= 4 * LONGEST else f"{text[: 4 * LONGEST]}..."
    escaped = _MARKUP.sub(lambda found: f"&#{ord(found[0])};", " ".join(cut.split()))
    return escaped.replace("&#64;", "&#64;&#8288;")  # a word joiner, so that nobody is mentioned


def code(text: str) -> str:
    """Write text from outside as code, shortened."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    if _PLAIN.fullmatch(cut) and cut.strip():
        return f"`{cut.strip()}`"
    return f"<code>{prose(cut)}</code>" if cut.strip() else ""


def _blocks(diff: PolicyDiff) -> Iterator[tuple[str, str]]:
    yield (
        "the verdicts",
        "".join(f"* {SIGNS[each.tone]} {prose(each.text)}\n" for each in list(verdicts(diff))[:MOST_ROWS]),
    )
    yield from _parts(diff)
    if diff.calls is not None and not diff.calls.is_empty:
        yield "the heading of the calls", "### Each call\n"
        yield from ((f"{title} of the calls", block) for title, block in _parts(diff.calls))
    yield "what was asked for", f"{prose(setting_text(diff.setting))}\n"
    if diff.journals:
        lines = [f"* {code(each.name)}: {prose(journal_text(each))}" for each in diff.journals]
        yield "the past calls", f"**{prose(journals_text(diff.journals))}**\n\n{_list(lines)}"


def _parts(diff: PolicyDiff) -> Iterator[tuple[str, str]]:
    differ = [
        [prose(f"{names_of(each)}, {backends_of(each)}"), prose(course_text(each.old)), prose(course_text(each.new))]
        for each in diff.troubles
        if each.is_change
    ]
    if differ:
        told = "The trouble comes back from every attempt; the seconds are those with the least and the most of chance."
        table = _table(["what happens on ...", "before", "now"], differ)
        yield (
            "what happens on each trouble",
            f"**What happens on ... ({len(differ)} of {len(diff.troubles)})**\n\n{told}\n\n{table}",
        )
    yield f"the worst cases with {backends_text(diff.backends)}", _worst(diff, diff.backends)
    if diff.fields:
        rows = [
            [code(each.name), *(code(value_text(each.name, value)) for value in (each.old, each.new))]
            for each in diff.fields
        ]
        yield "the fields", f"**Fields ({len(rows)})**\n\n{_table(['field', 'before', 'now'], rows)}"
    if diff.waits:
        rows = [[each.what, each.old, each.new] for each in diff.waits]
        yield "the waits", f"**Waits**\n\n{_table(['', 'before', 'now'], [list(map(prose, row)) for row in rows])}"
    for title, changed in event_groups(diff.events):
        yield "the events", _folded(f"{title} ({len(changed)})", _list(map(_event, changed)))
    of_table = _rows(diff)
    if of_table:
        yield "the rows", _folded(f"Rows that are new, gone, off or on ({len(of_table)})", _list(of_table))
    others = [count for count in diff.chains if count != diff.backends]
    if others:
        tables = "\n".join(_worst(diff, count) for count in others)
        yield "the worst cases of other chains", _folded("Worst cases of other chains", tables)
    paths = _paths(diff)
    if paths:
        yield "the worst paths", _folded(f"The worst paths, with {backends_text(diff.backends)}", paths)
    kept = [[prose(cell) for cell in each] for each in chances(diff) if each[1] != each[2]]
    if kept:
        yield "which backends get a chance", f"**Which backends get a chance**\n\n{_table(['', 'before', 'now'], kept)}"
    picture = _picture(diff)
    if picture:
        yield "the picture", _folded("The ladders that change", picture)


def _worst(diff: PolicyDiff, count: int) -> str:
    changes = diff.chains[count]
    same = "" if any(change.is_change for change in changes) else ": unchanged"
    rows = [
        [each.name, ended_figure(each.old), ended_figure(each.new), factor(each)] for each in changes if each.is_known
    ]
    unknown = [f"\n{prose(f'{each.name}: not known; {each.new.note}')}\n" for each in changes if not each.is_known]
    table = _table(["worst case", "before", "now", "factor"], [list(map(prose, row)) for row in rows])
    return f"**Worst cases of a {diff.table}, with {backends_text(count)}{same}**\n\n{table}{''.join(unknown)}"


def _event(change: EventChange) -> str:
    by = f" ({prose(change.brought_by.replace('`', ''))})" if change.brought_by else ""
    where = f", {prose(change.where)}" if change.where else ""
    lines = [f"* {code(change.event)}{by}{where}"]
    lines += [f"  * {name}: {_ladder(side)}" for name, side in (("before", change.old), ("now", change.new))]
    if change.old is not None and change.new is not None:
        new = [text for text in change.new.remarks if text not in change.old.remarks]
        lines += [f"  * now: {prose(text.replace('`', ''))}" for text in new]
    return "\n".join(lines)


def _ladder(ladder: Ladder | None) -> str:
    return "nothing" if ladder is None else ", ".join(code(str(rank)) for rank in ladder.taken)


def _rows(diff: PolicyDiff) -> list[str]:
    groups: list[tuple[str, Sequence[Row]]] = [("new", diff.appear), ("gone", diff.vanish)]
    groups += [(f"off ({each.reason})", (*each.rows, *each.behind)) for each in diff.fall]
    groups += [(f"on (before, {each.reason})", (*each.rows, *each.behind)) for each in diff.come_back]
    return [f"* {prose(kind)}: {code(row_short(row))} from {code(row.source)}" for kind, rows in groups for row in rows]


def _paths(diff: PolicyDiff) -> str:
    lines = []
    for change in diff.worst:
        if change.is_change and (change.old.rungs or change.new.rungs):
            sides = (("before", change.old), ("now", change.new))
            told = [f"  * {name}: {prose(f'{worst.path} ({path_end(worst)})')}" for name, worst in sides]
            lines.append("\n".join([f"* {prose(change.name)}", *told]))
    return "".join(f"{prose(each)}\n\n" for each in refills(diff)) + _list(lines) if lines else ""


def _picture(diff: PolicyDiff) -> str:
    changed = [
        each
        for each in diff.picture.decisions
        if any(map(change_in, each.lines)) and each.sources == (diff.picture.hub,)
    ]
    names = {line.row.target for each in changed for line in each.lines} | {diff.picture.hub}
    nodes = tuple(node for node in diff.picture.nodes if node.name in names)
    if not changed:
        return ""
    drawn = draw(evolve(diff.picture, decisions=tuple(changed), nodes=nodes), "mermaid", "ladder")
    if len(drawn) > LARGEST_PICTURE or "```" in drawn:
        return ""
    return f"```mermaid\n{drawn}\n```\n"


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _list(lines: Iterable[str]) -> str:
    found = list(lines)
    more = [f"* and {len(found) - MOST_ROWS} more"] if len(found) > MOST_ROWS else []
    return "\n".join([*found[:MOST_ROWS], *more]) + "\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    more = f"\nand {len(rows) - MOST_ROWS} more\n" if len(rows) > MOST_ROWS else ""
    return markdown_table(head, rows[:MOST_ROWS]) + more
