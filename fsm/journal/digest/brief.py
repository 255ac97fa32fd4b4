"""The one line that stands for a result where a debugger or a prompt shows it."""

from __future__ import annotations

from typing import Final

from rungwise.fsm.journal.digest import Spent
from rungwise.fsm.values.label import label

WORDS: Final = 60
"""Characters of a text that are quoted."""
LONGEST_QUOTE: Final = 100
LONGEST_CAUSE: Final = 160


def brief(name: str, outcome: str, text: str, cause: str | None, spent: Spent) -> str:
    """Write the line: the outcome, the first words or the cause, and what it took.

    Arguments:
        name: of the type.
        outcome: how it ended.
        text: what came of it; characters that do something in place of being seen are shown as what they are.
        cause: why it did not simply succeed.
        spent: what it took.
    """
    told = _quoted(text) if text.strip() else label(cause or "", LONGEST_CAUSE)
    return f"<{name} {outcome}{f': {told}' if told else ''} · {spent.told}>"


def _quoted(text: str) -> str:
    quoted = repr(text[:WORDS])
    if len(text) <= WORDS and len(quoted) <= LONGEST_QUOTE:
        return quoted
    return f"{quoted[:-1][:LONGEST_QUOTE]}…{quoted[-1]}"
