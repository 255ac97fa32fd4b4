"""A deadline holds in every phase of an attempt, and a cancellation ends each at once, whoever made
the connection.
"""

import asyncio
import gc
import gzip
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx
import httpx_aiohttp
import pytest

import rungwise
from rungwise import Cancellation
from support.raw_server import (
    STREAM_HEAD,
    Peer,
    RawServer,
    answer,
    answering,
    chunk,
    event,
    silent,
    stream_of,
)
from support.sampling import sampled
from support.waiting import until
from support.ways import ALL, ONCE, OWN, PASSED_IN, SYNC, aask, aclose, ask, backend, client_for

BUDGET = 0.5
# a broken promise costs 10 s and more, or never ends; the rest is for a busy machine
CEILING = BUDGET + 6
SOON = 1.0  # the promise is 0.1 s
POLICY = rungwise.Policy(limits=ONCE, budget=rungwise.Budget(seconds=BUDGET))

NO_COMPRESSION = zlib.compressobj()
EMPTY_DEFLATE = NO_COMPRESSION.flush(zlib.Z_SYNC_FLUSH)


def drips(name: str, first: bytes, piece: bytes = b"") -> Callable[[Peer], None]:
    """Read a request, send something, and then drip a piece for ever, or nothing."""

    def play(peer: Peer) -> None:
        peer.request()
        peer.send(first)
        if piece:
            peer.drip(piece)
        peer.hang()

    play.__name__ = name
    return play


def informing(peer: Peer) -> None:
    """Flood with 1xx responses."""
    peer.request()
    peer.flood(INFORMATION)


INFORMATION = b"HTTP/1.1 102 Processing\r\n\r\n"
informing_slowly = drips("informing_slowly", INFORMATION, INFORMATION)
header = drips("header", b"HTTP/1.1 200 OK\r\nx-long: ", b"x")
headers = drips("headers", b"HTTP/1.1 200 OK\r\n", b"x-more: 1\r\n")
extension = drips("extension", STREAM_HEAD + b"\r\n5;x=", b"x")
deflate = drips(  # blocks that decode to nothing
    "deflate",
    STREAM_HEAD + b"content-encoding: deflate\r\n\r\n" + chunk(EMPTY_DEFLATE),
    chunk(b"\0\0\0\xff\xff"),
)
comments = drips("comments", STREAM_HEAD + b"\r\n", chunk(b": still here\n\n"))
silent_body = drips("silent_body", STREAM_HEAD + b"\r\n")

READING = [
    silent,
    informing,
    informing_slowly,
    header,
    headers,
    extension,
    deflate,
    comments,
    silent_body,
]
LARGE = "heron " * 4_000_000  # more than any socket buffers


@contextmanager
def full_backlog() -> Iterator[int]:
    """Give a port where connections neither succeed nor fail."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(8):
            waiting.append(caller := socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for caller in waiting:
            caller.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Look names up: `names(host, addresses)` calls these with a port. Never for `slow.test`."""
    over = threading.Event()
    real = socket.getaddrinfo

    def never(port: int) -> Any:
        over.wait(30)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    known: dict[str, Callable[[int], Any]] = {"slow.test": never}

    def look_up(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return known[name](port) if name in known else real(host, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield known.__setitem__
    over.set()
    for thread in threading.enumerate():  # a lookup is shared, so none may be left to the next test
        if thread.name.startswith("rungwise looks up"):
            thread.join()


def tcp(address: str, port: int) -> tuple[Any, ...]:
    """Return an address as a lookup returns it."""
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))


@contextmanager
def stage(phase: Any, names: Any) -> Iterator[str]:
    """Give a base URL that gets stuck in a phase."""
    if phase == "resolve":
        yield "http://slow.test:1/v1"
    elif phase in ("connect", "dead addresses"):
        names("dead.test", lambda port: [tcp("127.0.0.1", port)] * 4)
        with full_backlog() as port:
            yield f"http://{'127.0.0.1' if phase == 'connect' else 'dead.test'}:{port}/v1"
    else:
        is_tls = phase == "handshake"
        with RawServer(Peer.hang if phase in ("handshake", "write") else phase) as server:
            yield server.base_url.replace("http:", "https:") if is_tls else server.base_url


def soon_ended(way: str, client: Any, *asked: Any, **options: Any) -> Any:
    """Make a call in another thread, which has to end, and return how it ended."""
    ended: list[Any] = []
    thread = threading.Thread(
        target=lambda: ended.append(ask(way, client, *asked, **options)), daemon=True
    )
    thread.start()
    thread.join(30)
    assert ended, "the call has not ended"
    return ended[0]


def ended_by_a_token(
    way: str,
    client: Any,
    *asked: Any,
    when: Callable[[], object],
    pause: float,
) -> Any:
    """Make a call, cancel it a moment after something holds, and return how it ended, which it did
    at once.
    """
    token = Cancellation()
    ended = list[Any]()
    thread = threading.Thread(
        target=lambda: ended.append(
            (ask(way, client, *asked, cancellation=token), time.monotonic())
        ),
        daemon=True,
    )
    thread.start()
    until(when)
    time.sleep(pause)
    at = time.monotonic()
    token.cancel()
    thread.join(30)
    assert ended, "the call has not ended"
    result, moment = ended[0]
    assert moment - at < SOON
    return result


PHASES = ["resolve", "connect", "dead addresses", "handshake", "write", *READING]
# each waits for half a second
OFTEN = [*OWN, *[pytest.param(way, marks=pytest.mark.full) for way in PASSED_IN]]
IN_EVERY_PHASE = pytest.mark.parametrize(
    "phase", PHASES, ids=lambda phase: getattr(phase, "__name__", phase)
)


@pytest.mark.own_connections
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("way", OFTEN)
@pytest.mark.parametrize(
    "phase", sampled(PHASES, one_in=2), ids=lambda phase: getattr(phase, "__name__", phase)
)
def test_the_budget_ends_a_call_in_every_phase(names: Any, way: str, phase: Any) -> None:
    with stage(phase, names) as url:
        client = client_for(way, backend(url), policy=POLICY)
        asked = soon_ended(way, client, LARGE if phase == "write" else "Where?")
        assert asked.seconds < CEILING
        assert asked.outcome in ("failed", "over_budget")
        assert (
            asked.failures[-1].reason == "timeout"
            if asked.failures
            else asked.outcome == "over_budget"
        )


@pytest.mark.own_connections
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    "way", [OWN[0], *[pytest.param(way, marks=pytest.mark.full) for way in ALL[1:]]]
)
@IN_EVERY_PHASE
def test_the_next_backend_is_asked_when_no_first_token_has_come_in_whatever_phase(
    names: Any, way: str, phase: Any
) -> None:
    policy = rungwise.Policy(timeouts=rungwise.Timeouts(connect=30, first_token=BUDGET))
    with stage(phase, names) as url, RawServer(answering(stream_of("Yes."))) as b:
        client = client_for(
            way, [backend(url), backend(b.base_url, name="second", first_token=30)], policy=policy
        )
        asked = soon_ended(way, client, LARGE if phase == "write" else "Where?", streams=False)
    assert (asked.outcome, asked.text, asked.result.backend) == ("done", "Yes.", "second")
    assert [failure.reason for failure in asked.failures] == ["silence"]
    assert BUDGET <= asked.seconds < CEILING


CONNECTING = ["resolve", "connect", "dead addresses", "handshake"]


@pytest.mark.own_connections
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("phase", CONNECTING)
def test_the_time_to_connect_covers_names_addresses_and_tls(
    names: Any, way: str, phase: str
) -> None:
    policy = rungwise.Policy(timeouts=rungwise.Timeouts(connect=BUDGET, first_token=30))
    with stage(phase, names) as url, RawServer(answering(stream_of("Yes."))) as b:
        asked = soon_ended(
            way, client_for(way, [backend(url), backend(b.base_url, name="second")], policy=policy)
        )
    assert (asked.outcome, asked.text, asked.result.backend) == ("done", "Yes.", "second")
    assert [(failure.reason, type(failure.exception).__name__) for failure in asked.failures] == [
        ("timeout", "ConnectTimeout")
    ]
    assert BUDGET <= asked.seconds < CEILING


@pytest.mark.own_connections
@pytest.mark.parametrize("way", ALL)
def test_the_time_to_connect_is_that_of_all_its_phases_together(names: Any, way: str) -> None:
    """A name that takes most of the time, and then TLS that never comes about."""

    def slow(port: int) -> Any:
        time.sleep(BUDGET * 0.4)
        return [tcp("127.0.0.1", port)]

    names("slow.test", slow)
    policy = rungwise.Policy(
        limits=rungwise.Limits(retries=0), timeouts=rungwise.Timeouts(connect=BUDGET)
    )
    with RawServer(Peer.hang) as server:
        asked = soon_ended(
            way, client_for(way, backend(f"https://slow.test:{server.port}/v1"), policy=policy)
        )
    assert [failure.reason for failure in asked.failures] == ["timeout"]
    assert BUDGET <= asked.seconds < BUDGET * 1.4 + SOON


@pytest.mark.parametrize(
    ("way", "phase"),
    [(SYNC[0], phase) for phase in PHASES]
    + sampled([(way, phase) for way in SYNC[1:] for phase in PHASES], one_in=3),
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_cancellation_ends_a_call_in_every_phase(names: Any, way: str, phase: Any) -> None:
    with stage(phase, names) as url:
        messages = LARGE if phase == "write" else "Where?"
        client = client_for(way, backend(url))
        # so that it is in the phase
        asked = ended_by_a_token(way, client, messages, when=lambda: True, pause=0.2)
        assert asked.outcome == "cancelled"


@pytest.mark.parametrize("way", ALL)
def test_what_drips_behind_the_end_of_a_stream_is_not_waited_for(way: str) -> None:
    play = drips("trailer", stream_of("In the reeds.").removesuffix(b"0\r\n\r\n") + b"1;x=", b"x")
    with RawServer(play) as server:
        asked = ask(way, client_for(way, backend(server.base_url)))
    assert (asked.outcome, asked.text) == ("done", "In the reeds.")
    assert asked.seconds < CEILING


@cache
def very_much() -> bytes:
    """Pack 14 million lines into a few bytes."""
    packed = gzip.compress(event("In the reeds") + b"\n" * 14_000_000)
    assert len(packed) < 20_000
    return packed


def unpacking(peer: Peer) -> None:
    """Send a few bytes that unpack to very much."""
    peer.request()
    peer.send(STREAM_HEAD + b"content-encoding: gzip\r\n\r\n" + chunk(very_much()))
    peer.hang()


@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("tokens", [None, 1000])
def test_a_body_that_unpacks_to_very_much_does_not_keep_a_call(
    way: str, tokens: int | None
) -> None:
    policy = rungwise.Policy(
        limits=ONCE, budget=rungwise.Budget(seconds=BUDGET, output_tokens=tokens)
    )
    very_much()
    with RawServer(unpacking) as server:
        asked = ask(way, client_for(way, backend(server.base_url), policy=policy))
    assert (asked.outcome, asked.text) == ("partial", "In the reeds")
    assert asked.seconds < CEILING
    assert [("max_tokens" in body) for body in server.bodies] == [tokens is not None]


@pytest.mark.parametrize("way", SYNC)
def test_a_cancellation_ends_a_call_that_unpacks_very_much(way: str) -> None:
    policy = rungwise.Policy(limits=ONCE, budget=rungwise.Budget(output_tokens=1000))
    very_much()
    with RawServer(unpacking) as server:
        client = client_for(way, backend(server.base_url), policy=policy)
        # so that it unpacks
        asked = ended_by_a_token(way, client, when=lambda: server.requests, pause=0.1)
    assert (asked.outcome, asked.text) == ("cancelled", "In the reeds")


@pytest.mark.full
@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["own async", "httpx.AsyncClient"])
def test_what_unpacks_to_very_much_leaves_other_tasks_their_turns(way: str) -> None:
    longest = 0.0

    async def main(server: RawServer) -> None:
        nonlocal longest
        policy = rungwise.Policy(limits=ONCE, budget=rungwise.Budget(output_tokens=1000))
        client = client_for(way, backend(server.base_url), policy=policy)
        task = asyncio.create_task(aask(client))
        while not task.done():
            now = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - now)
        assert (await task).text == "In the reeds"
        await aclose(client)

    very_much()
    with RawServer(unpacking) as server:
        asyncio.run(main(server))
    assert longest < 2.0  # ten seconds where all of it is unpacked in one go


def test_a_dead_address_does_not_hide_a_live_one(names: Any, way: str) -> None:
    with full_backlog() as dead, RawServer(answering(answer("Yes."))) as server:
        both = [tcp("127.0.0.1", port) for port in (dead, server.port)]
        names("both.test", lambda port: both)
        asked = ask(way, client_for(way, backend("http://both.test:1/v1")), streams=False)
    assert (asked.outcome, asked.text) == ("done", "Yes.")
    assert asked.seconds < CEILING


def test_a_name_is_looked_up_by_one_thread_whatever_the_port(names: Any) -> None:
    asked: list[int] = []
    released = threading.Event()

    def slow(port: int) -> Any:
        asked.append(port)
        released.wait(20)
        return [tcp("127.0.0.1", port)]

    names("slow.test", slow)

    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(answer(f"port {peer.server.port}"))

    with RawServer(play) as one, RawServer(play) as other:
        clients = [
            client_for("own sync", backend(f"http://slow.test:{each.port}/v1"))
            for each in (one, other)
        ]
        with ThreadPoolExecutor(2) as threads:
            ended = threads.map(lambda client: ask("own sync", client, streams=False), clients)
            until(lambda: asked)
            time.sleep(0.1)
            released.set()
        assert {each.text for each in ended} == {f"port {one.port}", f"port {other.port}"}
    assert len(asked) == 1


@pytest.mark.parametrize("way", SYNC)
def test_nothing_is_sent_once_the_call_has_ended(names: Any, way: str) -> None:
    released = threading.Event()
    with RawServer(silent) as server:

        def slow(port: int) -> Any:
            released.wait(20)
            return [tcp("127.0.0.1", server.port)]

        names("slow.test", slow)
        client = client_for(way, backend("http://slow.test:1/v1"), policy=POLICY)
        asked = ask(way, client)
        assert asked.seconds < CEILING
        released.set()
        time.sleep(0.2)
        assert server.requests == []
        client.close()


@pytest.mark.parametrize("way", SYNC)
def test_no_thread_is_left_behind_by_what_has_ended(way: str) -> None:
    with RawServer(informing) as server:
        before = threading.active_count()
        client = client_for(way, backend(server.base_url), policy=POLICY)
        asked = ask(way, client)
        assert asked.seconds < CEILING
        del asked
        gc.collect()
    until(lambda: threading.active_count() <= before - 1)  # the server's own thread is gone as well
    client.close()


def over_aiohttp() -> Any:
    return httpx.AsyncClient(transport=httpx_aiohttp.AiohttpTransport(), timeout=None)


@pytest.mark.parametrize("made", [over_aiohttp, httpx_aiohttp.HttpxAiohttpClient])
def test_a_slow_name_has_the_time_to_connect_over_aiohttp_too(made: Any, names: Any) -> None:
    """aiohttp counts a lookup as a part of getting a connection from its pool."""
    policy = rungwise.Policy(
        limits=rungwise.Limits(retries=0),
        timeouts=rungwise.Timeouts(connect=BUDGET, first_token=20),
    )
    ended: list[Any] = []

    async def call() -> None:
        async with made() as http:
            client = rungwise.Client(
                backend("http://slow.test:1/v1"), async_http=http, policy=policy
            )
            try:
                await client.acall("Where?")
            except rungwise.CallError as error:
                ended.append(error.result)

    # `asyncio.run` waits for the lookup at its end
    threading.Thread(target=lambda: asyncio.run(call()), daemon=True).start()
    until(lambda: ended)
    [result] = ended
    assert [failure.reason for _, failure in result.failures] == ["timeout"]
    assert result.seconds < CEILING
