"""The path of a recorded run through its table; the record may come from anybody and contain anything."""

from __future__ import annotations

import orjson
from attrs import frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.journal.record import Record, Step
from rungwise.fsm.machine.table import Row, Table, row_text
from rungwise.fsm.values.label import short

SKIPPED = "skipped"


@frozen
class Path:
    """Hold the path of a run through its table.

    Arguments:
        rows: the row that each step took; None for a skipped backend.
    """

    record: Record
    table: Table
    steps: tuple[Step, ...]
    rows: tuple[Row | None, ...]


def read_path(text: str | bytes, table: Table, kind: type[Record] = Record) -> Path:
    """Read a record and find the rows that its steps took.

    Arguments:
        table: the machine of the run; a journal does not contain a table of your own, so pass it.

    Raises:
        ConfigurationError: the text is no record of this table; the message says where.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"journal: no JSON ({error})") from None
    name = document.get("table", table.name) if isinstance(document, dict) else table.name
    if name != table.name:
        raise ConfigurationError(f"journal: it is of the table {short(name)}, not of {table.name!r}")
    try:
        record = kind.from_json(text)
    except ConfigurationError:
        raise
    except Exception as error:  # a hostile document may break the reading code in other ways
        raise ConfigurationError(f"journal: not of the form of one ({type(error).__name__}: {error})") from None
    return path_of(record, table)


def path_of(record: Record, table: Table) -> Path:
    """Find the rows that the steps of a record took.

    Raises:
        ConfigurationError: a step is no row of the table, or does not follow from the step before it.
    """
    if record.counters != table.counters:
        raise ConfigurationError(
            f"journal: its counters are not those of the table {table.name!r}; if it ran on a table of your own, give "
            "the policy with that table"
        )
    steps = record.steps
    if not steps:
        raise ConfigurationError("journal: it holds no steps, so there is no path to show")
    rows_by_step = {(row.event, row.source, row.guard, row.target, row.effect): row for row in table.rows}
    rows: list[Row | None] = []
    is_resumed = table.resumes is not None and steps[0].source == table.resumes
    state, now = steps[0].source if is_resumed else table.start, 0.0
    for step in steps:
        if step.source != state:
            raise fault(step, f"it begins in {short(step.source)}, but the {table.name} was in {state!r}")
        if step.at < now:
            raise fault(step, f"it was taken at {step.at:g} s, before the step that it follows")
        row = rows_by_step.get((step.event, step.source, step.guard, step.target, step.effect))
        if row is None and (step.event, step.target) != (SKIPPED, state):
            unknown = row_text(step.event, step.source, step.guard, step.target, step.effect)
            raise fault(step, f"{short(unknown)} is no row of the table {table.name!r}")
        rows.append(row)
        state, now = step.target, step.at
    if record.outcome is not None and record.outcome != state:
        raise ConfigurationError(
            f"journal: its outcome is {short(record.outcome)}, but its last step leads to {state!r}"
        )
    return Path(record, table, steps, tuple(rows))


def fault(step: Step, says: str) -> ConfigurationError:
    """Build the error of a step."""
    return ConfigurationError(f"journal: step {step.number}: {says}")
