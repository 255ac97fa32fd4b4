"""What of a reply a consumer may be shown while it streams."""

from __future__ import annotations

from rungwise.fsm.call.conversation.events import Discard, Reasoning, Text
from rungwise.fsm.call.conversation.transcript import Reading
from rungwise.fsm.text.stitching import SeamFilter


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


class SeedFilter:
    """Drop a seed that the backend repeats at the start of its answer, as `without_seed` does for a whole answer.

    Arguments:
        seed: the reasoning that was sent as the start of the answer.
    """

    __slots__ = ("_at", "_seed", "_spaces")

    def __init__(self, seed: str) -> None:
        self._seed: str | None = seed.strip()
        self._spaces: list[str] = []
        self._at = 0  # how much of the seed has come

    def feed(self, text: str) -> str:
        """Return what is surely no seed.

        Arguments:
            text: the next chunk of the answer.
        """
        seed = self._seed
        if seed is None:
            return text
        bare = text if self._at else text.lstrip()
        if seed.startswith(bare, self._at):
            self._spaces.append(text[: len(text) - len(bare)])
            self._at += len(bare)
            return ""
        return self._decide(seed, text)

    def close(self) -> str:
        """Return what was held back and is no seed; the answer has ended."""
        return "" if self._seed is None else self._decide(self._seed, "")

    def _decide(self, seed: str, text: str) -> str:
        held = "".join((*self._spaces, seed[: self._at], text))
        self._seed, self._spaces = None, []
        return without_seed(held, seed)


def without_seed(visible: str, seed: str) -> str:
    """Return visible text without the seed that it may begin with; servers and templates strip whitespace around it."""
    bare, seed = visible.lstrip(), seed.strip()
    return bare[len(seed) :] if seed and bare.startswith(seed) else visible
