"""An event of a reply before it is framed: what manners change.

The renderers yield frames, one an event: a server-sent event, a line of JSON, or a binary frame. A
manner wants what is in it. So each frame is opened and, when the manners have done their work,
closed again in the same way. A reply that is not streamed is one event.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, Self

import orjson
from attrs import define

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.adapters.gateway.languages.language import event

_BINARY: Final = re.compile(rb".*:event-type\x07..(\w+)\x0d:content-type.*?(\{.*\}).{4}", re.DOTALL)
"""A binary frame: its headers, of which one names the event, its payload and a checksum."""


@define
class WireEvent:
    """Hold one event.

    Arguments:
        value: its object; bytes for an event that is none, and for one that no manner changes.
        name: what its frame calls it.
    """

    value: Any
    name: str = ""

    def copy(self) -> Self:
        """Return another event that says the same."""
        return deepcopy(self)


Events = list[WireEvent]


def opened_event(frame: bytes) -> WireEvent:
    """Read a server-sent event."""
    head, _, data = frame.rstrip().rpartition(b"data: ")
    name = head.removeprefix(b"event: ").strip().decode()
    return WireEvent(orjson.loads(data) if data.startswith(b"{") else data, name)


def closed_event(said: WireEvent) -> bytes:
    """Write a server-sent event."""
    return event(said.value, said.name)


def opened_line(frame: bytes) -> WireEvent:
    """Read an object that is a line, or a whole body."""
    return WireEvent(orjson.loads(frame))


def closed_line(said: WireEvent) -> bytes:
    """Write an object as a line."""
    return orjson.dumps(said.value) + b"\n"


def closed_body(said: WireEvent) -> bytes:
    """Write an object as a whole body."""
    return orjson.dumps(said.value)


def opened_binary(frame: bytes) -> WireEvent:
    """Read a binary frame; an exception stays as it is."""
    match = _BINARY.fullmatch(frame)
    return WireEvent(orjson.loads(match[2]), match[1].decode()) if match else WireEvent(frame)


def closed_binary(said: WireEvent) -> bytes:
    """Write a binary frame."""
    return said.value if isinstance(said.value, bytes) else frame(said.name, said.value)


Framing = tuple[Callable[[bytes], WireEvent], Callable[[WireEvent], bytes]]
FRAMINGS: Final[dict[str, Framing]] = {
    "text/event-stream": (opened_event, closed_event),
    "application/x-ndjson": (opened_line, closed_line),
    "application/vnd.amazon.eventstream": (opened_binary, closed_binary),
    "application/json": (opened_line, closed_body),
}
"""How the frames of each media type are opened and closed."""
