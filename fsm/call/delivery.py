"""What one attempt hands to the consumer while it streams."""

from __future__ import annotations

from rungwise.fsm.call.events import Discard, Reasoning, Text
from rungwise.fsm.call.transcript import Composed
from rungwise.fsm.text.stitching import SeamFilter
from rungwise.fsm.text.thinking import ThinkFilter


class Delivery:
    """Filter the deltas of one attempt: no inline reasoning, no seed, nothing said twice.

    Arguments:
        composed: what was sent.
        gathered: the text that earlier parts brought.
        echoes: whether the backend repeats a continued turn.
    """

    __slots__ = ("_composed", "_echoes", "_gathered", "_pieces", "_seam", "_seed", "_think")

    def __init__(self, composed: Composed, gathered: str, echoes: bool) -> None:
        self._composed, self._gathered, self._echoes = composed, gathered, echoes and composed.prefill
        self._think = ThinkFilter(composed.before, after_block=composed.after_block, is_new_turn=composed.is_new_turn)
        self._begin()

    def _begin(self) -> None:
        composed, gathered = self._composed, self._gathered
        self._seed = SeedFilter(composed.seed) if composed.seed else None
        self._seam = SeamFilter(gathered, echoes=self._echoes, stripped=composed.stripped) if gathered else None
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
    """Return how many letters two texts begin with in common: halves are compared, not letters."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
