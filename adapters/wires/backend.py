"""What a backend is: pure functions between a `Send`, HTTP and a `Reply`.

A backend of your own names `Backend` as a base, and its decoder names `Decoder`. Both declare every
member that the rest of Rungwise reads, with the value that holds where you declare none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, Protocol

from attrs import field, frozen

from rungwise.adapters.wires.capabilities.capability import Capabilities
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.health.quota import Quota
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text

PIECE: Final = 2**16
"""The most bytes of a body that are unpacked or read in one go."""

UNKNOWN: Final = Capabilities()
"""The capabilities of a backend that declares none."""


@frozen
class HttpRequest:
    """Hold one HTTP request.

    `repr` leaves out headers and body, which hold the key and the prompt.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    method: str = "POST"


class Decoder(ABC):
    """Turn the bytes of one streamed response into deltas, and at its end into a reply.

    A decoder must have `feed` and `close`. The other members have defaults, with which a reply is
    read correctly; a decoder that sets them lets Rungwise stop earlier and count more exactly.
    """

    __slots__ = ()

    finished: bool = False
    """Whether the terminal event has come, so that no more need be read."""
    unshown: int = 0
    """Characters of the reply that no delta has shown, such as those of tool calls. They count as
    content for the clocks of silence, and against an output cap.
    """
    was_stopped: bool = False
    """Whether an error ended the stream, even if behind the end of the reply: usage that comes
    last may be lost then.
    """

    @property
    def generation(self) -> str | None:
        """The id under which the provider continues the reply and keeps it, if it does."""
        return None

    @property
    def cursor(self) -> str | None:
        """What says which event was the last, for a stream that goes on behind it."""
        return None

    @property
    def has_gap(self) -> bool:
        """Whether a part of a reply that goes on is missing, or may be."""
        return False

    def reopen(self) -> None:
        """Go on with the same reply in another response, at the beginning of an event."""
        raise ValueError("a decoder without a generation cannot go on")

    @property
    def beside(self) -> int:
        """Characters that the provider wrote besides the deltas, such as other candidates.

        They count against an output cap, too.
        """
        return 0

    @property
    def size(self) -> int:
        """Roughly how many bytes the decoder holds; too many end the attempt."""
        return 0

    @property
    def is_stream(self) -> bool | None:
        """Whether the body so far is a stream, whatever its content type; None if unknown."""
        return None

    @abstractmethod
    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Take bytes cut anywhere and return what they add, inline think tags still in the text."""

    @abstractmethod
    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Return the reply, or why there is none.

        Arguments:
            failure: what cut the stream, if anything did.
        """


class NamedServer(Protocol):
    """What is known of a server; `chat/discovery.py` has the rest."""

    @property
    def name(self) -> str:
        """Its kind, and its version if that is known."""


class Backend(Link, Protocol):
    """Speak to one model at one place: a link of the fallback chain."""

    __slots__ = ()

    API: ClassVar[str] = ""
    """The protocol's name on the command line and in the registry; "" for one of your own."""

    @property
    def model(self) -> str:
        """The model id that is sent."""

    @property
    def pool(self) -> tuple[Backend, ...]:
        """This backend with each of its keys, if it has several; else empty."""
        return ()

    @property
    def secret_words(self) -> frozenset[str]:
        """Its keys, for whoever must keep them out of what others read."""
        return frozenset()

    @property
    def quota(self) -> Quota | None:
        """How many requests and tokens a minute the backend may receive; None for no limit."""
        return None

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the model and the server."""
        return UNKNOWN

    @property
    def server(self) -> NamedServer | None:
        """What `Client.discover` learned of the server; None if nobody asked."""
        return None

    @property
    def learns(self) -> bool:
        """Whether later calls in this process remember what the server rejected."""
        return True

    @property
    def account(self) -> frozenset[tuple[str, str]]:
        """What identifies the server with its model and key, whatever the protocol and the
        parameters. Health and quotas are remembered under these.
        """
        return self.identities

    @property
    def places(self) -> frozenset[tuple[str, str]]:
        """What identifies the server, whatever the key. What is learned is stored under these."""
        return self.identities

    @property
    def stand_in(self) -> Backend | None:
        """The same backend in another protocol, for a server that does not take this one's; a
        client puts it behind this one. None for most.
        """
        return None

    @property
    def door(self) -> frozenset[tuple[str, str]]:
        """Where it is remembered that the server does not take its protocol; empty for a backend
        without a stand-in in another one.
        """
        return frozenset()

    @property
    def digest(self) -> str:
        """What identifies the backend with its key in every process, and reveals neither.

        A shared store uses `account` if it is empty.
        """
        return ""

    def encode(self, send: Send, *, stream: bool) -> HttpRequest:
        """Write the HTTP request of one attempt."""

    def decode(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply | Failure:
        """Read a whole response, of any status.

        It never raises: a body that cannot be read is a `Failure`.
        """

    def decoder(self, headers: Mapping[str, str]) -> Decoder:
        """Start to read a streamed response of status 200."""


def pool_of(backend: Backend) -> tuple[Backend, ...]:
    """Return a backend with each of its keys."""
    return backend.pool or (backend,)
