"""Tell the items of a streamed reply apart.

Theory
------

A reply is a row of items: messages, reasoning, calls, and what only its provider knows. An event
names its item by an id and by an index, and servers get either wrong. Some give every piece another
id [lidge-jun/opencodex#996], some all items one index [BerriAI/litellm#36375], some none at all
[ggml-org/llama.cpp#20607], some count the pieces of an item otherwise than its beginning
[Wei-Shaw/sub2api#4294, vercel/ai#11771], some leave out how items begin or end, and in the response
at the end ids and order may be new again.

So an item is known by what stays the same. A known id names its item, whatever the index. With a
new id, the index counts where the item there is of the same kind and still open; where it is of
another kind, the index is the same for all, and the event belongs to the last item of its kind that
is open. An announcement under a new id is a new item.

The items of a whole response at the end are the last versions of those that came: by their ids, the
ids of their calls, or their order among those of a kind and a name. What came and is not among them
stays, unless as many of its kind are: a shorter list takes nothing away.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from rungwise.fsm.replies.assembly.arguments import Arguments


@define(eq=False)
class Item:
    """Hold one item while it arrives."""

    kind: str  # what it is, in its protocol's word; "" if that is not known yet
    about: dict[str, Any] = field(factory=dict, init=False)  # its announcement, or latest version
    id: str = field(default="", init=False)
    call_id: str = field(default="", init=False)  # of a call
    name: str = field(default="", init=False)  # of its tool
    index: int | None = field(default=None, init=False)
    number: int = field(default=0, init=False)  # in the order in which items began
    is_over: bool = field(default=False, init=False)
    arguments: Arguments = field(factory=Arguments, init=False)  # of a call


@frozen
class Names:
    """Hold what an item of a whole response is known by; "" is nothing."""

    kind: str
    id: str = ""
    call_id: str = ""
    name: str = ""


I = TypeVar("I", bound=Item)  # noqa: E741


@define(eq=False)
class Items(Generic[I]):
    """Find the item of each event."""

    make: Callable[[str], I]
    """Returns an item of a kind."""
    all: list[I] = field(factory=list, init=False)
    """The items, in the order in which they began."""
    _by_id: dict[str, I] = field(factory=dict, init=False)
    _by_index: dict[int, I] = field(factory=dict, init=False)  # the last one at each index
    _last: dict[str, I] = field(factory=dict, init=False)  # the last one of each kind
    # those of each kind that are open, by their numbers
    _open: dict[str, dict[int, I]] = field(factory=lambda: defaultdict(dict), init=False)
    _final: list[I] = field(factory=list, init=False)  # those of the response at the end

    def begin(
        self,
        kind: str,
        *,
        id: str = "",
        index: int | None = None,
    ) -> I:
        """Begin an item, and return it.

        Arguments:
            kind: of the item.
            id: what it is known by, or "".
            index: where it stands, or None.
        """
        item = self.make(kind)
        item.number = len(self.all)
        item.id = id
        item.index = index
        self.all.append(item)
        self._last[kind] = item
        self._open[kind][item.number] = item
        if id:
            self._by_id[id] = item
        if index is not None:
            self._by_index[index] = item
        return item

    def clear(self) -> None:
        """Forget all items: a whole reply replaces them."""
        self.all.clear()
        self._by_id.clear()
        self._by_index.clear()
        self._last.clear()
        self._open.clear()

    def name(self, item: I, id: str) -> None:
        """Note an id of an item that it has besides its first one; "" is none."""
        if id:
            item.id = item.id or id
            self._by_id[id] = item

    def become(self, item: I, kind: str) -> None:
        """Note what kind an item turns out to be."""
        if kind == item.kind:
            return
        self._open[item.kind].pop(item.number, None)
        item.kind = kind
        self._last[kind] = item
        if not item.is_over:
            self._open[kind][item.number] = item

    def end(self, item: I) -> None:
        """Note that an item is over."""
        item.is_over = True
        self._open[item.kind].pop(item.number, None)

    def known(self, id: str | None, index: int) -> I:
        """Return the item with an id, or for none the last one at an index.

        Raises:
            KeyError: there is none.
        """
        return self._by_id[id] if id else self._by_index[index]

    def at(self, index: int) -> I | None:
        """Return the last item at an index, or None."""
        return self._by_index.get(index)

    def open_of(self, *kinds: str) -> I | None:
        """Return the only open item of some kinds, or the last one if none is open; else None."""
        are_open = [item for kind in kinds for item in self._open[kind].values()]
        if len(are_open) == 1:
            return are_open[0]
        last = [self._last[kind] for kind in kinds if kind in self._last]
        if are_open or not last:
            return None
        return max(last, key=lambda item: item.number)

    def find(
        self,
        kind: str,
        *,
        id: str = "",
        index: int | None = None,
        begins: bool = False,
    ) -> I | None:
        """Return the item of an event, or None if nothing of it has come before.

        Arguments:
            kind: of the item.
            id: the id that the event names, or "".
            index: the index that it names, or None.
            begins: whether it announces the item.
        """
        item = self._by_id.get(id)
        if item is None:
            item = self._of_new_id(kind, id, index, begins=begins)
        if item is not None and index is not None:
            self._by_index[index] = item
        return item

    def _of_new_id(
        self,
        kind: str,
        id: str,
        index: int | None,
        *,
        begins: bool,
    ) -> I | None:
        """Return the item of an event whose id is new, or None if it is new itself.

        Arguments:
            kind, id, index, begins: as for `find`.
        """
        there = None if index is None else self._by_index.get(index)
        if there is not None and there.kind in ("", kind):
            is_another = there.is_over or (id and there.id)
            return None if begins and is_another else there
        last = self._last.get(kind)
        if last is None or begins or (index is not None and there is None):
            return None
        return None if id and last.is_over else last

    def in_order(self) -> list[I]:
        """Return the items as they stand in the reply.

        The response at the end says it; else their indexes do, if no two are the same.
        """
        if self._final:
            return self._final
        places: dict[int, I] = {}
        for item in self.all:
            place = item.number
            if item.index is not None:
                place = item.index
            places[place] = item
        if len(places) < len(self.all):
            return self.all
        return [places[place] for place in sorted(places)]

    def settle(self, versions: Sequence[Names]) -> list[I]:
        """Take the items of the response at the end, which say the order; return each one."""
        came = list(self.all)
        free = {item.number for item in came}
        by_call = {item.call_id: item for item in reversed(came)}
        alike: dict[tuple[str, str], list[I]] = defaultdict(list)
        for item in came:
            alike[item.kind, item.name].append(item)
        # each is looked at once, however many versions there are
        waiting = {names: iter(items) for names, items in alike.items()}
        final = []
        for each in versions:
            candidates = [self._by_id.get(each.id)]
            if each.call_id:
                candidates.append(by_call.get(each.call_id))
            known = _first(candidates, free)
            if known is None or known.kind not in ("", each.kind):
                known = _first(waiting.get((each.kind, each.name), ()), free)
            if known is None:
                known = self.begin(each.kind, id=each.id)
            free.discard(known.number)
            final.append(known)
        self._take_order(final, came)
        return final

    def _take_order(self, final: list[I], came: Sequence[I]) -> None:
        """Take the items of the end as the reply, unless it lacks some that came.

        Arguments:
            final: those of the end.
            came: those that came before it.
        """
        listed = Counter(item.kind for item in final)
        had = Counter(item.kind for item in came)
        kept = {item.number for item in final}
        missing = [item.kind for item in came if item.number not in kept]
        if all(listed[kind] >= had[kind] for kind in missing):
            self._final = final


def _first(items: Iterable[I | None], free: Collection[int]) -> I | None:
    """Return the first item that is free, or None."""
    for item in items:
        if item is not None and item.number in free:
            return item
    return None
