"""Steps, ends and recordings of calls and turns, in plain words and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rungwise.adapters.cli.output import counted, one_line, safe
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


def details_of(step: Step) -> str:
    """Return what the provider reported about a failure or an end, in a few words."""
    parts = [
        f"HTTP {step.status}" if step.status is not None else None,
        step.reason and plain(step.reason),
    ]
    if step.event == "malformed" and step.stop_raw:
        parts.append(f"finish {step.stop_raw!r}")
    if step.asked_wait is not None:
        parts.append(f"asks to wait {step.asked_wait:g} s")
    return ", ".join(part for part in (*parts, step.note) if part)


def sentence(step: Step, table: Table = CALL) -> str:
    """Describe a step of a call and what follows, on one line."""
    if step.event == "sent":
        cap = f", cap {step.cap} tokens" if step.cap is not None else ""
        note = f" ({step.note})" if step.note else ""
        return f"request {step.attempts} ({step.source}) to {step.backend}{cap}{note}"
    if step.event == "skipped":
        return f"skipping {step.backend}: {step.note}"
    happened = plain(table.says(step.event))
    details = details_of(step)
    rung = table.rung(step.target)
    wait = f" in {step.wait:.1f} s" if step.wait else ""
    follows = (rung.does if rung else ENDS.get(step.target)) or plain(step.target)
    return f"{happened}{f' ({details})' if details else ''}: {follows}{wait}"


def turn_sentence(step: Step, call: int | None, table: Table = TURN) -> str:
    """Describe a step of a turn and what follows, on one line."""
    if step.event == "sent":
        return plain(step.source) if call is None else f"call {call} ({plain(step.source)})"
    rung = table.rung(step.target)
    details = f" ({step.note})" if step.note else ""
    return f"{table.says(step.event)}{details}: {rung.does if rung else plain(step.target)}"


def took(result: Result | TurnResult) -> str:
    """Describe what a call or a turn took."""
    calls = f"{counted(result.calls, 'call')}, " if isinstance(result, TurnResult) else ""
    cost = f", cost {result.cost:.6g}" if result.cost is not None else ""
    about = "about " if result.usage.estimated else ""
    tokens = (
        f"{about}{counted(result.usage.input_tokens, 'token')} in, {result.usage.output_tokens} out"
    )
    return f"{calls}{counted(result.attempts, 'request')}, {result.seconds:.1f} s, {tokens}{cost}"


def ending(result: Result | TurnResult) -> str:
    """Describe how a call or a turn ended and what it took, on one line."""
    cause = f" ({result.cause})" if result.cause else ""
    return f"{plain(result.outcome)}{cause}: {took(result)}"


def brief_text(recorded: Path | TurnPath) -> str:
    """Write how a call or turn ended and why, what it took, and a line for each attempt."""
    from rungwise.fsm.call.run.call_digest import digest_of_call
    from rungwise.fsm.turn.turn_digest import TurnPath, digest_of_turn

    digest = (
        digest_of_turn(recorded) if isinstance(recorded, TurnPath) else digest_of_call(recorded)
    )
    return "".join(f"{safe(line)}\n" for line in digest_lines(digest))


def steps_text(recorded: Path | TurnPath) -> str:
    """Write the steps and the end of a call, or of a turn with the steps of its calls indented."""
    from rungwise.fsm.turn.turn_digest import TurnPath

    if isinstance(recorded, TurnPath):
        lines = [*_of_turn(recorded)]
    else:
        lines = [*_steps(recorded), _end(recorded, counted(recorded.steps[-1].attempts, "request"))]
    return "".join(f"{line}\n" for line in lines)


def _of_turn(turn: TurnPath) -> Iterator[str]:
    attempts = 0
    for step in turn.path.steps:
        number = turn.call_of.get(step.number) if step.event == "sent" else None
        yield _line(step.at, turn_sentence(step, number, turn.path.table))
        call = turn.calls[number - 1] if number else None
        if call is not None:
            attempts += call.steps[-1].attempts
            yield from _steps(call, step.at, "    ")
    yield _end(turn.path, f"{counted(len(turn.calls), 'call')}, {counted(attempts, 'request')}")


def _steps(path: Path, since: float = 0.0, indent: str = "") -> Iterator[str]:
    yield from (_line(since + step.at, indent + sentence(step, path.table)) for step in path.steps)


def _line(at: float, text: str) -> str:
    indent = len(text) - len(text.lstrip())
    return f"{at:9.2f} s  {' ' * indent}{one_line(text)}"


def _end(path: Path, took: str) -> str:
    return f"{plain(path.record.outcome or 'not ended')}: {took}, {path.steps[-1].at:.1f} s"
