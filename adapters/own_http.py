"""The HTTP clients that a `Client` makes for itself when it was given none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any
from urllib.request import getproxies

import httpx

from adapters.sockets import limit
from fsm.errors import ConfigurationError
from fsm.secret import SecretMap

# A call must not wait behind others for a place in the pool.
_POOL = httpx.Limits(max_connections=None, max_keepalive_connections=100)

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("ssl_cert_file", "ssl_cert_dir")
"""The variables of the environment that httpx heeds, in lower case; upper case is as good."""

LARGEST_PORT = 65_535
# What is on this machine is reached without a proxy, whatever the environment says: the proxy would be given its keys.
_DIRECT = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}

_url = lru_cache(maxsize=64)(httpx.URL)


def _defaults() -> dict[str, str]:
    """Return the headers that httpx sends by default, under our own name."""
    with httpx.Client(verify=False, trust_env=False) as client:
        return {**client.headers, "user-agent": "rungwise"}


@contextmanager
def _of_environment() -> Iterator[None]:
    """Name the variables of the environment where no client can be made of what they say.

    Raises:
        ConfigurationError: their values are not shown, because the URL of a proxy may hold a password.
    """
    try:
        for name, url in getproxies().items():
            if f"{name}_proxy" in PROXIES[:3]:  # the last one is a list of hosts
                proxy = httpx.URL(url if "://" in url else f"http://{url}")
                if not proxy.raw_host.decode("ascii").encode("idna") or (proxy.port or 0) > LARGEST_PORT:
                    raise ValueError("no place to connect to")
        yield
    except (httpx.InvalidURL, ValueError, TypeError):
        raise ConfigurationError(f"{_set(PROXIES)} of the environment: not the URL of a proxy, or no host") from None
    except ImportError:
        raise ConfigurationError(
            f"{_set(PROXIES)} of the environment: a SOCKS proxy needs the package socksio (pip install 'httpx[socks]')"
        ) from None
    except OSError as error:  # also what `ssl` raises of a file that holds no certificates
        raise ConfigurationError(
            f"{_set(CERTIFICATES)} of the environment: no certificates can be read there ({type(error).__name__})"
        ) from None


def _set(names: Iterable[str]) -> str:
    return ", ".join(sorted(name for name in os.environ if name.lower() in names))


def _build(method: str, url: str, *, content: Any, headers: Any, extensions: Any) -> httpx.Request:
    """Build a request without what httpx does for clients that hold parameters, cookies and redirects of their own.

    Measured with httpx 0.28: 11 us in place of 32, a twentieth of a whole call on loopback.
    """
    return httpx.Request(method, _url(url), headers=headers, content=content, extensions=extensions)


class OwnClient:
    """Be an `httpx.Client` as far as the driver uses one, with limits on every socket.

    Requests go straight to the transport: no authentication flow, redirects or cookies. Measured: a tenth of a call on
    loopback. Where the environment names proxies, httpx's client chooses among its transports as ever, but for what
    is on this machine.
    """

    def __init__(self) -> None:
        self._headers = _defaults()
        if getproxies():
            with _of_environment():
                client = httpx.Client(timeout=None, limits=_POOL, mounts=_DIRECT)
            limit(client._transport, *client._mounts.values())
            self._send, self.close = client.send, client.close
        else:
            with _of_environment():
                transport = httpx.HTTPTransport(limits=_POOL)
            limit(transport)
            self._send, self.close = partial(_through, transport), transport.close

    def build_request(self, method: str, url: str, *, headers: Any = None, **options: Any) -> httpx.Request:
        """Build a request."""
        return _build(method, url, headers=SecretMap(self._headers, headers), **options)

    def send(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        """Send it."""
        return self._send(request, stream=stream)


def _through(transport: httpx.HTTPTransport, request: httpx.Request, *, stream: bool) -> httpx.Response:
    return transport.handle_request(request)


class OwnAsyncClient:
    """Be an `httpx.AsyncClient` as far as the driver uses one; see `OwnClient`."""

    def __init__(self) -> None:
        self._headers = _defaults()
        if getproxies():
            with _of_environment():
                client = httpx.AsyncClient(timeout=None, limits=_POOL, mounts=_DIRECT)
            self._send, self.aclose = client.send, client.aclose
        else:
            with _of_environment():
                transport = httpx.AsyncHTTPTransport(limits=_POOL)
            self._send, self.aclose = partial(_athrough, transport), transport.aclose

    def build_request(self, method: str, url: str, *, headers: Any = None, **options: Any) -> httpx.Request:
        """Build a request."""
        return _build(method, url, headers=SecretMap(self._headers, headers), **options)

    async def send(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        """Send it."""
        return await self._send(request, stream=stream)


async def _athrough(transport: httpx.AsyncHTTPTransport, request: httpx.Request, *, stream: bool) -> httpx.Response:
    return await transport.handle_async_request(request)
