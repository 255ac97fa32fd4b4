"""How a reply is read: the whole of it, or piece by piece while it streams."""

from __future__ import annotations

from attrs import field

from rungwise.fsm.call.conversation.reply import Discard, Reasoning, Text
from rungwise.fsm.text.blank import is_blank
from rungwise.fsm.text.stitching import MINIMUM_ECHO, SeamFilter, SeedFilter
from rungwise.fsm.text.thinking import TextBefore, ThinkFilter
from rungwise.fsm.values.records import record


@record(kw_only=True)
class Reading:
    """Hold how the answer to a request is to be read.

    Arguments:
        seed: the reasoning that the request ends with, which is no visible text when a backend echoes it.
        stripped: the whitespace at the end of the continued text, which the wire leaves out.
        before: the text that the answer goes on from, where it may stand in code or in quotes.
        read: has followed that text; None where nothing has.
        after_block: whether inline reasoning came with that text.
        is_new_turn: whether the answer is a turn of its own all the same.
        echoes: whether the continued turn is repeated at the start of the answer.
    """

    seed: str = field(default="", repr=False)
    stripped: str = ""
    before: str = field(default="", repr=False)
    read: TextBefore | None = field(default=None, repr=False)
    after_block: bool = False
    is_new_turn: bool = False
    echoes: bool = False

    def think_filter(self) -> ThinkFilter:
        """Return what tells inline reasoning from visible text in the answer as it comes."""
        return ThinkFilter(self.before, read=self.read, after_block=self.after_block, is_new_turn=self.is_new_turn)


PLAIN = Reading()


class ReplyFilter:
    """Filter the deltas of one attempt: no inline reasoning, no seed, nothing said twice.

    Arguments:
        reading: how the reply goes on from what was sent.
        gathered: the text that earlier parts brought.
    """

    __slots__ = ("_gathered", "_pieces", "_reading", "_seam", "_seed", "_think")

    def __init__(self, reading: Reading, gathered: str) -> None:
        self._reading, self._gathered = reading, gathered
        self._think = reading.think_filter()
        self._begin()

    def _begin(self) -> None:
        reading, gathered = self._reading, self._gathered
        self._seed = SeedFilter(reading.seed) if reading.seed else None
        self._seam = SeamFilter(gathered, echoes=reading.echoes, stripped=reading.stripped) if gathered else None
        self._pieces: list[str] = []

    @property
    def delivered(self) -> str:
        """Return the visible text handed out so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def feed(self, delta: Text | Reasoning) -> tuple[Text | Reasoning | Discard, ...]:
        """Return what may be handed out now, and what is taken back."""
        if isinstance(delta, Reasoning):
            return (delta,)
        visible, reasoning = self._think.feed(delta.text)
        taken_back = self._take_back() if self._think.takes_back else ()
        if visible and self._seed is not None:
            visible = self._seed.feed(visible)
        if visible and self._seam is not None:
            visible = self._seam.feed(visible)
        return taken_back + self._hand_out(delta, visible, reasoning)

    def close(self) -> tuple[Text | Reasoning | Discard, ...]:
        """Return what was held back, now that all of the reply has come, and what is taken back."""
        visible, reasoning = self._think.close()
        taken_back = self._take_back() if self._think.takes_back else ()
        if self._seed is not None:
            visible = self._seed.feed(visible) + self._seed.close()
        if self._seam is not None:
            visible = self._seam.feed(visible) + self._seam.close()
        return taken_back + self._hand_out(Text(""), visible, reasoning)

    def _take_back(self) -> tuple[Discard, ...]:
        """Take back what has turned out to be reasoning, and begin again behind it."""
        shown = self.delivered
        self._begin()
        return (Discard(shown),) if shown else ()

    def _hand_out(self, delta: Text, visible: str, reasoning: str) -> tuple[Text | Reasoning, ...]:
        if visible:
            self._pieces.append(visible)
            if not reasoning:
                return (delta,) if visible is delta.text else (Text(visible),)
            return (Reasoning(reasoning), Text(visible))
        return (Reasoning(reasoning),) if reasoning else ()


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
