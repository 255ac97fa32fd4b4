"""The embedded provider: a real HTTP server on loopback that speaks every protocol and misbehaves by script."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rungwise.adapters.provider.connections import LoopbackServer, Served
from rungwise.adapters.provider.handler import ReplyHandler
from rungwise.adapters.provider.playback import Playback, ReceivedRequest, Responder
from rungwise.adapters.provider.script import Script
from rungwise.fsm.errors import ConfigurationError


class EmbeddedProvider(Served):
    """Serve a script over HTTP from construction until `close`, for use in a `with` block.

    The path selects the protocol: `/chat/completions`, `/responses`, `/messages`, `:generateContent`, `/api/chat` and
    `/converse`, and their streams, answer from the script. An address that ends in `/models`, and Ollama's `/api/tags`,
    lists the script's models.

    Arguments:
        script: a `Script`, or a function from the request to its reply.
        host: the IPv4 address to listen on.
        port: the port, 0 for any that is free.
        sleep: waits instead of real time, such as the `advance` of a clock that a test shares with its client; what
            hangs forever does so in any case.

    Raises:
        ConfigurationError: the script is neither, or the address is not of the form of one.
        OSError: the address cannot be listened on.
    """

    def __init__(
        self,
        script: Script | Responder,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._playback = Playback(script)
        try:
            self._server = LoopbackServer((host, port), partial(ReplyHandler, self._playback, sleep))
        except (TypeError, ValueError, OverflowError):  # not an address, or a port above 65535
            raise ConfigurationError("host must be an IPv4 address, and port a whole number from 0 to 65535") from None

    base_url, open_connections = Served.base_url, Served.open_connections  # here for the API's documentation
    wait_disconnected, close = Served.wait_disconnected, Served.close

    @property
    def models(self) -> list[str]:
        """Return the models that the script names."""
        return self._playback.models

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Return the requests for a reply, in the order of arrival, without those whose JSON is invalid."""
        return self._playback.requests

    @property
    def aborted(self) -> int:
        """Count the requests whose client went away before it had the whole reply."""
        return sum(request.aborted for request in self.requests)
