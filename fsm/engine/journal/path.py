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
    """Read a record and find the rows that its steps took, or raise a ConfigurationError that says
    what is wrong.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"journal: no JSON ({error})") from None
    name = document.get("table", table.name) if isinstance(document, dict) else table.name
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
    """Find the rows that the steps of a record took, or refuse a step that is none or does not
    follow.
    """
    if record.counters != table.counters:
        raise ConfigurationError(
            f"journal: its counters are not those of the table {table.name!r}; if it ran on a "
            f"table of your own, give "
            "the policy with that table"
        )
    steps = record.steps
    if not steps:
        raise ConfigurationError("journal: it holds no steps, so there is no path to show")
    rows_by_step = {
        (row.event, row.source, row.guard, row.target, row.effect): row for row in table.rows
    }
    rows: list[Row | None] = []
    is_resumed = table.resumes is not None and steps[0].source == table.resumes
    state = steps[0].source if is_resumed else table.start
    now = 0.0
    for step in steps:
        if step.source != state:
            raise fault(
                step, f"it begins in {short(step.source)}, but the {table.name} was in {state!r}"
            )
        if step.at < now:
            raise fault(step, f"it was taken at {step.at:g} s, before the step that it follows")
        row = rows_by_step.get((step.event, step.source, step.guard, step.target, step.effect))
        if row is None and (step.event, step.target) != (SKIPPED, state):
            unknown = row_text(step.event, step.source, step.guard, step.target, step.effect)
            raise fault(step, f"{short(unknown)} is no row of the table {table.name!r}")
        rows.append(row)
        state = step.target
        now = step.at
    if record.outcome is not None and record.outcome != state:
        ends = f"its outcome is {short(record.outcome)}, but its last step leads to {state!r}"
        raise ConfigurationError(f"journal: {ends}")
    return Path(record, table, steps, tuple(rows))


def fault(step: Step, says: str) -> ConfigurationError:
    """Build the error of a step."""
    return ConfigurationError(f"journal: step {step.number}: {says}")


WRONG: Final = ("answered_wrongly", "called_wrongly")
LONGEST_REASONS: Final = 300
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
    """Return what came back in a few words: `429 rate limit`, `interrupted (connection)`, `wrong:
    wingspan_cm`.
    """
    if step.event in WRONG:
        reasons = (step.content or {}).get("reasons")
        told = (
            f"wrong: {'; '.join(map(str, reasons))}"
            if isinstance(reasons, list) and reasons
            else step.note
        )
        return str(label(told or "wrong", LONGEST_REASONS))
    word = word_of(step)
    reason = (step.reason or "").replace("_", " ")
    if not reason or reason == word:
        return word
    return f"{word} {reason}" if word.isdecimal() else f"{word} ({reason})"
