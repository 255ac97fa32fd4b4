"""The screen of the demo: lines with a label on the left, and text that is wrapped while it streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import Console
from rich.containers import Lines
from rich.table import Table
from rich.text import Text

from rungwise.adapters.cli.output import safe

WIDTH: Final = 79
LABEL: Final = 15
BAR: Final = 2

STYLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("done", "finished"), "bold green"),
    **dict.fromkeys(("salvaged", "partial", "handed_off", "awaiting_approval", "limit_reached"), "bold yellow"),
    **dict.fromkeys(("refused", "exhausted", "failed", "over_budget", "cancelled"), "bold red"),
}
RUNG_STYLE: Final = "bold cyan"


class ScreenConsole(Console):
    """Leave it to the command line what becomes of a closed stdout."""

    def on_broken_pipe(self) -> None:
        """Raise the error again."""
        raise BrokenPipeError


class Screen:
    """Write the demo to stdout."""

    def __init__(self) -> None:
        self.console = ScreenConsole(highlight=False, markup=False, emoji=False)
        self.width = max(40, min(WIDTH, self.console.width - 1)) if self.console.is_terminal else WIDTH
        speaks_unicode = self.console.encoding.lower().startswith("utf")
        self.arrow, self.bar = ("→", "│") if speaks_unicode else ("->", "|")
        self._labelled = False
        self._column = 0
        self._live = ""
        self._gap = ""
        self._word = ""

    # lines

    def print(self, text: str | Text = "", style: str = "", *, end: str = "\n") -> None:
        """Write text as it is."""
        self.console.print(Text(text, style) if isinstance(text, str) else text, end=end, soft_wrap=True)

    def paragraph(self, text: str | Text, style: str = "", indent: int = 0) -> None:
        """Write text between the margins."""
        for line in self._lines(text, style, indent):
            self.print(Text(" " * indent) + line)

    def label(self, text: str, style: str) -> None:
        """Write the label of the lines that follow."""
        self.end_live()
        if self._labelled:
            self.print()
        self.print(Text.assemble(" ", (text.ljust(LABEL - 1), style)), end="")
        self._labelled = True

    def say(self, text: str | Text, style: str = "") -> None:
        """Write text to the right of the labels."""
        for line in self._lines(text, style, LABEL):
            self.print(line if self._labelled else Text(" " * LABEL) + line)
            self._labelled = False

    def _lines(self, text: str | Text, style: str, indent: int) -> Lines:
        self.end_live()
        lines = (Text(safe(text), style) if isinstance(text, str) else text).wrap(self.console, self.width - indent)
        for line in lines:
            line.rstrip()
        return lines

    # text that streams

    def stream(self, text: str, style: str, opening: str = "") -> None:
        """Write a piece of a text behind a bar; a word appears when it is whole."""
        if self._live != style:
            self.end_live()
            self._live = style
            self._new_line()
            text = opening + text
        for character in safe(text):
            if character.isspace():
                self._end_word()
                self._gap += character
            else:
                self._word += character

    def end_live(self) -> None:
        """End the text that streams, if any does."""
        if self._live:
            self._end_word()
            self.print()
            self._live, self._column, self._gap = "", 0, ""

    def _new_line(self) -> None:
        if self._column or self._labelled:
            self.print()
        self._labelled = False
        self.print(Text.assemble(" " * LABEL, (self.bar, "dim")), end="")
        self._column = LABEL + BAR - 1
        self._gap = " "

    def _end_word(self) -> None:
        """Write a word, with the white space before it that a line would otherwise end with."""
        word, self._word = self._word, ""
        if not word:
            return
        for _ in range(self._gap.count("\n")):
            self._new_line()
        if self._column + len(self._gap) + len(word) > self.width and self._column >= LABEL + BAR:
            self._new_line()
        while self._column + len(self._gap) + len(word) > self.width:
            room = self.width - self._column - len(self._gap)
            self._put(word[:room])
            word = word[room:]
            self._new_line()
        self._put(word)

    def _put(self, word: str) -> None:
        self.print(Text(self._gap + word, self._live), end="")
        self._column += len(self._gap) + len(word)
        self._gap = ""

    # the end

    def table(self, headings: tuple[str, ...], rows: list[tuple[str | Text, ...]]) -> None:
        """Write a table without lines."""
        table = Table(box=None, padding=(0, 2, 0, 0), width=self.width, header_style="bold", pad_edge=False)
        for number, heading in enumerate(headings):
            is_number = number == len(headings) - 1
            table.add_column(heading, justify="right" if is_number else "left", no_wrap=number != 1)
        for row in rows:
            table.add_row(*row)
        self.console.print(table)
