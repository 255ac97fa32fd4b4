"""Where the command line writes: the answer to stdout, everything else to stderr, and nothing twice
on either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import click

if TYPE_CHECKING:
    from rich.progress import Progress

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

    def tell(self) -> None:
        """Give stdout up, and say why unless its reader just went away."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            # What is still buffered goes nowhere, so that the interpreter's last flush cannot fail.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        if not self.is_quiet:
            complain(f"stdout cannot be written: {self}")


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
    """Stop the command because of what it was given, with one line and exit code 2."""
    raise click.ClickException(message)


def put(text: str) -> None:
    """Write text to stdout at once, or raise `StdoutGone`."""
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


def laid_out(text: str) -> str:
    """Lay Markdown out for a person at a terminal; anything else gets it as it is."""
    if not is_terminal(sys.stdout):
        return text
    from rich.console import Console, ConsoleOptions
    from rich.markdown import Markdown, TableElement
    from rich.table import Table

    class Folded(TableElement):
        """Fold words that are longer than their column, where rich would cut them."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
            for table in super().__rich_console__(console, options):
                assert isinstance(table, Table)
                for column in table.columns:
                    column.overflow = "fold"
                yield table

    class FoldedMarkdown(Markdown):
        elements: ClassVar = {**Markdown.elements, "table_open": Folded}

    console = Console()
    with console.capture() as capture:
        console.print(FoldedMarkdown(text))
    return capture.get()


def require_stdout() -> None:
    """Refuse a stdout that was closed before the program began."""
    if sys.stdout is None:
        raise StdoutGone(OSError(errno.EBADF, "it was closed from the start"))


@contextlib.contextmanager
def prints_aside() -> Iterator[None]:
    """Send to stderr what the caller's own code prints, unless a person reads stdout: a pipe gets
    the answer alone.
    """
    with (
        contextlib.nullcontext()
        if is_terminal(sys.stdout)
        else contextlib.redirect_stdout(sys.stderr)
    ):
        yield


def forgive_encodings() -> None:
    """Let every character through: as UTF-8 to a program, whatever the locale, unless
    PYTHONIOENCODING is set.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
            is_encoding_chosen = os.environ.get("PYTHONIOENCODING", "").partition(":")[0]
            if stream is sys.stdout and not is_terminal(stream) and not is_encoding_chosen:
                reconfigure(encoding="utf-8", errors="replace")


def is_terminal(stream: IO[Any] | None) -> bool:
    """Tell whether a person reads this stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def write_out(path: str | None, text: str) -> None:
    """Write text to a file that an option names, or to stdout where it names none."""
    if path is None:
        put(text)
        return
    with writing(path):
        Path(path).write_text(text, encoding="utf-8", newline="\n")


def check_writable(path: str | None) -> None:
    """Refuse a file that cannot be written, before what is to be written there takes long."""
    if path is None:
        return
    is_new = not os.path.lexists(path)
    with writing(path):
        open(path, "ab").close()
        if is_new:
            os.unlink(path)


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Stop the command where a file cannot be written."""
    try:
        yield
    except OSError as error:
        bad_input(f"{path} cannot be written ({error.strerror}): name a writable place")


@contextlib.contextmanager
def progress_bar(text: str) -> Iterator[Progress | None]:
    """Show on stderr how far something is, for a person who waits; give None where stderr is not a
    terminal.
    """
    if not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(text), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar


def live(text: Callable[[], str], seconds: float) -> int:
    """Show a text on stdout and renew it after so many seconds, until Ctrl-C."""
    import time

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(Text(text()), console=Console(), auto_refresh=False) as screen:
        try:
            while True:
                time.sleep(seconds)
                screen.update(Text(text()), refresh=True)
        except KeyboardInterrupt:
            return CANCELLED
