"""What came back from one attempt, as the rest of a call must know it."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.text.contents import is_blank

ANSWERS: Final = frozenset({"answered", "called_tools"})
"""The events that are a success, and the only ones."""


@frozen(kw_only=True)
class Observation:
    """Hold one reply or failure as the machine and the answer take it; a journal may keep its `evidence`.

    Arguments:
        new: what of that was not in the answer yet.
        spare: cut text that is too short to continue from, kept in case nothing else comes.
        unsays: whether it shows the text gathered so far to be reasoning.
        overran: whether the reply is longer than that cap, where a budget rests on it.
        delivered: the text that the attempt handed to the consumer.
        found: what came in place of a usable reply, if that is known.
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
    found: str | None = None

    @property
    def event(self) -> str:
        """Return the event of the machine."""
        return self.evidence.event

    @property
    def is_answer(self) -> bool:
        """Tell whether it is a success."""
        return self.evidence.event in ANSWERS

    @property
    def adds_text(self) -> bool:
        """Tell whether it brought text that is kept, was not there yet, and shows anything."""
        return not is_blank(self.new)

    @property
    def has_delivered(self) -> bool:
        """Tell whether the attempt handed out text that shows anything."""
        return not is_blank(self.delivered)
