"""A call or a turn at the command line: shown while it runs, written when it has ended, whoever ended it."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

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
from rungwise.fsm.call.conversation.reply import Discard, Text
from rungwise.fsm.call.run.result import CallError
from rungwise.fsm.journal.record import Step
from rungwise.fsm.turn.result import TurnCancelled, TurnError

if TYPE_CHECKING:
    from rungwise.adapters.http.streams import SyncStream
    from rungwise.fsm.call.run.result import Result
    from rungwise.fsm.turn.result import TurnResult

End = TypeVar("End", bound="Result | TurnResult")
JOURNAL_LOST: Final = 7


@define
class Shown(ABC, Generic[End]):
    """Follow a call or a turn and show it.

    Arguments:
        answer: takes the text.
        result: its end; None if it was ended before it began.
        error: why it did not succeed.
        gone: why stdout takes no more text.
    """

    answer: Answer
    result: End | None = None
    error: CallError | TurnError | None = None
    gone: StdoutGone | None = None

    def follow(self, begin: Callable[[], SyncStream[Any, End]]) -> None:
        """Run it to its end, whatever that is, and show what its stream hands out meanwhile."""
        with self._ended():
            stream = begin()
            try:
                for event in stream:
                    self.show(event)
            except StdoutGone as gone:
                self.gone = gone
            finally:
                # Whoever interrupted, the result holds what came before.
                stream.close()
                self.result = stream.result

    def wait(self, run: Callable[[], End]) -> None:
        """Run it to its end, whatever that is."""
        with self._ended():
            self.result = run()

    @contextlib.contextmanager
    def _ended(self) -> Iterator[None]:
        try:
            yield
        except TurnCancelled as cancelled:  # by Ctrl-C, of which nobody needs to be told why
            self.result = cast("End", cancelled.result)
        except (CallError, TurnError) as error:
            self.result, self.error = cast("End", error.result), error
        except KeyboardInterrupt as interrupt:
            self.result = self.result or getattr(interrupt, "result", None)

    def show(self, event: object) -> None:
        """Show what the stream hands out."""
        if isinstance(event, Text):
            self.answer.add(event.text)
        elif isinstance(event, Discard):
            self.answer.take_back(event.text)
        elif isinstance(event, Step):
            self.step(event)

    def note(self, line: str, *, deeper: bool = False, fg: str | None = None) -> None:
        """Write a line to stderr, below what a terminal shows of the answer."""
        if is_terminal(sys.stderr):
            self.answer.interlude()
        note(f"  {'  ' * deeper}{one_line(line)}", **({"fg": fg} if fg else {"dim": True}))

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
            self.complain(result, self.error)
        else:
            is_good = result.outcome in ("done", "finished")
            note(f"{PROGRAM}: {one_line(self.ending(result))}", fg="green" if is_good else "yellow")
        return self.code(result) if self.gone is None else STDOUT_GONE

    def _write(self, result: End, as_json: bool) -> None:
        if as_json:
            put(json.dumps(self.as_mapping(result)) + "\n")
            return
        self.answer.end(result.text)
        self.tell_calls(result)

    # what calls and turns have each of their own

    @abstractmethod
    def step(self, step: Step) -> None:
        """Show a step on stderr."""

    @abstractmethod
    def tell_calls(self, result: End) -> None:
        """Name on stderr the tool calls with which it ended."""

    @abstractmethod
    def as_mapping(self, result: End) -> Mapping[str, Any]:
        """Return a result as plain values."""

    @abstractmethod
    def ending(self, result: End) -> str:
        """Say in one line how it ended and what it took."""

    def complain(self, result: End, error: Exception) -> None:
        """Say on stderr why it did not succeed."""
        complain(error)

    @abstractmethod
    def code(self, result: End) -> int:
        """Return the exit code."""


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

    def write(self, result: Result | TurnResult) -> bool:
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
