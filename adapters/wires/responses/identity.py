"""Tell the items of a streamed response apart.

Theory
------

An event names its item by an id and by an index, and servers get either wrong. Some give every
piece another id [lidge-jun/opencodex#996], some all items one index [BerriAI/litellm#36375], some
none at all [ggml-org/llama.cpp#20607], some leave out how items begin or end, and in the response
at the end ids and order may be new again.

So an item is known by what stays the same. A known id names its item, whatever the index. With a
new id, the index counts where the item there is of the same type and still open; where it is of
another type, the index is the same for all, and the event belongs to the last item of its type that
is open. An announcement under a new id is a new item.

The items of the response at the end are the last versions of those that came: by their ids, the
ids of their calls, or their order among those of a type. What came and is not among them stays,
unless as many of its type are: a shorter list takes nothing away.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from rungwise.adapters.wires.plain.parts import text_in
from rungwise.adapters.wires.responses.items import Slot


@define(eq=False)
class Items:
    """Find the item of each event; an item has a number, in the order of their beginnings."""

    slots: dict[int, Slot] = field(factory=dict, init=False)
    _numbers: dict[str, int] = field(factory=dict, init=False)  # by their ids
    _by_index: dict[int, int] = field(factory=dict, init=False)  # the last one at each index
    _last: dict[str, int] = field(factory=dict, init=False)  # the last one of each type
    _final: list[int] = field(factory=list, init=False)  # those of the response at the end

    def known(self, id: str | None, at: int) -> int:
        """Return the number of the item with an id, or for none the last one at an index.

        Raises:
            KeyError: there is none.
        """
        return self._numbers[id] if id else self._by_index[at]

    def name(self, number: int, id: str) -> None:
        """Note another id of an item; "" is none."""
        if id:
            self._numbers[id] = number

    def of(self, value: Mapping[str, Any], kind: str, *, begins: bool) -> tuple[int, Slot]:
        """Return the number of the item of an event, and the item.

        Arguments:
            value: the event.
            kind: the type of its item.
            begins: whether the event announces an item.
        """
        at = value.get("output_index")
        id = text_in(value, "item_id")
        number = self._numbers.get(id)
        if number is None:
            number = self._number_at(at, id, kind, begins=begins)
        if number is None:
            number = self._begin(kind, id, at)
        if type(at) is int:
            self._by_index[at] = number
        return number, self.slots[number]

    def _number_at(
        self,
        at: object,
        id: str,
        kind: str,
        *,
        begins: bool,
    ) -> int | None:
        """Return the number of an item whose id is new; None for an item that is new itself.

        Some servers give every piece another id, some all items one index, some none, and some
        leave out how items begin or end. An index counts where the item there is of the same type
        and still open; else an event belongs to the last item of its type, if that is open.

        Arguments:
            at: the index that the event names.
            id: the id that it names, or "".
            kind: the type of its item.
            begins: whether it announces one.
        """
        there = self._by_index.get(at) if type(at) is int else None
        if there is not None and self.slots[there].kind in ("", kind):
            slot = self.slots[there]
            is_another = slot.is_final or (id and slot.item.get("id"))
            return None if begins and is_another else there
        last = self._last.get(kind)
        if last is None or begins or (type(at) is int and there is None):
            return None
        return None if id and self.slots[last].is_final else last

    def _begin(self, kind: str, id: str, at: object) -> int:
        """Begin an item, and return its number."""
        item = {}
        if kind:
            item["type"] = kind
        if kind and id:
            item["id"] = id
        number = len(self.slots)
        self.slots[number] = Slot(item, at=at if type(at) is int else number)
        self._last[kind] = number
        if id:
            self._numbers[id] = number
        return number

    def in_order(self) -> list[int]:
        """Return the numbers of the items as they stand in the reply.

        The response at the end says it; else their indexes do, if no two are the same.
        """
        if self._final:
            return self._final
        numbers = list(self.slots)
        if len({slot.at for slot in self.slots.values()}) == len(numbers):
            numbers.sort(key=lambda number: self.slots[number].at)
        return numbers

    def settled(self, items: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the numbers of the items of the response at the end, and note their order."""
        free = dict(self.slots)
        came = Counter(slot.kind for slot in free.values())
        calls: dict[str, int] = {}
        alike: dict[tuple[str, str], deque[int]] = defaultdict(deque)
        for number, slot in free.items():
            calls.setdefault(text_in(slot.item, "call_id"), number)
            alike[slot.kind, text_in(slot.item, "name")].append(number)
        final = []
        for item in items:
            kind = text_in(item, "type")
            call_id = text_in(item, "call_id")
            found = [self._numbers.get(text_in(item, "id"))]
            if call_id:
                found.append(calls.get(call_id))
            known = next((each for each in found if each in free), None)
            if known is None or free[known].kind not in ("", kind):
                known = _first(alike[kind, text_in(item, "name")], free)
            if known is None:
                known = self._begin(kind, text_in(item, "id"), None)
            free.pop(known, None)
            final.append(known)
        listed = Counter(text_in(item, "type") for item in items)
        if all(listed[slot.kind] >= came[slot.kind] for slot in free.values()):
            self._final = final
        return final


def _first(queue: deque[int], free: Mapping[int, Slot]) -> int | None:
    """Take the first number that is free from a queue; None if there is none."""
    while queue:
        number = queue.popleft()
        if number in free:
            return number
    return None
