"""Split a stream of server-sent events from bytes cut anywhere; each event holds a JSON object.

Theory
------

**The format** is that of the HTML standard, section "Server-sent events". A stream is lines that
end in a line feed, a return, or both. A line `data: ...` adds to the data of an event, `event: ...`
names it, `id:` tells it from others (`Replays`), `retry:` and comments say nothing of a reply, and
a blank line ends the event.

**Lines.** `LineSplitter.feed` splits all bytes that came at once at their line feeds and keeps what
follows the last one for the next time. So every byte is looked at once, in C, wherever a network
cuts the stream. Returns are replaced before that, and only if any came: most servers send none. A
return at the end of some bytes may have its line feed in the next, so that one is removed there.

**Events.** The standard ends an event at a blank line. Here a `data:` line that is a JSON object by
itself is an event at once: every provider writes one object a line, and a reader that waited for
the blank line would show each piece of text one packet late. Nothing is lost by it, as no JSON
object is the beginning of another one. A line that is no object waits for the lines that follow and
is read with them at the blank line, as the standard says.

**Alike lines.** Two events of one reply mostly differ in nothing but their text. `AlikeLines`
learns the bytes around the text from one event, checks by a second parse that they really are
around it, and from then on cuts the text out of every line that begins and ends with these bytes.
Such a line costs two comparisons and the parse of one string, not of the whole object. Lines inside
an event that has begun are never read so: its name or its earlier data could change what they say.

**What servers add**, seen in the wild: a byte-order mark or blanks before the first line; `[DONE]`;
a line `error: {...}` outside of any event (llama.cpp); a whole JSON body where a stream was asked
for, which `plain` keeps for the decoder; an error that a proxy framed as an event (`unframed`).

**What it costs.** For each event of 334 bytes that arrives by itself, on CPython 3.11:

    1.6 µs  here, with its text gathered
    4.4 µs  httpx-sse 0.4 over httpx's line decoder
    3.0 µs  lines, and the standard library's json
    1.1 µs  orjson on bare lines, for comparison: no names, no events of several lines, no errors

Splitting is most of what reading a stream costs, which is why no library does it here. Memory is
bounded: the drivers stop a stream whose `size` grows beyond their limits, and JSON that would
become too many objects is never parsed (`is_heavy`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import orjson
from attrs import define, field

from rungwise.adapters.wires.backend import PIECE
from rungwise.adapters.wires.json_text import LIGHT, is_heavy, load
from rungwise.adapters.wires.reading.lines import EventHandler, LineSplitter
from rungwise.fsm.replies.assembly.copies import Replays
from rungwise.fsm.replies.failures.bare import is_bare_error
from rungwise.fsm.replies.text.contents import exact

_RETURN: Final = b"\r"[0]  # as a number, which is found in an eighth of the time
_BOM: Final = b"\xef\xbb\xbf"
_DONE: Final = b"[DONE]"
_EVENT: Final = b"event:"
_ERROR: Final = b"error"
_ERROR_LINE: Final = b"error:"  # llama.cpp's, often as the first line
_ID: Final = b"id:"
_FIELDS: Final = (b":", b"retry:")
_OBJECT: Final = (b" {", b"{")
_VALUES: Final = (b"{", b"[", b'"')
"""How JSON begins that may hold events."""
_FRAMES: Final = re.compile(rb"^(?:\s*data:)+")
"""What some proxies put before the data of an event that was framed already
[paiml/aprender#2015, openclaw/openclaw#96497]."""
_MOST_STRAYS: Final = 100


@define(eq=False, repr=False)
class EventReader(LineSplitter):
    """Hand the events of one stream to its handler.

    Data of several lines is an event when a blank line ends it; a line that is an object by itself
    is one at once. With `ignores_names` the data repeats the name of an event, except for "error";
    `alike` learns what surrounds the text of an event. With `names_types` the name is the type of
    data that says none, as some proxies leave it out.
    """

    ignores_names: bool = False
    names_types: bool = False
    _ended_in_return: bool = field(default=False, init=False)
    _name: bytes = field(default=b"", init=False)  # of the event that has not ended
    _ignored: bytes = field(default=b"\n", init=False)  # the last line of a name that says nothing
    # its lines that are not JSON yet, with line feeds
    _pending: bytearray = field(factory=bytearray, init=False)
    _tail: bytearray = field(factory=bytearray, init=False)  # an object in several lines, no event
    _strays: int = field(default=0, init=False)
    _id: bytes = field(default=b"", init=False)  # of the event that has not ended
    _replays: Replays = field(factory=Replays, init=False)

    def take_last_alike(self) -> bytes:
        """Return the last event that was not parsed, once; nothing if none came since."""
        last = self._alike.last
        self._alike.last = b""
        return last

    @property
    def size(self) -> int:
        """Return how many bytes are held."""
        return super().size + len(self._pending)

    @property
    def _is_within(self) -> bool:
        return self._pending != b"" or self._name != b"" or self._id != b""

    def feed(self, data: bytes, handler: EventHandler) -> None:
        """Take bytes cut anywhere and hand over what they bring, until the handler has finished."""
        if _RETURN in data or self._ended_in_return:
            data = self._with_line_feeds(data)
        super().feed(data, handler)

    def reopen(self) -> None:
        """Forget what the end of a response has cut."""
        super().reopen()
        self._pending.clear()
        self._name = b""
        self._id = b""

    def close(self, handler: EventHandler) -> None:
        """Hand over what the end of the stream cut."""
        if self._rest and not handler.finished:
            self.feed(b"\n", handler)
        self._rest.clear()
        if self._pending and not handler.finished:
            self._end_event(handler, is_cut=True)
        self._release(handler)
        if self._tail and not handler.finished:
            with suppress(ValueError):
                handler.take_stray(b"", load(bytes(self._tail)))

    def _with_line_feeds(self, data: bytes) -> bytes:
        """Make every line end in a line feed only.

        A return and its line feed may arrive separately.
        """
        if self._ended_in_return and data:
            data = data.removeprefix(b"\n")
            self._ended_in_return = False
        if data.endswith(b"\r"):
            self._ended_in_return = True
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take_line(self, line: bytes, handler: EventHandler) -> None:
        if not line:
            self._id = b""
            if self._pending or self._name:
                self._end_event(handler)
        elif line == self._ignored:
            self._name = b""
        elif line.startswith(b"data:"):
            self._take_data(line[5:], handler)
        elif line.startswith(_EVENT):
            name = line[len(_EVENT) :].strip()
            if self.ignores_names and name != _ERROR:
                self._name = b""
                self._ignored = line  # so that the next such line is not even split
            else:
                self._name = name
        elif line.startswith(_ID):
            self._id = line[len(_ID) :].strip()
            self.has_fields = True
        elif line.startswith(_FIELDS):
            self.has_fields = True
        else:
            self._take_stray(line, handler)

    def _take_data(self, data: bytes, handler: EventHandler) -> None:
        """Take the rest of a line of data: an event at once if it is an object by itself."""
        self.is_stream = True
        if not data.startswith(_OBJECT) and not self._pending:
            data = _FRAMES.sub(b"", data)
        if self._pending or not (data.startswith(_OBJECT) or _is_object(data)):
            if data.strip() == _DONE and not self._pending:
                self._release(handler)
                self._take_end(handler)
            else:
                self._pending += data + b"\n"
            return
        if len(data) > LIGHT and is_heavy(data):
            handler.take_broken()
            return
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            # the beginning of an object in several lines, or half a surrogate pair, which `load`
            # accepts
            self._pending += data + b"\n"
            return
        id = self._id
        self._id = b""
        if id and self._replays.is_again(id, data):
            return
        if self.names_types and "type" not in value and not self._name:
            name = self._ignored[len(_EVENT) :].strip()
            if name:
                value["type"] = name.decode(errors="replace")
        name = self._name  # which may be that of another event once this one is handed over
        if self._first is None:
            self._take_object(value, data, name, handler)
        else:
            event = partial(self._take_object, value, data, name, handler)
            self._hand_on(data, event, handler)

    def _take_end(self, handler: EventHandler) -> None:
        handler.take_end()

    def _take_object(
        self,
        value: dict[str, Any],
        data: bytes,
        name: bytes,
        handler: EventHandler,
    ) -> None:
        """Hand over an event.

        Arguments:
            value: the event.
            data: its bytes.
            name: its name, if that says more than the event.
            handler: receives it.
        """
        piece = None
        if not name:
            piece = handler.piece_in(value)
        if piece is None:
            is_error = name == _ERROR or is_bare_error(value)
            handler.take_value(exact(value, data), data, is_error=is_error)
        else:
            handler.take_piece(*piece)
            if self._first is None:
                self._alike.learn(b"data:", data, piece, handler.piece_in)

    def _end_event(self, handler: EventHandler, *, is_cut: bool = False) -> None:
        """Hand over an event of several lines; what the end of the stream cut may be dropped."""
        data = bytes(self._pending[:-1])
        self._pending.clear()
        is_error = self._name == _ERROR
        self._name = b""
        if data and self.copies is not None:
            self._give_up_copies(handler)
        if not data.lstrip().startswith(_VALUES):
            if is_error and data.strip() not in (b"", b"null"):
                handler.take_error(data)
            else:
                handler.take_stray(_ERROR if is_error else data, None)
            return
        try:
            value = load(data)
        except ValueError:
            if is_error:
                handler.take_error(data)
            elif not _is_object(data):
                handler.take_stray(data, None)
            elif not is_cut:
                handler.take_broken()
        else:
            handler.take_halves()
            handler.take_value(value, data, is_error=is_error or is_bare_error(value))

    def _take_stray(self, line: bytes, handler: EventHandler) -> None:
        """Take a line that belongs to no event.

        It is a line of another kind of body, or an error outside of the events.
        """
        data = line.removeprefix(_ERROR_LINE)
        is_error = data != line
        if not (self.is_stream or is_error):
            self._take_first(line, handler)
            return
        value = self._stray_object(data)
        begins = self.is_stream and value is None and line.startswith(b"{")
        if (begins or self._tail) and len(self._tail) < PIECE:
            self._tail += line + b"\n"
        if self.is_stream:
            handler.take_stray(line, None if is_error else value)
        elif value is None:
            self.plain += line + b"\n"
        if is_error and value is not None:
            handler.take_error(data)

    def _take_first(self, line: bytes, handler: EventHandler) -> None:
        """Take a line before any event.

        Some servers begin the first line with a mark or with blanks. Any other line is part of a
        body that is no stream.
        """
        if not self.plain:
            bare = line.lstrip(_BOM + b" \t")
            if bare and bare != line:
                self._take_line(bare, handler)
                return
        self.plain += line + b"\n"

    def _stray_object(self, data: bytes) -> Mapping[str, Any] | None:
        """Return the object in a line, for the first stray lines only."""
        if not _is_object(data) or self._strays >= _MOST_STRAYS:
            return None
        self._strays += 1
        try:
            value: Mapping[str, Any] = load(data)
        except ValueError:
            return None
        return value


def _is_object(data: bytes) -> bool:
    """Tell whether data may be an object: anything else is not worth parsing."""
    return data.lstrip().startswith(b"{")
