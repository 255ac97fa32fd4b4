"""The `TurnResult`, and the errors of the outcomes that raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self

from attrs import field, frozen

from rungwise.fsm.call.conversation.plain import plain_messages, stored
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.call.displayable import Displayable
from rungwise.fsm.call.run.result import Result, V, WrongAnswer, ending_of
from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import RungwiseError
from rungwise.fsm.replies.parts import Message, ToolCall
from rungwise.fsm.turn.table import TURN
from rungwise.fsm.turn.turn_journal import TurnJournal
from rungwise.fsm.values.usage import Usage

if TYPE_CHECKING:
    from rungwise.fsm.engine.journal.digest import Digest


@frozen(repr=False)
class TurnResult(Displayable, Generic[V]):
    """Hold the result of a turn, whatever its outcome.

    Arguments:
        outcome: the final state of the machine.
        text: the last text of the model: its answer, its summary, or the text beside its last tool
            calls.
        messages: the conversation; see the property.
        handed_off: the terminating tool calls that ended the turn.
        awaiting: the tool calls that wait for your approval; pass `messages` and `approvals` to go
            on.
        already_run: the calls of the same reply that have run.
        usage: the tokens of every attempt of every call.
        cost: in the currency of the backends' prices; None if a backend that was asked has none.
        seconds: from the start of the turn to its end.
        calls: how many model calls were made.
        attempts: how many requests they sent.
        cause: why the turn did not simply finish, in a sentence; None for `finished` and
            `handed_off`.
        last: the result of the last call; None if there was none.
        journal: every step, and the journals of the calls.
        error: the exception of the compactor or of a verdict, if that ended the turn.
        shapes: the message format of the last backend.
        value: what `returns` asked for; None unless the outcome is `finished`.
        cost_reported, unpriced: as for a call; of any of its calls.
    """

    outcome: str
    text: str
    _messages: tuple[PlainMessage | Message, ...]
    handed_off: tuple[ToolCall, ...]
    usage: Usage
    cost: float | None
    seconds: float
    calls: int
    attempts: int
    cause: str | None
    last: Result | None
    journal: TurnJournal = field(eq=False)
    error: Exception | None = field(default=None, eq=False)
    shapes: Shapes = field(default=NEUTRAL, eq=False)
    value: V | None = field(default=None, eq=False)
    awaiting: tuple[ToolCall, ...] = ()
    already_run: tuple[ToolCall, ...] = ()
    cost_reported: bool = False
    unpriced: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # loaded when somebody looks at a result
        from rungwise.fsm.engine.journal.digest import Spent, brief

        spent = {
            name: getattr(self, name) for name in ("calls", "attempts", "seconds", "usage", "cost")
        }
        return brief("TurnResult", self.outcome, self.text, self.cause, Spent(**spent))

    def _digest(self) -> Digest | None:
        from rungwise.fsm.turn.turn_digest import digest_of_turn_journal

        return digest_of_turn_journal(self.journal, self.journal.calls, self.text)

    @property
    def is_success(self) -> bool:
        """Tell whether the outcome returns instead of raising: it has the value that was asked for,
        or what the turn found where none was.
        """
        return self.outcome in SUCCESSES and not self._lacks_value

    @property
    def _lacks_value(self) -> bool:
        """Tell whether the turn is over without the value that was asked for."""
        last = self.last
        if last is None or not last.needs_value:
            return False
        is_over = self.outcome in ("finished", "failed") and last.outcome in CALL.lesser
        return is_over or self.outcome == "limit_reached"

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        """Return the conversation as plain mappings that lose nothing, to be stored as JSON and
        continued anywhere.

        It holds the caller's messages, shortened by compactions, and everything since. Every tool
        call has a result, and hints that only steered the turn are not among them.
        """
        return tuple(map(stored, self._messages))

    @property
    def plain_messages(self) -> list[dict[str, Any]]:
        """Return the conversation in the form of chat completions, without any provider's own
        parts.
        """
        return plain_messages(self._messages)

    def raise_for_outcome(self) -> Self:
        """Return this result if its outcome is a success.

        Raises:
            TurnError: the error of the outcome, with this result.
        """
        if self.is_success:
            return self
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        cause = self.cause or (self.last and ending_of(self.last))
        message = f"{self.outcome} after {calls}: {cause}"
        kind: type[TurnError] = TurnWrongAnswer if self._lacks_value else ERRORS[self.outcome]
        raise kind(message, self) from self.error


class TurnError(RungwiseError):
    """Say that a turn did not end well; `result` holds everything that was gathered."""

    def __init__(self, message: str, result: TurnResult) -> None:
        RungwiseError.__init__(self, message)  # for a WrongAnswer takes more
        self.result = result

    def __reduce__(self) -> tuple[type[TurnError], tuple[str, TurnResult]]:
        return type(self), (str(self), self.result)


class TurnFailed(TurnError):
    """Say that a call of the turn failed, or that nothing could shorten its conversation."""


class TurnWrongAnswer(TurnFailed, WrongAnswer):  # type: ignore[misc] # each is copied by its own
    """Say that a turn with `returns=` ended without a value; `result.text` may still be of use."""

    result: Any  # a TurnResult

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return why the last answer is wrong, in sentences, which may quote it."""
        last: Result = self.result.last
        return last.reasons


class TurnCancelled(TurnError):
    """Say that the caller ended the turn."""


class TurnOverBudget(TurnError):
    """Say that the turn could not afford to continue."""


SUCCESSES = frozenset({*TURN.answers, *TURN.lesser})

ERRORS = {"failed": TurnFailed, "cancelled": TurnCancelled, "over_budget": TurnOverBudget}
