"""Tell when an attempt has brought visible text, for a driver that keeps its clocks."""

from __future__ import annotations

from rungwise.fsm.call.events import Discard, Reasoning, Text
from rungwise.fsm.call.reply_filter import ReplyFilter
from rungwise.fsm.call.transcript import Reading
from rungwise.fsm.text.stitching import MINIMUM_ECHO


class TextWatch:
    """Follow the deltas of one attempt until there is enough visible text in them to go on from.

    Arguments:
        reading: how the reply goes on from what was sent.
        gathered: the text that earlier parts brought.
    """

    __slots__ = ("_filter", "_least", "_text")

    def __init__(self, reading: Reading, gathered: str) -> None:
        self._text = ""
        self._filter = ReplyFilter(reading, gathered)
        self._least = max(1, MINIMUM_ECHO - len(gathered.strip()))

    def has_text(self, delta: Text | Reasoning) -> bool:
        """Take a delta, and tell whether there is text by now; it need not be asked again after that."""
        for shown in self._filter.feed(delta):
            if isinstance(shown, Discard):
                self._text = ""
            elif isinstance(shown, Text):
                self._text += shown.text
        return len(self._text.strip()) >= self._least
