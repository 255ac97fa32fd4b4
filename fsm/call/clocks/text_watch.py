"""Tell when an attempt has brought visible text, for a driver that keeps its clocks."""

from __future__ import annotations

from rungwise.fsm.call.conversation.events import Reasoning, Text
from rungwise.fsm.call.conversation.reply_filter import SeedFilter
from rungwise.fsm.call.conversation.transcript import Reading
from rungwise.fsm.text.blank import is_blank
from rungwise.fsm.text.stitching import MINIMUM_ECHO, SeamFilter


class TextWatch:
    """Follow the deltas of one attempt until there is enough visible text in them to go on from.

    Arguments:
        reading: how the reply goes on from what was sent.
        gathered: the text that earlier parts brought.
    """

    __slots__ = ("_gathered", "_has_new", "_letters", "_reading", "_seam", "_seed", "_think")

    def __init__(self, reading: Reading, gathered: str) -> None:
        self._reading, self._gathered = reading, gathered
        self._think = reading.think_filter()
        self._begin()

    def _begin(self) -> None:
        reading = self._reading
        self._seed = SeedFilter(reading.seed) if reading.seed else None
        self._seam = SeamFilter(self._gathered, echoes=reading.echoes, stripped=reading.stripped)
        self._letters, self._has_new = 0, False

    def has_text(self, delta: Text | Reasoning) -> bool:
        """Take a delta, and tell whether there is text by now; it need not be asked again after that."""
        if isinstance(delta, Reasoning):
            return False
        visible, _ = self._think.feed(delta.text)
        if self._think.takes_back:  # what was visible was reasoning
            self._begin()
        if visible and self._seed is not None:
            visible = self._seed.feed(visible)
        if visible:
            self._letters += len(visible.strip())
            new = self._seam.feed(visible) if self._gathered else visible
            self._has_new = self._has_new or not is_blank(new)
        return self._letters >= MINIMUM_ECHO and self._has_new
