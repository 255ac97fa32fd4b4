"""Write a change of policy as Markdown: a comment on a pull request, or text for a terminal.

A comment has limits, folds long parts and shows a picture; a text for a terminal has everything in
full. Either way the parts are the same, in the same order.

Names of policies, reasons and hints come from outside. A comment is read by others, so nothing of
that may act as markup, as a link or as a mention (`escapes.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from attrs import evolve, frozen

from rungwise.fsm.analysis.certificate.certificate import WorstCase, backends_text, figure, path_end
from rungwise.fsm.analysis.certificate.courses import TroubleChange
from rungwise.fsm.analysis.certificate.shown.settings import value_text
from rungwise.fsm.analysis.odds.shown import TITLE, Comparison
from rungwise.fsm.analysis.replay.what_if import WhatIf
from rungwise.fsm.analysis.review import summary, words
from rungwise.fsm.analysis.review.escapes import LONGEST, code, prose
from rungwise.fsm.analysis.review.findings import Change, EventChange, Findings, Ladder, Tone
from rungwise.fsm.diagram import draw
from rungwise.fsm.diagram.markdown import markdown_table
from rungwise.fsm.engine.machine.table import Row

# characters of a comment: GitHub takes 65 536, and the tool that posts it may add a few
LARGEST = 60_000
MOST_ROWS = 40  # lines of a table or list in a comment
LARGEST_PICTURE = 6_000  # characters of a picture in a comment

UNLIMITED = 10**9

NO_EVENT = "there is no such event"
SIGNS: dict[Tone, str] = {
    "more": "🔺",
    "less": "🔽",
    "same": "⚪",
    "added": "`+`",
    "removed": "`-`",
    "note": "`~`",
}


@frozen
class ReviewPart:
    """Hold a part of the whole.

    Arguments:
        title: its title; empty for none.
        text: its text, in Markdown.
        is_folded: whether a comment folds it.
    """

    title: str
    text: str
    is_folded: bool = False

    def as_comment(self) -> str:
        """Write the part for a comment."""
        if self.is_folded:
            summary_line = f"<summary>{self.title}</summary>"
            return f"<details>{summary_line}\n\n{self.text}\n</details>\n"
        if self.title:
            return f"**{self.title}**\n\n{self.text}"
        return self.text

    def in_full(self) -> str:
        """Write the part for a terminal."""
        if self.title:
            return f"## {self.title}\n\n{self.text}"
        return self.text


def as_markdown(findings: Findings, *, is_comment: bool = True) -> str:
    """Write a difference as Markdown.

    Arguments:
        findings: the difference.
        is_comment: whether it is a comment, which leaves out the parts that have no room in it;
            otherwise it is in full.
    """
    if findings.is_empty and not findings.journals:
        return f"{summary.NOTHING}\n"
    writer = _Writer(UNLIMITED, UNLIMITED)
    if is_comment:
        writer = _Writer(MOST_ROWS, LONGEST)
    text = f"**{writer.prose(summary.headline(findings))}**\n"
    omitted = []
    for block in writer.blocks(findings, with_picture=is_comment):
        if not is_comment:
            text += f"\n{block.in_full()}"
            continue
        part = block.as_comment()
        if len(text) + len(part) > LARGEST:
            omitted.append(block.title)
        else:
            text += f"\n{part}"
    if omitted:
        everything = "`rungwise diff -o page.html` shows everything."
        text += f"\nOmitted for lack of space: {'; '.join(omitted)}. {everything}\n"
    return text


@frozen
class _Writer:
    """Write the parts of a difference.

    Arguments:
        most_rows: the most lines of a table or list.
        longest: the most characters of a text from outside.
    """

    most_rows: int
    longest: int

    def prose(self, text: str) -> str:
        """Write text, in which only code between backticks is markup."""
        written = ""
        for place, piece in enumerate(text.split("`")):
            is_code = place % 2 == 1
            written += self.code(piece) if is_code else self._plain(piece)
        return written

    def _plain(self, text: str) -> str:
        """Escape text, but keep that there is space at its ends."""
        if not text.strip():
            return text
        before = " " if text[:1].isspace() else ""
        after = " " if text[-1:].isspace() else ""
        return f"{before}{prose(text, self.longest)}{after}"

    def code(self, text: str) -> str:
        """Write text from outside as code."""
        return code(text, self.longest)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Write a table, and below it how many of its rows are left out."""
        shown = [list(row) for row in rows[: self.most_rows]]
        table = markdown_table(list(head), shown)
        if len(rows) > self.most_rows:
            table += f"\nand {len(rows) - self.most_rows} more\n"
        return table

    def sides(self, changes: Iterable[Change]) -> str:
        """Write a table of things before and now."""
        rows = []
        for each in changes:
            cells = (each.name, str(each.old), str(each.new))
            rows.append([self.prose(cell) for cell in cells])
        return self.table(["", "before", "now"], rows)

    def list(self, lines: Sequence[str]) -> str:
        """Write a list, and at its end how many of its lines are left out."""
        shown = [*lines[: self.most_rows]]
        if len(lines) > self.most_rows:
            shown.append(f"* and {len(lines) - self.most_rows} more")
        return "\n".join(shown) + "\n"

    def blocks(self, findings: Findings, *, with_picture: bool) -> Iterator[ReviewPart]:
        """Yield all parts, in the order in which a reviewer needs them."""
        highlights = []
        for each in summary.highlights(findings):
            highlights.append(f"* {SIGNS[each.tone]} {self.prose(each.text)}")
        yield ReviewPart("", self.list(highlights))
        if findings.odds is not None:
            yield self.odds(findings.odds)
        yield from self.parts(findings, with_picture=with_picture)
        if findings.calls is not None and not findings.calls.is_empty:
            yield ReviewPart("", "### Each call\n")
            yield from self.parts(findings.calls, with_picture=with_picture)
        yield ReviewPart("", f"{self.prose(summary.assumptions_text(findings.setting))}\n")
        if findings.journals:
            yield self.journals(findings.journals)

    def parts(self, findings: Findings, *, with_picture: bool) -> Iterator[ReviewPart]:
        """Yield the parts of one machine: of the calls, or of the turns."""
        yield from self.troubles(findings)
        yield self.worst(findings, findings.backends)
        yield from self.fields(findings)
        if findings.waits:
            yield ReviewPart("Waits", self.sides(findings.waits))
        yield from self.events(findings)
        rows = list(self.rows(findings))
        if rows:
            title = f"Rows that are new, gone, off or on ({len(rows)})"
            yield ReviewPart(title, self.list(rows), is_folded=True)
        for count in findings.chains:
            if count != findings.backends:
                yield self.worst(findings, count)
        yield from self.paths(findings)
        chances = [each for each in summary.chances(findings) if each.is_change]
        if chances:
            yield ReviewPart("Which backends get a chance", self.sides(chances))
        if with_picture:
            picture = _picture(findings)
            if picture:
                yield ReviewPart("The ladders that change", picture, is_folded=True)

    def odds(self, odds: Comparison) -> ReviewPart:
        """Write what calls will probably come to, before and now."""
        tables = [f"{self.prose(summary.PROBABLY)}\n"]
        for rows in odds.tables:
            lines = []
            for name, figures, _ in rows:
                lines.append([self.prose(cell) for cell in (name, *figures)])
            head, *body = lines
            tables.append(self.table(head, body))
        return ReviewPart(TITLE, "\n".join(tables))

    def journals(self, journals: Sequence[WhatIf]) -> ReviewPart:
        """Write what past calls would have done."""
        lines = []
        for each in journals:
            line = f"* {self.code(each.name)}: {self.prose(summary.journal_text(each))}"
            for note in each.notes:
                line += f"\n  * {self.prose(note)}"
            lines.append(line)
        counts = self.prose(summary.journals_text(journals))
        return ReviewPart("Past calls", f"{counts}\n\n{self.list(lines)}")

    def troubles(self, findings: Findings) -> Iterator[ReviewPart]:
        """Write what calls do about each trouble for which they do something else now."""
        changed = [each for each in findings.troubles if each.is_change]
        if not changed:
            return
        tables = [f"{self.prose(summary.PLAYED)}\n"]
        for scene, group in groupby(changed, lambda each: each.scene):
            heading = self.prose(words.capitalized(str(scene)))
            tables.append(f"{heading}:\n\n{self.sides(map(_sides_of_trouble, group))}")
        title = f"What happens on ... ({len(changed)} of {len(findings.troubles)})"
        yield ReviewPart(title, "\n".join(tables))

    def worst(self, findings: Findings, count: int) -> ReviewPart:
        """Write the worst cases for a number of backends."""
        changes = findings.chains[count]
        rows = []
        unknown = ""
        for each in changes:
            if each.is_known:
                factor = words.factor_text(each)
                if (each.factor or 1) != 1:
                    factor = f"x {factor}"
                cells = (each.name, _ended(each.old), _ended(each.new), factor)
                rows.append([self.prose(cell) for cell in cells])
            else:
                unknown += f"\n{self.prose(f'{each.name}: not known; {each.new.note}')}\n"
        title = f"Worst cases of a {findings.table}, with {backends_text(count)}"
        if not any(change.is_change for change in changes):
            title += ": unchanged"
        table = self.table(["worst case", "before", "now", "factor"], rows)
        return ReviewPart(title, table + unknown, is_folded=count != findings.backends)

    def fields(self, findings: Findings) -> Iterator[ReviewPart]:
        """Write the fields of the policy that differ."""
        if not findings.fields:
            return
        rows = []
        for each in findings.fields:
            old = value_text(each.name, each.old)
            new = value_text(each.name, each.new)
            rows.append([self.code(cell) for cell in (each.name, old, new)])
        yield ReviewPart(f"Fields ({len(rows)})", self.table(["field", "before", "now"], rows))

    def events(self, findings: Findings) -> Iterator[ReviewPart]:
        """Write the events that lead to something else, and those for which only numbers differ."""
        elsewhere = []
        same = []
        for each in findings.events:
            if each.leads_elsewhere:
                elsewhere.append(self.event(each))
            elif each.is_change:
                same.append(self.event(each))
        if elsewhere:
            title = f"Events that lead to something else ({len(elsewhere)})"
            yield ReviewPart(title, self.list(elsewhere), is_folded=True)
        if same:
            title = f"Events that lead to the same, with other numbers ({len(same)})"
            yield ReviewPart(title, self.list(same), is_folded=True)

    def event(self, change: EventChange) -> str:
        """Write an event with its ladders before and now, as an entry of a list."""
        meaning = self.prose(change.causes or change.says)
        entry = f"* {self.code(change.event)} ({meaning})"
        if change.where:
            entry += self.prose(f", {change.where}")
        lines = [entry]
        lines += self.side("before", change.old, change.new)
        lines += self.side("now", change.new, change.old)
        return "\n".join(lines)

    def side(self, name: str, ladder: Ladder | None, other: Ladder | None) -> Iterator[str]:
        """Yield the lines of one side of an event.

        Arguments:
            name: the side: `before` or `now`.
            ladder: its ladder; None if the table does not have the event.
            other: the ladder of the other side, whose remarks are not repeated.
        """
        if ladder is None:
            yield f"  * {name}: nothing"
            return
        ranks = [self.code(str(rank)) for rank in ladder.taken]
        yield f"  * {name}: {', '.join(ranks)}"
        if other is not None:
            for remark in ladder.remarks:
                if remark not in other.remarks:
                    yield f"  * {name}: {self.prose(remark)}"

    def rows(self, findings: Findings) -> Iterator[str]:
        """Yield an entry of a list for each row that is new, gone, off or on."""
        groups: list[tuple[str, Sequence[Row]]] = [
            ("new", findings.appear),
            ("gone", findings.vanish),
        ]
        for fallen in findings.fall:
            groups.append((f"off ({fallen.reason})", (*fallen.rows, *fallen.behind)))
        for back in findings.come_back:
            groups.append((f"on (before, {back.reason})", (*back.rows, *back.behind)))
        for kind, rows in groups:
            for row in rows:
                name = self.code(words.row_short(row))
                yield f"* {self.prose(kind)}: {name} from {self.code(row.source)}"

    def paths(self, findings: Findings) -> Iterator[ReviewPart]:
        """Write the worst paths that change."""
        entries = []
        for change in findings.worst:
            if change.is_change and (change.old.rungs or change.new.rungs):
                before = self.prose(_path_text(change.old))
                now = self.prose(_path_text(change.new))
                name = self.prose(change.name)
                entries.append(f"* {name}\n  * before: {before}\n  * now: {now}")
        if not entries:
            return
        text = self.list(entries)
        refills = summary.refills(findings)
        if refills:
            text = f"{self.prose(refills)}\n\n{text}"
        title = f"The worst paths, with {backends_text(findings.backends)}"
        yield ReviewPart(title, text, is_folded=True)


def _sides_of_trouble(change: TroubleChange) -> Change:
    """Return what calls do about a trouble, before and now, under its names."""
    name = "; ".join(change.names)
    return Change(name, str(change.old or NO_EVENT), str(change.new or NO_EVENT))


def _ended(worst: WorstCase) -> str:
    """Write a worst case with the part of the budget that ends it."""
    if worst.value and worst.ended_by.startswith("budget."):
        return f"{figure(worst)} ({worst.ended_by})"
    return figure(worst)


def _path_text(worst: WorstCase) -> str:
    """Write the path of a worst case with its end."""
    return f"{worst.path} ({path_end(worst)})"


def _picture(findings: Findings) -> str:
    """Draw the ladders that change; empty if there are none, or if a comment has no room for it."""
    picture = findings.picture
    changed = []
    names = {picture.hub}
    for decision in picture.decisions:
        is_at_hub = decision.sources == (picture.hub,)
        if is_at_hub and any(line.difference for line in decision.lines):
            changed.append(decision)
            names.update(line.row.target for line in decision.lines)
    if not changed:
        return ""
    nodes = tuple(node for node in picture.nodes if node.name in names)
    diagram = draw(evolve(picture, decisions=tuple(changed), nodes=nodes), "mermaid", "ladder")
    if len(diagram) > LARGEST_PICTURE or "```" in diagram:
        return ""
    return f"```mermaid\n{diagram}\n```\n"
