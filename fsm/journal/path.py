"""Read the path of a recorded call off its journal, which may come from anybody and hold anything."""

from __future__ import annotations

import orjson
from attrs import frozen

from rungwise.fsm.call.journal import Journal
from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.forms import fault
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.table import Row, Table
from rungwise.fsm.values.label import short

SKIPPED = "skipped"


@frozen
class Trail:
    """Hold the path of one call through its table.

    Arguments:
        journal: what was recorded.
        table: the machine that the call ran on.
        steps: the steps of the journal.
        rows: the row that each step took; None for a backend that was passed over.
    """

    journal: Journal
    table: Table
    steps: tuple[Step, ...]
    rows: tuple[Row | None, ...]


def read_trail(text: str | bytes, table: Table = CALL) -> Trail:
    """Read a journal and find the rows that its steps took.

    Arguments:
        text: a journal as JSON; nothing in it is trusted.
        table: the machine that the call ran on; one of your own is not recorded and must be passed.

    Raises:
        ConfigurationError: the text is no journal of this table; the message says where.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"journal: no JSON ({error})") from None
    named = document.get("table", table.name) if isinstance(document, dict) else table.name
    if named != table.name:
        raise ConfigurationError(f"journal: it is of the table {short(named)}, not of {table.name!r}")
    try:
        journal = Journal.from_json(text)
    except ConfigurationError:
        raise
    except Exception as error:  # whatever else a document can do to the code that reads it
        raise ConfigurationError(f"journal: not of the form of one ({type(error).__name__}: {error})") from None
    return trail_of(journal, table)


def trail_of(journal: Journal, table: Table = CALL) -> Trail:
    """Find the rows that the steps of a journal took.

    Arguments:
        journal: what was recorded; the call need not have ended.
        table: the machine that the call ran on.

    Raises:
        ConfigurationError: a value is not of its form, or a step is no row of the table or does not follow from the
            one before.
    """
    _check_setting(journal, table)
    steps = journal.steps
    if not steps:
        raise ConfigurationError("journal: it holds no steps, so there is no path to show")
    known = {(row.event, row.source, row.guard, row.target, row.effect): row for row in table.rows}
    rows: list[Row | None] = []
    state, now = table.start, 0.0
    for step in steps:
        if step.source != state:
            raise fault(step, f"it begins in {short(step.source)}, but the call was in {state!r}")
        if step.at < now:
            raise fault(step, f"it was taken at {step.at:g} s, before the step that it follows")
        row = known.get((step.event, step.source, step.guard, step.target, step.effect))
        if row is None and (step.event, step.target) != (SKIPPED, state):
            taken = Row(step.event, step.source, step.guard, step.target, step.effect)
            raise fault(step, f"{short(str(taken))} is no row of the table {table.name!r}")
        rows.append(row)
        state, now = step.target, step.at
    if journal.outcome is not None and journal.outcome != state:
        raise ConfigurationError(
            f"journal: its outcome is {short(journal.outcome)}, but its last step leads to {state!r}"
        )
    return Trail(journal, table, steps, tuple(rows))


def _check_setting(journal: Journal, table: Table) -> None:
    if journal.counters != table.counters:
        raise ConfigurationError(f"journal: its counters are not those of the table {table.name!r}")
    if not journal.setting.chain:
        raise ConfigurationError("journal: its chain is empty")
    for link in journal.setting.chain:
        if not isinstance(link.name, str):
            raise ConfigurationError(f"journal: a backend of its chain is named {short(link.name)}, which is no text")
