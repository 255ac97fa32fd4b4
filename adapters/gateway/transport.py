"""A transport for the HTTP clients of SDKs: the requests that they write for a provider become
calls of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rungwise.adapters.client import Client
from rungwise.adapters.gateway.answers import HttpResponse, Problem
from rungwise.adapters.gateway.call import GatewayCall
from rungwise.adapters.gateway.gateway import Gateway
from rungwise.adapters.gateway.serving.callers import Caller
from rungwise.adapters.http.closing import AsyncClosing, Closing
from rungwise.adapters.http.waiting import event_loop
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.values.checks import Called, by_name

if TYPE_CHECKING:
    import httpx
    import httpx2

    class _Transports(
        httpx.BaseTransport,
        httpx.AsyncBaseTransport,
        httpx2.BaseTransport,
        httpx2.AsyncBaseTransport,
    ):
        def handle_request(self, request: Any) -> Any: ...
        async def handle_async_request(self, request: Any) -> Any: ...
else:
    # neither library checks the type; anthropic refuses httpx's, and httpx2 may not be there
    _Transports = object


class Transport(Closing, AsyncClosing, Called, _Transports):
    """Answer the model calls of an SDK with calls of a client, as a transport of httpx and httpx2,
    sync and async.

    It reads chat completions, Responses, Anthropic's Messages, Gemini's generateContent,
    Interactions and decisions, and answers each in its protocol, whole or streamed. Turn the SDK's
    own retries off. Requests that are not model calls go to their own address. The program's key
    is never sent to a backend of the chain.

    What the chain cannot express, such as `n=4` or an unknown field, goes word for word to the
    first backend that speaks the protocol, in one attempt.

    Arguments:
        client: a `Client`, or clients by the name of the model that selects them; `"*"` stands for
            every other model.
        hold: whether streams wait until text is final. Without it, text is passed on at once, and a
            stream whose text has to be taken back ends with an error.
        within: a budget that all the calls share.

    Raises:
        ConfigurationError: `client` is neither, or `within` is no `rungwise.SharedBudget`.
    """

    _INSTEAD = by_name(
        {
            "give it to the SDK's HTTP client, as in "
            "openai.DefaultHttpxClient(transport=rungwise.Transport(client))": "build_request send "
            "timeout"
        }
    )

    def __init__(
        self,
        client: Client | Mapping[str, Client],
        *,
        hold: bool = False,
        within: SharedBudget | None = None,
    ) -> None:
        self._gateway = Gateway(client, hold)
        self._caller = Caller(within=within)
        # the transports for other requests, by library and loop
        self._others: dict[tuple[str, str, Any], Any] = {}
        self._lock = Lock()

    def handle_request(self, request: Any) -> Any:
        """Answer a request of httpx or httpx2, in this thread."""
        call = self._call_of(request, request.read)
        if call is None:
            return self._other(request, "HTTPTransport").handle_request(request)
        response = call if isinstance(call, HttpResponse) else call.run()
        return _written(request, response, "SyncByteStream")

    async def handle_async_request(self, request: Any) -> Any:
        """Answer a request of httpx or httpx2, in this event loop."""
        await request.aread()
        call = self._call_of(request, lambda: request.content)
        if call is None:
            return await self._other(request, "AsyncHTTPTransport").handle_async_request(request)
        response = call if isinstance(call, HttpResponse) else await call.arun()
        return _written(request, response, "AsyncByteStream")

    def _call_of(
        self, request: Any, body: Callable[[], bytes]
    ) -> GatewayCall | HttpResponse | None:
        """Return what answers a request; None if it is no model call."""
        url = request.url
        language = self._gateway.language(url.path) if request.method == "POST" else None
        if language is None:
            return None
        try:
            headers = {
                name.decode("latin-1").lower(): each.decode("latin-1")
                for name, each in request.headers.raw
            }
            query = url.query.decode("ascii", "replace")
            timeout = request.extensions.get("timeout", {}).get("read")
            return self._gateway.read(url.path, query, headers, body(), timeout, self._caller)
        except Problem as problem:
            return problem.response(language)

    def _other(self, request: Any, kind: str) -> Any:
        """Return the transport for requests that are no model calls."""
        library = _library_of(request)
        with self._lock:
            for key in list(self._others):
                _, _, loop = key
                if loop is not None and loop.is_closed():
                    del self._others[key]
            loop = event_loop() if kind.startswith("Async") else None
            key = (library.__name__, kind, loop)
            if key not in self._others:
                self._others[key] = getattr(library, kind)()
            return self._others[key]

    def close(self) -> None:
        """Close the connections of other requests. The client stays open."""
        for transport in self._taken("HTTPTransport", None):
            transport.close()

    async def aclose(self) -> None:
        """Close the connections of other requests in this event loop. The client stays open."""
        for transport in self._taken("AsyncHTTPTransport", event_loop()):
            await transport.aclose()

    def _taken(self, kind: str, loop: Any) -> list[Any]:
        """Return the transports of a kind and an event loop, which nobody uses from now on."""
        with self._lock:
            keys = [key for key in self._others if key[1:] == (kind, loop)]
            return [self._others.pop(key) for key in keys]


def _library_of(request: Any) -> ModuleType:
    """Return the library that a request came from: the response must be of the same."""
    return import_module(type(request).__module__.partition(".")[0])


def _written(request: Any, response: HttpResponse, kind: str) -> Any:
    """Return a response of the library that a request is of; `kind` is its class of streams."""
    library = _library_of(request)
    headers = dict(response.headers)
    body = response.body
    if isinstance(body, bytes):
        return library.Response(response.status, headers=headers, content=body)
    stream = _stream_class(library, kind)(body)
    return library.Response(response.status, headers=headers, stream=stream)


@cache
def _stream_class(library: ModuleType, kind: str) -> type:
    """Return a stream of a library that closes what it iterates over."""

    class Pieces(getattr(library, kind)):  # type: ignore[misc]
        def __init__(self, pieces: Any) -> None:
            self._pieces = pieces

        def __iter__(self) -> Any:
            return iter(self._pieces)

        def __aiter__(self) -> Any:
            return self._pieces.__aiter__()

        def close(self) -> None:
            self._pieces.close()

        async def aclose(self) -> None:
            await self._pieces.aclose()

    return Pieces
