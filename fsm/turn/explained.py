"""Reading a recorded turn, or a recorded call, as it is shown."""

from __future__ import annotations

import orjson

from rungwise.fsm.call.run.explained import read_call
from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.path import Path, read_path
from rungwise.fsm.machine.table import Table
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.turn.path import TurnPath, turn_path_of
from rungwise.fsm.turn.table import TURN

__all__ = ["TurnPath", "read_recorded", "read_turn", "turn_path_of"]


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
