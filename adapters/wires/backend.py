"""What a backend is: pure functions between a `Send`, HTTP and a `Reply`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from attrs import field, frozen

from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text

PIECE: Final = 2**16
"""The most bytes of a body that are unpacked or read in one go."""


@frozen
class HttpRequest:
    """Hold one HTTP request; `repr` leaves out headers and body, which hold the key and the
    prompt.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    method: str = "POST"


class Decoder(Protocol):
    """Turn the bytes of one streamed response into deltas, and at its end into a `Reply` or a
    `Failure`.
    """

    @property
    def finished(self) -> bool:
        """Tell whether the terminal event has come, so that no more need be read."""

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Take bytes cut anywhere and return what they add, inline think tags still in the text."""

    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Return the reply, or why there is none; `failure` says what cut the stream, if anything
        did.
        """


class Backend(Link, Protocol):
    """Speak to one model at one place: a link of the fallback chain."""

    @property
    def model(self) -> str:
        """Return the model id that is sent."""

    def encode(self, send: Send, *, stream: bool) -> HttpRequest:
        """Write the HTTP request of one attempt."""

    def decode(self, status: int, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
        """Read a whole response, of any status. What cannot be read is a `Failure`; this never
        raises.
        """

    def decoder(self, headers: Mapping[str, str]) -> Decoder:
        """Start to read a streamed response of status 200."""


def pool_of(backend: Backend) -> tuple[Backend, ...]:
    """Return a backend with each of its keys."""
    pool: tuple[Backend, ...] = getattr(backend, "pool", ())
    return pool or (backend,)
