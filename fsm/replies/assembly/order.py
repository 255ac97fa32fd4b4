"""Hand over the events of a stream in the order of their numbers, each once.

Theory
------

Responses number their events. What a gateway sends twice, or once more behind a connection that it
lost, has the number that it had; what it handles side by side comes in any order, and its number
says which. Nothing else does, for the next piece of a text may be equal to the one before.

So an event that is byte for byte one of the last `RECENT` is a copy, and left out. An event whose
number leaves some out waits until they have come. If `MOST_WAITING` wait, they do not come: the
server leaves numbers out, as one does that passes some events on, and nothing waits any more. An
event under a number that another one has had shows that the numbers count something else, and from
then on they say nothing. Only one that comes behind those that did not wait for it has lost its
place, and ends the reply.

Behind a connection that broke, the rest of the same stream may come in another response, and its
server may begin too early or too late. There (`reopen`) nothing is handed over behind a number that
is missing, nor what has no number, nor another event under a number that was there: the rest has a
gap, and whoever reads must fetch the whole reply. Nobody can go on with a server that leaves
numbers out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from attrs import define, field

MOST_WAITING: Final = 16
"""The most events that wait for one before them."""
RECENT: Final = 32
"""The events of which a copy is known as one."""

NEVER: Final = 10**18
"""The number of an event that has no place in the rest of a stream; no other has as many digits."""

E = TypeVar("E")


class Disorder(ValueError):
    """An event has come when its place was gone."""


@define(eq=False)
class Order(Generic[E]):
    """Put the events of one stream in order."""

    next: int = field(default=-1, init=False)
    """The number of the next event; whoever hands over the expected one raises it."""
    recent: deque[bytes] = field(factory=lambda: deque(maxlen=RECENT), init=False)
    """The bytes of the last events; likewise."""
    counts: bool = field(default=True, init=False)  # whether the numbers count the events
    is_rest: bool = field(default=False, init=False)  # whether it goes on behind another response
    _skips: bool = field(default=False, init=False)  # whether the server leaves numbers out
    _first: int = field(default=-1, init=False)
    _waiting: dict[int, tuple[bytes, E]] = field(factory=dict, init=False)

    @property
    def last(self) -> int | None:
        """Return the number up to which all events have come; None if that is not known."""
        if self._skips or self.next < 0 or not self.counts:
            return None
        return self.next - 1

    @property
    def has_gap(self) -> bool:
        """Tell whether an event of the rest has no place, or waits for one that is missing."""
        return self.is_rest and len(self._waiting) > 0

    def reopen(self) -> None:
        """Go on with the rest of the stream, which comes in another response."""
        self.is_rest = True
        self._waiting.clear()  # it comes again

    @property
    def expected(self) -> int | None:
        """Return the number of an event that changes nothing but that it has come.

        That is the next one, or -1 while others wait for it; None if numbers say nothing.
        """
        if not self.counts:
            return None
        return -1 if self._waiting else self.next

    def take(self, number: int, data: bytes, event: E) -> Sequence[E]:
        """Return the events that are to be handed over now that one has come.

        Arguments:
            number: of the event.
            data: its bytes.
            event: the event.

        Raises:
            Disorder: those behind it have been handed over.
        """
        if self._first < 0:
            self._first = number
            self.next = number
        if number < self.next and self.counts:
            if data in self.recent:
                return ()
            if self.is_rest:
                number = NEVER
            elif self._skips and number > self._first:
                raise Disorder
            else:
                self.counts = False
        if not self.counts:
            return [*self.release(), event]
        if len(self._waiting) <= MOST_WAITING:
            self._waiting.setdefault(number, (data, event))
        if number > self.next and (self._skips or len(self._waiting) > MOST_WAITING):
            return self.release()
        ready = []
        while self.next in self._waiting:
            ready.append(self._waiting.pop(self.next))
            self.next += 1
        return self._noted(ready)

    def release(self) -> Sequence[E]:
        """Return those that wait: what they wait for does not come."""
        if self.is_rest or not self._waiting:
            return ()
        self._skips = True
        self.next = max(self._waiting) + 1
        ready = [self._waiting[number] for number in sorted(self._waiting)]
        self._waiting.clear()
        return self._noted(ready)

    def _noted(self, ready: Sequence[tuple[bytes, E]]) -> list[E]:
        self.recent.extend([data for data, _ in ready])
        return [event for _, event in ready]
