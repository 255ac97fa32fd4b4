"""Rows: one transition each, and what is done with a list of them.

A row is `(event, source, guard, target, effect)`. For one event and source a machine tries the rows
from the top and takes the first whose guard holds. A row without a guard is the last resort.

Warning: the order of the rows is the behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen, validators

from rungwise.fsm.errors import TableError


def _name(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise TableError(f"Row.{attribute.name} must be a name, not {value!r}")


@frozen
class Row:
    """Hold one transition.

    Arguments:
        event: what came back, or what the driver did.
        source: the state that takes the event.
        guard: the name of the guard or fact that must hold; None always holds.
        target: the next state.
        effect: the name of the effect, applied before the state changes; None for nothing.
    """

    event: str = field(validator=_name)
    source: str = field(validator=_name)
    guard: str | None = field(validator=validators.optional(_name))
    target: str = field(validator=_name)
    effect: str | None = field(default=None, validator=validators.optional(_name))

    def __str__(self) -> str:
        return row_text(
            event=self.event,
            source=self.source,
            guard=self.guard,
            target=self.target,
            effect=self.effect,
        )


def row_text(
    event: str,
    source: str,
    guard: str | None,
    target: str,
    effect: str | None,
) -> str:
    """Write a row as text, even one that no `Row` could hold.

    Arguments:
        event, source, guard, target, effect: the fields of the row, as in `Row`.
    """
    guarded = f" [{guard}]" if guard else ""
    affected = f" / {effect}" if effect else ""
    return f"{source} --{event}{guarded}{affected}--> {target}"


def rows_of(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows of a table as a tuple.

    Raises:
        TableError: these are no rows.
    """
    if not isinstance(rows, Iterable):
        raise TableError(f"Table.rows must be a list of rows, not {type(rows).__name__}")
    return tuple(rows)


def ladders_of(rows: Iterable[Row]) -> dict[tuple[str, str], tuple[Row, ...]]:
    """Group rows by event and source, each group in the order of the rows."""
    ladders: dict[tuple[str, str], tuple[Row, ...]] = {}
    for row in rows:
        key = row.event, row.source
        ladders[key] = (*ladders.get(key, ()), row)
    return ladders


def insert(rows: list[Row], new: Row, *, before: Row | None) -> None:
    """Insert a new row into a list of rows.

    Arguments:
        rows: the list, which is changed.
        new: the new row.
        before: the row that it comes before. None puts it before the unguarded row of its event and
            source; if they have none, after their last row; if they have no row at all, at the end.

    Raises:
        TableError: what is to be inserted is no row.
    """
    if not isinstance(new, Row):
        form = "Row(event, source, guard, target, effect)"
        raise TableError(f"with_rows takes rows such as {form}, not {type(new).__name__}")
    if before is not None:
        rows.insert(rows.index(before), new)
        return
    place = len(rows)
    for index, row in enumerate(rows):
        if row.event == new.event and row.source == new.source:
            is_last_resort = row.guard is None
            place = index if is_last_resort else index + 1
    rows.insert(place, new)


def reorder(
    rows: Iterable[Row],
    ladders: Mapping[str, Sequence[Row]],
    event: str,
    order: Sequence[str | None],
) -> list[Row]:
    """Return rows with those of one event in another order; every other row keeps its place.

    Arguments:
        rows: all rows of a table.
        ladders: the rows of the event, by source.
        event: the event.
        order: its guards in the new order; None is the last resort.
    """

    def position(row: Row) -> int:
        return order.index(row.guard)

    in_order = {}
    for source, ladder in ladders.items():
        in_order[source] = iter(sorted(ladder, key=position))
    reordered = []
    for row in rows:
        if row.event == event:
            reordered.append(next(in_order[row.source]))
        else:
            reordered.append(row)
    return reordered
