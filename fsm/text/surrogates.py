"""Halves of surrogate pairs, which providers and tools put into texts and which no UTF-8 can hold."""

from __future__ import annotations

import re
from typing import Final

_HALVES: Final = re.compile("[\ud800-\udfff]")


def without_halves(text: str) -> str:
    """Return a text in which two halves are joined, and a lone one is replaced."""
    if text.isascii() or not _HALVES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
