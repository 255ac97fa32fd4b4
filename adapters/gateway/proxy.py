"""The application behind `rungwise proxy`: the gateway with keys, limits, metrics and an end that
is orderly.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any, Final

import httpx
from attrs import Factory, define, evolve, field

from rungwise.adapters.gateway.answers import PREFIX, HttpResponse, Problem
from rungwise.adapters.gateway.asgi import (
    Asgi,
    Receive,
    Scope,
    Send,
    caller_in,
    json_response,
    read_body,
)
from rungwise.adapters.gateway.gateway import ANY
from rungwise.adapters.gateway.paths import path_as_sent, simplest, stays_within
from rungwise.adapters.gateway.pump import STREAMED
from rungwise.adapters.gateway.serving.callers import SCOPE
from rungwise.adapters.gateway.serving.cors import Cors
from rungwise.adapters.gateway.serving.keys import Keys
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.secret import Secret

RELOAD: Final = "/-/reload"
"""The address at which an administrator has the chains read again."""
ADMIN: Final = "rungwise.admin"
"""Where the scope of a request says whether it comes from an administrator."""

_HOPS: Final = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "keep-alive",
        "set-cookie",
        "transfer-encoding",
    }
)
"""Headers of a response that belong to one connection, or to the account of the proxy."""
_NAME: Final = re.compile(r"^\[?([^\]]*?)\]?(?::\d*)?$")
"""A name or address, in brackets for IPv6, and a port."""

_OWN_SITES: Final = ("none", "same-origin")
"""What browsers say of requests that no other site has made."""

_SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
"""The bounds of the histogram of calls; 900 s are the default budget."""


@define(eq=False)
class Proxy(Asgi):
    """Serve chains to programs in any language."""

    key: Secret | None = None  # what clients must show; None takes what no web page could send
    most: int = 100  # requests that may run at once
    # whether requests that are no model calls go on to a backend, with its key
    forwards: bool = False
    metrics: Metrics | None = None
    # the names under which it answers; none for any with a key, and for loopback names without one
    hosts: frozenset[str] = frozenset()
    # those of its clients; by default `key` alone
    keys: Keys = field(
        default=Factory(lambda proxy: Keys(one=proxy.key), takes_self=True), kw_only=True
    )
    cors: Cors | None = None  # the origins whose pages may ask
    # reads the chains again, or raises a ConfigurationError; None if they are of no file
    reload: Callable[[], Awaitable[None]] | None = None
    # has the other processes that serve the same address read them again, too
    reload_others: Callable[[], object] = bool
    _count: int = field(default=0, init=False)

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one HTTP request."""
        if self.cors is not None:
            send = self.cors.sending(scope, send)
        await super().serve(scope, receive, send)

    async def answer(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        body: bytes,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a model call, unless too many run already.

        Arguments:
            scope, headers, body, receive, send: as for `Asgi.answer`.
        """
        if self._count >= self.most:
            raise Problem.saying(
                503,
                "too many requests at once",
                code="too_many_requests_at_once",
                retry_after=1,
            )
        self._add(1)
        try:
            await super().answer(scope, headers, body, receive, send)
        finally:
            self._add(-1)

    def _add(self, requests: int) -> None:
        """Count requests that begin, or end."""
        self._count += requests
        if self.metrics is not None:
            self.metrics.run(self._count)

    def refused(self, scope: Scope, headers: Mapping[str, str]) -> HttpResponse | None:
        """Check the key of a request; without one, refuse what a web page could send from a
        browser.
        """
        if headers.keys() >= {"transfer-encoding", "content-length"}:
            # a server in front of this one may have read the other (request smuggling)
            problem = Problem.saying(400, "give the body a length or send it in chunks, not both")
            response = problem.response(self.language_near(scope))
            return evolve(response, headers={**response.headers, "connection": "close"})
        self._check_host(headers.get("host"))
        asks_first = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        if self.cors is not None and asks_first:
            return self.cors.preflight(headers)
        if scope["path"] == "/healthz":
            return json_response({"status": "ok", "running": self._count})
        if self.keys.is_wanted:
            key = self.keys.find(headers)
            if key is None:
                raise Problem.saying(401, "this proxy wants a key that it knows")
            scope[SCOPE] = key.caller
            scope[ADMIN] = key.is_admin
        else:
            self._check_page(scope, headers)
        if scope["path"] == "/metrics" and self.metrics is not None:
            if self.keys.are_named and not scope.get(ADMIN):
                raise Problem.saying(403, "this is for keys with admin = true")
            return self.metrics.response()
        return None

    def _check_page(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Refuse what a web page could send to a proxy without keys, but for pages that --cors
        names.
        """
        origin = headers.get("origin")
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        is_of_page = origin is not None or headers.get("sec-fetch-site", "none") not in _OWN_SITES
        if is_of_page and not (self.cors is not None and self.cors.names(origin)):
            raise Problem.saying(403, "requests of web pages need a proxy with a key")
        if scope["method"] == "POST" and media_type != "application/json":
            raise Problem.saying(
                415, "the body must be application/json, where the proxy has no key"
            )

    async def _reloaded(self, scope: Scope) -> HttpResponse:
        """Read the chains again for an administrator."""
        if not scope.get(ADMIN):
            raise Problem.saying(403, "this is for keys with admin = true")
        if scope["method"] != "POST":
            raise Problem.saying(405, f"{RELOAD} takes a POST")
        assert self.reload is not None
        try:
            await self.reload()
            self.reload_others()
        except ConfigurationError as error:
            raise Problem.saying(409, f"everything is as before: {error}") from None
        return json_response({"status": "reloaded"})

    def _check_host(self, host: str | None) -> None:
        """Refuse a name that is not the proxy's own: with one that leads to this machine (DNS
        rebinding), a web page could read the answers.
        """
        if host is None:  # no browser leaves it out
            return
        name = _NAME.sub(r"\1", host.strip().lower()).rstrip(".")
        is_own = name in self.hosts or (self.keys.is_wanted and not self.hosts)
        if not is_own and not _is_loopback(name):
            raise Problem.saying(
                421, "this proxy does not answer under this name: --allowed-host names others"
            )

    def knows(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Tell whether a request shows the key, if one is wanted.

        Arguments:
            headers: as ASGI has them.
        """
        if not self.keys.is_wanted:
            return True
        texts = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        return self.keys.find(texts) is not None

    async def other(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        receive: Receive,
    ) -> HttpResponse | None:
        """Answer a request that is no model call, or forward it."""
        if scope["path"] == RELOAD and self.reload is not None:
            return await self._reloaded(scope)
        try:
            return await super().other(scope, headers, receive)
        except Problem:
            if not self.forwards or not scope["path"].startswith("/v1"):
                raise
        sent = path_as_sent(scope)
        if self.gateway.takes(simplest(sent)):
            raise Problem.saying(404, "a model call is a POST to its own address, as it is written")
        caller = caller_in(scope)
        if caller.within is not None or caller.chains is not None:
            raise Problem.saying(403, "this key has limits, which do not hold for this address")
        backend, path = self._address(sent)
        query = scope.get("query_string", b"").decode("ascii", "replace")
        url = f"{backend.root}{path}?{query}".rstrip("?")
        own = backend.question(f"{backend.origin}/").headers
        passed = {name: headers[name] for name in ("content-type", "accept") if name in headers}
        body = await read_body(receive, self.largest_body)
        client = httpx.AsyncClient(timeout=600, headers={**own, **passed})
        try:
            request = client.build_request(scope["method"], url, content=body)
            answer = await client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            await client.aclose()
            raise Problem.saying(
                502, f"{backend.name} could not be asked ({type(error).__name__})"
            ) from None
        rest = {}
        for name, value in answer.headers.items():
            folded = name.lower()
            if folded not in _HOPS and not folded.startswith("access-control-"):
                rest[name] = value
        rest[f"{PREFIX}outcome"] = "forwarded"
        if rest.get("content-type", "").startswith("text/event-stream"):
            rest |= STREAMED
        return HttpResponse(answer.status_code, rest, _read(client, answer))

    def _address(self, path: str) -> tuple[HttpBackend, str]:
        """Return the backend of the protocol that a path belongs to, and the path behind its base
        URL.
        """
        _, version, rest = path.partition("/v1beta" if path.startswith("/v1beta") else "/v1")
        if not version or not rest.startswith("/") or not stays_within(rest):
            raise Problem.saying(404, "this address is not passed on: it may lead out of the API")
        wanted: tuple[str, ...] = ("openai", "responses")
        if "/messages" in path:
            wanted = ("anthropic",)
        elif path.startswith("/v1beta/interactions"):
            wanted = ("interactions",)
        elif path.startswith("/v1beta") or ":" in path:
            wanted = ("gemini",)
        clients = [self.gateway.chains.get(ANY), *self.gateway.chains.values()]
        backends = [each for client in clients if client is not None for each in client.chain]
        for each in backends:
            if isinstance(each, HttpBackend) and each.API in wanted:
                return each, rest
        raise Problem.saying(
            404,
            f"no backend of a chain speaks the protocol of this address ({' or '.join(wanted)})",
        )


def _is_loopback(name: str) -> bool:
    """Tell whether a name leads to this machine wherever it is asked."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


async def _read(client: httpx.AsyncClient, answer: httpx.Response) -> AsyncGenerator[bytes]:
    """Yield the bytes of an answer, and close its connection however the reading ends."""
    try:
        async for piece in answer.aiter_bytes():
            yield piece
    finally:
        await answer.aclose()
        await client.aclose()


class Metrics:
    """Count calls for Prometheus, whose official client must be installed.

    With PROMETHEUS_MULTIPROC_DIR in the environment, the client keeps the figures in files of that
    folder, and the page shows the sum over all processes that write there.
    """

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Gauge, Histogram
        from prometheus_client import Counter as Count

        self._registry = CollectorRegistry()
        shared: dict[str, Any] = {"registry": self._registry}
        self._calls = Count(
            "rungwise_calls", "Calls that have ended.", ["outcome", "backend"], **shared
        )
        self._attempts = Count("rungwise_attempts", "Requests to backends.", ["backend"], **shared)
        self._cost = Count("rungwise_cost", "Money, in the currency of the prices.", **shared)
        self._seconds = Histogram(
            "rungwise_call_seconds", "How long calls took.", buckets=_SECONDS, **shared
        )
        self._of_callers = Count(
            "rungwise_caller_calls", "Calls by whose key asked.", ["caller", "outcome"], **shared
        )
        self._tokens_of_callers = Count(
            "rungwise_caller_tokens", "Tokens by whose key asked.", ["caller", "kind"], **shared
        )
        self._cost_of_callers = Count(
            "rungwise_caller_cost", "Money by whose key asked.", ["caller"], **shared
        )
        self._running = Gauge(
            "rungwise_requests_running",
            "Requests that run now.",
            multiprocess_mode="livesum",
            **shared,
        )

    def count(self, result: Result) -> None:
        """Count a call."""
        self._calls.labels(result.outcome, result.backend).inc()
        for step in result.journal.steps:
            if step.event == "sent":
                self._attempts.labels(step.backend).inc()
        self._cost.inc(result.cost or 0)
        self._seconds.observe(result.seconds)
        caller = result.journal.setting.caller
        if caller is not None:
            self._of_callers.labels(caller, result.outcome).inc()
            self._tokens_of_callers.labels(caller, "input").inc(result.usage.input_tokens)
            self._tokens_of_callers.labels(caller, "output").inc(result.usage.output_tokens)
            self._cost_of_callers.labels(caller).inc(result.cost or 0)

    def run(self, requests: int) -> None:
        """Note how many requests run now."""
        self._running.set(requests)

    def response(self) -> HttpResponse:
        """Return the page of metrics."""
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return HttpResponse(200, {"content-type": CONTENT_TYPE_LATEST}, generate_latest(registry))
