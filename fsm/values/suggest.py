"""The known name that somebody may have meant who wrote an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LONGEST_NAME: Final = 1_000
"""Characters of a name that are compared; comparing takes time that grows with the square of them."""


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Return the question about the known name that is nearest to an unknown one.

    Arguments:
        name: the unknown name; what is no text is near to none.
        known: the known ones.
        otherwise: what is returned where none is near.
        cutoff: how much alike two names must be, on `difflib`'s scale from 0 to 1.
    """
    from difflib import get_close_matches  # which is for those alone who wrote something wrong

    unknown = name[:LONGEST_NAME] if isinstance(name, str) else ""
    close = get_close_matches(unknown, list(known), n=1, cutoff=cutoff)
    return f"did you mean {close[0]!r}?" if close else otherwise


def close_to(name: object, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the question behind a semicolon, to end a sentence with; empty where no known name is near."""
    question = did_you_mean(name, known, cutoff=cutoff)
    return question and f"; {question}"
