"""What lets web pages of other origins ask the proxy."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.gateway.answers import HttpResponse, Problem
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import short

ANY_ORIGIN: Final = "*"
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.:\[\]_-]{1,255}")
_NAMES: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}")
_EXPOSED: Final = ", ".join(
    f"x-rungwise-{name}" for name in ("attempts", "backend", "cost", "journal", "lost", "outcome")
)

Send = Callable[[Any], Awaitable[None]]


def _origins(value: Iterable[str]) -> frozenset[str]:
    for origin in value:
        if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
            raise ConfigurationError(
                "an origin is a scheme, a host and perhaps a port, in small letters and without a "
                f"slash at the end, as in https://app.example:8443, not {short(origin)}"
            )
    return frozenset(value)


@frozen
class Cors:
    """Let pages of some origins ask, never with cookies or other credentials of the browser.

    A key is no such credential: the page itself writes it into a header.

    Arguments:
        origins: each as in "https://app.example"; "*" for every origin.

    Raises:
        ConfigurationError: one is of another form.
    """

    origins: frozenset[str] = field(converter=_origins)

    def names(self, origin: str | None) -> bool:
        """Tell whether an origin is one of those that are named."""
        return origin in self.origins and origin != ANY_ORIGIN

    def headers(self, origin: str | None) -> dict[str, str]:
        """Return the headers by which a page of an origin may read a response."""
        if ANY_ORIGIN in self.origins:
            allowed = ANY_ORIGIN
        elif origin is not None and origin in self.origins:
            allowed = origin
        else:
            return {"vary": "Origin"}
        return {
            "access-control-allow-origin": allowed,
            "access-control-expose-headers": f"{_EXPOSED}, retry-after, x-request-id",
            "vary": "Origin",
        }

    def preflight(self, headers: Mapping[str, str]) -> HttpResponse:
        """Answer what a browser asks before it sends a request of a page."""
        origin = headers.get("origin")
        if ANY_ORIGIN not in self.origins and not self.names(origin):
            raise Problem.saying(403, "pages of this origin may not ask: --cors names others")
        allowed = {"access-control-allow-methods": "GET, POST", "access-control-max-age": "600"}
        wanted = headers.get("access-control-request-headers", "")
        if _NAMES.fullmatch(wanted):
            allowed["access-control-allow-headers"] = wanted
        return HttpResponse(204, allowed, b"")

    def sending(self, scope: Mapping[str, Any], send: Send) -> Send:
        """Return what sends a response with these headers; takes what ASGI gives."""
        origin = dict(scope["headers"]).get(b"origin", b"").decode("latin-1")
        own = [
            (name.encode(), each.encode("latin-1")) for name, each in self.headers(origin).items()
        ]

        async def send_with_them(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        return send_with_them
