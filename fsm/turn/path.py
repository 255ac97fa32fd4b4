"""The path of a turn, and those of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from attrs import frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.path import Path, path_of
from rungwise.fsm.journal.record import Record
from rungwise.fsm.machine.table import Table
from rungwise.fsm.turn.table import CALLS

if TYPE_CHECKING:
    from rungwise.fsm.turn.journal import TurnJournal


@frozen
class TurnPath:
    """Hold the path of one turn, and those of its calls.

    Arguments:
        path: that of the turn.
        calls: that of each call; None for one that was killed before its first step.
        call_of: the number of the call, from 1, that a step made, or that came back with it, by the number of the step.
    """

    path: Path
    calls: tuple[Path | None, ...]
    call_of: Mapping[int, int]

    @property
    def journal(self) -> TurnJournal:
        """Return what was recorded."""
        return cast("TurnJournal", self.path.record)


def turn_path_of(path: Path, table: Table) -> TurnPath:
    """Find the paths of the calls of a turn.

    Arguments:
        path: that of the turn.
        table: the machine that its calls ran on.

    Raises:
        ConfigurationError: a call took what is no row of the table.
    """
    calls = cast("TurnJournal", path.record).calls
    return TurnPath(path, tuple(_paths(calls, table)), dict(_numbers(path)))


def _numbers(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the number of each step that has to do with a call, and that of the call."""
    made, in_flight = 0, False
    for step in path.steps:
        if step.event == "sent":
            in_flight = step.source in CALLS
            made += in_flight
        if in_flight:
            yield step.number, made
        in_flight = in_flight and step.event == "sent"


def _paths(calls: Sequence[Record], table: Table) -> Iterator[Path | None]:
    for number, call in enumerate(calls, start=1):
        if call.table != table.name:
            raise ConfigurationError(f"journal: call {number}: it is not of the table {table.name!r}")
        try:
            yield path_of(call, table) if call.size else None
        except ConfigurationError as error:
            raise ConfigurationError(f"journal: call {number}: {str(error).removeprefix('journal: ')}") from None
