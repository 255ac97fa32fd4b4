"""Keep the consumer of a stream in step with the text that the result will hold."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from rungwise.fsm.call.conversation.reading import Reading, ReplyFilter
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Discard, PartialValue, Reasoning, Text

StreamEvent = Text | Reasoning | Discard | PartialValue | Step


class Delivery:
    """Hand out events so that a consumer holds the text of the result."""

    __slots__ = ("_closed", "_events", "_shown", "filter", "is_streaming")

    def __init__(self, is_streaming: bool, shown: str = "") -> None:
        # without a consumer, only the attempt in flight can be followed
        self.is_streaming = is_streaming
        self.filter: ReplyFilter | None = None  # of the attempt in flight, from its first delta on
        # by earlier attempts, and by a call that this one continues; not what was taken back
        self._shown = shown
        self._events: list[StreamEvent] = []
        # the filter as it was before it was closed, and what it hands out if it stays so
        self._closed: tuple[ReplyFilter, Sequence[StreamEvent]] | None = None

    @property
    def delivered(self) -> str:
        """Return the visible text that the attempt in flight has handed out."""
        return self.filter.delivered if self.filter is not None else ""

    def feed(
        self, delta: Text | Reasoning, reading: Reading, gathered: str
    ) -> tuple[StreamEvent, ...]:
        """Take a piece of the reply in flight and return what may be shown."""
        if self.filter is None:
            self.filter = ReplyFilter(reading, gathered)
        return self.filter.feed(delta)

    def close(self, failure: Failure | None = None) -> str:
        """Hand out what was held back until the reply was whole, and return what the attempt
        delivered. What one holds back that may go on waits for `reopen` or `correct`.
        """
        self._closed = None
        if self.filter is None:
            return ""
        before = None
        if failure is not None and failure.generation is not None:
            before = deepcopy(self.filter)
        held = self.filter.close()
        if before is None:
            self._events += held
        else:
            self._closed = (before, held)
        return self.filter.delivered

    def reopen(self) -> None:
        """Go on with a reply that was closed, and hold back what it held back."""
        if self._closed is None:
            return
        self.filter, _ = self._closed
        self._closed = None

    def correct(self, text: str) -> None:
        """Hand out what turns the shown text into this one. The attempt is over."""
        if self._closed is not None:
            self._events += self._closed[1]
            self._closed = None
        if self.is_streaming:
            shown = self._shown
            delivered = self.delivered
            # in the usual case the consumer has it all, and nothing is joined to find that out
            has_length = len(text) == len(shown) + len(delivered)
            is_all = has_length and text.endswith(delivered) and text.startswith(shown)
            if not is_all:
                self._events += correction(shown + delivered, text)
            self._shown = text
        self.filter = None

    def show(self, event: Reasoning | Step) -> None:
        """Hand out a step, or text that has turned out to be reasoning."""
        if self.is_streaming:
            self._events.append(event)

    def drain(self) -> list[StreamEvent]:
        """Return the events to hand out, and forget them."""
        events = self._events
        self._events = []
        return events


def check_delta(delta: object) -> None:
    """Raise a ConfigurationError unless this is text or reasoning."""
    if not isinstance(delta, (Text, Reasoning)):
        raise ConfigurationError(f"delta must be Text or Reasoning, not {type(delta).__name__}")


def correction(shown: str, target: str) -> tuple[Discard | Text, ...]:
    """Return the events that turn what a consumer has into what the result holds."""
    if shown == target:
        return ()
    common = len(shown) if target.startswith(shown) else _common(shown, target)
    events: list[Discard | Text] = []
    if common < len(shown):
        events.append(Discard(shown[common:]))
    if common < len(target):
        events.append(Text(target[common:]))
    return tuple(events)


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts, by bisection."""
    low = 0
    high = min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
