"""The one way out of the gateway: whatever a backend repeats, its keys do not leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from attrs import define, field

HIDDEN: Final = "***"
SHORTEST: Final = 8
"""The fewest characters of a key that is looked for; a shorter one is found in many texts."""


def _spelled(keys: Iterable[str]) -> tuple[str, ...]:
    return _all_spellings(tuple(keys))


@lru_cache(maxsize=64)  # every response asks, and the keys are nearly always the same
def _all_spellings(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return every spelling of some keys, the longest first."""
    known: set[str] = set()
    for key in keys:
        if len(key) >= SHORTEST:
            known.update(_spellings(key))
    return tuple(sorted(known, key=len, reverse=True))


def _spellings(key: str) -> Iterator[str]:
    """Yield a key as JSON and URLs may write it."""
    yield key
    yield key.replace("/", r"\/")
    yield key.replace("+", r"\u002B")
    yield quote(key, safe="")
    for form in (r"\u{:04x}", r"\u{:04X}"):
        yield "".join(each if each.isalnum() else form.format(ord(each)) for each in key)


@define(eq=False)
class Withholding:
    """Replace keys in one text, which may come in pieces; bytes are read as Latin-1.

    Arguments:
        keys: what must not leave.
    """

    keys: tuple[str, ...] = field(converter=_spelled)
    _held: str = field(default="", init=False)  # what may be the beginning of a key

    def feed(self, text: str) -> str:
        """Return what may go out of what has come so far."""
        text = self.whole(self._held + text)
        held = max((_begun(text, key) for key in self.keys), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def end(self) -> str:
        """Return the rest, which is the beginning of a key and not a whole one."""
        rest = self._held
        self._held = ""
        return rest

    def whole(self, text: str) -> str:
        """Return a text that has come as a whole, without the keys."""
        for key in self.keys:
            text = text.replace(key, HIDDEN)
        return text


def _begun(text: str, key: str) -> int:
    """Return how many characters at the end of a text begin a key."""
    end = text[1 - len(key) :]
    place = end.find(key[0])
    while place >= 0:
        if key.startswith(end[place:]):
            return len(end) - place
        place = end.find(key[0], place + 1)
    return 0
