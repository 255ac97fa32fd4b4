"""One call at the command line: shown while it runs, written when it has ended, whoever ended it."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import attrs
from attrs import define

from rungwise.adapters.cli.answer import Answer
from rungwise.adapters.cli.output import (
    CANCELLED,
    PROGRAM,
    STDOUT_GONE,
    StdoutGone,
    bad_input,
    complain,
    is_terminal,
    note,
    one_line,
    put,
)
from rungwise.adapters.cli.words import ending, sentence
from rungwise.fsm.call.events import Discard, Text
from rungwise.fsm.errors import CallError
from rungwise.fsm.journal.record import Step
from rungwise.fsm.values.label import label

if TYPE_CHECKING:
    from rungwise.adapters.client import Client
    from rungwise.fsm.call.request import Request
    from rungwise.fsm.call.result import Result

JOURNAL_LOST: Final = 7
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
class ShownCall:
    """Follow one call and show it.

    Arguments:
        answer: takes the text.
        result: the end of the call; None if it was ended before it began.
        error: why it did not succeed.
        gone: why stdout takes no more text.
    """

    answer: Answer
    result: Result | None = None
    error: CallError | None = None
    gone: StdoutGone | None = None

    def step(self, step: Step) -> None:
        """Show a step on stderr."""
        if step.event == "sent":
            # What an earlier attempt brought and nothing took back is a part of the answer by now.
            self.answer.settle()
        if is_terminal(sys.stderr):
            self.answer.interlude()
        note(f"  {one_line(sentence(step))}", dim=True)

    def call(self, client: Client, request: Request, *, is_streaming: bool) -> None:
        """Run the call to its end, whatever it is."""
        try:
            if is_streaming:
                self._stream(client, request)
            else:
                self.result = client.call(request)
        except CallError as error:
            self.result, self.error = error.result, error
        except KeyboardInterrupt as interrupt:
            self.result = self.result or getattr(interrupt, "result", None)

    def _stream(self, client: Client, request: Request) -> None:
        stream = client.stream(request)
        try:
            for event in stream:
                self._show(event)
        except StdoutGone as gone:
            self.gone = gone
        finally:
            # Whoever interrupted, the result holds what came before.
            stream.close()
            self.result = stream.result

    def _show(self, event: object) -> None:
        if isinstance(event, Text):
            self.answer.add(event.text)
        elif isinstance(event, Discard):
            self.answer.take_back(event.text)
        elif isinstance(event, Step):
            self.step(event)

    def finish(self, *, as_json: bool) -> int:
        """Write what is still to be written, and return the exit code."""
        result = self.result
        if result is None:
            return CANCELLED
        try:
            if self.gone is None:
                self._write(result, as_json)
        except StdoutGone as gone:
            self.gone = gone
        if self.gone is not None:
            self.gone.tell()
        if self.error is not None:
            complain(self.error)
        else:
            note(f"{PROGRAM}: {one_line(ending(result))}", fg="green" if result.outcome == "done" else "yellow")
        return EXIT_CODES[result.outcome] if self.gone is None else STDOUT_GONE

    def _write(self, result: Result, as_json: bool) -> None:
        if as_json:
            put(json.dumps(as_mapping(result)) + "\n")
            return
        self.answer.end(result.text)
        for call in result.tool_calls:
            note(f"  the model calls {one_line(label(call.name))}; --json shows its arguments", fg="yellow")


def as_mapping(result: Result) -> dict[str, Any]:
    """Return a result as plain values."""
    return {
        "outcome": result.outcome,
        "text": result.text,
        "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in result.tool_calls],
        "usage": attrs.asdict(result.usage),
        "cost": result.cost,
        "attempts": result.attempts,
        "backend": result.backend,
        "model": result.model,
        "seconds": round(result.seconds, 3),
        "cause": result.cause,
        "failures": [
            {"backend": name, "reason": failure.reason, "status": failure.status, "code": failure.code}
            for name, failure in result.failures
        ],
    }


class JournalFile:
    """Write a journal to a file that is opened before the call, so that a wrong path costs nothing."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._is_new = path is not None and not Path(path).exists()
        if path is not None:
            try:
                self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  (closed by close)
            except OSError as error:
                bad_input(f"--journal: {path} cannot be written ({error.strerror}): name a file in a writable folder")

    def write(self, result: Result) -> bool:
        """Replace the content with the journal of a result, and tell whether that worked."""
        if self._file is None:
            return True
        try:
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._file.truncate(0)
            self._file.write(result.journal.to_json() + "\n")
            self._file.flush()
        except OSError as error:
            complain(f"--journal: {self._path} could not be written ({error.strerror})")
            return False
        self._is_new = False
        return True

    def close(self) -> None:
        """Close the file; one that was made for nothing is taken away."""
        if self._file is None or self._path is None:
            return
        with contextlib.suppress(OSError):  # what could not be written was told by write
            self._file.close()
        if self._is_new:
            Path(self._path).unlink(missing_ok=True)
