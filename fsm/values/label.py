"""Words from outside, made safe for journals, logs, terminals and errors: short, printable, on one
line.
"""

from __future__ import annotations

from collections.abc import Iterable
from reprlib import Repr
from typing import Any, Final

from rungwise.fsm.values.patterns import Pattern

LONGEST: Final = 80
"""The most characters of a provider's word that are shown: no known finish reason, error code or
model id has more.
"""

LONGEST_NOTE: Final = 400
"""Characters of a note or of the name of a backend, which hold words of our own and of the caller's
as well.
"""

LONGEST_QUOTE: Final = 120  # characters of a quotation in an error
# characters of a name that are compared, because the time grows with their square
LONGEST_NAME: Final = 1_000

_READ_AT_MOST: Final = 4096  # what is looked at of a text that has to be cut anyway
_ESCAPES: Final = Pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]*[0-~]"
)

_IDENTIFIER: Final = Pattern(r"[A-Za-z0-9_.-]{1,40}")

_QUOTING: Final = Repr()  # goes no deeper than a few levels, so that nothing is too deep for it
_QUOTING.maxstring = _QUOTING.maxother = _QUOTING.maxlong = LONGEST_QUOTE


def label(value: Any, longest: int = LONGEST) -> Any:
    """Return a word without characters that move the cursor, end a line, reverse the text or cannot
    be seen.

    A text that is safe already is returned unchanged, and so is anything but a text: its form is
    checked elsewhere. The last of the `longest` characters says that there were more.
    """
    if not isinstance(value, str) or (len(value) <= longest and value.isprintable()):
        return value
    text = _ESCAPES.sub("", value[:_READ_AT_MOST])
    text = "".join(character for character in text if character.isprintable()).strip()
    if len(text) > longest or len(value) > _READ_AT_MOST:
        return f"{text[: longest - 1]}…"
    return text


def note(value: Any) -> Any:
    """Return a note, or the name of a backend, as a label of their own length."""
    return label(value, LONGEST_NOTE)


def is_identifier(word: str) -> bool:
    """Tell whether a word is short and plain enough to be a code: at most 40 letters, digits, `_`,
    `-` and `.`.
    """
    return _IDENTIFIER.fullmatch(word) is not None


def short(value: object) -> str:
    """Quote a value from outside, shortened and on one line."""
    try:
        text = _QUOTING.repr(value)
    except Exception:
        # whatever a stranger's `__repr__` does; and an int of too many digits has none
        return f"this {type(value).__name__}"
    if len(text) > LONGEST_QUOTE:
        return f"{text[: LONGEST_QUOTE - 3]}..."
    return text


def did_you_mean(
    name: object, candidates: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6
) -> str:
    """Ask whether the nearest known name was meant: `did you mean 'retry'?`

    Arguments:
        name: the unknown name; anything but a text is close to none.
        candidates: the known names.
        otherwise: what to return if none is close.
        cutoff: the least similarity, on `difflib`'s scale from 0 to 1.
    """
    from difflib import get_close_matches  # needed for errors alone

    unknown = name[:LONGEST_NAME] if isinstance(name, str) else ""
    close = get_close_matches(unknown, list(candidates), n=1, cutoff=cutoff)
    return f"did you mean {close[0]!r}?" if close else otherwise


def close_to(name: object, candidates: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `did_you_mean` after a semicolon, to end a sentence; empty if no known name is
    close.
    """
    question = did_you_mean(name, candidates, cutoff=cutoff)
    return question and f"; {question}"
