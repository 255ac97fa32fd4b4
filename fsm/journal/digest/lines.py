"""A run in brief as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rungwise.fsm.journal.digest import Digest, Line

INDENT: Final = "     "


def digest_lines(digest: Digest) -> Iterator[str]:
    """Yield the lines: how it ended, what it took, and one for each attempt."""
    yield f"{digest.name} {digest.headline}"
    left = f"; left: {digest.left}" if digest.left else ""
    yield f"{digest.spent.told}{left}"
    if digest.says:
        yield digest.says
    yield from attempt_lines(digest)


def attempt_lines(digest: Digest, indent: str = "") -> Iterator[str]:
    """Yield a line for each attempt, and below it those of the run that it made."""
    for line in digest.lines:
        yield indent + _line(line)
        if line.within is not None and len(line.within.lines) > 1:
            yield from attempt_lines(line.within, indent + INDENT)
    if digest.ending:
        yield f"{indent}    {digest.ending}"


def _line(line: Line) -> str:
    number, _, rest = line.text.partition(" ")
    told = " · ".join(filter(None, [line.lasted, line.paid]))
    took = f"   ({told})" if told else ""
    return f"{number:>3} {rest}{took}"
