"""The rich display of results and journals.

They show as HTML in a notebook, and in colours on a terminal that prints with `rich`. Pages and
digests are loaded when somebody looks at a result; a call does without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

    from rungwise.fsm.engine.journal.digest import Digest


CALLED_HERE: Final = {
    **dict.fromkeys(("content", "choices", "output", "output_text", "completion"), "text"),
    **dict.fromkeys(("parsed", "output_parsed", "data"), "value"),
    **dict.fromkeys(("finish_reason", "stop_reason"), "reply.stop_reason"),
    "response": "reply",
    "total_cost": "cost",
}
"""The attributes of results by the names that they have elsewhere."""


class Displayable:
    """Show a run in brief, by the digest that a subclass makes; without one, by its `repr`."""

    __slots__ = ()

    def _digest(self) -> Digest | None:
        """Return the run in brief; None if there is nothing to show."""
        return None

    if not TYPE_CHECKING:  # which would take any name for an attribute then

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError; of what others call so, it says how it is called here."""
            here = CALLED_HERE.get(name)
            kind = type(self).__name__
            if here is None or not hasattr(type(self), here.partition(".")[0]):
                raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name)
            raise AttributeError(f"{kind} has no {name!r}: it is called {here} here")

    def _repr_html_(self) -> str | None:
        from rungwise.fsm.diagram.page.templates import digest_html

        digest = self._digest()
        if digest is None:
            return None
        return digest_html(digest)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rungwise.fsm.engine.journal.digest import digest_texts

        yield from digest_texts(self._digest(), repr(self))
