"""The one way out of the gateway: whatever a backend repeats, its keys do not leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

from attrs import define, field

HIDDEN: Final = "***"
SHORTEST: Final = 8
"""The fewest characters of a key that is looked for; a shorter one is found in many texts."""


def _as_bytes(keys: Iterable[str]) -> tuple[bytes, ...]:
    known: set[bytes] = set()
    for key in keys:
        if len(key) >= SHORTEST:
            known.update(each.encode("latin-1", "replace") for each in _spellings(key))
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
    """Replace keys in the bytes of one answer, which may come in pieces.

    Arguments:
        keys: what must not leave.
    """

    keys: tuple[bytes, ...] = field(converter=_as_bytes)
    _held: bytes = field(default=b"", init=False)  # what may be the beginning of a key

    def feed(self, data: bytes) -> bytes:
        """Return what may go out of what has come so far."""
        data = self._replaced(self._held + data)
        held = max((_begun(data, key) for key in self.keys), default=0)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def end(self) -> bytes:
        """Return the rest, which is the beginning of a key and not a whole one."""
        rest = self._held
        self._held = b""
        return rest

    def text(self, text: str) -> str:
        """Return a text without the keys."""
        return self._replaced(text.encode("latin-1", "replace")).decode("latin-1")

    def _replaced(self, data: bytes) -> bytes:
        for key in self.keys:
            data = data.replace(key, HIDDEN.encode())
        return data


def _begun(data: bytes, key: bytes) -> int:
    """Return how many bytes at the end of the data begin a key."""
    for length in range(min(len(key) - 1, len(data)), 0, -1):
        if data.endswith(key[:length]):
            return length
    return 0
