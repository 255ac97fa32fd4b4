"""Split a stream of server-sent events with numbers: each is handed over once, in its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.reading.lines import EventHandler
from rungwise.adapters.wires.reading.sse import EventReader
from rungwise.fsm.replies.assembly.order import NEVER, Disorder, Order

_LONGEST: Final = 16
"""No number of an event has as many digits."""
Event = tuple[dict[str, Any], bytes, bytes]
"""The object of an event, the bytes that it came as, and its name."""


@define(eq=False, repr=False)
class NumberedReader(EventReader):
    """Hand the events of one stream to its handler, in the order of their numbers."""

    _order: Order[Event] = field(factory=Order, init=False)

    def __attrs_post_init__(self) -> None:
        self._alike.order = self._order

    @property
    def last(self) -> str | None:
        """Return the number up to which all events have come; None if that is not known."""
        last = self._order.last
        return None if last is None else str(last)

    @property
    def has_gap(self) -> bool:
        """Tell whether an event is missing of a stream that goes on."""
        return self._order.has_gap

    def reopen(self) -> None:
        """Forget what the end of a response has cut."""
        super().reopen()
        self._order.reopen()

    def close(self, handler: EventHandler) -> None:
        """Hand over what the end of the stream cut, and what waited for it."""
        super().close(handler)
        self._hand_over(self._order.release(), handler)

    def _take_end(self, handler: EventHandler) -> None:
        self._hand_over(self._order.release(), handler)
        super()._take_end(handler)

    def _take_object(
        self,
        value: dict[str, Any],
        data: bytes,
        name: bytes,
        handler: EventHandler,
    ) -> None:
        event = (value, data, name)
        number = value.get("sequence_number")
        if isinstance(number, str) and number.isdecimal() and len(number) < _LONGEST:
            number = int(number)
        if type(number) is not int and self._order.is_rest:
            number = NEVER
        if type(number) is not int:
            self._hand_over([*self._order.release(), event], handler)
            return
        try:
            events = self._order.take(number, b"data:" + data, event)
        except Disorder:
            handler.take_broken()
            return
        self._hand_over(events, handler)
        self._alike.expect(self._order.expected)

    def _hand_over(self, events: Iterable[Event], handler: EventHandler) -> None:
        for value, data, name in events:
            if not handler.finished:
                super()._take_object(value, data, name, handler)
