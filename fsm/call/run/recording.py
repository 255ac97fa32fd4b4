"""Writing down what a call does: in its journal, and for whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.delivery import Delivery
from rungwise.fsm.call.run.position import NO_WAIT, RungWait
from rungwise.fsm.call.run.proposal import Proposal
from rungwise.fsm.journal.record import Record, RecordedStep, Step
from rungwise.fsm.machine.table import Row
from rungwise.fsm.values.log import INFO, logger

Observer = Callable[[Step], None]


def announce(journal: Record, observer: Observer | None) -> None:
    """Tell the observer and the log of the newest step; what an observer raises goes no further than the log."""
    if observer is not None:
        try:
            observer(journal.last)
        except Exception as error:
            logger().warning("the observer raised %s; the %s goes on", type(error).__name__, journal.table)
    if logger().isEnabledFor(INFO):
        logger().info("%s", journal.last)


class Recorder:
    """Record each step, and tell the stream, the observer and the log of it.

    Arguments:
        context: the journal, and what stands in it.
        delivery: hands steps to the consumer of a stream.
        observer: is given each step; what it raises is logged and goes no further.
    """

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
            row: the row.
            proposal: what was sent, or could not be afforded.
            observation: what the row was taken for.
            facts: the facts that held.
            wait: how long the rung waits that the row leads to.
            note: what is worth knowing besides.
        """
        context, position = self.context, self.context.position
        journal = context.journal
        journal.record(
            RecordedStep(  # by place: each attempt records two, and names take twice as long
                row,
                context.spending.elapsed,
                tuple(position.spent),
                position.attempts,
                context.chain.link.name,
                None if observation is None else observation.evidence,
                facts,
                wait.seconds,
                wait.draw,
                proposal.send.max_tokens if proposal is not None and row.event == "sent" else None,
                None if proposal is None else proposal.prompt_tokens,
                note if observation is None or observation.event != "malformed" else note or observation.found,
                self._content(row, observation, facts) if journal.contents else None,
            )
        )
        if self.delivery.is_streaming or self.observer is not None or logger().isEnabledFor(INFO):
            self._tell(journal)

    def skip(self, state: str, passed_over: Iterable[tuple[Link, str]], proposal: Proposal | None = None) -> None:
        """Record which backends of the chain are passed over in a state, and why.

        Arguments:
            state: where the call is.
            passed_over: the backends, each with the reason.
            proposal: what could not be paid for, if that is the reason.
        """
        context, position = self.context, self.context.position
        for link, why in passed_over:
            context.journal.record(
                RecordedStep(
                    row=Row("skipped", state, None, state),
                    at=context.spending.elapsed,
                    backend=link.name,
                    input_tokens=None if proposal is None else proposal.prompt_tokens,
                    spent=tuple(position.spent),
                    attempts=position.attempts,
                    note=why,
                )
            )
            self._tell(context.journal)

    def _tell(self, journal: Record) -> None:
        if self.delivery.is_streaming:
            self.delivery.show(journal.last)
        announce(journal, self.observer)

    def _content(self, row: Row, observation: Observation | None, facts: tuple[str, ...]) -> dict[str, Any] | None:
        """Return the texts and tool calls of a step, for a journal that may hold them."""
        gathered = {"gathered": self.context.turn.gathered} if self.context.turn.gathered else {}
        if observation is None:
            return gathered or None if row.event == "ran_out" else None  # it may be the only step that tells
        if observation.event == "cancelled":
            return {"delivered": observation.part, **gathered}
        reply = observation.reply
        content: dict[str, Any] = {
            "part": observation.part,
            "new": observation.new,
            "delivered": observation.delivered,
        }
        if observation.unsays:
            content["unsays"] = True
        if observation.spare:
            content["spare"] = observation.spare
        if reply is not None:
            content["reasoning"] = observation.reasoning
            content["final_text"] = reply.final_text
            content["tool_calls"] = [[call.id, call.name, call.arguments] for call in reply.tool_calls]
        if "has_prior_answer" in facts:
            content["prior_answer"] = self.context.turn.prior_answer
        return {**content, **gathered}
