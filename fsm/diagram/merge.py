"""One picture of two: what a change of policy or table does to a machine.

Both orders matter to a reader: that of the new picture, and where in it something has gone. So
every list is the new one, with what only the old one had inserted behind its old predecessor
(`merged`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from attrs import evolve

from rungwise.fsm.diagram.line import Line
from rungwise.fsm.diagram.model import Arc, DecisionList, Node, Note, Picture
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.errors import ConfigurationError

Key = TypeVar("Key", bound=Hashable)
Group = TypeVar("Group", Arc, Note)


def change_of(old: Picture, new: Picture) -> Picture:
    """Merge the pictures of two machines with one hub; what only one of them has is marked.

    Raises:
        ConfigurationError: the two have different hubs.
    """
    if old.hub != new.hub:
        raise ConfigurationError(
            f"a picture around {old.hub!r} cannot be compared with one around {new.hub!r}"
        )
    lines = _changed_lines(old, new)
    arcs = _merged_groups(old.arcs, new.arcs, lines, _ends_of_arc)
    notes = _merged_groups(old.notes, new.notes, lines, _subject_of_note)
    nodes = _nodes(old, new)
    decisions = _decisions(old, new, lines)
    captions = dict.fromkeys(filter(None, (old.caption, new.caption)))
    return Picture(
        name=new.name,
        hub=new.hub,
        nodes=tuple(nodes),
        arcs=tuple(arcs),
        notes=tuple(notes),
        decisions=tuple(decisions),
        marked=new.marked,
        caption=" → ".join(captions),
        is_change=True,
    )


def merged(old: Sequence[Key], new: Sequence[Key]) -> list[Key]:
    """Insert what only the old order has into the new order, behind its old predecessor."""
    both = list(new)
    new_keys = set(new)
    for place, key in enumerate(old):
        if key in new_keys:
            continue
        if place == 0:
            both.insert(0, key)
        else:
            both.insert(both.index(old[place - 1]) + 1, key)
    return both


def _changed_lines(old: Picture, new: Picture) -> dict[Row, Line]:
    """Return the merged line of every row of either picture."""
    before = _lines_by_row(old)
    after = _lines_by_row(new)
    rows = merged(list(before), list(after))
    return {row: _line(before.get(row), after.get(row)) for row in rows}


def _lines_by_row(picture: Picture) -> dict[Row, Line]:
    """Return the line of every row, in the order of the decision lists."""
    line_of: dict[Row, Line] = {}
    for group in (*picture.arcs, *picture.notes):
        for line in group.lines:
            line_of[line.row] = line
    rows = [row for decision in picture.decisions for row in decision.rows]
    return {row: line_of[row] for row in rows}


def _line(before: Line | None, after: Line | None) -> Line:
    """Merge the two lines of a row; one of them may be missing, but not both."""
    if before is None:
        assert after is not None
        return evolve(after, change="added")
    if after is None:
        return evolve(before, change="removed")
    was_off = before.off is not None
    is_off = after.off is not None
    if was_off == is_off:
        return evolve(after, turned=None)
    return evolve(after, turned="off" if is_off else "on")


def _nodes(old: Picture, new: Picture) -> Iterator[Node]:
    """Yield the states of either picture."""
    before = {node.name: node for node in old.nodes}
    after = {node.name: node for node in new.nodes}
    for name in merged(list(before), list(after)):
        was = before.get(name)
        now = after.get(name)
        if now is None:
            yield evolve(before[name], change="removed", start=False)
        elif was is None:
            yield evolve(now, change="added")
        elif was.detail != now.detail:
            yield evolve(now, was=was.detail)
        else:
            yield now


def _ends_of_arc(arc: Arc) -> tuple[object, ...]:
    return arc.source, arc.target


def _subject_of_note(note: Note) -> tuple[object, ...]:
    return note.event, note.guard, note.target


def _merged_groups(
    old: Iterable[Group],
    new: Iterable[Group],
    lines: Mapping[Row, Line],
    key: Callable[[Group], tuple[object, ...]],
) -> Iterator[Group]:
    """Yield each arc or note of either picture with its merged lines, if it has any.

    A row that both tables have stands where the new picture shows it.

    Arguments:
        old, new: the arcs, or the notes, of the two pictures.
        lines: the merged line of every row, in order.
        key: what an old arc or note and a new one have in common if they are the same.
    """
    before = {key(group): group for group in old}
    after = {key(group): group for group in new}
    for name in merged(list(before), list(after)):
        rows: set[Row] = set()
        if name in before:
            old_rows = [line.row for line in before[name].lines]
            rows.update(row for row in old_rows if lines[row].change == "removed")
        if name in after:
            rows.update(line.row for line in after[name].lines)
        own = tuple(line for row, line in lines.items() if row in rows)
        if own:
            group = after.get(name) or before[name]
            yield evolve(group, lines=own)


def _decisions(old: Picture, new: Picture, lines: Mapping[Row, Line]) -> Iterator[DecisionList]:
    """Yield the decision lists of both.

    An old list and its partner become one. An old list without a partner keeps only its removed
    lines: the others stand in a new list.
    """
    # Two lists may be equal and still be two, so each is known by its id. An old list that has a
    # partner is known by that of the partner: `merged` sees one list in both orders.
    partners = _partners(old, new)
    id_of_partner = {id(was): key for key, was in partners.items()}
    list_of_id = {id(each): each for each in (*old.decisions, *new.decisions)}
    before = [id_of_partner.get(id(each), id(each)) for each in old.decisions]
    after = [id(each) for each in new.decisions]
    for key in merged(before, after):
        decision = list_of_id[key]
        if key in partners:
            yield _both(partners[key], decision)
            continue
        own = [evolve(line, change=lines[line.row].change) for line in decision.lines]
        if key not in after:
            own = [line for line in own if line.change == "removed"]
        if own:
            yield evolve(decision, lines=tuple(own))


def _partners(old: Picture, new: Picture) -> dict[int, DecisionList]:
    """Return, by the id of each new list, its old partner, if it has one.

    That is the list of the same event that shares most sources with it. Each old list is the
    partner of one new list at most.
    """
    partners: dict[int, DecisionList] = {}
    unmatched = list(old.decisions)
    for decision in new.decisions:
        best: DecisionList | None = None
        most_shared = 0
        for each in unmatched:
            shared = len({*each.sources} & {*decision.sources})
            if each.event == decision.event and shared > most_shared:
                best = each
                most_shared = shared
        if best is not None:
            unmatched = [each for each in unmatched if each is not best]
            partners[id(decision)] = best
    return partners


def _both(was: DecisionList, now: DecisionList) -> DecisionList:
    """Merge two decision lists of one event.

    A line has moved if it is not at the same place among the lines that both lists have.
    """
    before = {line.meaning: line for line in was.lines}
    after = {line.meaning: line for line in now.lines}
    old_ranks = {line.meaning: rank for rank, line in enumerate(was.lines, start=1)}
    shared_before = [key for key in before if key in after]
    shared_after = [key for key in after if key in before]
    moved = set()
    for one, other in zip(shared_before, shared_after, strict=True):
        if one != other:
            moved.add(one)
    lines = []
    for key in merged(list(before), list(after)):
        line = _line(before.get(key), after.get(key))
        if key in before and key in after:
            rank = old_ranks[key] if key in moved else None
            line = evolve(line, was=rank)
        lines.append(line)
    sources = merged(was.sources, now.sources)
    rows = merged(was.rows, now.rows)
    return DecisionList(now.event, tuple(sources), now.where, tuple(lines), tuple(rows))
