"""An ASGI application that answers model calls; mount it into an application of your own, or run
`rungwise proxy`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, Final

import anyio
import h11
import orjson
from attrs import define, evolve, field

from rungwise.adapters.client import Client
from rungwise.adapters.client_options import check_functions
from rungwise.adapters.gateway.answers import HttpResponse, Problem
from rungwise.adapters.gateway.gateway import ANY, SPOKEN, Gateway
from rungwise.adapters.gateway.languages import CHAT
from rungwise.adapters.gateway.languages.language import SpokenLanguage
from rungwise.adapters.gateway.pump import Rest
from rungwise.adapters.gateway.serving.callers import ANYONE, SCOPE, Caller
from rungwise.adapters.gateway.withholding import Withholding
from rungwise.adapters.gateway.writing import keys_of
from rungwise.adapters.tools.beats import PING
from rungwise.fsm.errors import ConfigurationError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

WhoAsks = Callable[[Scope], Caller]
"""Return who sends a request of ASGI."""

LARGEST_BODY: Final = 2**25
"""The most bytes of a request."""
BODY_SECONDS: Final = 30.0
"""The longest time in which a request's body must have come."""
_PATHS: Final = {"anthropic": "/messages", "gemini": "/v1beta/"}
"""What the other paths of a protocol hold, for the form of their errors."""
_CALLS: Final = (
    "calls are a POST to /v1/chat/completions, /v1/responses, /v1/messages, /v1beta/interactions "
    "or /v1beta/models/MODEL:generateContent"
)
GOES_AWAY: Final = Problem.saying(503, "the server is shutting down", code="shutting_down")


def asgi(
    client: Client | Mapping[str, Client],
    *,
    hold: bool = False,
    ping: float | None = PING,
    caller: WhoAsks | None = None,
) -> Asgi:
    """Return an ASGI application that answers model calls with calls of a client.

    It serves chat completions, Responses, Anthropic's Messages, Gemini's generateContent and
    Interactions at their own paths, behind any prefix. It checks no keys: that is up to the
    application around it.

    Arguments:
        client: a `Client`, or clients by the name of the model that selects them; `"*"` stands for
            every other model.
        hold: whether streams wait until text is final; see `Transport`.
        ping: seconds of silence after which a stream says that it lives, so that no load balancer
            cuts it. From the first time on, an error is an event of the stream. None for never.
        caller: called with the scope of each request; returns the `rungwise.core.Caller` who sends
            it, as your own checks know it: which chains it may ask, and which budget its calls
            share.

    Raises:
        ConfigurationError: `client` is neither, `ping` is no number above 0, or `caller` is no
            function.
    """
    if caller is not None:
        check_functions(caller=caller)
    return Asgi(Gateway(client, hold, ping=ping), caller=caller)


@define(eq=False)
class Asgi:
    """Answer the requests of an ASGI server.

    A client that goes away cancels its call, a whole answer's too: servers do not notice by
    themselves.
    """

    gateway: Gateway
    largest_body: int = LARGEST_BODY
    caller: WhoAsks | None = field(default=None, kw_only=True)  # sees who sends a request
    _running: set[anyio.CancelScope] = field(factory=set)
    _is_ending: bool = False

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await self.serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one HTTP request."""
        language = self.language_near(scope)
        chains = self.gateway.chains
        if self.caller is not None:
            caller = self.caller(scope)
            if not isinstance(caller, Caller):
                kind = type(caller).__name__
                raise ConfigurationError(f"caller must return a rungwise.core.Caller, not {kind}")
            scope[SCOPE] = caller
        try:
            headers = {
                name.decode("latin-1").lower(): each.decode("latin-1")
                for name, each in scope["headers"]
            }
            response = self.refused(scope, headers) or await self.other(scope, headers, receive)
            if response is None:
                body = await read_body(receive, self.largest_body)
                await self.answer(scope, headers, body, receive, send)
                return
        except Problem as problem:
            response = problem.response(language)
        with suppress(h11.LocalProtocolError):  # the request was not HTTP, and nobody waits
            await self.write(send, response, chains)

    def language_near(self, scope: Scope) -> SpokenLanguage:
        """Return the protocol of a request, or for another path that in which its program most
        likely reads errors.
        """
        path = scope["path"]
        language = self.gateway.language(path)
        if language is not None and scope["method"] == "POST":
            return language
        near = [api for api, part in _PATHS.items() if part in path]
        return next((each for each in SPOKEN if each.api in near), CHAT)

    def refused(self, scope: Scope, headers: Mapping[str, str]) -> HttpResponse | None:
        """Return the response to a request that is not taken at all."""
        return None

    async def other(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        receive: Receive,
    ) -> HttpResponse | None:
        """Return the response to a request that is no model call; None for one that is."""
        method = scope["method"]
        path = scope["path"]
        if method == "POST" and self.gateway.takes(path):
            return None
        if method == "GET":
            chains = self.gateway.chains
            models = [name for name in caller_in(scope).allowed(chains) if name != ANY]
            for language in SPOKEN:
                listing = language.listing(path, models)
                if listing is not None:
                    return json_response(listing)
        raise Problem.saying(404, f"there is no {method} of this address here; {_CALLS}")

    async def answer(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        body: bytes,
        receive: Receive,
        send: Send,
    ) -> None:
        """Run the call of a request while its client is there.

        Arguments:
            scope, receive, send: of ASGI.
            headers: with names in lower case.
            body: the whole body of the request.
        """
        query = scope.get("query_string", b"").decode("ascii", "replace")
        if self._is_ending:
            raise evolve(GOES_AWAY)  # a new one: each keeps the traceback of where it was raised
        gateway = self.gateway  # another one may take its place meanwhile
        call = gateway.read(scope["path"], query, headers, body, caller=caller_in(scope))
        response: HttpResponse | None = None

        async def listen() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        with anyio.CancelScope() as ending:
            self._running.add(ending)
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(listen)
                    response = await call.arun()
                    await self.write(send, response, gateway.chains)
                    group.cancel_scope.cancel()
            finally:
                self._running.discard(ending)
        if ending.cancelled_caught and self._is_ending:  # and the client waits
            if response is None:
                await self.write(send, GOES_AWAY.response(call.language), gateway.chains)
            elif isinstance(response.body, Rest):
                end = response.body.pump.broken_off(GOES_AWAY)
                await send({"type": "http.response.body", "body": end})

    async def write(
        self,
        send: Send,
        response: HttpResponse,
        chains: Mapping[str, Client],
    ) -> None:
        """Send a response; its pieces go out as they come.

        Arguments:
            send: of ASGI.
            response: the response.
            chains: those whose keys it must not hold.
        """
        withholding = Withholding(key for client in chains.values() for key in keys_of(client))
        body = response.body
        named = dict(response.headers)
        if isinstance(body, bytes):
            body = withholding.whole(body.decode("latin-1")).encode("latin-1")
            named["content-length"] = str(len(body))
        headers = []
        for name, value in named.items():
            value = withholding.whole(value)
            headers.append((name.encode("latin-1"), value.encode("latin-1")))
        await send(
            {
                "type": "http.response.start",
                "status": response.status,
                "headers": headers,
            }
        )
        if isinstance(body, bytes):
            await send({"type": "http.response.body", "body": body})
            return
        assert isinstance(body, AsyncIterator)
        async with aclosing(body):  # type: ignore[type-var]
            async for piece in body:
                piece = withholding.feed(piece.decode("latin-1")).encode("latin-1")
                await send(
                    {
                        "type": "http.response.body",
                        "body": piece,
                        "more_body": True,
                    }
                )
        rest = withholding.end().encode("latin-1")
        await send({"type": "http.response.body", "body": rest})

    def end(self) -> None:
        """End what runs: streams with an error of their protocol, whole answers with status 503."""
        self._is_ending = True
        for scope in [*self._running]:
            scope.cancel()


def caller_in(scope: Scope) -> Caller:
    """Return who sends a request."""
    caller: Caller = scope.get(SCOPE, ANYONE)
    return caller


async def read_body(receive: Receive, largest: int) -> bytes:
    """Return the body of a request, or raise a Problem: it is too large, comes too slowly, or not
    to its end.
    """
    body = bytearray()
    with anyio.move_on_after(BODY_SECONDS):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem.saying(400, "the client went away before its body had come")
            body += message.get("body", b"")
            if len(body) > largest:
                raise Problem.saying(413, f"the body has more than {largest} bytes")
            if not message.get("more_body", False):
                return bytes(body)
    raise Problem.saying(408, f"the body did not come within {BODY_SECONDS:g} s")


def json_response(value: Any) -> HttpResponse:
    """Return a value as JSON."""
    return HttpResponse(200, {"content-type": "application/json"}, orjson.dumps(value))
