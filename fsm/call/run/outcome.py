"""The end of a call: its result, from everything that was gathered and spent."""

from __future__ import annotations

from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.run.causes import cause_of
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.recording import Recorder
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.table import KEEP_PRIOR
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import TextPart
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.text.thinking import split_thinking
from rungwise.fsm.values.money import as_money

LAST_RESORTS = frozenset({"partial", "refused", "exhausted", "failed"})
"""The outcomes that a usable backend further down the chain might have prevented."""


class Outcome:
    """Remember what came back, and settle the call."""

    __slots__ = ("_failures", "context", "last", "recorder", "result")

    def __init__(self, context: CallContext, recorder: Recorder) -> None:
        self.context = context
        self.recorder = recorder
        self.last: Observation | None = None  # what came back last
        self.result: Result | None = None  # once the call has ended
        self._failures: dict[int, Failure] = {}  # the last one of each backend

    def note(self, observation: Observation) -> None:
        """Remember what came back. A cancellation brings nothing."""
        if observation.event == "cancelled":
            return
        self.last = observation
        if observation.failure is not None:
            self._failures[self.context.chain.index] = observation.failure

    def end(
        self,
        row: Row,
        facts: tuple[str, ...],
        *,
        observation: Observation | None = None,
        proposal: Proposal | None = None,
        shortfall: str | None = None,
    ) -> None:
        """Settle the call and record the last step, even if an observer is interrupted.

        Either something was observed, or a proposal could not be afforded because of a shortfall.
        """
        context, chain = self.context, self.context.chain
        cause = shortfall
        if observation is not None:
            cause = cause_of(
                context.policy.table, row, observation.evidence, facts, observation.found
            )
            if (
                cause is not None
                and observation.finding is not None
                and not observation.finding.is_right
            ):
                why = observation.finding.in_words or observation.finding.note.partition(": ")[2]
                cause = f"{cause}: {why}" if why else cause
        try:
            if context.spending.share is not None:
                context.spending.share.withdraw()
            if row.target in LAST_RESORTS and chain.next_usable() is None:
                self.recorder.skip(row.source, chain.passed_over())
        finally:
            self.result = self.settle(row, cause)
            try:
                self.recorder.record(
                    row, proposal=proposal, observation=observation, facts=facts, note=shortfall
                )
            finally:
                is_shown = row.effect == KEEP_PRIOR.effect and context.turn.is_shown
                self.recorder.delivery.correct(
                    context.transcript.answer.gathered if is_shown else self.result.text
                )

    def settle(self, row: Row, cause: str | None) -> Result:
        """Return the result of a call that has ended."""
        context = self.context
        last = self.last
        answer = context.transcript.answer
        spending = context.spending
        chain = context.chain
        outcome = row.target
        text = answer.gathered
        parts = answer.parts
        turn = answer.turn
        if answer.spare and outcome not in ("done", "salvaged"):
            text = answer.spare
            parts = (text,)
            turn = (*turn, TextPart(text)) if turn else ()
        elif outcome == "salvaged":
            delivered = (
                last.delivered if last is not None and row.effect == "keep_delivered" else None
            )
            text = (
                split_thinking(context.turn.prior_answer or "")[0]
                if delivered is None
                else text + delivered
            )
            parts = (*parts, text)
            turn = (*turn, TextPart(delivered)) if turn and delivered is not None else ()
        reply = last.reply if last is not None else None
        context.journal.outcome = outcome
        return Result(
            outcome=outcome,
            text=text,
            final_text=_final_text(text, reply, parts) if outcome == "done" else text,
            tool_calls=reply.tool_calls
            if reply is not None and row.event == "called_tools"
            else (),
            reasoning=last.reasoning if last is not None else "",
            parts=parts,
            usage=spending.usage,
            cost=as_money(spending.cost)
            if spending.cost is not None and chain.link.prices is not None
            else None,
            seconds=spending.elapsed,
            attempts=context.position.attempts,
            backend=chain.link.name,
            cause=cause,
            failures=tuple(
                (chain.links[index].name, failure)
                for index, failure in sorted(self._failures.items())
            ),
            reply=reply,
            journal=context.journal,
            overran=spending.overran is not None,
            shapes=chain.shapes,
            turn=turn,
            value=last.finding.value
            if outcome == "done" and last is not None and last.finding is not None
            else None,
            raised=last.finding.raised if last is not None and last.finding is not None else None,
        )


def _final_text(text: str, reply: Reply | None, parts: tuple[str, ...]) -> str:
    """Return the last text block; text that was stitched from several parts is one block unless the
    last was split.
    """
    if (
        reply is None
        or reply.final_text is None
        or (len(parts) > 1 and reply.final_text == reply.text)
    ):
        return text
    return split_thinking(reply.final_text)[0]
