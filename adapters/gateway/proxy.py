"""The application behind `rungwise proxy`: the gateway with keys, limits, metrics and an end that
is orderly.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from ipaddress import ip_address
from typing import Any, Final

import httpx
from attrs import define, field

from rungwise.adapters.gateway.answers import PREFIX, HttpResponse, Problem
from rungwise.adapters.gateway.asgi import Asgi, Receive, Scope, Send, json_response, read_body
from rungwise.adapters.gateway.gateway import ANY
from rungwise.adapters.gateway.paths import path_as_sent, simplest, stays_within
from rungwise.adapters.gateway.pump import STREAMED
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.values.secret import Secret

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
    _count: int = field(default=0, init=False)

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
        self._count += 1
        try:
            await super().answer(scope, headers, body, receive, send)
        finally:
            self._count -= 1

    def refused(self, scope: Scope, headers: Mapping[str, str]) -> HttpResponse | None:
        """Check the key of a request; without one, refuse what a web page could send from a
        browser.
        """
        self._check_host(headers.get("host"))
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["path"] == "/healthz":
            return json_response({"status": "ok", "running": self._count})
        if self.key is not None:
            if not _shows(headers, self.key):
                raise Problem.saying(401, "this proxy wants a key that it knows")
        elif "origin" in headers or headers.get("sec-fetch-site", "none") not in _OWN_SITES:
            raise Problem.saying(403, "requests of web pages need a proxy with a key")
        elif scope["method"] == "POST" and media_type != "application/json":
            raise Problem.saying(
                415, "the body must be application/json, where the proxy has no key"
            )
        if scope["path"] == "/metrics" and self.metrics is not None:
            return self.metrics.response(self._count)
        return None

    def _check_host(self, host: str | None) -> None:
        """Refuse a name that is not the proxy's own: with one that leads to this machine (DNS
        rebinding), a web page could read the answers.
        """
        if host is None:  # no browser leaves it out
            return
        name = _NAME.sub(r"\1", host.strip().lower()).rstrip(".")
        is_own = name in self.hosts or (self.key is not None and not self.hosts)
        if not is_own and not _is_loopback(name):
            raise Problem.saying(
                421, "this proxy does not answer under this name: --allowed-host names others"
            )

    def knows(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Tell whether a request shows the key, if one is wanted.

        Arguments:
            headers: as ASGI has them.
        """
        if self.key is None:
            return True
        texts = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        return _shows(texts, self.key)

    async def other(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        receive: Receive,
    ) -> HttpResponse | None:
        """Answer a request that is no model call, or forward it."""
        try:
            return await super().other(scope, headers, receive)
        except Problem:
            if not self.forwards or not scope["path"].startswith("/v1"):
                raise
        sent = path_as_sent(scope)
        if self.gateway.language(simplest(sent)) is not None:
            raise Problem.saying(404, "a model call is a POST to its own address, as it is written")
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
            if name.lower() not in _HOPS:
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


def _shows(headers: Mapping[str, str], key: Secret) -> bool:
    """Tell whether a request has a key, in one of the headers of the SDKs, in constant time."""
    _, _, bearer = headers.get("authorization", "").partition(" ")
    shown = [headers.get("x-api-key", ""), headers.get("x-goog-api-key", ""), bearer]
    wanted = key.reveal().encode()
    return any(hmac.compare_digest(each.encode(), wanted) for each in shown)


async def _read(client: httpx.AsyncClient, answer: httpx.Response) -> AsyncGenerator[bytes]:
    """Yield the bytes of an answer, and close its connection however the reading ends."""
    try:
        async for piece in answer.aiter_bytes():
            yield piece
    finally:
        await answer.aclose()
        await client.aclose()


class Metrics:
    """Count calls for Prometheus, whose official client must be installed."""

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
        self._running = Gauge("rungwise_requests_running", "Requests that run now.", **shared)

    def count(self, result: Result) -> None:
        """Count a call."""
        self._calls.labels(result.outcome, result.backend).inc()
        for step in result.journal.steps:
            if step.event == "sent":
                self._attempts.labels(step.backend).inc()
        self._cost.inc(result.cost or 0)
        self._seconds.observe(result.seconds)

    def response(self, running: int) -> HttpResponse:
        """Return the page of metrics."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        self._running.set(running)
        return HttpResponse(
            200, {"content-type": CONTENT_TYPE_LATEST}, generate_latest(self._registry)
        )
