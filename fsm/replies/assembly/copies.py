"""Leave out the copies of events: of a stream that sends each one twice, and of those that a proxy
sends again.

Theory
------

A gateway that listens twice to the server behind it hands on every event and then the same bytes
again. Most protocols do not number their events, and the next piece of a text may be equal to the
one before: "ha", "ha". So a copy by itself says nothing. But a stream says only once how it begins
and why it ends, and hardly any text comes in pieces each of which is there twice.

So only a stream whose first event comes twice is looked at; any other is known for honest by its
second event. One whose first event comes three times does not begin with it, and is honest, too.

What follows the first event is held until it is decided. `ENOUGH` different events, each of them
twice and none once, are no coincidence. Neither is a stream that ends when two of them have come.
Then the copies are left out. An event that comes once shows that there were none. Then all is
handed over as it came. That is so, too, if nothing is decided after `MOST_HELD` events, such as
many equal ones, or after `LONGEST_HELD` bytes. What is held is not counted yet, so a reply may
exceed its cap by as much.

Where copies are left out, an event without one is doubt: those before it may have been meant so. A
stream of one event and its copy is doubt, too.

**Replays.** Events may have ids of their own. By them, a proxy that has lost its connection asks
for what it has missed. It may get more than that. An event that comes again under its id, behind
one with another id, with the same bytes, is a copy. Some servers have one id for all events, or a
few in turn, such as one for each choice; so it takes `DISTINCT` ids before any is believed.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from attrs import define, field

ENOUGH: Final = 4
"""The different events, each of them twice, that are no coincidence."""
MOST_HELD: Final = 16
"""The most events that are held."""
LONGEST_HELD: Final = 8192
"""The most bytes of events that are held."""
DISTINCT: Final = 3
"""The ids that a stream has at least if they are those of its events."""
MOST_IDS: Final = 1_000
"""The most ids that are remembered."""
_NUMBERS: Final = re.compile(rb"\d+")

E = TypeVar("E")


@define(eq=False)
class Copies(Generic[E]):
    """Tell the copies of one stream apart, from the second event on."""

    due: bytes
    """The event whose copy is due, which is the first one to begin with; empty for none."""
    is_over: bool = field(default=False, init=False)
    """Whether it is known that the events do not come twice."""
    is_unclear: bool = field(default=False, init=False)
    """Whether it is in doubt what was a copy."""
    size: int = field(default=0, init=False)
    """How many bytes the events have that wait."""
    _are_left_out: bool = field(default=False, init=False)
    _pairs: int = field(default=0, init=False)  # different events that came twice
    _last: bytes = field(default=b"", init=False)  # the last one of them
    _held: list[tuple[E, bool]] = field(factory=list, init=False)  # each with whether it is a copy

    @property
    def held(self) -> int:
        """Return how many events wait."""
        return len(self._held)

    def take(self, data: bytes, event: E) -> list[E]:
        """Return the events that are to be handed over now that one has come.

        Arguments:
            data: its bytes.
            event: the event.
        """
        is_copy = data == self.due
        is_alone = not is_copy and self.due != b""  # the one before it
        is_no_beginning = self._pairs == 1 and data == self._last
        if is_copy:
            self.due = b""
            self._pairs += _without_numbers(data) != _without_numbers(self._last)
            self._last = data
        else:
            self.due = data
        if self._are_left_out:
            self.is_unclear = self.is_unclear or is_alone
            return [] if is_copy else [event]
        self._held.append((event, is_copy))
        self.size += len(data)
        if self._pairs >= ENOUGH:
            return self._originals()
        is_too_much = len(self._held) > MOST_HELD or self.size > LONGEST_HELD
        if is_alone or is_no_beginning or is_too_much:
            self.is_over = True
            return self._all()
        return []

    def release(self) -> list[E]:
        """Return the events that were held: nothing follows that would decide."""
        if self._are_left_out:
            self.is_unclear = self.is_unclear or self.due != b""
        if not self._held:
            return []
        if self.due or self._pairs < 2:
            self.is_unclear = not self.due
            return self._all()
        return self._originals()

    def give_up(self) -> list[E]:
        """Return the events that were held: one has come that cannot be compared."""
        self.is_over = not self._are_left_out
        return self._all()

    def _all(self) -> list[E]:
        events = [event for event, _ in self._held]
        self._clear()
        return events

    def _originals(self) -> list[E]:
        self._are_left_out = True
        events = [event for event, is_copy in self._held if not is_copy]
        self._clear()
        return events

    def _clear(self) -> None:
        self._held.clear()
        self.size = 0


@define(eq=False)
class Replays:
    """Tell the events that come again, by their ids."""

    # the hash of the event of each id
    _said: dict[str | bytes, int] = field(factory=dict, init=False)
    _last: str | bytes = field(default=b"", init=False)

    def is_again(self, id: str | bytes, data: Hashable) -> bool:
        """Tell whether an event has come before.

        Arguments:
            id: its id.
            data: what it says.
        """
        goes_back = id != self._last and len(self._said) >= DISTINCT
        self._last = id
        said = hash(data)
        if id in self._said:
            return goes_back and self._said[id] == said
        if len(self._said) < MOST_IDS:
            self._said[id] = said
        return False


def _without_numbers(data: bytes) -> bytes:
    """Return an event without its numbers: in some protocols each counts the tokens so far."""
    return _NUMBERS.sub(b"", data)
