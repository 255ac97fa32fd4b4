"""Show a call or a turn: its answer on stdout, its steps on stderr, its journal in a file."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from attrs import define

from rungwise.adapters.cli.describe import ending
from rungwise.adapters.cli.output import (
    CANCELLED,
    PROGRAM,
    STDOUT_GONE,
    StdoutGone,
    bad_input,
    complain,
    counted,
    is_terminal,
    note,
    one_line,
    put,
    safe,
)
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.fsm.call.run.result import CallError, Cancelled, Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.replies.reply import Discard, Text
from rungwise.fsm.turn.result import TurnCancelled, TurnError, TurnResult

if TYPE_CHECKING:
    from rungwise.adapters.http.streams import SyncStream


class PrintedAnswer:
    """Ignore the text of a call, whose result is written in another form."""

    def add(self, text: str) -> None:
        """Add streamed text."""

    def take_back(self, text: str) -> None:
        """Take back the end of the streamed text."""

    def settle(self) -> None:
        """Settle the text so far: it will not be taken back."""

    def set_aside(self) -> None:
        """Set the text so far aside: it came with tool calls, and the answer comes later."""

    def interlude(self) -> None:
        """Begin a new line, if needed, before a line on stderr."""

    def end(self, whole: str) -> None:
        """Write the rest of the result's text."""


class _PipedAnswer(PrintedAnswer):
    """Write for a program: only text that is final, and nothing but the text.

    Arguments:
        ends_line: whether to end the last line, too.
    """

    def __init__(self, *, ends_line: bool) -> None:
        self._ends_line = ends_line
        self._pending: list[str] = []
        self._written = 0

    def add(self, text: str) -> None:
        """Hold text until its attempt has ended well."""
        self._pending.append(text)

    def take_back(self, text: str) -> None:
        self._pending = ["".join(self._pending).removesuffix(text)]

    def settle(self) -> None:
        text = "".join(self._pending)
        self._pending.clear()
        if text:
            put(text)
            self._written += len(text)

    def set_aside(self) -> None:
        """Drop the held text; the result has it if nothing follows."""
        self._pending.clear()

    def end(self, whole: str) -> None:
        if self._ends_line and whole and not whole.endswith("\n"):
            whole += "\n"
        put(whole[self._written :])


class TerminalAnswer(PrintedAnswer):
    """Write for a person: text as it arrives, and a mark where text was taken back."""

    def __init__(self) -> None:
        self._shown = ""
        self._aside = ""
        self._at_line_start = True

    def add(self, text: str) -> None:
        """Show text."""
        self._shown += text
        self._write(safe(text))

    def take_back(self, text: str) -> None:
        """Mark the text that no longer counts, and repeat what stays."""
        self._shown = self._shown.removesuffix(text)
        self.interlude()
        after = "the answer so far:" if self._shown else "the answer starts over:"
        self._write(f"[taken back: the last {counted(len(text), 'character')} above; {after}]\n")
        self._write(safe(self._shown))

    def set_aside(self) -> None:
        """Leave the text on the screen, and begin a new line."""
        if self._shown.strip():
            self._aside = self._shown
        self._shown = ""
        self.interlude()

    def interlude(self) -> None:
        """Begin a new line, if needed."""
        if not self._at_line_start:
            self._write("\n")

    def end(self, whole: str) -> None:
        """Show the rest of the result's text, and end the line."""
        # The text was set aside, and nothing came after it.
        is_above = bool(whole) and self._aside == whole and not self._shown.strip()
        if not is_above:
            if not whole.startswith(self._shown):
                self.take_back(self._shown)
            self.add(whole[len(self._shown) :])
        self.interlude()

    def _write(self, text: str) -> None:
        if text:
            put(text)
            self._at_line_start = text.endswith("\n")


def answer_to_stdout(*, ends_line: bool) -> PrintedAnswer:
    """Return the answer for a terminal or for a pipe.

    Arguments:
        ends_line: whether to end the last line of a pipe, too.
    """
    return TerminalAnswer() if is_terminal(sys.stdout) else _PipedAnswer(ends_line=ends_line)


@contextmanager
def ctrl_c_cancels() -> Iterator[Cancellation]:
    """Cancel with the first and second Ctrl-C; the third interrupts as usual."""
    cancellation = Cancellation()
    presses = count(1)

    def press(*_: object) -> None:
        if next(presses) > 2:
            raise KeyboardInterrupt
        # in a thread of its own, for this one may hold the lock that cancelling takes
        threading.Thread(target=cancellation.cancel, daemon=True).start()

    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_ours or threading.current_thread() is not threading.main_thread():
        yield cancellation
        return
    signal.signal(signal.SIGINT, press)
    try:
        yield cancellation
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


End = TypeVar("End", bound="Result | TurnResult")
JOURNAL_LOST: Final = 7
"""The exit code where the journal could not be written."""


@define
class Shown(ABC, Generic[End]):
    """Follow a call or a turn and show it."""

    answer: PrintedAnswer  # writes its text
    result: End | None = None
    error: CallError | TurnError | None = None  # why it failed
    gone: StdoutGone | None = None  # why the answer could not be written

    def follow(self, begin: Callable[[], SyncStream[Any, End]]) -> None:
        """Run it to its end, and show its events."""
        with self._ended():
            stream = begin()
            try:
                for event in stream:
                    self.show(event)
            except StdoutGone as gone:
                self.gone = gone
            finally:
                # After an interrupt, too, the result holds what arrived.
                stream.close()
                self.result = stream.result

    def wait(self, run: Callable[[], End]) -> None:
        """Run it to its end without a stream."""
        with self._ended():
            self.result = run()

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """Keep the result, however the call or turn ends."""
        try:
            yield
        except (Cancelled, TurnCancelled) as cancelled:  # by Ctrl-C: no error to report
            self.result = cast("End", cancelled.result)
        except (CallError, TurnError) as error:
            self.result = cast("End", error.result)
            self.error = error
        except KeyboardInterrupt as interrupt:
            self.result = self.result or getattr(interrupt, "result", None)

    def show(self, event: object) -> None:
        """Show an event."""
        if isinstance(event, Text):
            self.answer.add(event.text)
        elif isinstance(event, Discard):
            self.answer.take_back(event.text)
        elif isinstance(event, Step):
            self.step(event)

    def note(self, line: str, *, deeper: bool = False, fg: str | None = None) -> None:
        """Write a line to stderr, below the answer on a terminal."""
        if is_terminal(sys.stderr):
            self.answer.interlude()
        text = f"  {'  ' * deeper}{one_line(line)}"
        if fg is None:
            note(text, dim=True)
        else:
            note(text, fg=fg)

    def finish(self, *, as_json: bool) -> int:
        """Write the rest, and return the exit code."""
        result = self.result
        if result is None:
            self.answer.interlude()
            return CANCELLED
        try:
            if self.gone is None and as_json:
                put(json.dumps(self.as_mapping(result)) + "\n")
            elif self.gone is None:
                self.answer.end(result.text)
                self.list_calls(result)
        except StdoutGone as gone:
            self.gone = gone
        if self.gone is not None:
            self.gone.tell()
        if self.error is not None:
            self.complain(result, self.error)
        else:
            is_good = result.outcome in ("done", "finished")
            note(f"{PROGRAM}: {one_line(ending(result))}", fg="green" if is_good else "yellow")
        return self.code(result) if self.gone is None else STDOUT_GONE

    # what differs between calls and turns

    @abstractmethod
    def step(self, step: Step) -> None:
        """Show a step on stderr."""

    @abstractmethod
    def list_calls(self, result: End) -> None:
        """List on stderr the tool calls that ended it."""

    @abstractmethod
    def as_mapping(self, result: End) -> Mapping[str, Any]:
        """Return a result as plain values."""

    def complain(self, result: End, error: Exception) -> None:
        """Report on stderr why it failed."""
        complain(error)

    @abstractmethod
    def code(self, result: End) -> int:
        """Return the exit code."""


@contextmanager
def writing_journal(path: str | None) -> Iterator[Callable[[Result | TurnResult], bool]]:
    """Open the file of a journal before the call, so that a wrong path fails early.

    A new file that stays empty is removed.

    Yields:
        A function that replaces the content with the journal of a result, and returns whether it
        could.
    """
    if path is None:
        yield lambda result: True
        return
    is_new = not Path(path).exists()
    try:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115  (closed below)
    except OSError as error:
        bad_input(
            f"--journal: {path} cannot be written ({error.strerror}): name a file in a writable "
            "folder"
        )

    def write(result: Result | TurnResult) -> bool:
        nonlocal is_new
        try:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate(0)
            file.write(result.journal.to_json() + "\n")
            file.flush()
        except OSError as error:
            complain(f"--journal: {path} could not be written ({error.strerror})")
            return False
        is_new = False
        return True

    try:
        yield write
    finally:
        with suppress(OSError):  # write has reported it
            file.close()
        if is_new:
            Path(path).unlink(missing_ok=True)
