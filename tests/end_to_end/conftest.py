"""What the end-to-end tests share: servers on loopback, and `run`, which makes a call in each of
the modes.
"""

import json
import os
import socket
import socketserver
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from rungwise import OpenAIChat
from rungwise.adapters.http import running
from rungwise.adapters.http.borrowed import BorrowedAsyncHttp
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.own import OwnAsyncHttp
from rungwise.adapters.http.waiting import event_loop
from rungwise.adapters.provider.server import render
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.adapters.wires.learned import LEARNED
from rungwise.testing import ReceivedRequest, ScriptedReply
from support import protocols, ways
from support.durable import Opened
from support.modes import MODES, WHOLE
from support.raw_server import CERTIFICATE
from support.runs import NAMES, Run, Scripted, Serve, Stage

HERE = f"{Path(__file__).parent}{os.sep}"
ON_AIOHTTP = os.environ.get("TRANSPORT") == "httpx-aiohttp"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `.ci/run full` what takes real time and runs on httpx2 as it does on httpx, and
    fifteen cases of sixteen.

    A test that is marked `sampled` says itself how many cases an ordinary run takes.
    A run over aiohttp leaves out the tests marked `own_connections`: they count connections, or
    take hold of them.
    """
    for item in items:
        if "httpx2." in item.name:
            item.add_marker(pytest.mark.full)
        if str(item.path).startswith(HERE) and item.get_closest_marker("sampled") is None:
            item.add_marker(pytest.mark.sampled(16))
    if ON_AIOHTTP:
        items[:] = [item for item in items if item.get_closest_marker("own_connections") is None]


@pytest.fixture(scope="session", autouse=True)
def one_tls_context() -> Iterator[None]:
    """Load the certificates once: each HTTP client takes 25 ms for them, and no test here speaks
    TLS.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


class OverAiohttp(OwnAsyncHttp):
    """Send the requests of one event loop with httpx over aiohttp, as if the caller had passed such
    a client in.
    """

    def _is_proxied(self, request: HttpRequest, limits: AttemptLimits) -> bool:
        return True

    @cached_property
    def _proxied(self) -> BorrowedAsyncHttp:
        import httpx_aiohttp

        return BorrowedAsyncHttp(
            httpx.AsyncClient(transport=httpx_aiohttp.AiohttpTransport(), timeout=None)
        )


@pytest.fixture(scope="session", autouse=True)
def transport() -> Iterator[None]:
    """Where `TRANSPORT=httpx-aiohttp` is set, run every asynchronous call on asyncio over
    aiohttp.
    """
    with pytest.MonkeyPatch.context() as patch:
        if ON_AIOHTTP:
            patch.setattr(
                running,
                "OwnAsyncHttp",
                lambda most: (OwnAsyncHttp if event_loop() is None else OverAiohttp)(most),
            )
        yield


@pytest.fixture(autouse=True)
def nothing_learned() -> Iterator[None]:
    """Forget what servers taught this process."""
    yield
    LEARNED.forget()


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Close every client that a test has made by `support.ways`."""
    yield
    ways.close_all()


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the tests' own certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


@pytest.fixture
def accepted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """List the addresses of the connections that servers accept from now on."""
    addresses: list[Any] = []
    process = socketserver.ThreadingMixIn.process_request

    def count(self: Any, request: Any, address: Any) -> None:
        addresses.append(address)
        process(self, request, address)

    monkeypatch.setattr(socketserver.ThreadingMixIn, "process_request", count)
    return addresses


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a provider of the test's own: `serve(*replies)` plays them and goes on with the last
    one.
    """
    with ExitStack() as stack:
        yield lambda *replies: stack.enter_context(Stage(replies).provider)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new database; a test that takes it runs on SQLite and on Postgres."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'calls.sqlite'}"
    return str(request.getfixturevalue("postgres_server").new_database())


@pytest.fixture
def opened(database: str) -> Callable[..., Opened]:
    """Return what opens that database with a chain."""
    return lambda *chain: Opened(database, chain)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Return a mode of a call; a test that takes it runs in every mode."""
    return str(request.param)


@pytest.fixture(params=ways.OWN)
def way(request: pytest.FixtureRequest) -> str:
    """Return a way over our own connections; a test that takes it runs in a thread and in a
    task.
    """
    return str(request.param)


@pytest.fixture(params=protocols.PROTOCOLS)
def api(request: pytest.FixtureRequest) -> str:
    """Return a protocol; a test that takes it runs in every protocol."""
    return str(request.param)


@pytest.fixture(scope="session")
def backend_of() -> Callable[..., OpenAIChat]:
    """Build the backend of a provider: `backend_of(provider, **options)`."""
    return lambda provider, **options: ways.backend(provider.base_url, **options)


@pytest.fixture(scope="session")
def dead_url() -> Iterator[str]:
    """Return a base URL where every connection is refused."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


@pytest.fixture(scope="session")
def cut() -> Callable[..., Scripted]:
    """Cut a reply: `cut(reply, after)` ends its body behind the event that holds `after`; `hang`
    stays silent there.
    """

    def cut(reply: ScriptedReply, after: str, *, hang: bool = False) -> Scripted:
        def answer(request: ReceivedRequest) -> ScriptedReply:
            body = render(reply, request.body).body
            end = body.index(json.dumps(after, ensure_ascii=False)[1:-1].encode()) + len(
                after.encode()
            )
            if request.body.get("stream") is True:
                end = body.index(b"\n\n", end) + 2
            return attrs.evolve(reply, cut_after=end, hang=hang)

        return answer

    return cut


@pytest.fixture(scope="session")
def stages() -> Iterator[tuple[Stage, ...]]:
    """Return a server for each place in a chain, which every test gives another script."""
    with ExitStack() as stack:
        stages = tuple(Stage() for _ in NAMES)
        for stage in stages:
            stack.enter_context(stage.provider)
        yield stages


SELDOM = ("acall", "awhole")
"""The modes that only the full run takes: what they alone do is tried elsewhere, too."""


@pytest.fixture(
    params=[
        pytest.param(mode, marks=[pytest.mark.full] if mode in SELDOM else [])
        for mode in (*MODES, *WHOLE)
    ]
)
def run(
    request: pytest.FixtureRequest, stages: tuple[Stage, ...], caplog: pytest.LogCaptureFixture
) -> Run:
    """Return what makes one call in a mode and checks it; a test that takes it runs in every
    mode.
    """
    return Run(request.param, stages, caplog)
