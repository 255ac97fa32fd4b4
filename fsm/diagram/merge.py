"""One picture of two: what a change of policy or table does to a machine."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

from attrs import evolve

from rungwise.fsm.diagram.model import Decision, Line, Node, Picture
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.errors import ConfigurationError

Key = TypeVar("Key", bound=Hashable)
Meaning = tuple[str | None, str, str | None]


def change_of(old: Picture, new: Picture) -> Picture:
    """Merge two pictures of machines with one hub, in which everything that only one of them has is
    marked.
    """
    if old.hub != new.hub:
        raise ConfigurationError(
            f"a picture around {old.hub!r} cannot be compared with one around {new.hub!r}"
        )
    before = _lines_by_row(old)
    after = _lines_by_row(new)
    removed = before.keys() - after.keys()
    lines = {
        row: _line(before.get(row), after.get(row)) for row in merged(list(before), list(after))
    }
    captions = dict.fromkeys(filter(None, (old.caption, new.caption)))
    arcs = _groups(old.arcs, new.arcs, lines, removed, lambda arc: (arc.source, arc.target))
    notes = _groups(
        old.notes, new.notes, lines, removed, lambda note: (note.event, note.guard, note.target)
    )
    return Picture(
        name=new.name,
        hub=new.hub,
        nodes=tuple(_nodes(old, new)),
        arcs=tuple(evolve(arc, lines=own) for arc, own in arcs),
        notes=tuple(evolve(note, lines=own) for note, own in notes),
        decisions=tuple(_decisions(old, new, lines)),
        marked=new.marked,
        caption=" → ".join(captions),
        is_change=True,
    )


def merged(old: Sequence[Key], new: Sequence[Key]) -> list[Key]:
    """Insert what only the old order has into the new order, behind its old predecessor."""
    both = list(new)
    new_keys = set(new)
    for place, key in enumerate(old):
        if key not in new_keys:
            both.insert(both.index(old[place - 1]) + 1 if place else 0, key)
    return both


def _lines_by_row(picture: Picture) -> dict[Row, Line]:
    """Return the line of every row, in the order of the decision lists."""
    line_of = {line.row: line for group in (*picture.arcs, *picture.notes) for line in group.lines}
    rows = [row for decision in picture.decisions for row in decision.rows]
    return {row: line_of[row] for row in rows}


def _line(before: Line | None, after: Line | None) -> Line:
    if before is None or after is None:
        only = after or before
        assert only is not None
        return evolve(only, change="removed" if after is None else "added")
    if (before.off is None) == (after.off is None):
        return evolve(after, turned=None)
    return evolve(after, turned="off" if after.off is not None else "on")


def _nodes(old: Picture, new: Picture) -> Iterator[Node]:
    before, after = ({node.name: node for node in picture.nodes} for picture in (old, new))
    for name in merged(list(before), list(after)):
        was = before.get(name)
        now = after.get(name)
        if was is not None and now is not None:
            yield evolve(now, was=was.detail) if was.detail != now.detail else now
        elif now is not None:
            yield evolve(now, change="added")
        elif was is not None:
            yield evolve(was, change="removed", start=False)


def _groups(
    old: Iterable[Any],
    new: Iterable[Any],
    lines: Mapping[Row, Line],
    removed: Set[Row],
    key: Callable[[Any], Any],
) -> Iterator[tuple[Any, tuple[Line, ...]]]:
    """Yield each arc or note of either picture with its lines, if it has any."""
    before, after = ({key(group): group for group in groups} for groups in (old, new))
    for name in merged(list(before), list(after)):
        was = (
            [line.row for line in before[name].lines if line.row in removed]
            if name in before
            else []
        )
        now = [line.row for line in after[name].lines] if name in after else []
        rows = [row for row in lines if row in {*was, *now}]
        if rows:
            yield after.get(name) or before[name], tuple(lines[row] for row in rows)


def _decisions(old: Picture, new: Picture, lines: Mapping[Row, Line]) -> Iterator[Decision]:
    """Yield the decision lists of both; an old list without a partner keeps only its removed
    lines.
    """
    partners = _partners(old, new)
    keys = {id(was): key for key, was in partners.items()}
    by_key = {id(each): each for each in (*old.decisions, *new.decisions)}
    before = [keys.get(id(each), id(each)) for each in old.decisions]
    after = [id(each) for each in new.decisions]
    for key in merged(before, after):
        if key in partners:
            yield _both(partners[key], by_key[key])
            continue
        own = tuple(evolve(line, change=lines[line.row].change) for line in by_key[key].lines)
        if key not in after:
            own = tuple(line for line in own if line.change == "removed")
        if own:
            yield evolve(by_key[key], lines=own)


def _partners(old: Picture, new: Picture) -> dict[int, Decision]:
    """Return, by the id of each new list, the old one of the same event that shares most sources
    with it.
    """
    partners: dict[int, Decision] = {}
    unmatched = list(old.decisions)
    for decision in new.decisions:
        alike = [
            each
            for each in unmatched
            if each.event == decision.event and {*each.sources} & {*decision.sources}
        ]
        if alike:
            best = max(alike, key=lambda each: len({*each.sources} & {*decision.sources}))
            unmatched = [each for each in unmatched if each is not best]
            partners[id(decision)] = best
    return partners


def _both(was: Decision, now: Decision) -> Decision:
    before = {_meaning(line): (rank, line) for rank, line in enumerate(was.lines, 1)}
    after = {_meaning(line): line for line in now.lines}
    shared_before = [key for key in before if key in after]
    shared_after = [key for key in after if key in before]
    moved = {key for one, key in zip(shared_before, shared_after, strict=True) if one != key}
    lines = []
    for key in merged(list(before), list(after)):
        if key not in after:
            lines.append(_line(before[key][1], None))
        elif key not in before:
            lines.append(_line(None, after[key]))
        else:
            rank, line = before[key]
            lines.append(evolve(_line(line, after[key]), was=rank if key in moved else None))
    rows = tuple(merged(was.rows, now.rows))
    sources = tuple(merged(was.sources, now.sources))
    return Decision(now.event, sources, now.where, tuple(lines), rows)


def _meaning(line: Line) -> Meaning:
    return line.row.guard, line.row.target, line.row.effect
