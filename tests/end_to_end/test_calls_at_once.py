"""What calls over HTTP cost, one by one and thousands at once: counted in functions called,
connections and turns.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

import rungwise
from rungwise import Client
from support.growth import calls_made
from support.raw_server import STREAM_HEAD, RawServer, answer, answering, chunk, event, stream_of
from support.ways import backend, client_for

pytestmark = pytest.mark.sampled(2)


@pytest.mark.parametrize(("streams", "most"), [(False, 1_500), (True, 2_000)])
def test_a_happy_call_over_http_takes_few_steps(streams: bool, most: int) -> None:
    reply = stream_of("Herons ", "nest ", "here.") if streams else answer("Herons nest here.")
    with RawServer(answering(reply)) as server:
        client = client_for("own sync", backend(server.base_url), stream_calls=streams)
        for _ in range(3):
            assert client.call("Where?").text == "Herons nest here."
        # A reply that comes in two reads takes some more.
        steps = min(calls_made(lambda: client.call("Where?")) for _ in range(20))
        client.close()
    assert steps <= most


class Served:
    """Hold what a server in the same event loop has seen."""

    def __init__(self) -> None:
        self.connections = self.under_way = self.most = 0
        self.asked: list[str] = []


@asynccontextmanager
async def serving(seen: Served) -> AsyncIterator[str]:
    """Answer requests in the running event loop, each one turn of the loop later: no thread could
    serve thousands.
    """

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            seen.connections += 1

        def data_received(self, data: bytes) -> None:
            seen.under_way += 1
            seen.most = max(seen.most, seen.under_way)
            seen.asked.append(data.rpartition(b"question ")[2].partition(b'"')[0].decode())
            asyncio.get_running_loop().call_soon(self.reply)

        def reply(self) -> None:
            seen.under_way -= 1
            self.transport.write(answer("Yes."))

    server = await asyncio.get_running_loop().create_server(Protocol, "127.0.0.1", 0, backlog=512)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def many(count: int, **options: Any) -> tuple[Served, list[rungwise.Result]]:
    """Make calls at the same time, and return what the server saw of them, and what they came
    to.
    """
    seen = Served()
    async with serving(seen) as url, Client(backend(url), stream_calls=False, **options) as client:
        results = await asyncio.gather(
            *[client.acall(f"question {number}") for number in range(count)]
        )
    return seen, results


@pytest.mark.parametrize("count", [300, pytest.param(2_000, marks=pytest.mark.full)])
def test_thousands_of_calls_at_once_share_a_hundred_connections_in_turn(count: int) -> None:
    seen, results = asyncio.run(many(count))
    assert {(each.text, each.attempts) for each in results} == {("Yes.", 1)}
    assert seen.connections == 100
    assert seen.most <= 100
    # A hundred are under way at once and overtake one another, but nobody waits while two hundred
    # others are served.
    order = [int(number) for number in seen.asked]
    assert all(abs(place - number) < 200 for place, number in enumerate(order))


FIRST = chunk(event("Herons "))  # one that comes twice may be a copy, and waits for the third
EVENT = chunk(event("nest "))


def test_an_event_that_comes_by_itself_asks_little_of_each_layer() -> None:
    """Each event is sent when the one before was handed out, so that no reading brings two of
    them.
    """
    taken = threading.Semaphore(0)

    def play(peer: Any) -> None:
        for request in peer.requests():
            peer.send(STREAM_HEAD + b"\r\n")
            peer.send(FIRST)
            taken.acquire()
            for _ in range(int(request["messages"][0]["content"]) - 1):
                peer.send(EVENT)
                taken.acquire()
            peer.send(chunk(event(finish="stop") + b"data: [DONE]\n\n") + b"0\r\n\r\n")

    def read(client: rungwise.Client, events: int) -> None:
        for each in client.stream(str(events)):
            if isinstance(each, rungwise.Text):
                taken.release()

    with RawServer(play) as server:
        client = client_for("own sync", backend(server.base_url))
        read(client, 5)
        few, many = (calls_made(partial(read, client, events)) for events in (40, 140))
        client.close()
    # From Python 3.12 on, the profiler counts the calls of the server's thread, too.
    assert many - few < 100 * (115 if sys.version_info < (3, 12) else 135)
