"""Follow a text and tell whether it ends in Markdown code or in quotes, where tags are only
shown.
"""

from __future__ import annotations

import re
from typing import Final

from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.values.patterns import Pattern

_FENCE = Pattern(r"^(?: {0,3}|([ \t]+))(`{3,}|~{3,})([ \t\r]*\n)?", re.MULTILINE)
"""A line that may open a fenced block (unless group 1 indents it too far) or close one (if group 3
ends it).
"""

_QUOTES: Final = {
    '"': '"',
    "\u201c": "\u201d",
    "\u201e": "\u201c\u201d",
    "\u00ab": "\u00bb",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
}
"""The marks that open a quotation, with those that may close it. The apostrophe has rules of its
own.
"""

_SIGNS = Pattern(r"\\[\"'\\]|\n|`+|['\"\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f]")
"""A sign that is escaped, the end of a line, a run of backticks, or a quotation mark."""

MOST_SIGNS: Final = 500_000
"""How many signs and fences of a text are read, far more than any tag needs; all text behind them
is literal.
"""

_TOO_FAR = "    "  # an indentation behind which no fence opens
_INDENTED = Pattern(r" {4}| {0,3}\t")
_UNSEEN = "\xa0"  # blanks that are no indentation; no fence opens behind them either
_WORDS = "-"  # anything else on a line; no fence opens behind it


class Literals:
    """Read a text piece by piece, and tell whether it ends in a literal.

    A literal is

    - a fenced block: after a line that begins, behind at most three spaces, with three or more
      backticks or tildes, also on that very line, until a line of at least as many of the same sign
      and nothing else but blanks has ended;
    - a code span: after an odd number of runs of backticks on its line, however long each of them
      is;
    - a quotation: behind an opening mark, until its closing one or the end of the paragraph. An
      apostrophe opens one where no word ends, and only on its line; a straight double quote behind
      a digit is an inch.
    """

    __slots__ = (
        "_apostrophe",
        "_fence",
        "_in_span",
        "_line",
        "_quote",
        "_signs_left",
        "before",
        "last",
    )

    def __init__(self) -> None:
        self._fence = ""  # what opened the fenced block
        # stands for what the line holds so far: nothing, its indentation, or `_WORDS`
        self._line = ""
        self._in_span = False
        self._quote = ""  # what may close the quotation
        self._apostrophe = False
        self._signs_left = MOST_SIGNS
        self.before = ""  # the last character that was read
        self.last = ""  # the last character on the line that is no white space

    @property
    def is_inside(self) -> bool:
        """Whether the text so far ends in a literal."""
        return bool(
            self._fence or self._in_span or self._quote or self._apostrophe or self._signs_left < 0
        )

    @property
    def is_line_blank(self) -> bool:
        """Whether nothing visible stands on the line so far."""
        return self._line != _WORDS

    @property
    def is_indented(self) -> bool:
        """Whether the line so far is the indentation of a code block."""
        return self._line == _TOO_FAR

    def read(self, text: str) -> None:
        """Read the next piece of the text, which must not end within a run of backticks or
        tildes.
        """
        if not text:
            return
        whole = self._line + text
        start = self._read_fences(whole)
        paragraph = whole.rfind("\n\n") + 1
        if start or paragraph:
            self._quote = ""
        self._read_signs(whole, max(start, paragraph, len(self._line)))
        self.before = text[-1]
        line = whole[whole.rfind("\n") + 1 :]
        if "\n" in text or text.strip():
            self.last = line.rstrip()[-1:]
        if not is_blank(line):
            self._line = _WORDS
        elif _INDENTED.match(line):
            self._line = _TOO_FAR
        else:
            self._line = _UNSEEN if line.strip(" ") else line

    def _read_fences(self, whole: str) -> int:
        """Follow the fences and return where the last one ends; 0 if there is none."""
        end = 0
        for fence in _FENCE.finditer(whole):
            self._signs_left -= 1
            if self._signs_left < 0:
                break
            indented, signs, ended = fence.groups()
            if not self._fence and indented is None:
                self._fence = signs
            elif self._fence and ended and signs.startswith(self._fence):
                self._fence = ""
                end = fence.end()
        if self._fence:
            return len(whole)
        return end

    def _read_signs(self, whole: str, start: int) -> None:
        if start > len(self._line):
            self._in_span = False
            self._apostrophe = False
        for match in _SIGNS.finditer(whole, start):
            self._signs_left -= 1
            if self._signs_left < 0:
                break
            sign = match[0]
            at = match.start()
            if sign == "\n":
                self._in_span = False
                self._apostrophe = False
            elif sign[0] == "`":  # within a quotation it is an ordinary character
                self._in_span = not self._in_span and not self._quote
            elif not self._in_span and sign[0] != "\\":
                before = whole[at - 1] if at > len(self._line) else self.before
                self._quote_with(sign, before, whole[at + 1 : at + 2])

    def _quote_with(self, sign: str, before: str, after: str) -> None:
        """Read a quotation mark between two characters, either of which may be missing."""
        if self._quote:
            if sign in self._quote:
                self._quote = ""
        elif sign == '"' and before.isdigit():
            self._quote = ""  # an inch
        elif sign != "'":
            self._quote = _QUOTES.get(sign, "")
        elif self._apostrophe:
            self._apostrophe = after.isalnum()
        else:
            self._apostrophe = not (before.isalnum() or after.isspace())
