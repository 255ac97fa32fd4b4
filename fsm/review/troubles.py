"""What happens on each trouble, before and now: the words of its path, and the table of a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from rungwise.fsm.call.table import CALL
from rungwise.fsm.certificate.troubles import MOST_PLAYED, Course, TroubleChange
from rungwise.fsm.certificate.verified import number_text
from rungwise.fsm.diagram.model import Kind, Node
from rungwise.fsm.diagram.page.ladder import state_chip
from rungwise.fsm.machine.table import Table
from rungwise.fsm.review.headline import backends_text
from rungwise.fsm.review.words import MOST_WAITS, broken, counted

MOST_RUNS = 16
"""Different rungs of one path that are told one by one."""

NO_EVENT = "there is no such event"
TOLD = (
    "The trouble comes back from every attempt, here played to the real core. Behind a rung stand its waits without "
    "what chance adds; the seconds are from beginning to end, with the least and the most of chance. An attempt is "
    "taken to last no time, but for silence and for the one that takes all its time."
)


def path_text(course: Course) -> str:
    """Write what a call does, with its waits, rungs that repeat only once: `retry x3 (2, 4, 8 s), fallback`."""
    if len(course.least.rungs) == 1:
        return "not asked again"
    runs = [
        (name, [wait for _, wait in found]) for name, found in groupby(course.least.rungs[1:], lambda each: each[0])
    ]
    told = [f"{name}{f' x{len(waits)}' if len(waits) > 1 else ''}{_waits(waits)}" for name, waits in runs[:MOST_RUNS]]
    return ", ".join([*told, *(["..."] if len(runs) > MOST_RUNS else [])])


def _waits(waits: Sequence[float]) -> str:
    if not any(waits):
        return ""
    if len(waits) > 1 and len(set(waits)) == 1:
        return f" ({number_text(waits[0])} s each)"
    more = f", ... {number_text(waits[-1])}" if len(waits) > MOST_WAITS else ""
    return f" ({', '.join(map(number_text, waits[:MOST_WAITS]))}{more} s)"


def outcomes_of(course: Course) -> tuple[str, ...]:
    """List how a call ends, with the shortest waits and with the longest; empty where it is not played so far."""
    return tuple(dict.fromkeys(each.outcome for each in (course.least, course.most) if each.outcome is not None))


def end_text(course: Course) -> str:
    """Say how a call ends, in words."""
    ends = " or ".join(outcomes_of(course))
    return ends or f"more than the {MOST_PLAYED} attempts that are played"


def spent_text(course: Course) -> str:
    """Write the attempts and the seconds, least to most."""
    attempts = sorted({course.least.attempts, course.most.attempts})
    seconds = sorted({round(course.least.seconds, 1), round(course.most.seconds, 1)})
    many = counted(attempts[-1], "attempt")
    told = f"{attempts[0]} to {many}" if len(attempts) > 1 else many
    if seconds == [0.0]:
        return told
    return f"{told}, {' to '.join(map(number_text, seconds))} s"


def course_text(course: Course | None) -> str:
    """Write what a call does and how it ends, on one line."""
    if course is None:
        return NO_EVENT
    return f"{path_text(course)} → {end_text(course)}; {spent_text(course)}{_chance(course)}"


def _chance(course: Course) -> str:
    return "" if course.is_one_path else "; the path is that with the shortest waits"


def backends_of(change: TroubleChange) -> str:
    """Say for how many backends it is so."""
    return " or ".join(map(backends_text, change.backends))


def names_of(change: TroubleChange) -> str:
    """Name the troubles of a line."""
    return "; ".join(change.names)


def trouble_part(changes: Sequence[TroubleChange], tables: Sequence[Table]) -> str:
    """Write the table of a page: what differs first, the rest folded away.

    Arguments:
        changes: what is done about each trouble.
        tables: the machines before and now, which say what kind of end an outcome is.
    """
    differs = [each for each in changes if each.is_change]
    same = [each for each in changes if not each.is_change]
    first = _table(differs, tables) if differs else "<p>On each of these troubles, the same is done as before.</p>"
    if not same:
        return f"<p>{TOLD}</p>{first}"
    what = f"The {counted(len(same), 'line')} in which the same is done as before"
    return f"<p>{TOLD}</p>{first}<details><summary>{what}</summary>{_table(same, tables)}</details>"


def _table(changes: Sequence[TroubleChange], tables: Sequence[Table]) -> str:
    is_change = any(each.is_change for each in changes)
    head = ("each time again", "before", "now") if is_change else ("each time again", "before and now")
    top = "".join(f'<th scope="col">{each}</th>' for each in head)
    body = "".join(_trouble(name, list(found), tables) for name, found in groupby(changes, names_of))
    return f'<table class="df-table df-troubles"><thead><tr>{top}</tr></thead>{body}</table>'


def _trouble(name: str, changes: Sequence[TroubleChange], tables: Sequence[Table]) -> str:
    title = f'<tr class="df-trouble"><th scope="rowgroup" colspan="3">{broken(name)}</th></tr>'
    return f"<tbody>{title}{''.join(_row(each, tables) for each in changes)}</tbody>"


def _row(change: TroubleChange, tables: Sequence[Table]) -> str:
    if not change.is_change:
        cells = f'<td colspan="2">{_cell(change.new, tables[1])}</td>'
    else:
        sides = (("before", change.old, tables[0]), ("now", change.new, tables[1]))
        cells = "".join(f'<td data-side="{name}">{_cell(course, table)}</td>' for name, course, table in sides)
    return f'<tr><th scope="row">{escape(backends_of(change))}</th>{cells}</tr>'


def _cell(course: Course | None, table: Table) -> str:
    if course is None:
        return escape(NO_EVENT)
    chips = " or ".join(state_chip(Node(each, _kind(each, table))) for each in outcomes_of(course))
    spent = escape(spent_text(course) + _chance(course))
    return f"{broken(path_text(course))} → {chips or end_text(course)}<small>{spent}</small>"


def _kind(outcome: str, table: Table) -> Kind:
    return (table if outcome in table.outcomes else CALL).kind_of_end(outcome)
