"""What somebody may have meant by a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def close_to(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the question about the known name that is nearest to an unknown one; empty where none is near.

    Arguments:
        name: what was given; of what is no text, nothing is near.
        known: the names that there are.
        cutoff: how much alike two names must be, on `difflib`'s scale from 0 to 1.
    """
    if not isinstance(name, str):
        return ""
    close = difflib.get_close_matches(name[:1000], sorted(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""
