"""A run in brief as text: one line for `repr`, lines for a terminal, and the same in colour for `rich`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rungwise.fsm.journal.digest import AttemptLine, Digest, Spent
from rungwise.fsm.values.label import label

if TYPE_CHECKING:
    from rich.text import Text

WORDS: Final = 60
"""Characters of a text that are quoted."""
LONGEST_QUOTE: Final = 100
LONGEST_CAUSE: Final = 160
INDENT: Final = "     "
STYLES: Final = {"answer": "bold green", "lesser": "bold yellow", "error": "bold red"}


def brief(name: str, outcome: str, text: str, cause: str | None, spent: Spent) -> str:
    """Write a result on one line: its outcome, its first words or its cause, and what it took."""
    content = _quoted(text) if text.strip() else label(cause or "", LONGEST_CAUSE)
    return f"<{name} {outcome}{f': {content}' if content else ''} · {spent.text}>"


def _quoted(text: str) -> str:
    quoted = repr(text[:WORDS])
    if len(text) <= WORDS and len(quoted) <= LONGEST_QUOTE:
        return quoted
    return f"{quoted[:-1][:LONGEST_QUOTE]}…{quoted[-1]}"


def digest_lines(digest: Digest) -> Iterator[str]:
    """Yield the lines of a run: how it ended, what it took, and one for each attempt."""
    yield f"{digest.name} {digest.headline}"
    yield f"{digest.spent.text}{f'; left: {digest.left}' if digest.left else ''}"
    if digest.says:
        yield digest.says
    yield from attempt_lines(digest)


def attempt_lines(digest: Digest, indent: str = "") -> Iterator[str]:
    """Yield a line for each attempt, and below it those of the run that it made."""
    for line in digest.lines:
        yield indent + _attempt_line(line)
        if line.within is not None and len(line.within.lines) > 1:
            yield from attempt_lines(line.within, indent + INDENT)
    if digest.ending:
        yield f"{indent}    {digest.ending}"


def _attempt_line(line: AttemptLine) -> str:
    number, _, rest = line.text.partition(" ")
    took = " · ".join(filter(None, [line.lasted, line.paid]))
    return f"{number:>3} {rest}{f'   ({took})' if took else ''}"


def digest_texts(digest: Digest | None, otherwise: str) -> Iterator[Text]:
    """Yield the lines of a run for `rich`; nothing in them is read as markup."""
    from rich.text import Text  # whoever prints with rich has loaded it

    if digest is None:
        yield Text(otherwise)
        return
    styles = [STYLES.get(digest.kind, "bold"), "dim"]
    for place, line in enumerate(digest_lines(digest)):
        yield Text(line, style=styles[place] if place < len(styles) else "")
