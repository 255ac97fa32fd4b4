"""A recorded turn as it is shown: its path through the table, and the paths of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson
from attrs import frozen

from rungwise.fsm.call.explained import read_call
from rungwise.fsm.call.journal import Journal
from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.path import Path, path_of, read_path
from rungwise.fsm.machine.table import Table
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.turn.table import CALLS, TURN


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
        assert isinstance(self.path.record, TurnJournal)
        return self.path.record


def read_turn(text: str | bytes, table: Table = CALL) -> TurnPath:
    """Read the journal of a turn and find the rows that its steps took, and those of its calls.

    Arguments:
        text: a journal as JSON; nothing in it is trusted.
        table: the machine that its calls ran on; one of your own is not recorded and must be passed.

    Raises:
        ConfigurationError: the text is no journal of a turn; the message says where.
    """
    return turn_path_of(read_path(text, TURN, TurnJournal), table)


def read_recorded(text: str | bytes, table: Table = CALL) -> Path | TurnPath:
    """Read the journal of a call or of a turn, whichever it says it is; see `read_call` and `read_turn`."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"journal: no JSON ({error})") from None
    is_turn = isinstance(document, dict) and document.get("table") == TURN.name
    return read_turn(text, table) if is_turn else read_call(text, table)


def turn_path_of(path: Path, table: Table = CALL) -> TurnPath:
    """Find the paths of the calls of a turn.

    Arguments:
        path: that of the turn.
        table: the machine that its calls ran on.

    Raises:
        ConfigurationError: a call took what is no row of the table.
    """
    assert isinstance(path.record, TurnJournal)
    return TurnPath(path, tuple(_paths(path.record.calls, table)), dict(_numbers(path)))


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


def _paths(calls: list[Journal], table: Table) -> Iterator[Path | None]:
    for number, call in enumerate(calls, start=1):
        if call.table != table.name:
            raise ConfigurationError(f"journal: call {number}: it is not of the table {table.name!r}")
        try:
            yield path_of(call, table) if call.size else None
        except ConfigurationError as error:
            raise ConfigurationError(f"journal: call {number}: {str(error).removeprefix('journal: ')}") from None
