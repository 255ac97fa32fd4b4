"""Read the picture of a table from the machine that runs it, so that the two cannot differ."""

from __future__ import annotations

from collections.abc import Iterator

from rungwise.fsm.diagram.model import (
    Arc,
    Decision,
    Kind,
    Line,
    Marks,
    Node,
    Note,
    Picture,
    Settings,
    all_steps,
)
from rungwise.fsm.engine.machine.run import machine_of, rows_tried
from rungwise.fsm.engine.machine.table import Table


def picture_of(
    table: Table, marks: Marks | None = None, settings: Settings | None = None
) -> Picture:
    """Read the picture of a table from its running machine."""
    settings = settings or Settings()
    every = _lines(table, marks or Marks(), settings)
    lines = tuple(
        line for line in every if line.off is None or line.steps or not settings.hides_off
    )
    sources = {line.row.source for line in lines}
    by_event: dict[str, list[Line]] = {}
    for line in lines:
        by_event.setdefault(line.row.event, []).append(line)
    notes = tuple(note for own in by_event.values() for note in _notes(table, own, sources))
    noted = {line.row for note in notes for line in note.lines}
    arcs: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        if line.row not in noted:
            arcs.setdefault((line.row.source, line.row.target), []).append(line)
    return Picture(
        name=table.name,
        hub=table.hub,
        nodes=tuple(_nodes(table, lines, settings)),
        arcs=tuple(
            Arc(source=source, target=target, lines=tuple(rows))
            for (source, target), rows in arcs.items()
        ),
        notes=notes,
        decisions=tuple(
            decision
            for event, own in by_event.items()
            for decision in _decisions(table, event, own)
        ),
        marked=marks is not None,
        caption=settings.caption,
        hidden=len(every) - len(lines),
    )


def _lines(table: Table, marks: Marks, settings: Settings) -> tuple[Line, ...]:
    lines: list[Line] = []
    machine = machine_of(table)
    for event in machine.events.values():
        for state in event.transitions:
            own: list[Line] = []
            tried: tuple[int, ...] = ()
            for row, _ in reversed([*rows_tried(machine, event.name, state)]):
                steps = marks.taken.get(row, ())
                own.append(Line(row, steps, tried, settings.off.get(row)))
                # a step that took a row tried every row above it
                tried = tuple(sorted({*tried, *steps}))
            lines += own[::-1]
    return tuple(lines)


def _nodes(table: Table, lines: tuple[Line, ...], settings: Settings) -> Iterator[Node]:
    visited = {name for line in lines if line.steps for name in (line.row.source, line.row.target)}
    reached = {table.start, *(line.row.target for line in lines if line.off is None)}
    for name in table.states:
        is_off = name not in reached
        is_visited = name in visited
        if is_visited or not (is_off and settings.hides_off):
            words = settings.details.get(name, ""), settings.says.get(name, "")
            yield Node(
                name, kind_of(table, name), name == table.start, is_visited, *words, is_off=is_off
            )


def kind_of(table: Table, state: str) -> Kind:
    """Return the kind of a state."""
    if state not in table.outcomes:
        return "hub" if state == table.hub else "rung"
    return table.kind_of_end(state)


def _notes(table: Table, lines: list[Line], shown_states: set[str]) -> list[Note]:
    """Describe in words an event that does the same in several states, unless it has a ladder at
    the hub.
    """
    alike: dict[tuple[str | None, str], list[Line]] = {}
    for line in lines:
        if line.row.target == table.hub or (line.row.source == table.hub and line.row.guard):
            return []
        alike.setdefault((line.row.guard, line.row.target), []).append(line)
    return (
        [_note(table, own, shown_states) for own in alike.values()]
        if min(map(len, alike.values())) > 1
        else []
    )


def _note(table: Table, lines: list[Line], shown_states: set[str]) -> Note:
    """Build a note and describe where it holds, among the states that the picture shows with a row
    that leaves them.
    """
    row, sources = lines[0].row, {line.row.source for line in lines}
    rungs = shown_states - {table.hub}
    if sources == {*rungs, table.hub}:
        where = "from every state before an outcome" if table.outcomes else "from every state"
    elif sources == rungs:
        where = "from every rung"
    elif sources == rungs - {row.target}:
        where = "from every other rung"
    elif len(left_out := rungs - sources) == 1 and not sources - rungs:
        where = f"from every rung but {left_out.pop()}"
    else:
        where = "from " + ", ".join(line.row.source for line in lines)
    return Note(
        event=row.event, guard=row.guard, target=row.target, where=where, lines=tuple(lines)
    )


def _decisions(table: Table, event: str, lines: list[Line]) -> Iterator[Decision]:
    """Yield the decision lists of an event; states with equal lists share one."""
    by_source: dict[str, list[Line]] = {}
    for line in lines:
        by_source.setdefault(line.row.source, []).append(line)
    shared: dict[tuple[tuple[str | None, str, str | None], ...], list[list[Line]]] = {}
    for own in by_source.values():
        shape = tuple((line.row.guard, line.row.target, line.row.effect) for line in own)
        shared.setdefault(shape, []).append(own)
    for lists in shared.values():
        sources = tuple(own[0].row.source for own in lists)
        where = "" if sources == (table.hub,) and table.outcomes else f"from {', '.join(sources)}"
        ranks = tuple(_merged(rank) for rank in zip(*lists, strict=True))
        yield Decision(
            event, sources, where, ranks, tuple(line.row for own in lists for line in own)
        )


def _merged(rank: tuple[Line, ...]) -> Line:
    """Merge the lines that several states share at one rank of their lists."""
    off = None if any(line.off is None for line in rank) else rank[0].off
    return Line(
        rank[0].row,
        all_steps(rank),
        tuple(sorted(step for line in rank for step in line.tried)),
        off,
    )
