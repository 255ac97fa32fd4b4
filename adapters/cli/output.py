"""Where the command line writes: the answer to stdout, everything else to stderr, and nothing twice on either."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import IO, Any, Final, NoReturn, Protocol

import click

PROGRAM: Final = "rungwise"
BAD_INPUT: Final = 2
CANCELLED: Final = 130
STDOUT_GONE: Final = 141

# A terminal obeys control characters, and a model's answer is not to be obeyed.
_SHOWN_SAFELY: Final = {
    **{code: "\ufffd" for code in (*range(32), *range(127, 160)) if code not in (9, 10, 13)},
    13: None,
}


class StdoutGone(Exception):
    """Say that stdout takes nothing more: whoever read it went away, or its disk is full."""

    def __init__(self, error: OSError | ValueError) -> None:
        super().__init__(getattr(error, "strerror", None) or str(error))
        self.is_quiet = isinstance(error, (BrokenPipeError, ValueError))


def safe(text: str) -> str:
    """Return text whose control characters do nothing to a terminal."""
    return text.translate(_SHOWN_SAFELY)


def one_line(text: object) -> str:
    """Return text on one line."""
    return " ".join(safe(str(text)).split())


def shortened(content: object, most: int) -> str:
    """Return the beginning of a message's content in quotes; anything but text by its kind."""
    if not isinstance(content, str):
        return "without text" if content is None else f"with {type(content).__name__}"
    text = one_line(content)
    return f'"{text}"' if len(text) <= most else f'"{text[: most - 3].rstrip()}..."'


def counted(number: int, what: str) -> str:
    """Return a number with the name of what it counts, in the plural unless it is 1."""
    return f"{number:,} {what}{'' if number == 1 else 's'}".replace(",", " ")


def note(text: str, **style: Any) -> None:
    """Write a line to stderr; a stderr that is closed never stops a call."""
    plain = "NO_COLOR" in os.environ
    with contextlib.suppress(OSError, ValueError):
        click.echo(text if plain else click.style(text, **style), err=True)


def complain(message: object, *, hint: str = "") -> None:
    """Write one line to stderr that says what is wrong."""
    note(f"{PROGRAM}: {one_line(message)}{hint}", fg="red")


def bad_input(message: str) -> NoReturn:
    """Stop the command because of what it was given.

    Raises:
        click.ClickException: always; it becomes one line and exit code 2.
    """
    raise click.ClickException(message)


def put(text: str) -> None:
    """Write text to stdout at once.

    Raises:
        StdoutGone: it cannot be written.
    """
    if not text:
        return
    require_stdout()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeError):
            raise
        raise StdoutGone(error) from None


def require_stdout() -> None:
    """Refuse a stdout that was closed before the program began.

    Raises:
        StdoutGone: it was.
    """
    if sys.stdout is None:
        raise StdoutGone(OSError(errno.EBADF, "it was closed from the start"))


def forgive_encodings() -> None:
    """Let every character through: as UTF-8 to a program, and as a substitute where a terminal cannot show it.

    A locale says what a terminal shows, not what a program reads; PYTHONIOENCODING is meant, and stands.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
            if stream is sys.stdout and not is_terminal(stream) and not _is_encoding_chosen():
                reconfigure(encoding="utf-8", errors="replace")


def _is_encoding_chosen() -> bool:
    return os.environ.get("PYTHONIOENCODING", "").partition(":")[0] != ""


def silence_stdout() -> None:
    """Send what is still buffered for stdout nowhere, so that the interpreter's last flush cannot fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def is_terminal(stream: IO[Any] | None) -> bool:
    """Tell whether a person reads this stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


class Answer(Protocol):
    """Take the text of a call as it comes, and leave exactly the result's text on stdout."""

    def add(self, text: str) -> None:
        """Take text that the call hands out."""
        ...

    def take_back(self, text: str) -> None:
        """Take back the end of what was handed out."""
        ...

    def settle(self) -> None:
        """Learn that nothing that came so far will be taken back."""
        ...

    def interlude(self) -> None:
        """Make room for a line on stderr."""
        ...

    def end(self, whole: str) -> None:
        """Write what is missing of the result's text."""
        ...


class PipedAnswer:
    """Write for a program: text goes out once it is certain, so nothing is ever taken back, and nothing is added."""

    def __init__(self) -> None:
        self._pending: list[str] = []
        self._written = 0

    def add(self, text: str) -> None:
        """Keep text until its attempt has ended well."""
        self._pending.append(text)

    def take_back(self, text: str) -> None:
        """Forget the end of what is kept."""
        kept = "".join(self._pending)
        self._pending = [kept.removesuffix(text)]

    def settle(self) -> None:
        """Write what was kept."""
        text = "".join(self._pending)
        self._pending.clear()
        self._write(text)

    def interlude(self) -> None:
        """Do nothing: stderr is another place."""

    def end(self, whole: str) -> None:
        """Write what is missing of the result's text."""
        self._pending.clear()
        self._write(whole[self._written :])

    def _write(self, text: str) -> None:
        if text:
            put(text)
            self._written += len(text)


class TerminalAnswer:
    """Write for a person: text as it comes, and a marked new start where some of it was taken back."""

    def __init__(self) -> None:
        self._shown = ""
        self._at_line_start = True

    def add(self, text: str) -> None:
        """Show text."""
        self._shown += text
        self._write(safe(text))

    def take_back(self, text: str) -> None:
        """Say which text no longer counts, and show again what stays."""
        self._shown = self._shown.removesuffix(text)
        self.interlude()
        after = "what stays of the answer:" if self._shown else "the answer begins anew:"
        self._write(f"[taken back: the last {counted(len(text), 'character')} above; {after}]\n")
        self._write(safe(self._shown))

    def settle(self) -> None:
        """Do nothing: it is on the screen."""

    def interlude(self) -> None:
        """Begin a new line if need be."""
        if not self._at_line_start:
            self._write("\n")

    def end(self, whole: str) -> None:
        """Show what is missing of the result's text, and end the line."""
        if not whole.startswith(self._shown):
            self.take_back(self._shown)
        self.add(whole[len(self._shown) :])
        self.interlude()

    def _write(self, text: str) -> None:
        if text:
            put(text)
            self._at_line_start = text.endswith("\n")


class NoAnswer:
    """Write nothing: the result will be written in another form."""

    def add(self, text: str) -> None:
        """Ignore text."""

    def take_back(self, text: str) -> None:
        """Ignore text."""

    def settle(self) -> None:
        """Do nothing."""

    def interlude(self) -> None:
        """Do nothing."""

    def end(self, whole: str) -> None:
        """Do nothing."""


def answer_to_stdout() -> Answer:
    """Return what fits whoever reads stdout."""
    return TerminalAnswer() if is_terminal(sys.stdout) else PipedAnswer()
