"""What a server writes, byte by byte, and its TOML.

[[responses]]
ending = "close"

[[responses.steps]]
data = "HTTP/1.1 200 OK\\r\\n"      # each character is a byte
delay = 0.002                       # seconds
times = 1000
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from attrs import field, frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_number, is_whole, must, must_be_one_of
from rungwise.fsm.values.toml import ascii_toml, read_toml

Ending = Literal["close", "reset", "hold", "keep"]
"""What follows the last byte: the end, a TCP reset, silence, or the next request on the same connection."""


_BYTES = must("bytes", lambda value: isinstance(value, bytes), names_class=True)
_SECONDS = must(
    "a number of seconds, 0 or more", lambda value: is_number(value, 0, sys.float_info.max), names_class=True
)
_TIMES = must("a whole number above 0", lambda value: is_whole(value, 1), names_class=True)


@frozen
class RawStep:
    """Write these bytes, so many times.

    Arguments:
        data: the bytes.
        delay: seconds before each time.
        times: how often.

    Raises:
        ConfigurationError: a field is not of its form.
    """

    data: bytes = field(validator=_BYTES)
    delay: float = field(default=0.0, validator=_SECONDS)
    times: int = field(default=1, validator=_TIMES)

    def __repr__(self) -> str:
        data = self.data if len(self.data) <= 40 else self.data[:40] + b"..."
        return f"RawStep({data!r}, delay={self.delay:g}, times={self.times})"


def _steps(value: Iterable[RawStep]) -> tuple[RawStep, ...]:
    return tuple(value)


@frozen
class RawResponse:
    """Hold what a server writes to one request, from the status line to the end of the connection.

    Arguments:
        steps: what is written, and when.
        ending: what follows the last byte.
        kind: in what way it is hostile.
        says: the text that a reader may make of it; None where that is anybody's guess.
        is_whole: whether it may end a call as `done`: its terminal event has come and nothing before it is lost.

    Raises:
        ConfigurationError: the ending is not one of its words.
    """

    steps: tuple[RawStep, ...] = field(converter=_steps)
    ending: Ending = field(default="close", validator=must_be_one_of(get_args(Ending), names_class=True))
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
        yield f"delay = {step.delay!r}\n" if step.delay else ""
        yield f"times = {step.times}\n" if step.times != 1 else ""


def read_responses(text: str) -> list[RawResponse]:
    """Read responses from TOML.

    Raises:
        ConfigurationError: the text is no TOML, or a field is missing, unknown or not of its form.
    """
    try:
        return [_read_response(each) for each in read_toml(text)["responses"]]
    except ConfigurationError as error:
        raise ConfigurationError(f"responses: {error}") from None
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise ConfigurationError(f"responses: not of their form: {error}") from None


def _read_response(value: Mapping[str, Any]) -> RawResponse:
    steps = [RawStep(**{**step, "data": step["data"].encode("latin-1")}) for step in value.get("steps", ())]
    return RawResponse(**{**value, "steps": steps})
