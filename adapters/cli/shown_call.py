"""One call at the command line: its steps on stderr, and its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs import define

from rungwise.adapters.cli.output import CANCELLED, note, one_line
from rungwise.adapters.cli.run import Shown
from rungwise.adapters.cli.words import ending, sentence
from rungwise.fsm.journal.record import Step
from rungwise.fsm.values.label import label

if TYPE_CHECKING:
    from rungwise.fsm.call.conversation.parts import ToolCall
    from rungwise.fsm.call.run.result import Result

EXIT_CODES: Final[Mapping[str, int]] = {
    "done": 0,
    "salvaged": 0,
    "partial": 0,
    "refused": 3,
    "exhausted": 4,
    "failed": 5,
    "over_budget": 6,
    "cancelled": CANCELLED,
}


@define
class ShownCall(Shown["Result"]):
    """Follow one call and show it."""

    def step(self, step: Step) -> None:
        """Show a step on stderr."""
        if step.event == "sent":
            # What an earlier attempt brought and nothing took back is a part of the answer by now.
            self.answer.settle()
        self.note(sentence(step))

    def tell_calls(self, result: Result) -> None:
        """Name on stderr the tool calls with which it ended."""
        for call in result.tool_calls:
            note(f"  the model calls {one_line(label(call.name))}; --json shows its arguments", fg="yellow")

    def as_mapping(self, result: Result) -> dict[str, Any]:
        """Return a result as plain values."""
        return {
            "outcome": result.outcome,
            "text": result.text,
            "tool_calls": calls_of(result.tool_calls),
            "usage": attrs.asdict(result.usage),
            "cost": result.cost,
            "attempts": result.attempts,
            "backend": result.backend,
            "model": result.model,
            "seconds": round(result.seconds, 3),
            "cause": result.cause,
            "failures": failures_of(result),
        }

    def ending(self, result: Result) -> str:
        """Say in one line how it ended and what it took."""
        return ending(result)

    def code(self, result: Result) -> int:
        """Return the exit code."""
        return EXIT_CODES[result.outcome]


def calls_of(calls: Iterable[ToolCall]) -> list[dict[str, str]]:
    """Return tool calls as plain values."""
    return [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]


def failures_of(result: Result) -> list[dict[str, Any]]:
    """Return what failed in a call as plain values."""
    return [
        {"backend": name, "reason": failure.reason, "status": failure.status, "code": failure.code}
        for name, failure in result.failures
    ]
