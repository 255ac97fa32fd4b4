"""Our own HTTP client: HTTP/1.1 on connections that keep the limits of an attempt.

`README.md` beside this file says why it exists. If the environment names a proxy for a host, httpx
sends the request, as it does for a client that the caller passed in (`borrowed.py`).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple
from urllib.request import getproxies, proxy_bypass

import h11
import httpx

from rungwise.adapters.http.borrowed import (
    BorrowedAsyncHttp,
    BorrowedAsyncResponse,
    BorrowedHttp,
    BorrowedResponse,
)
from rungwise.adapters.http.cancellation import Cancellation
from rungwise.adapters.http.connection import Connection, Origin, StaleConnection, read_headers
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.pool import Pool, Waiter
from rungwise.adapters.http.sockets import connect
from rungwise.adapters.http.waiting import Bell, Mailbox, Nothing, Operation, arun, check, run
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.adapters.wires.endpoint import DEFAULT_PORTS, is_this_machine, merged
from rungwise.fsm.errors import ConfigurationError

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("ssl_cert_file", "ssl_cert_dir")
"""The environment variables that httpx reads, in lower case; upper case works as well."""

LARGEST_PORT = 65_535
"""The largest port of TCP."""


@contextmanager
def environment_named() -> Iterator[None]:
    """Name the environment variables from which no client can be built.

    Raises:
        ConfigurationError: it never shows the values, because the URL of a proxy may hold a
            password.
    """
    try:
        for name, url in getproxies().items():
            if f"{name}_proxy" in PROXIES[:3]:  # the last one is a list of hosts
                _check_proxy(url)
        yield
    except (httpx.InvalidURL, ValueError, TypeError):
        raise ConfigurationError(
            f"{_set(PROXIES)} of the environment: not the URL of a proxy, or no host"
        ) from None
    except ImportError:
        raise ConfigurationError(
            f"{_set(PROXIES)} of the environment: a SOCKS proxy needs the package socksio "
            "(pip install 'httpx[socks]')"
        ) from None
    except OSError as error:  # `ssl` raises it as well for a file without certificates
        raise ConfigurationError(
            f"{_set(CERTIFICATES)} of the environment: no certificates can be read there "
            f"({type(error).__name__})"
        ) from None


def _check_proxy(url: str) -> None:
    """Raise an error for a URL with no place to connect to."""
    proxy = _proxy_at(url)
    host = proxy.raw_host.decode("ascii").encode("idna")
    if not host or (proxy.port or 0) > LARGEST_PORT:
        raise ValueError("no place to connect to")


def _proxy_at(url: str) -> httpx.URL:
    return httpx.URL(url if "://" in url else f"http://{url}")


def _set(names: Iterable[str]) -> str:
    """Name the variables among these that are set."""
    return ", ".join(sorted(name for name in os.environ if name.lower() in names))


HEADERS = {"accept": "*/*", "connection": "keep-alive", "user-agent": "rungwise"}
"""The headers of every request, unless its backend sets them."""

# Our places limit the connections. None is kept: httpx does not notice that an idle one holds an
# unsolicited reply, or belongs to the parent of this process.
_UNKEPT = httpx.Limits(max_connections=None, max_keepalive_connections=0)


class _Target(NamedTuple):
    """The parts of a URL: where to connect, the path, and the host header."""

    origin: Origin
    hostname: str
    host: str
    path: bytes


@lru_cache(maxsize=64)
def target_of(url: str) -> _Target:
    """Split a URL, once for all requests to it."""
    parsed = httpx.URL(url)
    name = parsed.raw_host.decode("ascii")
    port = parsed.port or DEFAULT_PORTS[parsed.scheme]
    origin = (parsed.scheme, name, port)
    return _Target(origin, parsed.host, parsed.netloc.decode("ascii"), parsed.raw_path)


def _for_proxies() -> dict[str, Any]:
    """Return the options for httpx: no reply leaves anything behind for the next request."""
    # a jar that takes none, for the callers may be many people
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return {
        "timeout": None,
        "limits": _UNKEPT,
        "headers": {"user-agent": HEADERS["user-agent"]},
        "cookies": cookies,
    }


class _PooledHttp:
    """What `OwnHttp` and `OwnAsyncHttp` share: the pool, and how a request is sent."""

    def __init__(self, max_connections: int) -> None:
        self.pool: Pool = Pool(max_connections)
        self._proxies = getproxies()
        if self._proxies:
            with environment_named():  # which checks it
                pass

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """Load the certificates when they are first needed: that takes longer than many calls."""
        with environment_named():
            context = httpx.create_ssl_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _is_proxied(self, request: HttpRequest, limits: AttemptLimits) -> bool:
        """Tell whether the environment names a proxy for a request, and note where it is."""
        if not self._proxies:
            return False
        target = target_of(request.url)
        if is_this_machine(target.hostname):  # a proxy would see the keys of servers here
            return False
        scheme = target.origin[0]
        proxy = self._proxies.get(scheme) or self._proxies.get("all")
        if not proxy or proxy_bypass(target.hostname):
            return False
        limits.proxy = _proxy_at(proxy).netloc.decode("ascii")  # without a password
        return True

    def _exchange(
        self, request: HttpRequest, limits: AttemptLimits
    ) -> Operation[tuple[Connection, h11.Response]]:
        """Send a request on an idle connection or a new one, and read the head of the answer."""
        origin, _, host, path = target_of(request.url)
        connection = self.pool.take(origin, is_fresh=limits.is_fresh)
        if connection is None:
            scheme, name, port = origin
            context = self._context if scheme == "https" else None
            sock = yield from connect(name, port, context, limits)
            connection = Connection(origin, sock)
            self.pool.add(connection)
        body = request.body
        length = {"content-length": str(len(body))}
        headers = merged({"host": host, **HEADERS}, request.headers, length)
        idle_seconds = connection.idle_seconds
        try:
            head = yield from connection.ask(request.method, path, headers, body, limits)
        except BaseException as error:
            if isinstance(error, StaleConnection):
                self.pool.lost(origin, idle_seconds)
            self.pool.give_back(connection, is_usable=False)
            raise
        return connection, head


class _Place(Waiter):
    """Hold a place in a `with` block."""

    __slots__ = ("_bell",)

    def __enter__(self) -> bool:
        self._bell: Mailbox[None] = Mailbox()
        try:
            if not self._pool.take_place(self):
                forget = self._cancellation.on_cancel(self.wake)
                try:
                    with suppress(Nothing):
                        self._bell.get(self._seconds)
                finally:
                    forget()
                check(self._cancellation)
        except BaseException:
            self._pool.leave(self)
            raise
        return self.has_place

    def __exit__(self, *_: object) -> None:
        self._pool.leave(self)

    def wake(self) -> None:
        self._bell.put(None)


class _AsyncPlace(Waiter):
    """Hold a place in an `async with` block.

    It is no generator: an event loop that ends might close that before the stream in the block.
    """

    __slots__ = ("_bell",)

    async def __aenter__(self) -> bool:
        self._bell: Bell | None = Bell()
        try:
            if not self._pool.take_place(self):
                await self._bell.wait(self._seconds, self._cancellation)
        except BaseException:
            self._pool.leave(self)
            raise
        self._bell = None  # thousands may hold a place, and nobody rings them
        return self.has_place

    async def __aexit__(self, *_: object) -> None:
        self._pool.leave(self)

    def wake(self) -> None:
        if self._bell is not None:
            self._bell.ring()


class OwnHttp(_PooledHttp):
    """Send requests from threads."""

    def place(self, seconds: float | None, cancellation: Cancellation) -> _Place:
        """Wait for a place among the connections, in a `with` block.

        Arguments:
            seconds: how long to wait; None for no limit.
            cancellation: ends the wait from outside.

        Returns:
            A context manager, which yields whether there was a place in time.
        """
        return _Place(self.pool, seconds, cancellation)

    def send(self, request: HttpRequest, limits: AttemptLimits) -> OwnResponse | BorrowedResponse:
        """Send a request and return the response, its body unread."""
        if self._is_proxied(request, limits):
            return self._proxied.send(request, limits)
        connection, head = run(self._exchange(request, limits), limits.cancellation)
        return OwnResponse(self.pool, connection, head, limits)

    @cached_property
    def _proxied(self) -> BorrowedHttp:
        with environment_named():
            return BorrowedHttp(httpx.Client(**_for_proxies()))

    def close(self) -> None:
        """Close the idle connections; the others close when their calls end."""
        self.pool.close()
        if "_proxied" in self.__dict__:
            self._proxied.http.close()


class OwnAsyncHttp(_PooledHttp):
    """Send requests from the tasks of one event loop; see `OwnHttp`."""

    def place(self, seconds: float | None, cancellation: Cancellation) -> _AsyncPlace:
        """Hold a place among the connections; see `OwnHttp.place`."""
        return _AsyncPlace(self.pool, seconds, cancellation)

    async def send(
        self, request: HttpRequest, limits: AttemptLimits
    ) -> OwnResponse | BorrowedAsyncResponse:
        """Send a request and return the response, its body unread."""
        if self._is_proxied(request, limits):
            return await self._proxied.send(request, limits)
        connection, head = await arun(self._exchange(request, limits), limits.cancellation)
        return OwnResponse(self.pool, connection, head, limits)

    @cached_property
    def _proxied(self) -> BorrowedAsyncHttp:
        with environment_named():
            return BorrowedAsyncHttp(httpx.AsyncClient(**_for_proxies()))

    async def aclose(self) -> None:
        """Close the idle connections; the others close when their calls end."""
        self.pool.close()
        if "_proxied" in self.__dict__:
            await self._proxied.http.aclose()


class OwnResponse:
    """Read the response on one of our own connections, in threads and in tasks."""

    is_decoded = False

    def __init__(
        self,
        pool: Pool,
        connection: Connection,
        head: h11.Response,
        limits: AttemptLimits,
    ) -> None:
        self.status_code = head.status_code
        self.headers = read_headers(head.headers.raw_items())
        self._pool = pool
        self._limits = limits
        self._connection: Connection | None = connection

    def pieces(self) -> Iterator[bytes]:
        """Read the body as it comes, encoded as it is."""
        while (connection := self._connection) is not None:
            data = connection.buffered()
            if data is None:
                return
            if not data:
                filling = connection.fill(self._limits, waits_first=True)
                data = run(filling, self._limits.cancellation)
            if data:
                yield data

    async def apieces(self) -> AsyncGenerator[bytes]:
        """Read the body as it comes, encoded as it is."""
        while (connection := self._connection) is not None:
            data = connection.buffered()
            if data is None:
                return
            if not data:
                data = await arun(connection.fill(self._limits), self._limits.cancellation)
            if data:
                yield data

    def close(self) -> None:
        """Give the connection back, to serve the next request if it can."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            self._pool.give_back(connection, is_usable=connection.finish())

    async def aclose(self) -> None:
        """Give the connection back, to serve the next request if it can."""
        self.close()
