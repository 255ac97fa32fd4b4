"""Write a change of policy as Markdown: for a comment on a pull request, within its limits, or for
a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from attrs import evolve, frozen

from rungwise.fsm.analysis.certificate.certificate import WorstCase, backends_text, figure, path_end
from rungwise.fsm.analysis.certificate.courses import TroubleChange
from rungwise.fsm.analysis.certificate.shown.settings import value_text
from rungwise.fsm.analysis.odds.shown import TITLE
from rungwise.fsm.analysis.review import summary, words
from rungwise.fsm.analysis.review.findings import Change, EventChange, Findings
from rungwise.fsm.diagram import draw
from rungwise.fsm.diagram.markdown import markdown_table
from rungwise.fsm.engine.machine.table import Row

# characters of a comment: GitHub takes 65 536, and the tool that posts it may add a few
LARGEST = 60_000
MOST_ROWS = 40  # lines of a table or list in a comment
LONGEST = 240  # characters of a text from outside in a comment
LARGEST_PICTURE = 6_000  # characters of a picture in a comment

UNLIMITED = 10**9

NO_EVENT = "there is no such event"
SIGNS = {"more": "🔺", "less": "🔽", "same": "⚪", "added": "`+`", "removed": "`-`", "note": "`~`"}

_MARKUP = re.compile(r"[^\w\s,.;:?'\"()/=+×→·“”…%-]|(?<!\w)_|_(?!\w)|(?<=[wW]{3})\.|:(?=/)")
_PLAIN = re.compile(r"[\w ,.;:?'()\[\]/=+×→·%-]*")
"""What may stand between backticks, even in a cell of a table."""

Block = tuple[str, str, bool]
"""A part of the whole: its title, its text, and whether it is folded in a comment."""


def as_markdown(findings: Findings, *, is_comment: bool = True) -> str:
    """Write a difference as Markdown: in full, or as a comment, which has limits, folds and a
    picture.
    """
    if findings.is_empty and not findings.journals:
        return f"{summary.NOTHING}\n"
    writer = (
        _Writer(is_comment, MOST_ROWS, LONGEST)
        if is_comment
        else _Writer(is_comment, UNLIMITED, UNLIMITED)
    )
    text = f"**{writer.prose(summary.headline(findings))}**\n"
    omitted = []
    for title, body, is_folded in writer.blocks(findings):
        if not is_comment:
            text += f"\n## {title}\n\n{body}" if title else f"\n{body}"
            continue
        block = (
            f"<details><summary>{title}</summary>\n\n{body}\n</details>\n" if is_folded else body
        )
        block = f"**{title}**\n\n{body}" if title and not is_folded else block
        if len(text) + len(block) > LARGEST:
            omitted.append(title)
        else:
            text += f"\n{block}"
    if omitted:
        text += (
            f"\nOmitted for lack of space: {'; '.join(omitted)}. `rungwise diff -o "
            f"page.html` shows everything.\n"
        )
    return text


def prose(text: str, longest: int = LONGEST) -> str:
    """Escape text so that Markdown finds nothing in it: no markup, no HTML, no link, no mention."""
    cut = text if len(text) <= 4 * longest else f"{text[: 4 * longest]}..."
    escaped = _MARKUP.sub(lambda match: f"&#{ord(match[0])};", " ".join(cut.split()))
    return escaped.replace("&#64;", "&#64;&#8288;")  # a word joiner, so that nobody is mentioned


def code(text: str, longest: int = LONGEST) -> str:
    """Write text from outside as code."""
    cut = text if len(text) <= longest else f"{text[:longest]}..."
    if _PLAIN.fullmatch(cut) and cut.strip():
        return f"`{cut.strip()}`"
    return f"<code>{prose(cut, longest)}</code>" if cut.strip() else ""


@frozen
class _Writer:
    is_comment: bool
    most_rows: int
    longest: int

    def prose(self, text: str) -> str:
        """Write text, in which only code between backticks is markup."""
        pieces = enumerate(text.split("`"))
        return "".join(
            self.code(piece) if place % 2 else self._plain(piece) for place, piece in pieces
        )

    def _plain(self, text: str) -> str:
        ends = (" " if text[:1].isspace() else "", " " if text[-1:].isspace() else "")
        return f"{ends[0]}{prose(text, self.longest)}{ends[1]}" if text.strip() else text

    def code(self, text: str) -> str:
        return code(text, self.longest)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        more = f"\nand {len(rows) - self.most_rows} more\n" if len(rows) > self.most_rows else ""
        return markdown_table(list(head), [list(row) for row in rows[: self.most_rows]]) + more

    def sides(self, changes: Iterable[Change]) -> str:
        rows = [
            [self.prose(cell) for cell in (each.name, str(each.old), str(each.new))]
            for each in changes
        ]
        return self.table(["", "before", "now"], rows)

    def list(self, lines: Sequence[str]) -> str:
        more = [f"* and {len(lines) - self.most_rows} more"] if len(lines) > self.most_rows else []
        return "\n".join([*lines[: self.most_rows], *more]) + "\n"

    def blocks(self, findings: Findings) -> Iterator[Block]:
        short = [
            f"* {SIGNS[each.tone]} {self.prose(each.text)}" for each in summary.highlights(findings)
        ]
        yield "", self.list(short), False
        if findings.odds is not None:
            cells = [
                [[self.prose(cell) for cell in (name, *cells)] for name, cells, _ in rows]
                for rows in findings.odds.tables
            ]
            tables = [self.table(head, rows) for head, *rows in cells]
            yield TITLE, "\n".join([f"{self.prose(summary.PROBABLY)}\n", *tables]), False
        yield from self.parts(findings)
        if findings.calls is not None and not findings.calls.is_empty:
            yield "", "### Each call\n", False
            yield from self.parts(findings.calls)
        yield "", f"{self.prose(summary.assumptions_text(findings.setting))}\n", False
        if findings.journals:
            lines = []
            for each in findings.journals:
                notes = "".join(f"\n  * {self.prose(text)}" for text in each.notes)
                lines.append(
                    f"* {self.code(each.name)}: {self.prose(summary.journal_text(each))}{notes}"
                )
            yield (
                "Past calls",
                f"{self.prose(summary.journals_text(findings.journals))}\n\n{self.list(lines)}",
                False,
            )

    def parts(self, findings: Findings) -> Iterator[Block]:
        chain = backends_text(findings.backends)
        troubles = [each for each in findings.troubles if each.is_change]
        if troubles:
            tables = [
                f"{self.prose(words.capitalized(str(scene)))}:\n\n"
                + self.sides(map(self.trouble, group))
                for scene, group in groupby(troubles, lambda each: each.scene)
            ]
            title = f"What happens on ... ({len(troubles)} of {len(findings.troubles)})"
            yield title, "\n".join([self.prose(summary.PLAYED) + "\n", *tables]), False
        yield self.worst(findings, findings.backends)
        if findings.fields:
            fields = [
                [
                    self.code(each.name),
                    *(self.code(value_text(each.name, value)) for value in (each.old, each.new)),
                ]
                for each in findings.fields
            ]
            yield f"Fields ({len(fields)})", self.table(["field", "before", "now"], fields), False
        if findings.waits:
            yield "Waits", self.sides(findings.waits), False
        events = [each for each in findings.events if each.is_change]
        for title, changed in (
            (
                "Events that lead to something else",
                [each for each in events if each.leads_elsewhere],
            ),
            (
                "Events that lead to the same, with other numbers",
                [each for each in events if not each.leads_elsewhere],
            ),
        ):
            if changed:
                yield f"{title} ({len(changed)})", self.list([*map(self.event, changed)]), True
        rows_of_table = list(self.rows(findings))
        if rows_of_table:
            yield (
                f"Rows that are new, gone, off or on ({len(rows_of_table)})",
                self.list(rows_of_table),
                True,
            )
        yield from (
            self.worst(findings, count) for count in findings.chains if count != findings.backends
        )
        paths = list(self.paths(findings))
        if paths:
            why = (
                f"{self.prose(summary.refills(findings))}\n\n" if summary.refills(findings) else ""
            )
            yield f"The worst paths, with {chain}", why + self.list(paths), True
        chances = [each for each in summary.chances(findings) if each.is_change]
        if chances:
            yield "Which backends get a chance", self.sides(chances), False
        picture = _picture(findings) if self.is_comment else ""
        if picture:
            yield "The ladders that change", picture, True

    def trouble(self, change: TroubleChange) -> Change:
        return Change(
            "; ".join(change.names), str(change.old or NO_EVENT), str(change.new or NO_EVENT)
        )

    def worst(self, findings: Findings, count: int) -> Block:
        changes = findings.chains[count]
        rows = []
        unknown = ""
        for each in changes:
            if each.is_known:
                factor = f"{'x ' if (each.factor or 1) != 1 else ''}{words.factor_text(each)}"
                rows.append(
                    [*map(self.prose, (each.name, _ended(each.old), _ended(each.new), factor))]
                )
            else:
                unknown += f"\n{self.prose(f'{each.name}: not known; {each.new.note}')}\n"
        same = "" if any(change.is_change for change in changes) else ": unchanged"
        title = f"Worst cases of a {findings.table}, with {backends_text(count)}{same}"
        table = self.table(["worst case", "before", "now", "factor"], rows)
        return title, table + unknown, count != findings.backends

    def event(self, change: EventChange) -> str:
        where = f", {change.where}" if change.where else ""
        lines = [
            f"* {self.code(change.event)} ({self.prose(change.causes or change.says)}"
            f"){self.prose(where)}"
        ]
        for name, side, other in (
            ("before", change.old, change.new),
            ("now", change.new, change.old),
        ):
            leads = (
                "nothing"
                if side is None
                else ", ".join(self.code(str(rank)) for rank in side.taken)
            )
            lines.append(f"  * {name}: {leads}")
            if side is not None and other is not None:
                lines += [
                    f"  * {name}: {self.prose(text)}"
                    for text in side.remarks
                    if text not in other.remarks
                ]
        return "\n".join(lines)

    def rows(self, findings: Findings) -> Iterator[str]:
        groups: list[tuple[str, Sequence[Row]]] = [
            ("new", findings.appear),
            ("gone", findings.vanish),
        ]
        groups += [(f"off ({each.reason})", (*each.rows, *each.behind)) for each in findings.fall]
        groups += [
            (f"on (before, {each.reason})", (*each.rows, *each.behind))
            for each in findings.come_back
        ]
        for kind, rows in groups:
            for row in rows:
                yield (
                    f"* {self.prose(kind)}: {self.code(words.row_short(row))} from "
                    f"{self.code(row.source)}"
                )

    def paths(self, findings: Findings) -> Iterator[str]:
        for change in findings.worst:
            if change.is_change and (change.old.rungs or change.new.rungs):
                yield f"* {self.prose(change.name)}" + "".join(
                    f"\n  * {name}: {self.prose(f'{worst.path} ({path_end(worst)})')}"
                    for name, worst in (("before", change.old), ("now", change.new))
                )


def _ended(worst: WorstCase) -> str:
    """Write a worst case with the part of the budget that ends it."""
    return figure(worst) + (
        f" ({worst.ended_by})" if worst.ended_by.startswith("budget.") and worst.value else ""
    )


def _picture(findings: Findings) -> str:
    picture = findings.picture
    at_hub = [each for each in picture.decisions if each.sources == (picture.hub,)]
    changed = [each for each in at_hub if any(line.difference for line in each.lines)]
    names = {line.row.target for each in changed for line in each.lines} | {picture.hub}
    if not changed:
        return ""
    nodes = tuple(node for node in picture.nodes if node.name in names)
    diagram = draw(evolve(picture, decisions=tuple(changed), nodes=nodes), "mermaid", "ladder")
    return (
        ""
        if len(diagram) > LARGEST_PICTURE or "```" in diagram
        else f"```mermaid\n{diagram}\n```\n"
    )
