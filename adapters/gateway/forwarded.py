"""What a chain cannot express goes word for word to one backend: as a call of one attempt, so every
budget holds.

Its bytes travel as text in Latin-1, a character each; a real decoder reads them for their usage and
their end.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from attrs import evolve

from rungwise.adapters.wires.backend import Decoder, HttpRequest
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.values.usage import NO_USAGE

ENCODING = "latin-1"
WAITS = ("retry-after", "retry-after-ms")
"""The headers of a response that say when to come back."""


class Forward:
    """Stand for a backend that gets a body as it is, and remember its answer.

    Arguments:
        backend: the backend, whose address, headers and key are used.
        body: what the program has sent.
        streams: whether the answer is streamed.
        cap: the most output tokens that the body asks for; None if it does not say.
    """

    def __init__(
        self,
        backend: HttpBackend,
        body: bytes,
        *,
        streams: bool,
        cap: int | None,
    ) -> None:
        self._backend = backend
        self._body = body
        self.streams = streams
        self.cap = cap
        self.status: int | None = None
        self.content_type = "application/json"
        self.received = b""
        self.waits: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        # whatever else is asked of a backend, this one is the other
        return getattr(self._backend, name)

    def with_key(self, key: object) -> Forward:
        """Return this with the key that its function has returned."""
        self._backend = self._backend.with_key(key)
        return self

    def encode(self, send: Send, *, stream: bool) -> HttpRequest:
        """Write the request: the program's body behind the backend's own address and headers."""
        if send.must_cut and send.max_tokens is not None and (self.cap or inf) > send.max_tokens:
            raise ConfigurationError(
                f"the budget allows {send.max_tokens} output tokens here: set a limit within it"
            )
        return evolve(self._backend.encode(send, stream=self.streams), body=self._body)

    def decode(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply | Failure:
        """Read a whole response, of any status."""
        self._note(status, headers)
        self.received = body
        reply = self._backend.decode(status, headers, body)
        if isinstance(reply, Failure) and not 200 <= status < 300:
            return reply
        return _as_text([body], reply)

    def decoder(self, headers: Mapping[str, str]) -> Decoder:
        """Start to read a streamed response."""
        self._note(200, headers)
        return _ForwardDecoder(self._backend.decoder(headers))

    def _note(self, status: int, headers: Mapping[str, str]) -> None:
        """Remember the head of the response, which the program gets, too."""
        self.status = status
        for name, value in headers.items():
            if name.lower() == "content-type":
                self.content_type = value
            elif name.lower() in WAITS:
                self.waits[name.lower()] = value


class _ForwardDecoder(Decoder):
    """Hand out the bytes of a stream as text."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Hand bytes out as they are; the backend's own decoder sees where they end."""
        self._pieces.append(data)
        self._decoder.feed(data)
        self.finished = self._decoder.finished
        return [Text(data.decode(ENCODING))]

    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Return everything as text, with the usage that was reported."""
        reply = _as_text(self._pieces, self._decoder.close(failure))
        if failure is None or self._decoder.finished:
            return reply
        return evolve(reply, interrupted=True, failure=failure)


def _as_text(pieces: list[bytes], read: Reply | Failure) -> Reply:
    """Return bytes as a reply, with the usage that a decoder has read in them."""
    usage = read.usage if isinstance(read, Reply) else NO_USAGE
    return Reply(b"".join(pieces).decode(ENCODING), usage=usage, stop_reason="stop")
