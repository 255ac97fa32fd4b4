"""Write a change of policy as one page that answers what a reviewer asks.

It is one file without scripts. The template holds its order and its words; what the template needs
beyond the findings is in this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

from rungwise.fsm.analysis.certificate import certificate
from rungwise.fsm.analysis.certificate.certificate import backends_text, counted
from rungwise.fsm.analysis.certificate.courses import MORE, Scene, TroubleChange
from rungwise.fsm.analysis.certificate.shown import settings
from rungwise.fsm.analysis.review import summary, words
from rungwise.fsm.analysis.review.findings import Change, Findings, Rank
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.table import AWAIT, CALL
from rungwise.fsm.diagram import draw
from rungwise.fsm.diagram.model import DecisionList, Picture
from rungwise.fsm.diagram.page.templates import html, ladders_html, render
from rungwise.fsm.engine.machine.table import Row, Table

SIGNS = {"more": "▲", "less": "▼", "same": "=", "added": "+", "removed": "−", "note": "~"}
LONG = 60  # characters of a text from which on the page shows only the words that differ


def as_page(findings: Findings) -> str:
    """Write a difference as one page."""
    machine = "calls" if findings.calls is None else "turns"
    modules = {
        "words": words,
        "summary": summary,
        "figures": certificate,
        "settings": settings,
    }
    constants = {"SIGNS": SIGNS, "CLOSING": CLOSING, "MORE": MORE}
    functions = {
        "broken": _broken,
        "coded": _coded,
        "counted": counted,
        "backends_text": backends_text,
        "is_long": _is_long,
        "kind_of_end": _kind_of_end,
        "ladders": ladders_html,
        "moved": _moved,
        "by_scenes": _by_scenes,
        "rows_text": _rows_text,
        "split_decisions": _split_decisions,
        "svg": _svg,
    }
    title = f"A change of the policy of {machine}"
    return render("review", title=title, findings=findings, **modules, **constants, **functions)


def _svg(picture: Picture) -> str:
    return html(draw(picture, "svg"))


def _kind_of_end(end: str, table: Table) -> str:
    """Return the kind of an outcome: one of the table, or of a call within a turn."""
    if end not in table.outcomes:
        table = CALL
    return table.kind_of_end(end)


def _by_scenes(changes: Iterable[TroubleChange]) -> list[tuple[Scene, list[TroubleChange]]]:
    """Group troubles by their scenes, in which they stand in order."""
    return [(scene, list(group)) for scene, group in groupby(changes, lambda each: each.scene)]


def _broken(name: str) -> str:
    """Write a long name so that a line may break behind its dots and underscores."""
    return html(re.sub(r"(?<=\w)([._])(?=\w)", r"\1<wbr>", escape(name)))


def _coded(text: str) -> str:
    """Write what stands between backticks as code."""
    written = ""
    for place, piece in enumerate(escape(text).split("`")):
        is_code = place % 2 == 1
        written += f"<code>{piece}</code>" if is_code else piece
    return html(written)


def _is_long(change: Change) -> bool:
    """Tell whether two texts are so long that only the words that differ are shown."""
    if not isinstance(change.old, str) or not isinstance(change.new, str):
        return False
    return len(change.old) + len(change.new) > LONG


def _moved(ranks: Sequence[Rank], others: Sequence[Rank]) -> dict[Rank, int]:
    """Return the lines that both ladders have in another order.

    Each comes with its place in the other ladder, from 1.
    """
    places = {(rank.guard, rank.target): place for place, rank in enumerate(others, 1)}
    shared: dict[Rank, int] = {}
    for rank in ranks:
        place = places.get((rank.guard, rank.target))
        if place is not None:
            shared[rank] = place
    in_order = sorted(shared.values())
    moved: dict[Rank, int] = {}
    for (rank, place), expected in zip(shared.items(), in_order, strict=True):
        if place != expected:
            moved[rank] = place
    return moved


def _rows_text(rows: Sequence[Row]) -> list[str]:
    """Write rows in short, each once; the state is named unless it is the hub of a call."""
    texts = []
    for row in rows:
        text = words.row_short(row)
        if row.source != AWAIT:
            text = f"{row.source}: {text}"
        texts.append(text)
    return list(dict.fromkeys(texts))


def _split_decisions(findings: Findings) -> tuple[list[DecisionList], list[DecisionList]]:
    """Split the ladders of the picture into those that change and those that stay."""
    changed: list[DecisionList] = []
    same: list[DecisionList] = []
    for decision in findings.picture.decisions:
        if _differs(findings.picture, decision):
            changed.append(decision)
        else:
            same.append(decision)
    return changed, same


def _differs(picture: Picture, decision: DecisionList) -> bool:
    """Tell whether a line of a ladder changes, or the state that it leads to."""
    for line in decision.lines:
        node = picture.node(line.row.target)
        if line.difference or node.was or node.change:
            return True
    return False
