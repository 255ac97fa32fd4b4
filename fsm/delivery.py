"""What one attempt hands to the consumer while it streams."""

from __future__ import annotations

from fsm.events import Discard, Reasoning, Text
from fsm.stitching import SeamFilter
from fsm.thinking import ThinkFilter
from fsm.transcript import Composed


class Delivery:
    """Filter the deltas of one attempt: no think tags, no seed, nothing said twice.

    Arguments:
        composed: what was sent.
        gathered: the text that earlier parts brought.
        echoes: whether the backend repeats a continued turn.
    """

    __slots__ = ("_pieces", "_seam", "_seed", "_think")

    def __init__(self, composed: Composed, gathered: str, echoes: bool) -> None:
        self._think = ThinkFilter()
        self._seed = SeedFilter(composed.seed) if composed.seed else None
        self._seam = (
            SeamFilter(gathered, echoes=echoes and composed.prefill, stripped=composed.stripped) if gathered else None
        )
        self._pieces: list[str] = []

    @property
    def delivered(self) -> str:
        """Return the visible text handed out so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def feed(self, delta: Text | Reasoning) -> tuple[Text | Reasoning, ...]:
        """Return what may be handed out now."""
        if isinstance(delta, Reasoning):
            return (delta,)
        visible, reasoning = self._think.feed(delta.text)
        if visible and self._seed is not None:
            visible = self._seed.feed(visible)
        if visible and self._seam is not None:
            visible = self._seam.feed(visible)
        if visible:
            self._pieces.append(visible)
            if not reasoning:
                return (delta,) if visible is delta.text else (Text(visible),)
            return (Reasoning(reasoning), Text(visible))
        return (Reasoning(reasoning),) if reasoning else ()


class SeedFilter:
    """Drop a seed that the backend repeats at the start of its answer."""

    __slots__ = ("_held", "_seed")

    def __init__(self, seed: str) -> None:
        self._seed: str | None = seed
        self._held = ""

    def feed(self, text: str) -> str:
        """Return what is surely no seed."""
        if self._seed is None:
            return text
        self._held += text
        if self._seed.startswith(self._held):
            return ""
        held, seed = self._held, self._seed
        self._seed, self._held = None, ""
        return without_seed(held, seed)


def without_seed(visible: str, seed: str) -> str:
    """Return visible text without the seed that it may begin with."""
    return visible.removeprefix(seed) if seed else visible


def correction(shown: str, target: str) -> tuple[Discard | Text, ...]:
    """Return the events that turn what a consumer has into what the result holds."""
    if shown == target:
        return ()
    common = 0
    if target.startswith(shown):
        common = len(shown)
    else:
        for one, other in zip(shown, target, strict=False):
            if one != other:
                break
            common += 1
    events: list[Discard | Text] = []
    if common < len(shown):
        events.append(Discard(shown[common:]))
    if common < len(target):
        events.append(Text(target[common:]))
    return tuple(events)
