"""The attempts of a run as a list that is a timeline as well: a line for each, and its bar on a common scale."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final

from rungwise.fsm.diagram.model import Node
from rungwise.fsm.diagram.page.ladder import state_chip
from rungwise.fsm.diagram.page.timeline import SHORTEST, Bar, bars_of, percent, ticks
from rungwise.fsm.journal.digest import Digest, Line
from rungwise.fsm.journal.digest.words import counted, plain, seconds_text
from rungwise.fsm.journal.path import Path

if TYPE_CHECKING:
    from rungwise.fsm.diagram.page.run import Told

LEGEND: Final = {"attempt": "in flight", "wait": "wait"}

_PLAYER: Final = "".join(
    f'<button type="button" id="{name}" aria-keyshortcuts="{key}" title="{title}">{text}</button>'
    for name, text, key, title in (
        ("to-first", "First", "Home", "The first (Home)"),
        ("back", "Back", "ArrowLeft", "One back (left arrow)"),
        ("play", "Play", "Space", "Play or stop (space)"),
        ("forward", "Next", "ArrowRight", "One on (right arrow)"),
        ("to-last", "Last", "End", "The last (End)"),
    )
)


def attempt_list(digest: Digest, path: Path, told: Told) -> str:
    """Write the list with what plays it, its axis, and what its bars mean.

    Arguments:
        digest: the run in brief.
        path: that of the run.
        told: what the page tells of it.
    """
    total = path.steps[-1].at
    items = "".join(_items(digest, path, total))
    name = escape(path.table.name)
    player = (
        f'<div class="player"><div class="buttons" role="group" aria-label="Play the {name}">{_PLAYER}</div>'
        '<p id="told" role="status"></p></div>'
    )
    listed = f'<ol id="attempts" class="attempts" aria-label="{escape(told.unit)}s">{items}</ol>'
    if total < SHORTEST:
        return f'{player}{listed}<p class="faint">No time passed in this {name}, or none was recorded.</p>'
    legend = told.legend or LEGEND
    signs = " ".join(f'<i class="bar {kind}"></i> {escape(means)}' for kind, means in legend.items())
    return f'{player}{_axis(total)}{listed}<p class="legend faint">{signs}</p>'


def _items(digest: Digest, path: Path, total: float) -> Iterator[str]:
    lane = None
    ends = path.steps[-1] if digest.ending else None
    for line in digest.lines:
        if line.backend and line.backend != lane:
            lane = line.backend
            named = escape(lane)
            yield f'<li class="lane-name"><span class="faint">to</span> <span title="{named}">{named}</span></li>'
        yield _item(line, digest, total, ends.number if ends else None)
    if ends is not None:
        yield (
            f'<li class="attempt ending"><button type="button" class="line" id="attempt-end" tabindex="-1" '
            f'data-step="{ends.number}" data-first="{ends.number}" data-last="{ends.number}">'
            f'<span class="badge">end</span><span class="words">{escape(digest.ending)}</span></button></li>'
        )


def _item(line: Line, digest: Digest, total: float, ending: int | None) -> str:
    attempt = line.attempt
    step = (attempt.back or attempt.sent).number
    first, last = attempt.steps
    if last == ending:
        last -= 1
    data = f'data-step="{step}" data-first="{first}" data-last="{last}"'
    inside = f'<button type="button" class="line" id="attempt-{attempt.number}" tabindex="-1" {data}>'
    bars = _bars(bars_of(line), total)
    return (
        f'<li class="attempt">{inside}{_words(line, digest)}{bars}</button>'
        f"{_within(line, attempt.sent.at, total) if line.within is not None else ''}</li>"
    )


def _within(line: Line, since: float, total: float) -> str:
    within = line.within
    assert within is not None
    number = line.name.removeprefix("call ")
    lines = "".join(_inner(each, within, number, _bars(bars_of(each, since), total)) for each in within.lines)
    ending = (
        f'<li class="attempt ending"><span class="words">{escape(within.ending)}</span></li>' if within.ending else ""
    )
    told = counted(len(within.lines), "attempt")
    return f'<details class="within"><summary>{told}</summary><ol class="attempts">{lines}{ending}</ol></details>'


def _inner(line: Line, digest: Digest, call: str, bars: str) -> str:
    data = f'data-call="{escape(call)}" data-attempt="{line.attempt.number}"'
    words = _words(line, digest, backend=True)
    return f'<li class="attempt"><button type="button" class="inner line" {data}>{words}{bars}</button></li>'


def _words(line: Line, digest: Digest, *, backend: bool = False) -> str:
    first, *rest = (
        f'<span class="{what}">{escape(text)}</span>' for what, text in line.parts if backend or what != "backend"
    )
    joint = '<span class="faint"> · </span>'
    end = f" {state_chip(Node(plain(line.end), digest.kind))}" if line.end else ""
    paid = f'<span class="paid">{escape(line.paid)}</span>' if line.paid else ""
    took = f'<span class="took"><span class="lasted">{line.lasted}</span>{paid}</span>'
    return (
        f'<span class="badge">{line.attempt.number}</span><span class="words">{joint.join([first, *rest])}'
        f'<span class="faint"> → </span><span class="came">{escape(line.came)}</span>{end}</span>{took}'
    )


def _bars(bars: tuple[Bar, ...], total: float) -> str:
    if total < SHORTEST:
        return ""
    inside = "".join(
        f'<i class="bar {bar.kind}" title="{escape(bar.says)}" '
        f'style="left:{percent(bar.start, total)};width:{percent(bar.seconds, total)}"></i>'
        for bar in bars
    )
    return f'<span class="track">{inside}</span>'


def _axis(total: float) -> str:
    marks = "".join(f'<i style="left:{percent(at, total)}"><b>{seconds_text(at)}</b></i>' for at in ticks(total))
    return f'<div class="axis" aria-hidden="true"><span class="track">{marks}</span></div>'
