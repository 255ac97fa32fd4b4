"""The path of a recorded run through its table, and its attempts: what led to each, and what came
back.

The record may come from anybody and contain anything. Every summary of a run reads its attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import orjson
from attrs import frozen

from rungwise.fsm.engine.journal.record import Record, Step
from rungwise.fsm.engine.machine.table import Row, Table, row_text
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import label, short
from rungwise.fsm.values.usage import NO_USAGE, Usage

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


SENT: Final = "sent"
WRONG: Final = ("answered_wrongly", "called_wrongly")
LONGEST_REASONS: Final = 300
LEAST_ERROR: Final = 400
"""The lowest HTTP status that says more than the event it led to."""


@frozen(kw_only=True)
class RecordedAttempt:
    """Hold one attempt: a step to the hub, and the step back."""

    number: int
    sent: Step
    back: Step | None = None
    led: Step | None = None  # the step that led to its rung; None for the first attempt
    skipped: tuple[Step, ...] = ()
    # the numbers of its first and last step, up to the one that leads to the next attempt
    steps: tuple[int, int]

    @property
    def rung(self) -> str:
        """Return the rung that sent it."""
        return self.sent.source

    @property
    def wait(self) -> float:
        """Return the wait of the rung, in seconds."""
        return 0.0 if self.led is None else self.led.wait

    @property
    def waited(self) -> float:
        """Return the seconds that passed in the rung; 0 if it had no wait."""
        return 0.0 if self.led is None or not self.wait else self.sent.at - self.led.at

    @property
    def seconds(self) -> float | None:
        """Return the seconds that it was in flight; None while it is."""
        return None if self.back is None else self.back.at - self.sent.at

    @property
    def usage(self) -> Usage:
        """Return its tokens."""
        return NO_USAGE if self.back is None else self.back.usage

    @property
    def why(self) -> str | None:
        """Return what led to it in a word or two; None for the first attempt."""
        return None if self.led is None else word_of(self.led)

    @property
    def came(self) -> str | None:
        """Return what came back in a few words; None while nothing has."""
        return None if self.back is None else words_of(self.back)


def attempts_of(path: Path) -> tuple[RecordedAttempt, ...]:
    """Return the attempts of a run, in order; steps before the first attempt belong to it."""
    steps = path.steps
    start = 0
    attempts = list[RecordedAttempt]()
    places = [
        place
        for place, step in enumerate(steps)
        if step.event == SENT and path.rows[place] is not None
    ]
    for number, (place, bound) in enumerate(pairwise([*places, len(steps)]), start=1):
        before = steps[start:place]
        after = steps[place + 1 : bound]
        rows = [step for step in before if step.event != SKIPPED]
        attempt = RecordedAttempt(
            number=number,
            sent=steps[place],
            back=next((step for step in after if step.event != SKIPPED), None),
            led=rows[-1] if rows else None,
            skipped=tuple(step for step in before if step.event == SKIPPED),
            steps=(1 if number == 1 else place + 1, bound),
        )
        attempts.append(attempt)
        start = place + 1
    return tuple(attempts)


def ending_of(path: Path, attempts: Sequence[RecordedAttempt]) -> Step | None:
    """Return the last step if it came back with no attempt, such as a cancellation in a rung."""
    last = path.steps[-1]
    is_apart = not attempts or (
        attempts[-1].back is not None and attempts[-1].back.number < last.number
    )
    return last if is_apart and last.event != SKIPPED else None


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
