"""Read the picture of a table from the machine that runs it, so that the two cannot differ.

The machine of the `transitions` library knows its events, and for each state the rows that it tries
in order. Each of these rows becomes a line. The lines are then seen in two ways: as arcs and notes,
by source and target, for the hub view; as decision lists, by event, for the ladder view.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from rungwise.fsm.diagram.line import Line, all_steps
from rungwise.fsm.diagram.model import Arc, DecisionList, Kind, Marks, Node, Note, Picture, Settings
from rungwise.fsm.engine.machine.run import machine_of, rows_tried
from rungwise.fsm.engine.machine.table import Table

Key = TypeVar("Key", bound=Hashable)


def picture_of(
    table: Table, marks: Marks | None = None, settings: Settings | None = None
) -> Picture:
    """Read the picture of a table from its running machine.

    Arguments:
        table: the table.
        marks: a path to show on it, if any.
        settings: the limits, waits and switched-off rows of a policy, if any.
    """
    settings = settings or Settings()
    every_line = _lines(table, marks or Marks(), settings)
    lines = [line for line in every_line if not _is_hidden(line, settings)]
    shown_states = {line.row.source for line in lines}
    by_event = _grouped(lines, lambda line: line.row.event)
    notes: list[Note] = []
    decisions: list[DecisionList] = []
    for event, own in by_event.items():
        notes.extend(_notes(table, own, shown_states))
        decisions.extend(_decisions(table, event, own))
    nodes = tuple(_nodes(table, lines, settings))
    arcs = tuple(_arcs(lines, notes))
    return Picture(
        name=table.name,
        hub=table.hub,
        nodes=nodes,
        arcs=arcs,
        notes=tuple(notes),
        decisions=tuple(decisions),
        marked=marks is not None,
        caption=settings.caption,
        hidden=len(every_line) - len(lines),
    )


def _is_hidden(line: Line, settings: Settings) -> bool:
    """Tell whether a line is left out: it is off, and no path took it nevertheless."""
    return settings.hides_off and line.off is not None and not line.steps


def _grouped(lines: Iterable[Line], key: Callable[[Line], Key]) -> dict[Key, list[Line]]:
    """Group lines by a key; groups and lines keep their order."""
    groups: dict[Key, list[Line]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return groups


def _lines(table: Table, marks: Marks, settings: Settings) -> list[Line]:
    """Return a line for every row that the machine may take, in the order in which it tries them.

    Arguments:
        table: the table.
        marks: the steps that took each row.
        settings: the rows that are off.
    """
    lines: list[Line] = []
    machine = machine_of(table)
    for event in machine.events.values():
        for state in event.transitions:
            ladder = [row for row, _ in rows_tried(machine, event.name, state)]
            upwards: list[Line] = []
            tried: set[int] = set()
            for row in reversed(ladder):
                steps = marks.taken.get(row, ())
                off = settings.off.get(row)
                upwards.append(Line(row, steps, tuple(sorted(tried)), off))
                # a step that took a row tried every row above it
                tried.update(steps)
            lines.extend(reversed(upwards))
    return lines


def _nodes(table: Table, lines: list[Line], settings: Settings) -> Iterator[Node]:
    """Yield the states, in the order of the table.

    A state that no row leads to is off, and left out if the picture hides what is off.
    """
    visited: set[str] = set()
    reached = {table.start}
    for line in lines:
        if line.steps:
            visited.update((line.row.source, line.row.target))
        if line.off is None:
            reached.add(line.row.target)
    for name in table.states:
        is_off = name not in reached
        if is_off and settings.hides_off and name not in visited:
            continue
        yield Node(
            name,
            kind=kind_of(table, name),
            start=name == table.start,
            visited=name in visited,
            detail=settings.details.get(name, ""),
            says=settings.says.get(name, ""),
            is_off=is_off,
        )


def kind_of(table: Table, state: str) -> Kind:
    """Return the kind of a state."""
    if state in table.outcomes:
        return table.kind_of_end(state)
    return "hub" if state == table.hub else "rung"


def _arcs(lines: list[Line], notes: list[Note]) -> Iterator[Arc]:
    """Yield an arc for each pair of states, without the rows that notes describe."""
    noted = {line.row for note in notes for line in note.lines}
    drawn = [line for line in lines if line.row not in noted]
    groups = _grouped(drawn, lambda line: (line.row.source, line.row.target))
    for (source, target), own in groups.items():
        yield Arc(source=source, target=target, lines=tuple(own))


def _notes(table: Table, lines: list[Line], shown_states: set[str]) -> list[Note]:
    """Describe in words an event that does the same in several states.

    There is no note if the event has a ladder at the hub, leads to the hub, or does something in
    one state alone: then arcs show it.

    Arguments:
        table: the table.
        lines: all lines of the event.
        shown_states: the states of the picture that a row leaves.
    """
    for line in lines:
        has_ladder_at_hub = line.row.source == table.hub and line.row.guard
        if has_ladder_at_hub or line.row.target == table.hub:
            return []
    alike = _grouped(lines, lambda line: (line.row.guard, line.row.target))
    if any(len(own) == 1 for own in alike.values()):
        return []
    return [_note(table, own, shown_states) for own in alike.values()]


def _note(table: Table, lines: list[Line], shown_states: set[str]) -> Note:
    """Build the note of some lines that differ only in their source."""
    row = lines[0].row
    sources = [line.row.source for line in lines]
    return Note(
        event=row.event,
        guard=row.guard,
        target=row.target,
        where=_where(table, sources, row.target, shown_states),
        lines=tuple(lines),
    )


def _where(
    table: Table,
    sources: list[str],
    target: str,
    shown_states: set[str],
) -> str:
    """Say in words where a note holds, among the states that the picture shows.

    Arguments:
        table: the table.
        sources: the states in which it holds.
        target: where it leads.
        shown_states: the states of the picture that a row leaves.
    """
    rungs = shown_states - {table.hub}
    held = set(sources)
    left_out = rungs - held
    if held == {*rungs, table.hub}:
        return "from every state before an outcome" if table.outcomes else "from every state"
    if held == rungs:
        return "from every rung"
    if held == rungs - {target}:
        return "from every other rung"
    if len(left_out) == 1 and held <= rungs:
        return f"from every rung but {left_out.pop()}"
    return f"from {', '.join(sources)}"


def _decisions(table: Table, event: str, lines: list[Line]) -> Iterator[DecisionList]:
    """Yield the decision lists of an event; states with equal lists share one."""
    by_source = _grouped(lines, lambda line: line.row.source)
    shared: dict[tuple[object, ...], list[list[Line]]] = {}
    for own in by_source.values():
        shape = tuple(line.meaning for line in own)
        shared.setdefault(shape, []).append(own)
    for lists in shared.values():
        sources = tuple(own[0].row.source for own in lists)
        where = f"from {', '.join(sources)}"
        if sources == (table.hub,) and table.outcomes:
            where = ""
        lines_by_rank = [_merged(rank) for rank in zip(*lists, strict=True)]
        rows = [line.row for own in lists for line in own]
        yield DecisionList(event, sources, where, tuple(lines_by_rank), tuple(rows))


def _merged(rank: tuple[Line, ...]) -> Line:
    """Merge the lines that several states share at one rank of their lists.

    The merged line is off only if it is off in every state.
    """
    first = rank[0]
    off = first.off
    if any(line.off is None for line in rank):
        off = None
    tried = sorted(step for line in rank for step in line.tried)
    return Line(first.row, all_steps(rank), tuple(tried), off)
