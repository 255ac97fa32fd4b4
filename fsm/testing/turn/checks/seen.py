"""A turn that was played, as the checks look at it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from attrs import define

from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.journal.record import Step
from rungwise.fsm.testing.turn.player import PlayedCall, PlayedRound, RunOfTurn
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.tools import Toolbox

if TYPE_CHECKING:
    from rungwise.fsm.certificate.certificate import Certificate


@define(eq=False, slots=False)
class SeenTurn:
    """Hold what can be seen of a turn that was played.

    Arguments:
        run: the turn, and all that happened to it.
        certificate: what was proved before it began, or None.
        secrets: texts that may stand nowhere.
    """

    run: RunOfTurn
    certificate: Certificate | None = None
    secrets: tuple[str, ...] = ()

    @property
    def result(self) -> TurnResult | None:
        """Return its result; None where it was dropped half-way."""
        return self.run.turn.result if self.run.turn.is_over else None

    @property
    def journal(self) -> TurnJournal:
        """Return the record of the turn."""
        return self.run.turn.journal

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Return every step of the turn itself."""
        return self.journal.steps

    @property
    def policy(self) -> TurnPolicy:
        """Return the policy."""
        return self.run.policy

    @property
    def tools(self) -> Toolbox:
        """Return the tools."""
        return self.run.turn.tools

    def is_settled(self, played: PlayedCall) -> bool:
        """Tell whether the turn was told of the end of a call."""
        return played.call.is_over and (played is not self.run.doings[-1] or self.run.turn.is_over)

    def asked_by(self, played: PlayedCall) -> tuple[ToolCall, ...]:
        """Return the tool calls that a call has ended with, as far as its turn may answer them."""
        may = played.call.is_over and played.state != "summarize" and played.call.result.outcome == "done"
        return played.call.result.tool_calls if may else ()

    def rounds(self) -> Iterator[tuple[PlayedCall, PlayedRound]]:
        """Yield each round of tools, with the call that asked for it."""
        for before, each in pairwise(self.run.doings):
            if isinstance(each, PlayedRound) and isinstance(before, PlayedCall):
                yield before, each
