"""A call or a turn at the command line: its steps and tools on stderr, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs import define

from rungwise.adapters.cli.describe import sentence, took, turn_sentence
from rungwise.adapters.cli.output import CANCELLED, complain, note, one_line
from rungwise.adapters.cli.running import Shown
from rungwise.fsm.call.run.result import Result, WrongAnswer
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.errors import ToolError
from rungwise.fsm.turn.actions import ToolEnded, ToolOutcome, ToolStarted
from rungwise.fsm.turn.table import CALLS
from rungwise.fsm.turn.tool_round import result_text
from rungwise.fsm.turn.turn_journal import TurnStep
from rungwise.fsm.values.label import label

if TYPE_CHECKING:
    from rungwise.fsm.replies.parts import ToolCall
    from rungwise.fsm.turn.result import TurnResult


EXIT_CODES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("done", "salvaged", "partial"), 0),
    "refused": 3,
    "exhausted": 4,
    "failed": 5,
    "over_budget": 6,
    "cancelled": CANCELLED,
}


@define
class ShownCall(Shown["Result"]):
    """Show one call."""

    def step(self, step: Step) -> None:
        """Show a step on stderr."""
        if step.event == "sent":
            # Text of an earlier attempt that was not taken back is now part of the answer.
            self.answer.settle()
        self.note(sentence(step))

    def list_calls(self, result: Result) -> None:
        """List on stderr the tool calls that ended it."""
        for call in result.tool_calls:
            name = one_line(label(call.name))
            note(f"  the model calls {name}; --json shows its arguments", fg="yellow")

    def as_mapping(self, result: Result) -> dict[str, Any]:
        """Return a result as plain values."""
        return as_mapping(result, result, {"tool_calls": calls_of(result.tool_calls)})

    def code(self, result: Result) -> int:
        """Return the exit code; one without the value that it needs is exhausted."""
        return EXIT_CODES["exhausted" if isinstance(self.error, WrongAnswer) else result.outcome]


def as_mapping(
    result: Result | TurnResult,
    last: Result | None,
    own: Mapping[str, Any],
    counts: Mapping[str, int] = {},
) -> dict[str, Any]:
    """Return a result as plain values.

    Arguments:
        result: the result of a call or a turn.
        last: that of its last call, which names the backend.
        own: what only this kind of result has.
        counts: likewise, beside the number of attempts.
    """
    plain: dict[str, Any] = {}
    plain["outcome"] = result.outcome
    plain["text"] = result.text
    plain["value"] = as_json_value(result.value)
    plain |= own
    plain["usage"] = attrs.asdict(result.usage)
    plain["cost"] = result.cost
    plain["cost_reported"] = result.cost_reported
    plain["unpriced"] = result.unpriced
    plain |= counts
    plain["attempts"] = result.attempts
    plain["backend"] = last and last.backend
    plain["model"] = last and last.model
    plain["seconds"] = round(result.seconds, 3)
    plain["cause"] = result.cause
    plain["failures"] = failures_of(last) if last else []
    return plain


def as_json_value(value: Any) -> Any:
    """Return the value of an answer in types that JSON has."""
    if value is None:
        return None
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str)


def calls_of(calls: Iterable[ToolCall]) -> list[dict[str, str]]:
    """Return tool calls as plain values."""
    return [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]


def failures_of(result: Result) -> list[dict[str, Any]]:
    """Return the failures of a call as plain values."""
    # only the journal has the codes of the provider
    codes = {step.backend: step.code for step in result.journal.steps if step.reason}
    failures = []
    for name, failure in result.failures:
        plain = {"backend": name, "reason": failure.reason, "status": failure.status}
        plain |= {"code": codes.get(name), "message": failure.quote or failure.found}
        failures.append(plain)
    return failures


TURN_EXIT_CODES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("finished", "handed_off", "awaiting_approval", "limit_reached"), 0),
    "failed": 5,
    "over_budget": 6,
    "cancelled": CANCELLED,
}


@define(kw_only=True)
class ShownTurn(Shown["TurnResult"]):
    """Show one turn."""

    is_verbose: bool = False
    _calls: int = 0

    def show(self, event: object) -> None:
        """Show an event."""
        if isinstance(event, ToolStarted):
            line = f"{label(event.call.name)} begins"
            if self.is_verbose:
                line += f": {event.call.arguments}"
            self.note(line, deeper=True)
        elif isinstance(event, ToolEnded):
            has_failed = event.outcome.fault is not None
            line = f"{label(event.call.name)} {'has failed' if has_failed else 'has ended'}"
            if self.is_verbose:
                line += f": {_result_of(event.outcome)}"
            self.note(line, deeper=True, fg="yellow" if has_failed else None)
        else:
            super().show(event)

    def step(self, step: Step) -> None:
        """Show a step on stderr.

        Text is not settled here: any reply may still call tools.
        """
        if not isinstance(step, TurnStep):
            self.note(sentence(step), deeper=True)
            return
        if step.target == "use_tools":
            self.answer.set_aside()
        makes_call = step.event == "sent" and step.source in CALLS
        self._calls += makes_call
        if step.event != "sent" or makes_call:  # the step before has announced anything else
            self.note(turn_sentence(step, self._calls if makes_call else None))

    def list_calls(self, result: TurnResult) -> None:
        """List on stderr the tool calls that ended it."""
        for call in result.handed_off:
            self._list_call("is handed off to", call)
        for call in result.awaiting:
            self._list_call("waits for your approval of", call)

    def _list_call(self, what: str, call: ToolCall) -> None:
        name = one_line(label(call.name))
        note(f"  the turn {what} {name}; --json shows its arguments", fg="yellow")

    def as_mapping(self, result: TurnResult) -> dict[str, Any]:
        """Return a result as plain values."""
        handed_off = calls_of(result.handed_off)
        awaiting = calls_of(result.awaiting)
        own = {"handed_off": handed_off, "awaiting": awaiting, "messages": result.plain_messages}
        return as_mapping(result, result.last, own, {"calls": result.calls})

    def complain(self, result: TurnResult, error: Exception) -> None:
        """Report on stderr what it took and why it failed."""
        self.note(f"the turn took {took(result)}")
        complain(error)

    def code(self, result: TurnResult) -> int:
        """Return the exit code; a failed turn has that of the call that failed it."""
        last = result.last
        if isinstance(self.error, WrongAnswer):
            return EXIT_CODES["exhausted"]
        if result.outcome == "failed" and last is not None and not last.is_success:
            return EXIT_CODES[last.outcome]
        return TURN_EXIT_CODES[result.outcome]


def _result_of(outcome: ToolOutcome) -> str:
    """Return the result of a tool as the model gets it, before it is shortened."""
    try:
        return result_text(outcome.value) if outcome.fault is None else outcome.fault
    except ToolError as error:
        return str(error)
