"""What shows itself in brief: in a notebook as HTML, and with `rich` on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

    from rungwise.fsm.journal.digest import Digest


class Shown:
    """Show a run in brief; who inherits from this says which, and what is shown where there is nothing to tell."""

    __slots__ = ()

    if TYPE_CHECKING:  # no abstract class: to tell a result from the other events of a stream would take longer

        def _digest(self) -> Digest | None: ...

    def _in_short(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str | None:
        from rungwise.fsm.diagram.page.notebook import digest_html

        digest = self._digest()
        return None if digest is None else digest_html(digest)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rungwise.fsm.journal.digest.terminal import digest_texts

        yield from digest_texts(self._digest(), self._in_short())
