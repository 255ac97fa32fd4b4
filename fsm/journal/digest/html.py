"""A run in brief as HTML for a notebook: it stands alone, touches nothing around it, and runs and loads nothing."""

from __future__ import annotations

from html import escape
from typing import Final

from rungwise.fsm.journal.digest import Digest, Line
from rungwise.fsm.journal.digest.words import END_SIGNS, counted, plain

MOST_LINES: Final = 60
"""Lines that are shown of a run, and of each run within."""

_STYLE: Final = (
    ".rungwise{border:1px solid;border-radius:8px;font:14px/1.45 system-ui,sans-serif;max-width:960px;"
    "overflow-wrap:anywhere;padding:10px 14px;text-align:left}"
    ".rungwise p{margin:0 0 4px}"
    ".rungwise ol{list-style:none;margin:6px 0 0;padding:0}"
    ".rungwise li{display:flex;flex-wrap:wrap;gap:0 12px;margin:0;padding:2px 0}"
    ".rungwise details{flex-basis:100%}"
    ".rungwise details ol{border-left:1px solid;margin:0 0 4px 8px;padding-left:10px}"
    ".rungwise summary{cursor:pointer;display:list-item}"
    ".rungwise .rw-line{flex:1 1 22em;min-width:0}"
    ".rungwise .rw-small{font-size:12.5px}"
    ".rungwise .rw-says{border-left:3px solid;margin:6px 0;padding-left:8px}"
    ".rungwise span,.rungwise b{unicode-bidi:isolate}"
)
"""Colours are those of the notebook around it, by day and by night."""


def digest_html(digest: Digest) -> str:
    """Write a run in brief; everything in it that a stranger chose is escaped."""
    left = f"; left: {escape(digest.left)}" if digest.left else ""
    says = f'<p class="rw-says">{escape(digest.says)}</p>' if digest.says else ""
    sign = f'<span aria-hidden="true">{END_SIGNS[digest.kind]}</span> ' if digest.kind in END_SIGNS else ""
    return (
        f'<div class="rungwise"><style>{_STYLE}</style>'
        f"<p>{sign}<b>{escape(digest.name)} {escape(digest.headline)}</b></p>"
        f'<p class="rw-small">{escape(digest.spent.told)}{left}</p>{says}{_lines(digest)}</div>'
    )


def _lines(digest: Digest) -> str:
    shown = "".join(map(_line, digest.lines[:MOST_LINES]))
    more = len(digest.lines) - MOST_LINES
    rest = f'<li class="rw-small">and {counted(more, "more line")}</li>' if more > 0 else ""
    ending = f"<li>{escape(digest.ending)}</li>" if digest.ending else ""
    return f"<ol>{shown}{rest}{ending}</ol>" if shown or ending else ""


def _line(line: Line) -> str:
    parts = [f'<span class="rw-small">{line.attempt.number}</span>']
    parts += [f"<span>{escape(text)}</span>" for _, text in line.parts]
    end = f": <b>{escape(plain(line.end))}</b>" if line.end else ""
    told = " · ".join(filter(None, [line.lasted, line.paid]))
    within = ""
    if line.within is not None and line.within.lines:
        summary = f'<summary class="rw-small">{counted(len(line.within.lines), "attempt")}</summary>'
        within = f"<details>{summary}{_lines(line.within)}</details>"
    return (
        f'<li><span class="rw-line">{" · ".join(parts)} → <b>{escape(line.came)}</b>{end}</span>'
        f'<span class="rw-small">{escape(told)}</span>{within}</li>'
    )
