"""The embedded provider without its sockets: the same scripts and the same bytes, in memory."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterator, Mapping

import httpx
import orjson
from attrs import define, field

from rungwise.adapters.http.limits import GRACE
from rungwise.adapters.provider.handler import render
from rungwise.adapters.provider.playback import ReceivedRequest, Responder
from rungwise.adapters.provider.script import Script, ScriptedReply
from rungwise.fsm.testing.backend import VirtualClock

BASE_URL = "http://provider.test/v1"


@define(eq=False)
class MemoryProvider:
    """Answer from a script what a `rungwise.testing.EmbeddedProvider` would answer.

    Arguments:
        script: a `rungwise.testing.Script`, or a function from the request to its reply.
        clock: what `delay`, `chunk_delay` and `lasts` move, up to the moment at which the driver would give the attempt
            up; a reply that hangs ends in a timeout at once.
        requests: what has arrived.
    """

    script: Script | Responder
    clock: VirtualClock = field(factory=VirtualClock)
    requests: list[ReceivedRequest] = field(factory=list, init=False)

    @property
    def base_url(self) -> str:
        """Return the base URL; nothing listens there."""
        return BASE_URL

    def play(self, script: Script | Responder) -> None:
        """Begin another script."""
        self.script = script
        self.requests.clear()

    def respond(self, request: httpx.Request) -> httpx.Response:
        """Answer one request.

        Raises:
            httpx.TransportError: the script breaks the connection, or hangs.
        """
        body = orjson.loads(request.content)
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = ReceivedRequest(request.url.raw_path.decode(), headers, body, self.clock.now)
        self.requests.append(received)
        script = self.script
        reply = script.reply(len(self.requests) - 1) if isinstance(script, Script) else script(received)
        # The drivers, who follow what they send, say by this how long the attempt may take; others, how long one read.
        allowed = request.extensions["timeout"]["read"] if "trace" in request.extensions else None
        ends_at = math.inf if allowed is None else self.clock.now + max(0.0, allowed - GRACE)
        return self._response(reply, body, len(self.requests), ends_at)

    def _response(
        self, reply: ScriptedReply, body: Mapping[str, object], number: int, ends_at: float
    ) -> httpx.Response:
        if reply.hang and reply.cut_after is None:
            raise httpx.ReadTimeout("the provider is silent")
        _pass(self.clock, reply.delay, ends_at)
        rendered = render(reply, body, number)
        is_chunked = rendered.content_type == "text/event-stream"
        framing = ("transfer-encoding", "chunked") if is_chunked else ("content-length", str(len(rendered.body)))
        given = {name.lower(): value for name, value in reply.headers.items()}
        headers = {"content-type": rendered.content_type, **given, framing[0]: framing[1]}
        stream = _Body(rendered.pieces, reply, self.clock, ends_at, is_chunked)
        return httpx.Response(reply.status, headers=[*headers.items()], stream=stream)


def _pass(clock: VirtualClock, seconds: float, ends_at: float) -> None:
    """Let time pass, or what is left of it."""
    if clock.now + seconds > ends_at:
        clock.advance(max(0.0, ends_at - clock.now))
        raise httpx.ReadTimeout("the time is up")
    clock.advance(seconds)


@define(eq=False)
class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Yield a body in the pieces, at the pace and with the accident that the script asks for."""

    pieces: tuple[bytes, ...]
    reply: ScriptedReply
    clock: VirtualClock
    ends_at: float
    is_chunked: bool

    def __iter__(self) -> Iterator[bytes]:
        cut = self.reply.cut_after
        left = sum(map(len, self.pieces)) if cut is None else cut
        for piece, pause in zip(self.pieces, self.reply.pauses(len(self.pieces)), strict=True):
            _pass(self.clock, pause, self.ends_at)
            if left <= 0:
                break
            yield piece[:left]
            left -= len(piece)
        if cut is not None:
            self._break_off(is_short=left < 0)

    def _break_off(self, *, is_short: bool) -> None:
        if self.reply.hang:
            raise httpx.ReadTimeout("the provider fell silent")
        if is_short or self.is_chunked:  # a chunked body has an end of its own, which is missing
            raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


@define(eq=False)
class MemoryTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Carry the requests of an `httpx.Client` or `httpx.AsyncClient` to a provider in memory.

    Arguments:
        provider: who answers every request, whatever its URL.
    """

    provider: MemoryProvider

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        request.read()
        return self.provider.respond(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request asynchronously."""
        await request.aread()
        return self.provider.respond(request)
