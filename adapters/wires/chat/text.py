"""Gather a text that a stream brings in deltas, in messages, or in both."""

from __future__ import annotations

from rungwise.adapters.wires.reading.held_text import HeldText
from rungwise.fsm.text.stitching import MINIMUM_ECHO


class GatheredText(HeldText):
    """Hold what has come of a text; deltas are written to it."""

    comes_in_messages = False

    def follow(self, said: str, *, is_last: bool) -> str:
        """Return what a message adds to the text, which is still to be written.

        A message that begins with the text so far has all of it, and behind deltas so has the last one: the provider's
        own edition, which takes the place of the text. One that says the end of what came in deltas once more adds
        nothing. Any other is the next piece.

        Arguments:
            said: what the message says.
            is_last: whether the message ends the reply.
        """
        size = self.tell()
        # A message of less than half as much is not compared, so that the work stays within what has come.
        gathered = self.getvalue() if 2 * len(said) >= size > 0 else None
        if gathered is not None and said.startswith(gathered):
            return said[size:]
        if size and is_last and not self.comes_in_messages:
            if said.strip():
                self.seek(0)
                self.truncate()
                self.write(said)
            return ""
        if gathered is not None and said.strip() == gathered.strip():
            return ""
        if not self.comes_in_messages and len(said.strip()) >= MINIMUM_ECHO and self._ends_with(said):
            return ""
        self.comes_in_messages = self.comes_in_messages or said != ""
        return said

    def _ends_with(self, said: str) -> bool:
        """Tell whether the text ends with this, white space at its end apart; only so much of it is read."""
        size, end = self.tell(), said.rstrip()
        self.seek(max(0, size - len(said) - 1))
        tail = self.read()
        self.seek(size)
        return tail.rstrip().endswith(end)
