"""Words that a stranger chose, made fit for journals, logs and terminals: short, printable, on one line."""

from __future__ import annotations

import re
from typing import Any, Final

LONGEST: Final = 80
"""Characters of a provider's word that are kept: no known finish reason, error code or model id has more."""

LONGEST_NOTE: Final = 400
"""Characters of a note or of the name of a backend, which hold words of our own and of the caller's as well."""

_READ_AT_MOST: Final = 4096  # what is looked at of a text that has to be cut anyway
_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]"
)


def label(value: Any, longest: int = LONGEST) -> Any:
    """Return a word without what moves a cursor, ends a line, turns the writing round or cannot be seen.

    A text that is fit already is returned as it is, and so is what is no text: its form is checked elsewhere.

    Arguments:
        value: the word, or anything else.
        longest: how many characters it may have; the last one says that there were more.
    """
    if not isinstance(value, str) or (len(value) <= longest and value.isprintable()):
        return value
    seen = _ESCAPES.sub("", value[:_READ_AT_MOST])
    seen = "".join(character for character in seen if character.isprintable()).strip()
    return seen if len(seen) <= longest and len(value) <= _READ_AT_MOST else f"{seen[: longest - 1]}…"


def note(value: Any) -> Any:
    """Return a note, or the name of a backend, as a label of its own length."""
    return label(value, LONGEST_NOTE)
