"""A recorded call or turn as lines of text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rungwise.adapters.cli.output import counted, one_line, safe
from rungwise.adapters.cli.words import plain, sentence, turn_sentence

if TYPE_CHECKING:
    from rungwise.fsm.journal.path import Path
    from rungwise.fsm.turn.explained import TurnPath


def told_in_brief(found: Path | TurnPath) -> str:
    """Return how a call or a turn ended and why, what it took, and a line for each attempt."""
    from rungwise.fsm.call.run.digest import digest_of_call
    from rungwise.fsm.journal.digest.text import digest_lines
    from rungwise.fsm.turn.digest import digest_of_turn
    from rungwise.fsm.turn.explained import TurnPath

    digest = digest_of_turn(found) if isinstance(found, TurnPath) else digest_of_call(found)
    return "".join(f"{safe(line)}\n" for line in digest_lines(digest))


def told_in_lines(found: Path | TurnPath) -> str:
    """Return the steps of a call, or those of a turn with the steps of its calls indented below them, and the end."""
    from rungwise.fsm.turn.explained import TurnPath

    lines = _of_turn(found) if isinstance(found, TurnPath) else _of_call(found)
    return "".join(f"{line}\n" for line in lines)


def _of_call(path: Path) -> Iterator[str]:
    yield from _steps(path)
    yield _end(path, counted(path.steps[-1].attempts, "request"))


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
    for step in path.steps:
        yield _line(since + step.at, indent + sentence(step, path.table))


def _line(at: float, text: str) -> str:
    indent = len(text) - len(text.lstrip())
    return f"{at:9.2f} s  {' ' * indent}{one_line(text)}"


def _end(path: Path, took: str) -> str:
    return f"{plain(path.record.outcome or 'not ended')}: {took}, {path.steps[-1].at:.1f} s"
