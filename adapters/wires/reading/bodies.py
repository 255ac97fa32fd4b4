"""Read a reply in one piece: what the decoders of all protocols share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import define

from rungwise.adapters.wires.backend import Decoder
from rungwise.adapters.wires.counts import counted, counted_in
from rungwise.adapters.wires.draft import classified, malformed
from rungwise.adapters.wires.json_text import framed, load
from rungwise.adapters.wires.reading.events import Events
from rungwise.adapters.wires.unread import MAY_HOLD_A_CALL, doubted, holds_a_call
from rungwise.fsm.replies.failures.bare import is_bare_error
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply


@define(eq=False, repr=False)
class BodyDecoder(Decoder):
    """Turn a whole body into a reply or a failure; a protocol says in `read_object` how."""

    BODIES: ClassVar[Events] = Events()
    """What its whole bodies look like."""

    READS_EVENTS: ClassVar[bool] = True
    """Whether its streams are server-sent events."""

    # the response's headers, for the classification of an error inside the reply
    headers: Mapping[str, str]
    provider: str = ""  # whose reply it is

    def whole(self, body: bytes) -> Reply | Failure:
        """Read a whole body with a status of success, which may also come instead of a stream."""
        try:
            value = load(body)
        except ValueError:
            return self._lines(body)
        if not self.BODIES.is_usual(value):
            bodies = self.BODIES.events_in(value)
            if len(bodies) == 1:
                [value] = bodies
        if not isinstance(value, dict):
            return self.read_other(value, body)
        reply = self.read_object(value, body)
        if isinstance(reply, Reply):
            if not reply.tool_calls and MAY_HOLD_A_CALL.search(body) and holds_a_call(value):
                reply = doubted(reply)
            if reply.usage.estimated:
                return counted(reply, counted_in(value), is_all=True)
            return reply
        if reply.reason == "malformed" and is_bare_error(value):
            return classified(None, self.headers, body)
        return reply

    def _lines(self, body: bytes) -> Reply | Failure:
        """Read a body that is no JSON as a whole: the events of a stream, with no frame around."""
        events = framed(body) if self.READS_EVENTS else b""
        if not events:
            return malformed("the body is not JSON, or too much of it")
        lines = type(self)(self.headers, self.provider)
        lines.feed(events)
        return lines.close()

    @abstractmethod
    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the JSON object of a whole body."""

    def read_other(self, value: object, body: bytes) -> Reply | Failure:
        """Read a whole body that is JSON and no object."""
        return malformed("the body is not a JSON object")
