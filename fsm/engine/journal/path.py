"""The path of a recorded run through its table, and what came back at a step in a few words.

The record may come from anybody and contain anything, so each step is checked against the table.
`attempts.py` reads the attempts of such a path.
"""

from __future__ import annotations

from typing import Final

import orjson
from attrs import frozen

from rungwise.fsm.engine.journal.record import Record, Step
from rungwise.fsm.engine.machine.table import Row, Table, row_text
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import label, short

SKIPPED = "skipped"


@frozen
class Path:
    """Hold the path of a run through its table."""

    record: Record
    table: Table
    steps: tuple[Step, ...]
    rows: tuple[Row | None, ...]  # that each step took; None for a skipped backend


def read_path(text: str | bytes, table: Table, kind: type[Record] = Record) -> Path:
    """Read a record and find the rows that its steps took.

    Arguments:
        text: the record, as JSON.
        table: the table that it must be of.
        kind: the class of the record.

    Raises:
        ConfigurationError: the text is no record of that table; the message says where.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"journal: no JSON ({error})") from None
    name = table.name
    if isinstance(document, dict):
        name = document.get("table", name)
    if name != table.name:
        raise ConfigurationError(
            f"journal: it is of the table {short(name)}, not of {table.name!r}"
        )
    try:
        record = kind.from_json(text)
    except ConfigurationError:
        raise
    except Exception as error:  # a hostile document may break the reading code in other ways
        raise ConfigurationError(
            f"journal: not of the form of one ({type(error).__name__}: {error})"
        ) from None
    return path_of(record, table)


def path_of(record: Record, table: Table) -> Path:
    """Find the rows that the steps of a record took.

    Raises:
        ConfigurationError: a step took no row, or does not follow the one before; the message has
            its number.
    """
    if record.counters != table.counters:
        raise ConfigurationError(
            f"journal: its counters are not those of the table {table.name!r}; if it ran on a "
            "table of your own, give the policy with that table"
        )
    steps = record.steps
    if not steps:
        raise ConfigurationError("journal: it holds no steps, so there is no path to show")
    rows_by_step = {_row_of(row): row for row in table.rows}
    rows: list[Row | None] = []
    is_resumed = table.resumes is not None and steps[0].source == table.resumes
    state = steps[0].source if is_resumed else table.start
    now = 0.0
    for step in steps:
        if step.source != state:
            begins = short(step.source)
            raise fault(step, f"it begins in {begins}, but the {table.name} was in {state!r}")
        if step.at < now:
            raise fault(step, f"it was taken at {step.at:g} s, before the step that it follows")
        row = rows_by_step.get(_row_of(step))
        is_skip = step.event == SKIPPED and step.target == state
        if row is None and not is_skip:
            unknown = short(row_text(*_row_of(step)))
            raise fault(step, f"{unknown} is no row of the table {table.name!r}")
        rows.append(row)
        state = step.target
        now = step.at
    if record.outcome is not None and record.outcome != state:
        ends = f"its outcome is {short(record.outcome)}, but its last step leads to {state!r}"
        raise ConfigurationError(f"journal: {ends}")
    return Path(record, table, steps, tuple(rows))


def _row_of(taken: Row | Step) -> tuple[str, str, str | None, str, str | None]:
    """Return what tells rows apart, in the order of `row_text`."""
    return taken.event, taken.source, taken.guard, taken.target, taken.effect


def fault(step: Step, says: str) -> ConfigurationError:
    """Build the error of a step."""
    return ConfigurationError(f"journal: step {step.number}: {says}")


WRONG: Final = ("answered_wrongly", "called_wrongly")
"""The events of a reply that a verdict of the caller refused."""

LONGEST_REASONS: Final = 300
"""Characters of the reasons that are shown."""

LEAST_ERROR: Final = 400
"""The lowest HTTP status that says more than the event it led to."""


def word_of(step: Step) -> str:
    """Return what came back in a word or two: `429`, `empty`, `timeout`."""
    if step.status is not None and step.status >= LEAST_ERROR:
        return str(step.status)
    if step.reason and step.event.startswith("failed"):
        return step.reason.replace("_", " ")
    return step.event.removeprefix("came_").replace("_", " ")


def words_of(step: Step) -> str:
    """Return what came back in a few words.

    Examples: `429 rate limit`, `interrupted (connection)`, `wrong: wingspan_cm`.
    """
    if step.event in WRONG:
        text = step.note
        reasons = (step.content or {}).get("reasons")
        if isinstance(reasons, list) and reasons:
            text = f"wrong: {'; '.join(map(str, reasons))}"
        return str(label(text or "wrong", LONGEST_REASONS))
    word = word_of(step)
    reason = (step.reason or "").replace("_", " ")
    if not reason or reason == word:
        return word
    if word.isdecimal():  # a status
        return f"{word} {reason}"
    return f"{word} ({reason})"
