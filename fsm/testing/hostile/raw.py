"""Raw responses: the bytes that a server writes, their form in TOML, and healthy replies to
spoil.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar, get_args

from attrs import field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_number, is_whole, must, must_be_one_of
from rungwise.fsm.values.files import ascii_toml, read_toml

Ending = Literal["close", "reset", "hold", "keep"]
"""What follows the last byte: the end, a TCP reset, silence, or the next request on the same
connection.
"""

_BYTES = must("bytes", lambda value: isinstance(value, bytes), names_class=True)
_SECONDS = must(
    "a number of seconds, 0 or more",
    lambda value: is_number(value, 0, sys.float_info.max),
    names_class=True,
)
_TIMES = must("a whole number above 0", lambda value: is_whole(value, 1), names_class=True)


@frozen
class RawStep:
    """Write these bytes, so many times, and wait some seconds before each time."""

    data: bytes = field(validator=_BYTES)
    delay: float = field(default=0.0, validator=_SECONDS)
    times: int = field(default=1, validator=_TIMES)

    def __repr__(self) -> str:
        data = self.data if len(self.data) <= 40 else self.data[:40] + b"..."
        return f"RawStep({data!r}, delay={self.delay:g}, times={self.times})"


@frozen
class RawResponse:
    """The bytes that a server writes to one request, up to the end of the connection."""

    steps: tuple[RawStep, ...] = field(converter=tuple[RawStep, ...])
    ending: Ending = field(
        default="close", validator=must_be_one_of(get_args(Ending), names_class=True)
    )
    kind: str = "healthy"  # in what way it is hostile
    # what a reader may make of it; None for anybody's guess
    says: str | None = field(default=None, repr=False)
    # whether it may end a call as `done`: its terminal event has come, and nothing is lost
    is_whole: bool = True


def write_responses(responses: Iterable[RawResponse]) -> str:
    """Write responses as TOML, which `read_responses` takes."""
    return "\n".join("".join(_lines(response)) for response in responses)


def _lines(response: RawResponse) -> Iterator[str]:
    yield "[[responses]]\n"
    yield f"kind = {ascii_toml(response.kind)}\nending = {ascii_toml(response.ending)}\n"
    if response.says is not None:
        yield f"says = {ascii_toml(response.says)}\n"
    if not response.is_whole:
        yield "is_whole = false\n"
    for step in response.steps:
        yield f"\n[[responses.steps]]\ndata = {ascii_toml(step.data.decode('latin-1'))}\n"
        yield f"delay = {step.delay!r}\n" if step.delay else ""
        yield f"times = {step.times}\n" if step.times != 1 else ""


def read_responses(text: str) -> list[RawResponse]:
    """Read responses from TOML.

    Raises:
        ConfigurationError: the text is not TOML, or a field is missing, unknown or invalid.
    """
    try:
        return [_read_response(each) for each in read_toml(text)["responses"]]
    except ConfigurationError as error:
        raise ConfigurationError(f"responses: {error}") from None
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise ConfigurationError(f"responses: not of their form: {error}") from None


def _read_response(value: Mapping[str, Any]) -> RawResponse:
    steps = [
        RawStep(**{**step, "data": step["data"].encode("latin-1")})
        for step in value.get("steps", ())
    ]
    return RawResponse(**{**value, "steps": steps})


# what the valid replies say
TEXT: Final = "The kingfishers nest in the steep bank, 🪜 above the river."

DONE: Final = b"data: [DONE]\n\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

T = TypeVar("T")


@frozen
class ValidReply:
    """A reply as a well-behaved server writes it: the events of a stream, or one piece."""

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

    def response(
        self, data: bytes, ending: Ending = "close", *, is_whole: bool = True
    ) -> RawResponse:
        """Return a response of these bytes, of which a reader may make what this reply says."""
        return RawResponse(
            [RawStep(data)] if data else [], ending, says=self.text, is_whole=is_whole
        )

    def chunked_head(self, *headers: bytes) -> bytes:
        """Write the head of a response in chunks."""
        return self.head(b"transfer-encoding: chunked", *headers)


def valid_reply(*, streams: bool, text: str = TEXT) -> ValidReply:
    """Write a reply that no reader has any trouble with."""
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": -(-len(text) // 4),
        "total_tokens": 9 + -(-len(text) // 4),
    }
    if not streams:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
        return ValidReply(False, (json_bytes(whole),), text)
    size = max(1, len(text) // 4)
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[start : start + size]} for start in range(0, len(text), size)]
    events = [
        *map(delta_event, deltas),
        delta_event({}, finish="stop"),
        event({"choices": [], "usage": usage}),
    ]
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
    return event(
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    )


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
