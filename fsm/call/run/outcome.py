"""How a call ends: its result, out of everything that was gathered and spent."""

from __future__ import annotations

from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.parts import TextPart
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.result import Result, new_result
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.machine.table import Row
from rungwise.fsm.text.thinking import split_thinking


class Outcome:
    """Gather what a call ends with.

    Arguments:
        context: the text, and what was spent.
        last: what came back last.
    """

    __slots__ = ("_failures", "context", "last")

    def __init__(self, context: CallContext) -> None:
        self.context = context
        self.last: Observation | None = None
        self._failures: dict[int, Failure] | None = None  # the last one of each backend

    def note(self, observation: Observation) -> None:
        """Remember what came back; that the caller ended the call says nothing of a reply."""
        if observation.event == "cancelled":
            return
        self.last = observation
        if observation.failure is not None:
            if self._failures is None:
                self._failures = {}
            self._failures[self.context.chain.index] = observation.failure

    def settle(self, row: Row, cause: str | None) -> Result:
        """Return the result of a call that has ended.

        Arguments:
            row: the last one, which led to the outcome.
            cause: why the call did not simply succeed, in a sentence.
        """
        context, last = self.context, self.last
        answer, spending, chain = context.transcript.answer, context.spending, context.chain
        outcome, text, parts, turn = (
            row.target,
            answer.gathered,
            answer.parts,
            answer.turn,
        )
        if answer.spare and outcome not in ("done", "salvaged"):
            text = answer.spare
            parts = (text,)
            turn = (*turn, TextPart(text)) if turn else ()
        elif outcome == "salvaged":
            text = self._salvaged(row, text)
            parts = (*parts, text)
            turn = (*turn, TextPart(last.delivered)) if turn and last and row.effect == "keep_delivered" else ()
        reply = last.reply if last is not None else None
        context.journal.outcome = outcome
        result = new_result()
        result.outcome = outcome
        result.text = text
        result.final_text = _final_text(text, reply, parts) if outcome == "done" else text
        result.tool_calls = reply.tool_calls if reply is not None and row.event == "called_tools" else ()
        result.reasoning = last.reasoning if last is not None else ""
        result.parts = parts
        result.usage = spending.usage
        result.cost = spending.cost if chain.link.prices is not None else None
        result.seconds = spending.elapsed
        result.attempts = context.position.attempts
        result.backend = chain.link.name
        result.cause = cause
        result.failures = self._named_failures() if self._failures else ()
        result.reply = reply
        result.journal = context.journal
        result.overran = spending.overran is not None
        result.shapes = chain.shapes
        result.turn = turn
        result.__class__ = Result
        closed: Result = result
        return closed

    def _named_failures(self) -> tuple[tuple[str, Failure], ...]:
        links, failures = self.context.chain.links, self._failures or {}
        return tuple([(links[index].name, failures[index]) for index in sorted(failures)])

    def _salvaged(self, row: Row, gathered: str) -> str:
        if row.effect == "keep_delivered" and self.last is not None:
            return gathered + self.last.delivered
        return split_thinking(self.context.turn.prior_answer or "")[0]


def _final_text(text: str, reply: Reply | None, parts: tuple[str, ...]) -> str:
    """Return the last text block; text that was stitched from several parts is one block unless the last was split."""
    if reply is None or reply.final_text is None or (len(parts) > 1 and reply.final_text == reply.text):
        return text
    return split_thinking(reply.final_text)[0]
