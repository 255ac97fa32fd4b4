"""Where the command line writes: the answer to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import click

if TYPE_CHECKING:
    from rich.progress import Progress

PROGRAM: Final = "rungwise"
BAD_INPUT: Final = 2
CANCELLED: Final = 130
STDOUT_GONE: Final = 141

# A terminal obeys control characters, and it must not obey a model's answer. Tabs and line feeds
# stay, carriage returns go.
_SHOWN_SAFELY: Final[dict[int, str | None]] = dict.fromkeys(
    [*range(32), *range(127, 160)], "\ufffd"
)
_SHOWN_SAFELY[ord("\t")] = "\t"
_SHOWN_SAFELY[ord("\n")] = "\n"
_SHOWN_SAFELY[ord("\r")] = None


class StdoutGone(Exception):
    """Raised when stdout takes nothing more: its reader went away, or its disk is full."""

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


class _WholeWriter(io.FileIO):
    """Write all of what is given to stdout, or raise `StdoutGone`.

    The system may take a part of it and report no error: where a disk fills up, where the reader
    of a pipe goes away, and where whoever started this process has made the pipe non-blocking. The
    next write has the error. Python's buffers make that write, but with PYTHONUNBUFFERED there are
    none.
    """

    def write(self, data: Any, /) -> int:
        left = memoryview(data)
        while left:
            try:
                written = super().write(left)
            except OSError as error:
                raise StdoutGone(error) from None
            if written is None:  # nothing fits into the pipe now
                select.select([], [self.fileno()], [])
            else:
                left = left[written:]
        return len(data)


def safe(text: str) -> str:
    """Return text whose control characters do nothing to a terminal."""
    return text.translate(_SHOWN_SAFELY)


def one_line(text: object) -> str:
    """Return text on one line."""
    return " ".join(safe(str(text)).split())


def shortened(content: object, most: int) -> str:
    """Return the beginning of a message's content in quotes.

    Of content that is no text, return its kind.

    Arguments:
        content: the content.
        most: the characters that are shown.
    """
    if content is None:
        return "without text"
    if not isinstance(content, str):
        return f"with {type(content).__name__}"
    text = one_line(content)
    if len(text) > most:
        text = f"{text[: most - 3].rstrip()}..."
    return f'"{text}"'


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Lay out rows of cells in columns, a line each."""
    every = list(rows)
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    text = ""
    for row in every:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        text += "  ".join(cells).rstrip() + "\n"
    return text


def counted(number: int, what: str) -> str:
    """Return a number with the name of what it counts, in the plural unless it is 1."""
    plural = "" if number == 1 else "s"
    return f"{number:,} {what}{plural}".replace(",", " ")


def note(text: str, **style: Any) -> None:
    """Write a line to stderr; a stderr that is closed never stops a call."""
    if "NO_COLOR" not in os.environ:
        text = click.style(text, **style)
    with contextlib.suppress(OSError, ValueError):
        click.echo(text, err=True)


def complain(message: object, *, hint: str = "") -> None:
    """Write one line to stderr that says what is wrong."""
    note(f"{PROGRAM}: {one_line(message)}{hint}", fg="red")


def bad_input(message: str) -> NoReturn:
    """Stop the command because its input is wrong, with one line and exit code 2."""
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
    """Send to stderr what the user's own code prints: a pipe gets the answer alone.

    Where a person reads stdout, it goes there.
    """
    if is_terminal(sys.stdout):
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


def prepare_streams() -> None:
    """Let every character through to stdout and stderr, and the whole of a text to stdout.

    A program gets UTF-8 whatever the locale, unless PYTHONIOENCODING says otherwise.
    """
    is_encoding_chosen = os.environ.get("PYTHONIOENCODING", "").partition(":")[0]
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # tests put in streams without it
        if reconfigure is None:
            continue
        reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
        if stream is sys.stdout and not is_terminal(stream) and not is_encoding_chosen:
            reconfigure(encoding="utf-8", errors="replace")
    stdout = sys.stdout
    buffer = getattr(stdout, "buffer", None)
    is_file = isinstance(getattr(buffer, "raw", buffer), io.FileIO)  # not the console of Windows
    if is_file and stdout is sys.__stdout__ and stdout is not None:
        sys.stdout = io.TextIOWrapper(
            _WholeWriter(stdout.fileno(), "wb", closefd=False),
            encoding=stdout.encoding,
            errors=stdout.errors,
            write_through=True,
        )


def is_terminal(stream: IO[Any] | None) -> bool:
    """Tell whether a person reads this stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def write_out(path: str | None, text: str) -> None:
    """Write text to the file that an option names, or to stdout if it names none."""
    if path is None:
        put(text)
        return
    with writing(path):
        Path(path).write_text(text, encoding="utf-8", newline="\n")


def write_file(path: Path, text: str, option: str) -> None:
    """Write a file, and the folders above it.

    The error of a path that cannot be written names the option that asked for it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        why = error.strerror or error
        bad_input(f"{option}: {path} cannot be written ({why}): name a folder")
    except ValueError as error:  # a null byte in the path
        bad_input(f"{option}: {path} cannot be written ({error}): name a folder")


def check_writable(path: str | None) -> None:
    """Refuse a file that cannot be written, before the long work whose result goes there."""
    if path is None:
        return
    is_new = not os.path.lexists(path)
    with writing(path):
        open(path, "ab").close()
        if is_new:
            os.unlink(path)


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Stop the command where a file cannot be written, quietly if it is a pipe that lost its
    reader.
    """
    try:
        yield
    except BrokenPipeError as error:
        raise StdoutGone(error) from None
    except OSError as error:
        bad_input(f"{path} cannot be written ({error.strerror}): name a writable place")


@contextlib.contextmanager
def progress_bar(text: str) -> Iterator[Progress | None]:
    """Show on stderr how far something is, for a person who waits.

    Where stderr is no terminal, it yields None.
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
    """Show a text on stdout, and renew it every so many seconds until Ctrl-C."""
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
