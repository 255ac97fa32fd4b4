"""The end of a call: its result, from everything that was gathered and spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.conversation.observation import UNCERTAIN, Observation
from rungwise.fsm.call.run.causes import cause_of
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.recording import Recorder
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.table import KEEP_PRIOR
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Part, TextPart, ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.text.thinking import split_thinking
from rungwise.fsm.values.money import as_money

if TYPE_CHECKING:
    from rungwise.fsm.replies.decisions.open_questions import OpenQuestions

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
        index = self.context.chain.index
        before = self._failures.get(index)
        # what to do about it outweighs what a repair brought instead
        is_repairable = observation.event == "rejected_fixably"
        if is_repairable and before is not None and before.reason == "wrong_endpoint":
            return
        if observation.failure is not None:
            self._failures[index] = observation.failure

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

        Arguments:
            row: the last row.
            facts: the facts that held.
            observation: what came back.
            proposal: what could not be afforded.
            shortfall: why not.
        """
        context = self.context
        chain = context.chain
        cause = shortfall
        if observation is not None:
            table = context.policy.table
            words = observation.failure.words if observation.failure is not None else ""
            if row.event == UNCERTAIN:
                words = observation.found or ""
            cause = cause_of(table, row, observation.evidence, facts, observation.found, words)
            finding = observation.finding
            if cause is not None and finding is not None and not finding.is_right:
                why = finding.in_words or finding.note.partition(": ")[2]
                if why:
                    cause = f"{cause}: {why}"
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
                text = self.result.text
                if row.effect == KEEP_PRIOR.effect and context.turn.is_shown:
                    text = context.transcript.answer.gathered
                self.recorder.delivery.correct(text)

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
        if outcome != "done":
            text, parts, turn = self._lesser_answer(row)
        decided = None
        if context.judge.returns is not None:
            decided = context.judge.decided
        if decided is not None:
            text = decided.text
            parts = (text,)
        final_text = text
        reply = reasoning = None
        if last is not None:
            reply = last.reply
            reasoning = last.reasoning
        if outcome == "done" and decided is None:
            final_text = _final_text(text, reply, parts)
        tool_calls: tuple[ToolCall, ...] = ()
        if reply is not None and row.event == "called_tools":
            tool_calls = reply.tool_calls
        cost = None
        if spending.cost is not None and (chain.link.prices or spending.cost_reported):
            cost = as_money(spending.cost)
        failures = []
        for index, failure in sorted(self._failures.items()):
            failures.append((chain.links[index].name, failure))
        context.journal.outcome = outcome
        return Result(
            outcome=outcome,
            text=text,
            final_text=final_text,
            tool_calls=tool_calls,
            reasoning=reasoning or "",
            parts=parts,
            usage=spending.usage,
            cost=cost,
            seconds=spending.elapsed,
            attempts=context.position.attempts,
            backend=chain.link.name,
            cause=cause,
            failures=tuple(failures),
            reply=reply,
            journal=context.journal,
            overran=spending.overran is not None,
            shapes=chain.shapes,
            turn=turn,
            **self._stated(outcome, decided),
        )

    def _stated(self, outcome: str, decided: OpenQuestions | None) -> dict[str, Any]:
        """Return the fields of a result that say what was found of the last reply, and how its cost
        is known.

        Arguments:
            outcome: the outcome.
            decided: the answers of a decision so far, if it is one.
        """
        context = self.context
        fields = {"needs_value": context.judge.returns is not None, **context.spending.stated}
        finding = self.last and self.last.finding
        if finding:
            fields |= {"raised": finding.raised, "reasons": finding.reasons}
            if outcome == "done":
                fields["value"] = finding.value
        if decided is not None:
            fields |= {"value": decided.decision, "needs_value": False}
        return fields

    def _lesser_answer(self, row: Row) -> tuple[str, tuple[str, ...], tuple[Part, ...]]:
        """Return the text, its parts and the turn of a call that has not simply succeeded."""
        context = self.context
        answer = context.transcript.answer
        last = self.last
        if row.target == "salvaged" and row.effect == "keep_delivered" and last is not None:
            added = last.delivered
            text = answer.gathered + added
            parts = (*answer.parts, text)
        elif row.target == "salvaged":
            text, _ = split_thinking(context.turn.prior_answer or "")
            return text, (*answer.parts, text), ()
        elif answer.spare:
            text = answer.spare
            parts = (text,)
            added = text.removeprefix(answer.gathered)  # which the blocks of a paused turn hold
        else:
            return answer.gathered, answer.parts, answer.turn
        turn: tuple[Part, ...] = ()
        if answer.turn and text.startswith(answer.gathered):
            turn = (*answer.turn, TextPart(added))
        return text, parts, turn


def _final_text(text: str, reply: Reply | None, parts: tuple[str, ...]) -> str:
    """Return the last text block; text that was stitched from several parts is one block unless the
    last was split.
    """
    if reply is None or reply.final_text is None:
        return text
    if len(parts) > 1 and reply.final_text == reply.text:
        return text
    visible, _ = split_thinking(reply.final_text)
    return visible
