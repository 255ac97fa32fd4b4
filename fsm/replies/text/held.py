"""Hold a text while its pieces arrive."""

from __future__ import annotations

from io import StringIO

from attrs import define, field

from rungwise.fsm.replies.text.contents import without_halves


class HeldText(StringIO):
    """Hold a text that stays readable until the last reference to it is gone.

    The garbage collector would close a `StringIO` that is part of a cycle before that.
    """

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


@define(eq=False)
class HalfHolder:
    """Hold half a surrogate pair back until the next piece of its text.

    That may begin with the other half.
    """

    _half: str = field(default="", init=False)

    def feed(self, piece: str) -> str:
        """Return what is complete so far, with unpaired halves replaced."""
        text = self._half + piece
        self._half = ""
        last = text[-1:]
        if "\ud800" <= last <= "\udbff":
            self._half = last
            text = text[:-1]
        return without_halves(text)
