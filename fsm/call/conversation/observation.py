"""What came back from one attempt, as the rest of a call must know it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import field, frozen

from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.call.conversation.verdict import Finding
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.text.contents import is_blank

ANSWERS: Final = frozenset({"answered", "called_tools"})
"""The events that are a success, and the only ones."""

WRONG: Final[Mapping[str, str]] = MappingProxyType({"answered": "answered_wrongly", "called_tools": "called_wrongly"})
"""What each of them becomes where the reply is wrong."""

RAISED: Final = "verdict_raised"
"""What it becomes if a verdict raises: the call fails, whatever was gathered."""


@frozen(kw_only=True)
class Observation:
    """Hold one reply or failure as the machine and the answer take it; a journal may keep its `evidence`."""

    evidence: Evidence
    part: str = field(default="", repr=False)
    new: str = field(default="", repr=False)  # what of that was not in the answer yet
    spare: str = field(default="", repr=False)  # cut text, too short to continue from, kept in case nothing else comes
    unsays: bool = False  # whether it shows the text gathered so far to be reasoning
    reasoning: str = field(default="", repr=False)
    thinks_inline: bool = False
    cap: int | None = None
    overran: bool = False  # whether the reply is longer than that cap, where a budget rests on it
    backend: int = 0
    delivered: str = field(default="", repr=False)  # the text that the attempt handed to the consumer
    reply: Reply | None = None
    failure: Failure | None = None
    found: str | None = None  # what came in place of a usable reply, if that is known
    finding: Finding | None = None  # of the reply, if it was judged
    answered_by: ToolCall | None = None  # the tool call that was the answer, where one was forced

    @property
    def event(self) -> str:
        """Return the event of the machine."""
        return self.evidence.event

    @property
    def is_answer(self) -> bool:
        """Tell whether it is a success."""
        return self.evidence.event in ANSWERS

    @property
    def note(self) -> str | None:
        """Say what is wrong with it, as a journal does; None for nothing, or if nobody knows."""
        if self.finding is not None and not self.finding.is_right:
            return self.finding.note
        return self.found if self.evidence.event == "malformed" else None

    @property
    def is_wrong(self) -> bool:
        """Tell whether it would be a success if it were right."""
        return self.evidence.event in WRONG.values()

    @property
    def adds_text(self) -> bool:
        """Tell whether it brought text that is kept, was not there yet, and shows anything."""
        return not is_blank(self.new)
