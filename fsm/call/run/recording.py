"""Record each step of a call in its journal, and pass it to the stream, the observer and the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from rungwise.fsm.call.conversation.for_backend import Proposal
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.run.context import NO_WAIT, CallContext, RungWait
from rungwise.fsm.call.run.delivery import Delivery
from rungwise.fsm.journal.record import Record, RecordedStep, Step
from rungwise.fsm.machine.table import Row

Observer = Callable[[Step], None]

logger = logging.getLogger("rungwise")


def announce(journal: Record, observer: Observer | None) -> None:
    """Pass the newest step to the observer and the log. What the observer raises is logged and goes no further."""
    if observer is not None:
        try:
            observer(journal.last)
        except Exception as error:
            logger.warning("the observer raised %s; the %s goes on", type(error).__name__, journal.table)
    if logger.isEnabledFor(logging.INFO):
        logger.info("%s", journal.last)


class Recorder:
    """Record each step, and pass it to the stream, the observer and the log."""

    __slots__ = ("context", "delivery", "observer")

    def __init__(self, context: CallContext, delivery: Delivery, observer: Observer | None) -> None:
        self.context, self.delivery, self.observer = context, delivery, observer

    def record(
        self,
        row: Row,
        *,
        proposal: Proposal | None = None,
        observation: Observation | None = None,
        facts: tuple[str, ...] = (),
        wait: RungWait = NO_WAIT,
        note: str | None = None,
    ) -> None:
        """Record that a row was taken.

        Arguments:
            proposal: what was sent, or could not be afforded.
            wait: how long the rung waits that the row leads to.
        """
        context, position = self.context, self.context.position
        journal = context.journal
        journal.record(
            RecordedStep(
                row=row,
                at=context.spending.elapsed,
                spent=tuple(position.spent),
                attempts=position.attempts,
                backend=context.chain.link.name,
                evidence=None if observation is None else observation.evidence,
                facts=facts,
                wait=wait.seconds,
                draw=wait.draw,
                cap=proposal.send.max_tokens if proposal is not None and row.event == "sent" else None,
                input_tokens=None if proposal is None else proposal.prompt_tokens,
                first_token=journal.first_token,
                note=note or (None if observation is None else observation.note),
                content=self._content(row, observation, facts) if journal.contents else None,
            )
        )
        journal.first_token = None
        if self.delivery.is_streaming or self.observer is not None or logger.isEnabledFor(logging.INFO):
            self._announce(journal)

    def skip(
        self,
        state: str,
        passed_over: Iterable[tuple[Link, str]],
        proposal: Proposal | None = None,
        facts: tuple[str, ...] = (),
    ) -> None:
        """Record the backends that are skipped, and why.

        Arguments:
            proposal, facts: what could not be afforded, if that is the reason, and the facts that held.
        """
        context, position = self.context, self.context.position
        for link, why in passed_over:
            context.journal.record(
                RecordedStep(
                    row=Row("skipped", state, None, state),
                    at=context.spending.elapsed,
                    backend=link.name,
                    input_tokens=None if proposal is None else proposal.prompt_tokens,
                    facts=facts,
                    spent=tuple(position.spent),
                    attempts=position.attempts,
                    note=why,
                )
            )
            self._announce(context.journal)

    def _announce(self, journal: Record) -> None:
        if self.delivery.is_streaming:
            self.delivery.show(journal.last)
        announce(journal, self.observer)

    def _content(self, row: Row, observation: Observation | None, facts: tuple[str, ...]) -> dict[str, Any] | None:
        """Return the texts and tool calls of a step, for a journal that may hold them."""
        gathered = {"gathered": self.context.turn.gathered} if self.context.turn.gathered else {}
        if observation is None:
            return gathered or None if row.event == "ran_out" else None  # it may be the only step that holds it
        if observation.event == "cancelled":
            return {"delivered": observation.part, **gathered}
        reply = observation.reply
        content: dict[str, Any] = {"part": observation.part, "new": observation.new, "delivered": observation.delivered}
        if observation.unsays:
            content["unsays"] = True
        if observation.spare:
            content["spare"] = observation.spare
        if reply is not None:
            content["reasoning"] = observation.reasoning
            content["final_text"] = reply.final_text
            content["tool_calls"] = [[call.id, call.name, call.arguments] for call in reply.tool_calls]
        if observation.finding is not None and observation.finding.reasons:
            content["reasons"] = list(observation.finding.reasons)
        if "has_prior_answer" in facts:
            content["prior_answer"] = self.context.turn.prior_answer
        return {**content, **gathered}
