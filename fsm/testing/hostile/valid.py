"""Replies as a well-behaved server writes them, which hostile ones are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from attrs import frozen
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.testing.hostile.raw import Ending, RawResponse, RawStep

TEXT: Final = "The kingfishers nest in the steep bank, 🪜 above the river."
"""What the valid replies say."""

DONE: Final = b"data: [DONE]\n\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

T = TypeVar("T")


@frozen
class ValidReply:
    """Hold a reply as a well-behaved server writes it.

    Arguments:
        streams: whether as an event stream.
        events: its body in pieces: the events of a stream, or all of it at once.
        text: what it says.
    """

    streams: bool
    events: tuple[bytes, ...]
    text: str

    @property
    def body(self) -> bytes:
        """Return the whole body."""
        return b"".join(self.events)

    @property
    def length(self) -> bytes:
        """Write the header that tells how long the body is."""
        return b"content-length: %d" % len(self.body)

    def is_whole_in(self, arrived: bytes) -> bool:
        """Tell whether the end of the reply is in what has arrived of its body."""
        return b'"finish_reason":"stop"' in arrived if self.streams else self.body in arrived

    def head(self, *headers: bytes, status: bytes = b"200 OK") -> bytes:
        """Write the status line and the headers, with the type of this body."""
        kind = b"text/event-stream" if self.streams else b"application/json"
        lines = (b"HTTP/1.1 " + status, b"content-type: " + kind, *headers)
        return b"".join(line + b"\r\n" for line in (*lines, b""))

    def written(self, body: bytes | None = None, *headers: bytes) -> bytes:
        """Write the whole response with a length; of another body where one is given."""
        body = self.body if body is None else body
        return self.head(b"content-length: %d" % len(body), *headers) + body

    def response(self, data: bytes, ending: Ending = "close", *, is_whole: bool = True) -> RawResponse:
        """Return a response of these bytes, of which a reader may make what this reply says."""
        return RawResponse([RawStep(data)] if data else [], ending, says=self.text, is_whole=is_whole)

    def chunked_head(self, *headers: bytes) -> bytes:
        """Write the head of a response in chunks."""
        return self.head(b"transfer-encoding: chunked", *headers)


def valid_reply(*, streams: bool, text: str = TEXT) -> ValidReply:
    """Write a reply that no reader has any trouble with.

    Arguments:
        streams: whether as an event stream.
        text: what it says.
    """
    usage = {"prompt_tokens": 9, "completion_tokens": -(-len(text) // 4), "total_tokens": 9 + -(-len(text) // 4)}
    if not streams:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
        return ValidReply(False, (json_bytes(whole),), text)
    size = max(1, len(text) // 4)
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[start : start + size]} for start in range(0, len(text), size)]
    events = [*map(delta_event, deltas), delta_event({}, finish="stop"), event({"choices": [], "usage": usage})]
    return ValidReply(True, (*events, DONE), text)


def json_bytes(value: object) -> bytes:
    """Write JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def event(value: object) -> bytes:
    """Write one event of a stream."""
    return b"data: " + json_bytes(value) + b"\n\n"


def delta_event(delta: Mapping[str, Any], *, finish: str | None = None) -> bytes:
    """Write the event of one delta."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


def chunk(data: bytes) -> bytes:
    """Write one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def healthy_response(*, streams: bool, text: str = TEXT) -> RawResponse:
    """Return a valid reply on a connection that stays open."""
    reply = valid_reply(streams=streams, text=text)
    return reply.response(reply.written(), "keep")


def pick(draw: DrawFn, *values: T) -> T:
    """Draw one of these values, and shrink to the first."""
    return draw(st.sampled_from(values))


Hostility = Callable[[DrawFn, ValidReply], RawResponse]
"""Makes a hostile response of a valid reply."""
