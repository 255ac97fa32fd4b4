"""Raw responses: the bytes that a server writes, their form in TOML, and healthy replies to spoil.

A response is plain data: what to write, when, how often, and how the connection ends. So a fuzz run
can print the responses that broke a client, and `read_responses` reads them back for a test.
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
"""What follows the last byte.

In order: the end of the connection, a TCP reset, silence, or the next request on the connection.
"""

MOST_SHOWN: Final = 40  # bytes of a step in its repr

_BYTES = must("bytes", lambda value: isinstance(value, bytes), names_class=True)
_SECONDS = must(
    "a number of seconds, 0 or more",
    lambda value: is_number(value, 0, sys.float_info.max),
    names_class=True,
)
_TIMES = must("a whole number above 0", lambda value: is_whole(value, 1), names_class=True)


@frozen
class RawStep:
    """Some bytes to write.

    Arguments:
        data: the bytes.
        delay: seconds to wait before each time.
        times: how often they are written.
    """

    data: bytes = field(validator=_BYTES)
    delay: float = field(default=0.0, validator=_SECONDS)
    times: int = field(default=1, validator=_TIMES)

    def __repr__(self) -> str:
        data = self.data
        if len(data) > MOST_SHOWN:
            data = data[:MOST_SHOWN] + b"..."
        return f"RawStep({data!r}, delay={self.delay:g}, times={self.times})"


@frozen
class RawResponse:
    """The bytes that a server writes to one request, up to the end of the connection.

    Arguments:
        steps: the bytes, in order.
        ending: what follows the last of them.
        kind: in what way the response is hostile.
        says: the text that a reader may make of it; None for anybody's guess.
        is_whole: whether it may end a call as `done`: its terminal event comes, and nothing is
            lost.
    """

    steps: tuple[RawStep, ...] = field(converter=tuple[RawStep, ...])
    ending: Ending = field(
        default="close", validator=must_be_one_of(get_args(Ending), names_class=True)
    )
    kind: str = "healthy"
    says: str | None = field(default=None, repr=False)
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
        if step.delay:
            yield f"delay = {step.delay!r}\n"
        if step.times != 1:
            yield f"times = {step.times}\n"


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
    steps = []
    for step in value.get("steps", ()):
        data = step["data"].encode("latin-1")  # each letter stands for the byte of its number
        steps.append(RawStep(**{**step, "data": data}))
    return RawResponse(**{**value, "steps": steps})


# the text of the valid replies
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
        if self.streams:
            return b'"finish_reason":"stop"' in arrived
        return self.body in arrived

    def head(self, *headers: bytes, status: bytes = b"200 OK") -> bytes:
        """Write the status line and the headers, with the type of this body."""
        kind = b"text/event-stream" if self.streams else b"application/json"
        lines = [b"HTTP/1.1 " + status, b"content-type: " + kind, *headers]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def written(self, body: bytes | None = None, *headers: bytes) -> bytes:
        """Write the whole response with its length.

        Arguments:
            body: instead of the reply's own.
            headers: beside the length and the type.
        """
        if body is None:
            body = self.body
        return self.head(b"content-length: %d" % len(body), *headers) + body

    def response(
        self,
        data: bytes,
        ending: Ending = "close",
        *,
        is_whole: bool = True,
    ) -> RawResponse:
        """Return a response of these bytes, in which a reader may find the text of this reply."""
        steps = [RawStep(data)] if data else []
        return RawResponse(steps, ending, says=self.text, is_whole=is_whole)

    def chunked_head(self, *headers: bytes) -> bytes:
        """Write the head of a response in chunks."""
        return self.head(b"transfer-encoding: chunked", *headers)


def valid_reply(*, streams: bool, text: str = TEXT) -> ValidReply:
    """Write a reply that no reader has any trouble with."""
    output = -(-len(text) // 4)  # rounded up
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": output,
        "total_tokens": 9 + output,
    }
    if not streams:
        message = {"role": "assistant", "content": text}
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "stop",
        }
        about = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "m",
        }
        whole = json_bytes(
            {
                **about,
                "choices": [choice],
                "usage": usage,
            }
        )
        return ValidReply(streams, (whole,), text)
    size = max(1, len(text) // 4)
    events = [delta_event({"role": "assistant", "content": ""})]
    for start in range(0, len(text), size):
        events.append(delta_event({"content": text[start : start + size]}))
    events.append(delta_event({}, finish="stop"))
    events.append(event({"choices": [], "usage": usage}))
    events.append(DONE)
    return ValidReply(streams, tuple(events), text)


def json_bytes(value: object) -> bytes:
    """Write JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def event(value: object) -> bytes:
    """Write one event of a stream."""
    return b"data: " + json_bytes(value) + b"\n\n"


def delta_event(delta: Mapping[str, Any], *, finish: str | None = None) -> bytes:
    """Write the event of one delta."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    about = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "m",
    }
    return event({**about, "choices": [choice]})


def chunk(data: bytes) -> bytes:
    """Write one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def healthy_response(*, streams: bool, text: str = TEXT) -> RawResponse:
    """Return a valid reply on a connection that stays open."""
    reply = valid_reply(streams=streams, text=text)
    return reply.response(reply.written(), "keep")


def pick(draw: DrawFn, *values: T) -> T:
    """Draw one of these values, and shrink to the first; a single one needs no draw."""
    return draw(st.sampled_from(values)) if len(values) > 1 else values[0]


Hostility = Callable[[DrawFn, ValidReply], RawResponse]
"""Makes a hostile response of a valid reply."""
