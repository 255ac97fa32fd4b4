"""What a call ends with: the `Result`, and the error of each outcome that raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Self

from attrs import field, frozen

from rungwise.fsm.call.conversation.observation import RAISED, WRONG
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.call.displayable import Displayable
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.table import CALL
from rungwise.fsm.errors import BrokenMachine, RungwiseError
from rungwise.fsm.replies.failures.failure import KEY_HINT_REASONS, Failure
from rungwise.fsm.replies.parts import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    commentary_of,
)
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with defaults, which `typing` has from Python 3.13 on

    from rungwise.fsm.engine.journal.digest import Digest

    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    V = TypeVar("V")

_NO_VALUE: Any = None  # of type V to type checkers: a call without the value that it needs raises


@frozen(repr=False)
class Result(Displayable, Generic[V]):
    """Hold the end of a call, whatever it was.

    Arguments:
        outcome: the final state of the machine.
        text: the answer; every part stitched together.
        final_text: the last text block after the last tool call.
        tool_calls: the tool calls; never a cut one.
        reasoning: the reasoning of the last reply, and its commentary.
        parts: the raw parts that `text` was stitched from.
        usage: the tokens of every attempt, discarded and aborted ones included.
        cost: in the currency of the backends' prices; None where a backend that was asked has none,
            and reported no cost either.
        seconds: from the beginning of the call to its end.
        attempts: requests sent.
        backend: the name of the backend that was asked last.
        cause: why the call did not simply succeed, in a sentence; None for `done`.
        failures: the last failure of each backend that failed, by name, in the order of the chain.
        reply: the last reply, as it came.
        journal: every step.
        overran: whether a provider took no notice of an output cap that a budget rests on; nothing
            was sent after that.
        shapes: the form in which the last backend is written to.
        turn: all that came of a turn that its provider paused, in order and with the provider's own
            blocks; empty where none was paused.
        value: what `returns` asked for; None unless the outcome is `done`, and where the model
            called tools.
        raised: what a verdict raised.
        cost_reported: whether providers reported the cost, or a part of it.
        needs_value: whether `returns` asked for a value.
        reasons: why the last answer was wrong, in sentences, which may quote it.
        unpriced: what occurred and has no price of its own, such as `unit web_search`; a cost that
            was not reported counts a unit as nothing then, and all else at the usual prices.
    """

    outcome: str
    text: str
    final_text: str
    tool_calls: tuple[ToolCall, ...]
    reasoning: str
    parts: tuple[str, ...]
    usage: Usage
    cost: float | None
    seconds: float
    attempts: int
    backend: str
    cause: str | None
    failures: tuple[tuple[str, Failure], ...]
    reply: Reply | None
    journal: Journal = field(eq=False)
    overran: bool = False
    shapes: Shapes = field(default=NEUTRAL, eq=False)
    turn: tuple[Part, ...] = field(default=(), eq=False)
    value: V = field(default=_NO_VALUE, eq=False)
    raised: Exception | None = field(default=None, eq=False)
    cost_reported: bool = False
    unpriced: tuple[str, ...] = ()
    needs_value: bool = False
    reasons: tuple[str, ...] = field(default=(), eq=False)

    def __repr__(self) -> str:
        # digests are for who looks at a result
        from rungwise.fsm.engine.journal.digest import Spent, brief

        spent = Spent(
            attempts=self.attempts, seconds=self.seconds, usage=self.usage, cost=self.cost
        )
        calls = ", ".join(f"calls {call.name}" for call in self.tool_calls)
        return brief("Result", self.outcome, self.text, self.cause or calls, spent)

    def _digest(self) -> Digest | None:
        from rungwise.fsm.call.run.call_digest import digest_of_journal

        return digest_of_journal(self.journal, self.text)

    @property
    def is_success(self) -> bool:
        """Tell whether the outcome returns instead of raising: it has the value that was asked for,
        or text where none was.
        """
        if self.needs_value:
            return self.outcome in CALL.answers
        return self.outcome in SUCCESSES

    @property
    def model(self) -> str | None:
        """Return the model id that the last reply named."""
        return self.reply.model if self.reply else None

    @property
    def commentary(self) -> str:
        """Return what the model said to its reader before it answered, such as what it would do."""
        parts = self.turn
        if self.reply is not None and not parts:
            parts = self.reply.parts
        return commentary_of(parts)

    @property
    def message(self) -> Message:
        """Return the message to append to the conversation, for whichever backend is asked next.

        A reply that is all of the answer is there as it came, with what its provider wants back,
        and so is each reply of a turn that its provider paused.
        """
        if self.turn:
            return Message("assistant", self.turn)
        reply = self.reply
        if self.outcome == "done" and reply is not None:
            came = (reply.text, reply.reasoning, reply.tool_calls)
            if came == (self.text, self.reasoning, self.tool_calls):
                return Message("assistant", reply.parts)
        parts: list[Part] = []
        if self.reasoning:
            parts.append(ReasoningPart(self.reasoning))
        if self.text:
            parts.append(TextPart(self.text))
        return Message("assistant", (*parts, *self.tool_calls))

    @property
    def plain_message(self) -> dict[str, Any]:
        """Return the same as a message for the last backend, without its reasoning or anything of a
        provider's own.
        """
        return self.shapes.plain_of(self.message)[0]

    @property
    def plain_message_with_reasoning(self) -> dict[str, Any]:
        """Return that message with its reasoning.

        DeepSeek, Kimi and MiMo want it back in a tool loop; others, such as Groq, reject the field.
        """
        return self.shapes.plain_of(self.message, with_reasoning=True)[0]

    def raise_for_outcome(self) -> Self:
        """Return this result if its outcome is a success.

        Raises:
            CallError: the error of the outcome, with this result.
        """
        if self.is_success:
            return self
        raise error_of(self) from self.raised


class CallError(RungwiseError):
    """Say that a call did not succeed; `result` holds everything that was gathered."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[type[CallError], tuple[str, Result]]:
        return type(self), (str(self), self.result)


class Exhausted(CallError):
    """Say that every rung was tried in vain."""


class WrongAnswer(CallError):
    """Say that a call with `returns=` ended without a value; `result.text` may still be of use."""

    @property
    def text(self) -> str:
        """Return what the model answered last."""
        return self.result.text

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return why that is wrong, in sentences, which may quote it; nothing if it was cut."""
        return self.result.reasons


class EmptyResponse(Exhausted):
    """Say that nothing but empty replies came."""


class Failed(CallError):
    """Say that the provider failed or could not be reached."""


class VerdictError(Failed):
    """Say that a verdict raised an error, which is the cause of this one."""


class Refused(CallError):
    """Say that the provider or the model refused."""


class OverBudget(CallError):
    """Say that the next attempt could not be afforded."""


class Cancelled(CallError):
    """Say that the caller ended the call."""


SUCCESSES = frozenset({*CALL.answers, *CALL.lesser})

EMPTY = frozenset({"came_empty", "only_reasoned", "paused"})
"""The events of a reply without an answer, after which an exhausted call raises `EmptyResponse`."""

ERRORS: Mapping[str, type[CallError]] = {
    "refused": Refused,
    "exhausted": Exhausted,
    "failed": Failed,
    "cancelled": Cancelled,
    "over_budget": OverBudget,
}


def error_of(result: Result) -> CallError:
    """Build the error of an outcome that raises."""
    kind = ERRORS.get(result.outcome, WrongAnswer if result.needs_value else None)
    if kind is None:
        raise BrokenMachine(
            f"a call ended as {result.outcome!r}, for which {__name__}.ERRORS has no error"
        )
    event = result.journal.last.event
    if result.outcome == "exhausted" and event in EMPTY:
        kind = EmptyResponse
    if event == RAISED:
        kind = VerdictError
    return kind(ending_of(result), result)


def ending_of(result: Result) -> str:
    """Describe how a call ended; quotes nothing of a reply."""
    last = result.journal.last
    cause = result.cause
    if last.event == RAISED:
        cause = last.note  # the cause quotes the reply there, and below
    elif last.event in WRONG.values():
        cause = f"the answer was {last.note}"
    said = cause or ""
    failures = "; ".join(f"{name}: {describe(each, said)}" for name, each in result.failures)
    attempts = "1 attempt" if result.attempts == 1 else f"{result.attempts} attempts"
    message = f"{result.outcome} after {attempts}: {cause}"
    if failures and result.outcome != "cancelled":
        message = f"{message} ({failures})"
    return message


def describe(failure: Failure, beside: str = "") -> str:
    """Describe why a request failed, with the provider's words as far as they may be quoted.

    Arguments:
        failure: why.
        beside: what stands there already, and is not repeated.
    """
    parts: list[str] = [failure.reason]
    if failure.status is not None:
        parts.append(f"HTTP {failure.status}")
    if failure.exception is not None:
        parts.append(type(failure.exception).__name__)
    if failure.asked_wait is not None:
        parts.append(f"asked to wait {failure.asked_wait:g} s")
    parts += [words for words in (failure.found, failure.quote) if words and words not in beside]
    description = ", ".join(parts)
    # who may do nothing with a good key says what is missing
    if failure.reason in KEY_HINT_REASONS and not (failure.quote and failure.status == 403):
        description += ": check this backend's API key"
    return description
