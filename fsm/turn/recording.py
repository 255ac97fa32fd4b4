"""Recording a turn: its journal, its observer, and what it has used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define

from rungwise.fsm.call.conversation.parts import ToolResult
from rungwise.fsm.call.run.recording import Observer, announce
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import IllegalEvent
from rungwise.fsm.journal.record import Evidence, RecordedStep
from rungwise.fsm.machine.run import Run
from rungwise.fsm.machine.table import Row
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.values.money import as_money, units_of
from rungwise.fsm.values.usage import NO_USAGE, Usage


@define(eq=False)
class Tally:
    """Add up what a turn uses.

    Arguments:
        cost: the cost of its calls, in units; None once a backend has no prices.
    """

    began: float | None = None
    elapsed: float = 0.0
    usage: Usage = NO_USAGE
    cost: int | None = 0
    attempts: int = 0

    @property
    def money(self) -> float | None:
        """Return the cost as people read it."""
        return None if self.cost is None else as_money(self.cost)

    @property
    def now(self) -> float:
        """Return the time on the driver's clock."""
        return (self.began or 0.0) + self.elapsed

    def begin(self, now: float) -> None:
        """Start the clock of the turn."""
        if self.began is not None:
            raise IllegalEvent("the turn has begun already")
        self.began = now

    def pass_time(self, now: float | None, seconds: float = 0.0) -> None:
        """Move the clock to `now`, but never back; if that is None, by some seconds."""
        if self.began is None:
            raise IllegalEvent("the turn has not begun")
        self.elapsed = self.elapsed + seconds if now is None else max(self.elapsed, now - self.began)

    def add(self, result: Result) -> None:
        """Add what a call used."""
        self.usage += result.usage
        self.attempts += result.attempts
        self.cost = None if self.cost is None or result.cost is None else self.cost + units_of(result.cost)


@define(eq=False, repr=False)
class TurnRecorder:
    """Record each step, and report it to the observer and the log."""

    journal: TurnJournal
    position: Run
    tally: Tally
    observer: Observer | None

    def record(
        self,
        row: Row,
        facts: tuple[str, ...] = (),
        *,
        result: Result | None = None,
        note: str | None = None,
        content: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that a row was taken."""
        self.journal.record(
            RecordedStep(
                row=row,
                evidence=None if result is None else Evidence(event=row.event, usage=result.usage),
                at=self.tally.elapsed,
                backend="" if result is None else result.backend,
                facts=facts,
                spent=tuple(self.position.spent),
                attempts=self.position.attempts,
                note=note,
                content=content if self.journal.contents else None,
            )
        )
        announce(self.journal, self.observer)


def results_content(results: Sequence[ToolResult]) -> dict[str, Any]:
    """Return the results of tools as a step records them."""
    return {"results": [[each.id, each.name, each.text, each.is_fault] for each in results]}
