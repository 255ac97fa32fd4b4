"""What came back from one attempt, as far as the rest of a call must know of it."""

from __future__ import annotations

from attrs import Factory, field, frozen

from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.journal.record import Evidence


@frozen(kw_only=True)
class Observation:
    """Hold one observed reply or failure, texts and all; its `evidence` is the part that a journal may keep.

    Arguments:
        evidence: the event, and what a journal may tell of it.
        part: the visible text that is kept, as it came.
        new: what of that had not been said.
        spare: cut text that is too little to go on from, kept for want of anything else.
        unsays: whether it shows that the text gathered before it was reasoning.
        reasoning: all its reasoning, structured and inline.
        thinks_inline: whether some of it came in inline tags.
        cap: the output cap that was sent, in tokens.
        overran: whether the reply is longer than that, where a budget rests on it.
        backend: the index of the backend in the chain.
        delivered: what the attempt had handed to the consumer.
        reply: the reply, if one came.
        failure: why none came, or what cut it.
        event: the event of the machine that it is, as the evidence has it.
    """

    evidence: Evidence
    part: str = field(default="", repr=False)
    new: str = field(default="", repr=False)
    spare: str = field(default="", repr=False)
    unsays: bool = False
    reasoning: str = field(default="", repr=False)
    thinks_inline: bool = False
    cap: int | None = None
    overran: bool = False
    backend: int = 0
    delivered: str = field(default="", repr=False)
    reply: Reply | None = None
    failure: Failure | None = None
    event: str = field(
        default=Factory(lambda self: self.evidence.event, takes_self=True), init=False, eq=False, repr=False
    )

    @property
    def found(self) -> str | None:
        """Return what came in the place of a reply, where that is known."""
        return self.failure.found if self.failure is not None and self.event == "malformed" else None
