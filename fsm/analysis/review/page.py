"""Write a change of policy as a page in one file, without scripts, that answers what a reviewer
asks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

from rungwise.fsm.analysis.certificate import certificate
from rungwise.fsm.analysis.certificate.certificate import backends_text, counted
from rungwise.fsm.analysis.certificate.courses import MORE
from rungwise.fsm.analysis.certificate.shown import settings
from rungwise.fsm.analysis.review import summary, words
from rungwise.fsm.analysis.review.findings import Change, Findings, Rank
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.table import CALL
from rungwise.fsm.diagram import draw
from rungwise.fsm.diagram.model import Decision
from rungwise.fsm.diagram.page.templates import html, ladders_html, render
from rungwise.fsm.engine.machine.table import Row

SIGNS = {"more": "▲", "less": "▼", "same": "=", "added": "+", "removed": "−", "note": "~"}
LONG = 60  # characters of a text from which on the page shows only the words that differ


def as_page(findings: Findings) -> str:
    """Write a difference as one page."""
    return render(
        "review",
        title=f"A change of the policy of {'turns' if findings.calls is not None else 'calls'}",
        findings=findings,
        words=words,
        summary=summary,
        SIGNS=SIGNS,
        CLOSING=CLOSING,
        broken=lambda words: html(re.sub(r"(?<=\w)([._])(?=\w)", r"\1<wbr>", escape(words))),
        coded=_coded,
        figures=certificate,
        settings=settings,
        counted=counted,
        backends_text=backends_text,
        is_long=_is_long,
        kind_of_end=lambda end, table: (table if end in table.outcomes else CALL).kind_of_end(end),
        MORE=MORE,
        ladders=ladders_html,
        moved=_moved,
        by_scenes=lambda changes: [
            (scene, [*group]) for scene, group in groupby(changes, lambda each: each.scene)
        ],
        rows_text=_rows_text,
        split_decisions=_split_decisions,
        svg=lambda picture: html(draw(picture, "svg")),
    )


def _coded(text: str) -> str:
    """Write what stands between backticks as code."""
    pieces = enumerate(escape(text).split("`"))
    return html("".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in pieces))


def _is_long(change: Change) -> bool:
    return (
        isinstance(change.old, str)
        and isinstance(change.new, str)
        and len(change.old) + len(change.new) > LONG
    )


def _moved(ranks: Sequence[Rank], others: Sequence[Rank]) -> dict[Rank, int]:
    """Return the lines that both ladders have in another order, each with its place in the other
    one.
    """
    places = {(rank.guard, rank.target): place for place, rank in enumerate(others, 1)}
    shared = {
        rank: places[rank.guard, rank.target]
        for rank in ranks
        if (rank.guard, rank.target) in places
    }
    in_order = sorted(shared.values())
    return {
        rank: place
        for (rank, place), expected in zip(shared.items(), in_order, strict=True)
        if place != expected
    }


def _rows_text(rows: Sequence[Row]) -> list[str]:
    texts = (
        f"{'' if row.source == 'await' else f'{row.source}: '}{words.row_short(row)}"
        for row in rows
    )
    return list(dict.fromkeys(texts))


def _split_decisions(findings: Findings) -> tuple[list[Decision], list[Decision]]:
    """Split the ladders of the picture into those that change and those that stay."""
    changed: list[Decision] = []
    same: list[Decision] = []
    for decision in findings.picture.decisions:
        nodes = [findings.picture.node(line.row.target) for line in decision.lines]
        differs = any(line.difference for line in decision.lines) or any(
            node.was or node.change for node in nodes
        )
        (changed if differs else same).append(decision)
    return changed, same
