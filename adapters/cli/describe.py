"""Describe steps, ends and recordings of calls and turns in plain words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rungwise.adapters.cli.output import counted, one_line, safe
from rungwise.fsm.call.conversation.observation import UNCLEAR
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.table import CALL
from rungwise.fsm.engine.journal.amounts import plain
from rungwise.fsm.engine.journal.digest import digest_lines
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.table import TURN

if TYPE_CHECKING:
    from rungwise.fsm.engine.journal.path import Path
    from rungwise.fsm.turn.turn_digest import TurnPath


ENDS: Final[Mapping[str, str]] = {
    "salvaged": "keeping the text that was shown",
    "partial": "keeping what arrived as a partial answer",
    "refused": "no backend is left",
    "failed": "giving up",
    "exhausted": "nothing is left to try",
    "over_budget": "over the budget",
}
"""What follows a step that ends a call, by its outcome."""


def details_of(step: Step) -> str:
    """Return what the provider reported about a failure or an end, in a few words."""
    parts: list[str] = []
    if step.status is not None:
        parts.append(f"HTTP {step.status}")
    if step.reason:
        parts.append(plain(step.reason))
    if step.event in (UNCLEAR, "malformed") and step.stop_raw:
        parts.append(f"finish {step.stop_raw!r}")
    if step.asked_wait is not None:
        parts.append(f"asks to wait {step.asked_wait:g} s")
    if step.note:
        parts.append(step.note)
    return ", ".join(parts)


def sentence(step: Step, table: Table = CALL) -> str:
    """Describe a step of a call and what follows, on one line."""
    if step.event == "sent":
        line = f"request {step.attempts} ({step.source}) to {step.backend}"
        if step.cap is not None:
            line += f", cap {step.cap} tokens"
        return line + _in_brackets(step.note)
    if step.event == "skipped":
        return f"skipping {step.backend}: {step.note}"
    line = plain(table.says(step.event)) + _in_brackets(details_of(step))
    rung = table.rung(step.target)
    follows = ENDS.get(step.target) if rung is None else rung.does
    line += f": {follows or plain(step.target)}"
    if step.wait:
        line += f" in {step.wait:.1f} s"
    return line


def turn_sentence(step: Step, call: int | None, table: Table = TURN) -> str:
    """Describe a step of a turn and what follows, on one line.

    Arguments:
        step: the step.
        call: the number of the call that it begins, if it begins one.
        table: the machine of the turn.
    """
    if step.event == "sent":
        source = plain(step.source)
        return source if call is None else f"call {call} ({source})"
    rung = table.rung(step.target)
    follows = plain(step.target) if rung is None else rung.does
    return f"{table.says(step.event)}{_in_brackets(step.note)}: {follows}"


def _in_brackets(text: str | None) -> str:
    """Return text in brackets, to be added to a line; nothing for nothing."""
    return f" ({text})" if text else ""


def took(result: Result | TurnResult) -> str:
    """Describe what a call or a turn took."""
    usage = result.usage
    parts: list[str] = []
    if isinstance(result, TurnResult):
        parts.append(counted(result.calls, "call"))
    parts.append(counted(result.attempts, "request"))
    parts.append(f"{result.seconds:.1f} s")
    about = "about " if usage.estimated else ""
    parts.append(f"{about}{counted(usage.input_tokens, 'token')} in")
    parts.append(f"{usage.output_tokens} out")
    if result.cost is not None:
        said = " as reported" if result.cost_reported else ""
        parts.append(f"cost {result.cost:.6g}{said}")
    if result.unpriced:
        parts.append(f"without a price of its own: {', '.join(result.unpriced)}")
    return ", ".join(parts)


def ending(result: Result | TurnResult) -> str:
    """Describe how a call or a turn ended and what it took, on one line."""
    return f"{plain(result.outcome)}{_in_brackets(result.cause)}: {took(result)}"


def brief_text(recorded: Path | TurnPath) -> str:
    """Write how a call or turn ended and why, what it took, and a line for each attempt."""
    from rungwise.fsm.call.run.call_digest import digest_of_call
    from rungwise.fsm.turn.turn_digest import TurnPath, digest_of_turn

    if isinstance(recorded, TurnPath):
        lines = digest_lines(digest_of_turn(recorded))
    else:
        lines = digest_lines(digest_of_call(recorded))
    return "".join(f"{safe(line)}\n" for line in lines)


def steps_text(recorded: Path | TurnPath) -> str:
    """Write the steps and the end of a call, or of a turn with the steps of its calls indented."""
    from rungwise.fsm.turn.turn_digest import TurnPath

    if isinstance(recorded, TurnPath):
        lines = list(_of_turn(recorded))
    else:
        lines = list(_steps(recorded))
        requests = counted(recorded.steps[-1].attempts, "request")
        lines.append(_end(recorded, requests))
    return "".join(f"{line}\n" for line in lines)


def _of_turn(turn: TurnPath) -> Iterator[str]:
    """Yield the steps of a turn, below each one that begins a call those of the call."""
    attempts = 0
    for step in turn.path.steps:
        number = None
        if step.event == "sent":
            number = turn.call_of.get(step.number)
        yield _line(step.at, turn_sentence(step, number, turn.path.table))
        call = turn.calls[number - 1] if number else None
        if call is not None:
            attempts += call.steps[-1].attempts
            yield from _steps(call, step.at, "    ")
    yield _end(turn.path, f"{counted(len(turn.calls), 'call')}, {counted(attempts, 'request')}")


def _steps(path: Path, since: float = 0.0, indent: str = "") -> Iterator[str]:
    """Yield a line for each step of a call, which began some seconds after the turn did."""
    for step in path.steps:
        yield _line(since + step.at, sentence(step, path.table), indent)


def _line(at: float, text: str, indent: str = "") -> str:
    """Write a line with the seconds at which something happened."""
    return f"{at:9.2f} s  {indent}{one_line(text)}"


def _end(path: Path, took: str) -> str:
    """Write how a call or turn ended."""
    outcome = plain(path.record.outcome or "not ended")
    return f"{outcome}: {took}, {path.steps[-1].at:.1f} s"
