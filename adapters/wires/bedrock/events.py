"""Take the events of a Bedrock stream apart: botocore's parser reads each of them, and here they are cut out for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from attrs import define, field

from rungwise.adapters.wires.bedrock.signing import botocore
from rungwise.adapters.wires.json_text import load
from rungwise.adapters.wires.sse import EventHandler

_PRELUDE: Final = 12
_SHORTEST: Final = 16
_LONGEST: Final = 32 * 2**20
"""Bytes of an event; botocore takes 24 MiB of payload."""


def _new_buffer() -> Any:
    return botocore("eventstream").EventStreamBuffer()


@define(eq=False, repr=False)
class FrameReader:
    """Hand the events of one stream to its handler: each as an object with its name for its one member."""

    is_stream: bool = field(default=False, init=False)
    has_fields: bool = field(default=False, init=False)
    has_halves: bool = field(default=False, init=False)
    plain: bytearray = field(factory=bytearray, init=False)
    _rest: bytearray = field(factory=bytearray, init=False)
    _parser: Any = field(factory=_new_buffer, init=False)

    @property
    def size(self) -> int:
        """Return how many bytes are held."""
        return len(self._rest) + len(self.plain)

    def feed(self, data: bytes, handler: EventHandler) -> None:
        """Take bytes cut anywhere and hand over what they bring, until the handler has finished."""
        if not data:
            return
        if not self.is_stream and (self.plain or data[0] > 1):  # the length of an event begins with a zero or a one
            self.plain += data
            return
        self.is_stream = True
        self._rest += data
        place = 0
        while not handler.finished and len(self._rest) - place >= _PRELUDE:
            length = int.from_bytes(self._rest[place : place + 4], "big")
            if not _SHORTEST <= length <= _LONGEST:
                handler.take_broken()
                return
            if len(self._rest) - place < length:
                break
            # The parser copies what it holds for each event, so it is never given more than one.
            self._take(bytes(self._rest[place : place + length]), handler)
            place += length
        del self._rest[:place]

    def close(self, handler: EventHandler) -> None:
        """Forget an event that the end of the stream has cut."""
        self._rest.clear()

    def _take(self, frame: bytes, handler: EventHandler) -> None:
        try:
            self._parser.add_data(frame)
            message = next(self._parser)
        except Exception:  # botocore raises whatever its unpacking meets: struct.error, KeyError, its own
            handler.take_broken()
            return
        headers, payload = message.headers, message.payload
        kind = headers.get(":message-type")
        if kind == "event":
            self._take_event(str(headers.get(":event-type")), payload, handler)
        else:
            code = headers.get(":exception-type") or headers.get(":error-code") or ""
            handler.take_error(_error(str(code), payload, headers.get(":error-message")))

    def _take_event(self, name: str, payload: bytes, handler: EventHandler) -> None:
        try:
            value = load(payload)
        except ValueError:
            handler.take_broken()
            return
        self.has_halves = self.has_halves or b"\\u" in payload
        event = {name: value}
        piece = handler.piece_in(event)
        if piece is None:
            handler.take_value(event, payload, is_error=False)
        else:
            handler.take_piece(*piece)


def _error(code: str, payload: bytes, message: Any) -> bytes:
    """Return an error as the body of a response tells it."""
    told: dict[str, Any] = {}
    try:
        value = load(payload) if payload else {}
    except ValueError:
        value = {}
    if isinstance(value, Mapping):
        told = {name: value[name] for name in ("message", "originalMessage", "originalStatusCode") if name in value}
    if isinstance(message, str):
        told.setdefault("message", message)
    try:
        return orjson.dumps({"__type": code, **told})
    except TypeError:  # halves of surrogate pairs
        return orjson.dumps({"__type": code.encode("utf-8", "replace").decode()})
