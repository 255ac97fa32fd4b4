"""The text that a program has of a stream, and how much of it still stands."""

from __future__ import annotations

from attrs import define, field


@define(eq=False)
class HandedText:
    """Follow the text that a program was given, which it cannot give back.

    Often it need not: what the call takes back may come again, from the next attempt or as the
    text that the call ends with. So nothing more is given until the text of the call is as long as
    what the program has; a text that differs before that shows that the program has too much.
    """

    _pieces: list[str] = field(factory=list)
    # how many characters of it the call holds to, once some were taken back; None for all
    _stands: int | None = None

    @property
    def text(self) -> str:
        """Return what the program has."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    @property
    def is_ahead(self) -> bool:
        """Tell whether the program has more than the call holds to."""
        return self._stands is not None

    def add(self, piece: str) -> str | None:
        """Take the next piece of the call's text; return what the program is to be given of it.

        None if the program has another text there.
        """
        if self._stands is None:
            self._pieces.append(piece)
            return piece
        text = self.text
        same = text[self._stands : self._stands + len(piece)]
        if not piece.startswith(same):
            return None
        self._stands += len(same)
        if self._stands < len(text):
            return ""
        self._stands = None
        rest = piece[len(same) :]
        if rest:
            self._pieces.append(rest)
        return rest

    def take_back(self, text: str) -> None:
        """Note that the call has taken back the end of its text."""
        stood = len(self.text) if self._stands is None else self._stands
        self._stands = stood - len(text)
