"""A run in brief for `rich`, which whoever prints it has loaded already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rungwise.fsm.journal.digest import Digest
from rungwise.fsm.journal.digest.lines import digest_lines

if TYPE_CHECKING:
    from rich.text import Text

STYLES: Final = {"answer": "bold green", "lesser": "bold yellow", "error": "bold red"}
_HEAD: Final = 2
"""Lines that tell how it ended and what it took."""


def digest_texts(digest: Digest | None, otherwise: str) -> Iterator[Text]:
    """Yield the lines as texts; nothing in them is taken for markup.

    Arguments:
        digest: the run.
        otherwise: what is shown where there is none.
    """
    from rich.text import Text

    if digest is None:
        yield Text(otherwise)
        return
    styles = [STYLES.get(digest.kind, "bold"), "dim"]
    for place, line in enumerate(digest_lines(digest)):
        yield Text(line, style=styles[place] if place < _HEAD else "")
