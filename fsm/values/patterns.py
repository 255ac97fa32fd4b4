"""Regular expressions that are compiled on first use.

Compiling those of the failures takes longer than loading the rest of the core, and most programs
never need them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property


class Pattern:
    """Hold a pattern, with the methods of a compiled one."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self.text = text
        self.flags = flags

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Return the pattern, compiled."""
        return re.compile(self.text, self.flags)

    def search(self, text: str) -> re.Match[str] | None:
        """Find the pattern anywhere in a text."""
        return self.compiled.search(text)

    def match(self, text: str) -> re.Match[str] | None:
        """Find the pattern at the beginning of a text."""
        return self.compiled.match(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """Match the pattern with the whole of a text."""
        return self.compiled.fullmatch(text)

    def findall(self, text: str) -> list[tuple[str, ...]]:
        """List the groups of every match in a text."""
        return self.compiled.findall(text)

    def finditer(self, text: str, start: int = 0) -> Iterator[re.Match[str]]:
        """Find every match from a place on; the pattern can still look behind it."""
        return self.compiled.finditer(text, start)

    def sub(self, by: str | Callable[[re.Match[str]], str], text: str) -> str:
        """Replace every match in a text."""
        return self.compiled.sub(by, text)
