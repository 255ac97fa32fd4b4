"""Writing down what a turn does: in its journal, and for whoever listens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define

from rungwise.fsm.call.run.recording import Observer, announce
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.journal.record import Evidence, RecordedStep
from rungwise.fsm.machine.run import Run
from rungwise.fsm.machine.table import Row
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.turn.tally import Tally


@define(eq=False, repr=False)
class TurnRecorder:
    """Record each step, and tell the observer and the log of it.

    Arguments:
        journal: what is written.
        position: where the turn stands.
        tally: the time.
        observer: is given each step; what it raises is logged and goes no further.
    """

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
        """Record that a row was taken.

        Arguments:
            row: the row.
            facts: the facts that held.
            result: the end of the call that it was taken for, if it was one.
            note: what is worth knowing besides.
            content: texts and ids, for a journal that may hold them.
        """
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
