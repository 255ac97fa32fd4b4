"""The page of a change of policy: what a reviewer asks, answered without the code, in one file without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.certificate.shown.settings import table_of
from rungwise.fsm.diagram import draw
from rungwise.fsm.diagram.page.ladder import change_in, ladder_of
from rungwise.fsm.diagram.page.markup import plain_document, section
from rungwise.fsm.review.headline import (
    Verdict,
    amount,
    backends_text,
    chances,
    factor_text,
    figure,
    headline,
    is_attained,
    journal_text,
    journals_text,
    path_end,
    refills,
    row_short,
    verdicts,
)
from rungwise.fsm.review.ladders import event_parts
from rungwise.fsm.review.setting import setting_text
from rungwise.fsm.review.troubles import trouble_part
from rungwise.fsm.review.words import broken, counted, says_of, value_text, words_that_differ

if TYPE_CHECKING:
    from rungwise.fsm.certificate.verified import WorstCase
    from rungwise.fsm.diagram.model import Decision
    from rungwise.fsm.machine.table import Row
    from rungwise.fsm.review.diff import FieldChange, PolicyDiff, WorstChange

SIGNS = {"more": "▲", "less": "▼", "same": "=", "added": "+", "removed": "−", "note": "~"}
OF_TABLE = (
    "These are properties of the table as it is written, whatever the limits: a row is dead where no limits let it be "
    "taken. Which rows this policy turns off stands above."
)
LONG = 60
"""Characters of a text from which on only the words that differ are shown."""


def as_page(diff: PolicyDiff) -> str:
    """Write a difference as one page."""
    is_turn = diff.calls is not None
    title = f"A change of the policy of {'turns' if is_turn else 'calls'}"
    parts = [
        f'<header class="df-head"><h1>{title}</h1><p class="df-headline">{escape(headline(diff))}</p>'
        f'<p class="faint">{broken(setting_text(diff.setting))}</p></header>'
    ]
    parts.append(_contents(diff))
    parts += _parts(diff, "")
    if diff.calls is not None:
        heading = "What changes for each call of a turn" if not diff.calls.is_empty else "Its calls do not change"
        parts.append(f'<h2 class="df-part" id="calls">{heading}</h2>')
        parts += _parts(diff.calls, "calls-")
    return plain_document(title, "\n".join(filter(None, parts)), "diff.css")


def _contents(diff: PolicyDiff) -> str:
    names = {
        f"{'' if diff.calls is None else 'calls-'}troubles": "What happens on a 429, an empty reply, ...",
        "cost": "What it may cost",
        "changes": "What changes",
        "events": "What each event leads to",
    }
    names |= {"backends": "Which backends get a chance"} if diff.calls is None else {"calls": "Each call"}
    names |= {
        "machine": "The machine",
        "paths": "The longest paths",
        "journals": "Past calls",
        "proof": "What is proved",
    }
    if not diff.journals:
        del names["journals"]
    links = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in names.items())
    return f'<nav class="df-nav" aria-label="On this page"><ul>{links}</ul></nav>'


def _parts(diff: PolicyDiff, prefix: str) -> Iterator[str]:
    yield section("In short", _verdicts(verdicts(diff)), classes="df-verdicts")
    if diff.troubles:
        tables = [table_of(policy) for policy in diff.policies]
        yield section("What happens on ...", trouble_part(diff.troubles, tables), name=f"{prefix}troubles")
    yield section(f"What a {diff.table} may cost", _costs(diff), name=f"{prefix}cost")
    yield section("What changes in the policy", _fields(diff) + _waits(diff), name=f"{prefix}changes")
    yield section("Rows of the table", _rows(diff), name=f"{prefix}rows")
    yield section("What each event leads to", event_parts(diff.events), name=f"{prefix}events")
    backends = list(chances(diff))
    if backends:
        yield section("Which backends get a chance", _table(("", "before", "now"), backends), name=f"{prefix}backends")
    yield section("The machine", _machine(diff, prefix), name=f"{prefix}machine", classes="df-machine")
    yield section(f"The longest paths, with {backends_text(diff.backends)}", _paths(diff), name=f"{prefix}paths")
    if diff.journals:
        yield section("What past calls would have done", _journals(diff), name="journals")
    yield section("What is proved", _proof(diff), name=f"{prefix}proof")


def _verdicts(found: Iterable[Verdict]) -> str:
    lines = "".join(
        f'<li class="df-{each.tone}"><b aria-hidden="true">{SIGNS[each.tone]}</b> <span>{escape(each.text)}</span></li>'
        for each in found
    )
    return f'<ul class="df-list">{lines}</ul>'


def _costs(diff: PolicyDiff) -> str:
    unknown = "".join(
        f'<p class="faint">{escape(change.name)}: not known; {escape(change.new.note)}.</p>'
        for change in diff.worst
        if not change.is_known
    )
    tables = "".join(
        f"<div><h3>With {backends_text(count)}</h3>{_cost(changes)}</div>" for count, changes in diff.chains.items()
    )
    told = "At most, whatever comes back: the worst case of the proof, and what ends it."
    if any(worst.name == "seconds" and worst.ended_by == "budget.seconds" for worst in _sides(diff)):
        told += f" Seconds may exceed their budget by {CLOSING:g} s, in which the last connection is closed."
    return f'<p>{told}</p><div class="df-chains">{tables}</div>{unknown}'


def _sides(diff: PolicyDiff) -> Iterator[WorstCase]:
    yield from (worst for change in diff.worst for worst in (change.old, change.new))


def _cost(changes: Iterable[WorstChange]) -> str:
    rows = "".join(_cost_row(change) for change in changes if change.is_known)
    head = (
        '<tr><th scope="col">at most</th><th scope="col">before</th><th scope="col">now</th><th scope="col">×</th></tr>'
    )
    return f'<table class="df-costs"><thead>{head}</thead><tbody>{rows}</tbody></table>'


def _cost_row(change: WorstChange) -> str:
    cells = [
        f"<td>{escape(amount(worst))}<small>{escape(_by(worst))}</small></td>" for worst in (change.old, change.new)
    ]
    is_same = change.factor == 1
    factor = "?" if change.factor is None else "same" if is_same else factor_text(change.factor)
    tone = "" if change.factor is None or is_same else " df-more" if change.factor > 1 else " df-less"
    bars = "" if is_same else f'<tr class="df-bar-row"><td colspan="4">{_bars(change)}</td></tr>'
    name = escape(change.name)
    return f'<tr><th scope="row">{name}</th>{"".join(cells)}<td class="df-factor{tone}">{factor}</td></tr>{bars}'


def _by(worst: WorstCase) -> str:
    """Say what ends the path, and whether the figure is but an upper bound."""
    by = {"ladder": "the ladder ends it", "nothing": "nothing bounds it"}.get(worst.ended_by)
    by = by or f"the budget: {worst.ended_by.removeprefix('budget.').replace('_', ' ')}"
    return by if worst.value is None or is_attained(worst) else f"{by}; an upper bound"


def _bars(change: WorstChange) -> str:
    most = max(change.old.value or 0, change.new.value or 0) or 1
    bars = "".join(
        f'<i class="df-bar {name}" style="width:{max(100 * (worst.value or 0) / most, 0.5):.1f}%"></i>'
        for name, worst in (("df-old", change.old), ("df-new", change.new))
    )
    return f'<span class="df-bars" aria-hidden="true">{bars}</span>'


def _fields(diff: PolicyDiff) -> str:
    if not diff.fields:
        return "<p>No field changes.</p>"
    short = [each for each in diff.fields if not _is_long(each)]
    policy = diff.policies[1]
    table = "".join(
        f'<tr><th scope="row"><code>{broken(each.name)}</code><small>{escape(says_of(each.name, policy))}</small></th>'
        f"<td>{escape(value_text(each.name, each.old))}</td><td>{escape(value_text(each.name, each.new))}</td></tr>"
        for each in short
    )
    head = '<tr><th scope="col">field</th><th scope="col">before</th><th scope="col">now</th></tr>'
    shown = f'<table class="df-table"><thead>{head}</thead><tbody>{table}</tbody></table>' if short else ""
    return shown + "".join(_reworded(each, policy) for each in diff.fields if _is_long(each))


def _is_long(change: FieldChange) -> bool:
    return isinstance(change.old, str) and isinstance(change.new, str) and len(change.old) + len(change.new) > LONG


def _reworded(change: FieldChange, policy: object) -> str:
    tags = {"old": "del", "new": "ins"}
    words = "".join(
        f"<{tags[kind]}>{escape(text)}</{tags[kind]}>"
        if kind in tags
        else f'<span class="faint"> {text} </span>'
        if kind == "left out"
        else escape(text)
        for kind, text in words_that_differ(change.old, change.new)
    )
    says = f"<small>{escape(says_of(change.name, policy))}</small>"
    return f'<div class="df-words"><code>{escape(change.name)}</code> {says}<p>{words}</p></div>'


def _waits(diff: PolicyDiff) -> str:
    if not diff.waits:
        return ""
    rows = [(f"waits {each.what}", each.old, each.new) for each in diff.waits]
    return f"<h3>What that does to the waits</h3>{_table(('', 'before', 'now'), rows)}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    top = "".join(f'<th scope="col">{escape(each)}</th>' for each in head)
    body = "".join(
        f'<tr{"" if row[1] == row[2] else " class=df-changed"}><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(each)}</td>" for each in row[1:])
        + "</tr>"
        for row in rows
    )
    return f'<table class="df-table"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _rows(diff: PolicyDiff) -> str:
    groups = [("Rows that are new", diff.appear, "added"), ("Rows that are gone", diff.vanish, "removed")]
    parts = [_row_list(f"{title} ({len(rows)})", rows, kind) for title, rows, kind in groups if rows]
    for falls, found in ((True, diff.fall), (False, diff.come_back)):
        for group in found:
            can = "can no longer be taken" if falls else "can be taken again"
            means = group.means(falls=falls)
            reason = group.reason if falls else f"before, {group.reason}"
            title = f"{f'{means} ({reason})' if means else reason}: {counted(group.count, 'row')} {can}"
            parts.append(_row_list(title, (*group.rows, *group.behind), "removed" if falls else "added"))
    parts += [f"<p>{escape(each[0].upper() + each[1:])}.</p>" for each in diff.redeclared]
    parts += [
        f"<p>After <code>{escape(event)}</code> the rows are tried in another order.</p>" for event, _ in diff.reordered
    ]
    return "".join(parts) or "<p>No row is new, none is gone, none is turned off or on.</p>"


def _row_list(title: str, rows: Iterable[Row], kind: str) -> str:
    sign = "+" if kind == "added" else "−"
    lines = "".join(
        f'<li><b class="sign {kind}" aria-hidden="true">{sign}</b> <code>{broken(text)}</code></li>'
        for text in dict.fromkeys(_told(row) for row in rows)
    )
    return f'<h3>{escape(title[0].upper() + title[1:])}</h3><ul class="df-rows">{lines}</ul>'


def _told(row: Row) -> str:
    return f"{row.source}: {row_short(row)}" if row.source != "await" else row_short(row)


def _machine(diff: PolicyDiff, prefix: str) -> str:
    changed: list[Decision] = []
    same: list[Decision] = []
    for decision in diff.picture.decisions:
        differs = any(change_in(line) or _is_changed_node(diff, line.row.target) for line in decision.lines)
        (changed if differs else same).append(decision)
    summary = f"<summary>The {len(same)} ladders that stay as they are</summary>"
    plain = f"<details>{summary}{ladder_of(diff.picture, same)}</details>"
    caption = f"<p>{escape(diff.picture.caption)}</p>" if diff.picture.caption else ""
    hub = (
        f'<input type="checkbox" id="{prefix}hub" class="df-toggle">'
        f'<label for="{prefix}hub">Show the whole machine</label>'
        '<div class="df-hub"><div class="picture" tabindex="0" role="region" aria-label="What changes in the machine">'
        f"{draw(diff.picture, 'svg')}</div></div>"
    )
    told = "<p>+ is new or turned on, − is gone or turned off, ↕ is moved; what a rung had is struck out.</p>"
    return f"{caption}{told}{ladder_of(diff.picture, changed)}{plain if same else ''}{hub}"


def _is_changed_node(diff: PolicyDiff, name: str) -> bool:
    node = diff.picture.node(name)
    return node.was is not None or node.change is not None


def _paths(diff: PolicyDiff) -> str:
    told = [change for change in diff.worst if change.old.rungs or change.new.rungs]
    return "".join(f"<p>{escape(each)}</p>" for each in refills(diff)) + "".join(
        f"<h3>{escape(change.name)}: {escape(figure(change.new))}</h3>{_path(change)}" for change in told
    ) or ("<p>No path is known.</p>")


def _path(change: WorstChange) -> str:
    same = change.old.path == change.new.path and change.old.ended_by == change.new.ended_by
    sides = (("now, as before", change.new),) if same else (("before", change.old), ("now", change.new))
    rows = "".join(
        f"<dt>{name}</dt><dd>{escape(worst.path) or 'not known'} "
        f'<span class="faint">({escape(path_end(worst))})</span></dd>'
        for name, worst in sides
    )
    return f'<dl class="df-paths">{rows}</dl>'


def _journals(diff: PolicyDiff) -> str:
    lines = "".join(
        f"<li><code>{escape(each.name)}</code>: {escape(journal_text(each))}."
        + "".join(f" <small>{escape(note)}</small>" for note in each.notes)
        + "</li>"
        for each in diff.journals
    )
    told = "The replies of then, played to the new policy, up to the first step that differs."
    return (
        f'<p>{told}</p><p><b>{escape(journals_text(diff.journals))}</b></p><ul class="df-list df-journals">{lines}</ul>'
    )


def _proof(diff: PolicyDiff) -> str:
    rows = [
        (each.name, *(side.verdict if side is not None else "not looked at" for side in (each.old, each.new)))
        for each in sorted(diff.properties, key=lambda each: not each.is_change)
    ]
    changed = sum(each.is_change for each in diff.properties)
    if changed:
        return f"<p>{OF_TABLE}</p>{_table(('', 'before', 'now'), rows)}"
    told = f"All {len(rows)} properties that were looked at have the same verdict before and now"
    return f"<p>{OF_TABLE}</p><details><summary>{told}</summary>{_table(('', 'before', 'now'), rows)}</details>"
