"""What the readers of all streams share: whom they hand events to, and how they split lines.

`sse.py` has the theory of lines, and `Copies` that of events which come twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from attrs import define, field

from rungwise.adapters.wires.reading.alike_lines import AlikeLines, Piece
from rungwise.fsm.replies.assembly.copies import Copies


class EventHandler(Protocol):
    """Receive the contents of a stream, in order."""

    def piece_in(self, value: Any) -> Piece | None:
        """Return the text of an event that holds nothing else; None if it may hold more."""

    @property
    def finished(self) -> bool:
        """Tell whether no more need be read."""

    def take_piece(self, kind: Any, text: str) -> None:
        """Take a piece of text that an event has brought."""

    def take_value(
        self,
        value: Mapping[str, Any],
        data: bytes,
        *,
        is_error: bool,
    ) -> None:
        """Take the object of any other event, and the bytes that it came as."""

    def take_error(self, data: bytes) -> None:
        """Take an error in any form."""

    def take_broken(self) -> None:
        """End the reply: an event is not JSON, or too much of it.

        Text that follows a lost piece would land in the wrong place.
        """

    def take_stray(self, line: bytes, value: Mapping[str, Any] | None) -> None:
        """Take data that is not an object, or a line between events.

        Arguments:
            line: the bytes.
            value: the object that the line holds, if it holds one.
        """

    def take_halves(self) -> None:
        """Note that strings may hold half a surrogate pair from now on."""

    def take_end(self) -> None:
        """Note that the stream has said that it is over."""


@define(eq=False, repr=False)
class StreamReader(ABC):
    """Split a stream into values, and hand them to its handler."""

    is_stream: bool = field(default=False, init=False)
    # what came in place of a stream, or before its first value
    plain: bytearray = field(factory=bytearray, init=False)
    # a comment, or a field of an event without data
    has_fields: bool = field(default=False, init=False)
    copies: Copies[Callable[[], None]] | None = field(default=None, init=False)
    """What tells copies apart, if the second event is one of the first."""
    _rest: bytearray = field(factory=bytearray, init=False)  # a line or an event that has not ended
    # the first event, and b"" before it; None once it is known that events do not come twice
    _first: bytes | None = field(default=b"", init=False)

    @property
    def size(self) -> int:
        """Return how many bytes are held."""
        waiting = 0 if self.copies is None else self.copies.size
        return len(self._rest) + len(self.plain) + waiting

    @abstractmethod
    def feed(self, data: bytes, handler: EventHandler) -> None:
        """Take bytes cut anywhere and hand over what they bring, until the handler has finished."""

    @abstractmethod
    def forget(self) -> None:
        """Parse the next event, whatever it is like: it may be about something new."""

    def reopen(self) -> None:
        """Forget what the end of a response has cut: the same stream goes on in another one."""
        self._rest.clear()
        self.copies = None
        self._first = b""

    @abstractmethod
    def close(self, handler: EventHandler) -> None:
        """Hand over what the end of the stream cut."""

    def _hand_on(self, data: bytes, event: Callable[[], None], handler: EventHandler) -> None:
        """Hand over an event, unless it is a copy or waits until that is known.

        Arguments:
            data: the bytes of the event.
            event: hands it over.
            handler: takes it.
        """
        if self.copies is None and data != self._first:
            self._first = None if self._first else data
            event()
            return
        if self.copies is None:
            self.copies = Copies(data)
        for each in self.copies.take(data, event):
            if not handler.finished:
                each()
        if self.copies.is_over:
            self._first = None

    def _give_up_copies(self, handler: EventHandler) -> None:
        """Hand over the events that wait before one that cannot be compared."""
        if self.copies is None:
            return
        for each in self.copies.give_up():
            if not handler.finished:
                each()
        if self.copies.is_over:
            self._first = None

    def _release(self, handler: EventHandler) -> None:
        """Hand over the events that wait: nothing follows that would say what they are.

        Behind the end of a reply none is due.
        """
        if self.copies is None or handler.finished:
            return
        for each in self.copies.release():
            if not handler.finished:
                each()


@define(eq=False, repr=False)
class LineSplitter(StreamReader):
    """Split a stream into lines; those like an earlier one are not read again."""

    _alike: AlikeLines = field(factory=AlikeLines, kw_only=True)

    def feed(self, data: bytes, handler: EventHandler) -> None:
        """Take bytes cut anywhere and hand over what they bring, until the handler finishes."""
        lines = data.split(b"\n")
        if self._rest:
            self._rest += lines[0]
            if len(lines) == 1:
                return
            lines[0] = bytes(self._rest)
            self._rest.clear()
        rest = lines.pop()
        if rest:
            self._rest += rest
        alike = self._alike
        for line in lines:
            is_alike = line.startswith(alike.begins) and line.endswith(alike.ends)
            if is_alike and not self._is_within:
                text = alike.text_in(line)
                if text is not None:
                    handler.take_piece(alike.kind, text)
                    continue
            self._take_line(line, handler)
            if handler.finished:
                return

    def forget(self) -> None:
        """Parse the next line, whatever it is like: it may be about something new."""
        self._alike.forget()

    @property
    def _is_within(self) -> bool:
        """Tell whether an event has begun and not ended."""
        return False

    @abstractmethod
    def _take_line(self, line: bytes, handler: EventHandler) -> None:
        """Take any other line."""
