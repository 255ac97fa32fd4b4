"""How many connections there may be, and how a call waits for one."""

import asyncio
import threading
import time
from typing import Any

import pytest

import rungwise
from rungwise import Cancellation, Client
from support.raw_server import (
    Peer,
    RawServer,
    echo,
    echoes,
    silent,
    stuck_in_a_stream,
)
from support.waiting import until
from support.ways import ONCE, Asked, Either, ask, at_once, backend, client_for, in_one_loop, quick

pytestmark = pytest.mark.own_connections


def test_waiting_for_a_connection_takes_time_of_the_call_and_is_no_failure(way: str) -> None:
    policy = rungwise.Policy(
        limits=ONCE, budget=rungwise.Budget(seconds=0.5), timeouts=rungwise.Timeouts(connect=0.1)
    )

    async def main(server: RawServer) -> list[Asked]:
        async with Either(way, backend(server.base_url), policy=policy, max_connections=1) as one:
            stream = one.stream()  # which holds the only connection until it is read on
            await stream.next()
            asked = await asyncio.gather(*(one.ask(streams=False) for _ in range(3)))
            await stream.close()
            return asked

    with RawServer(stuck_in_a_stream) as server:
        asked = asyncio.run(main(server))
    for each in asked:
        assert (each.outcome, each.result.attempts, each.failures) == ("over_budget", 0, [])
        assert 0.4 < each.seconds < 3
    assert len(server.requests) <= 1


@pytest.mark.full
def test_calls_beyond_the_connections_wait_in_turn_which_is_charged_to_no_backend(way: str) -> None:
    policy = rungwise.Policy(timeouts=rungwise.Timeouts(connect=0.1, total=1.0))

    def play(peer: Peer) -> None:
        for request in peer.requests():
            time.sleep(0.3)
            peer.send(echo(request))

    with RawServer(play) as server:
        chain = [backend(server.base_url), backend(server.base_url, name="second")]
        client = client_for(way, chain, policy=policy, max_connections=1)
        results = at_once(
            way, client, [{"messages": f"q {number}", "streams": False} for number in range(6)]
        )
    assert [each.text for each in results] == [f"q {number}" for number in range(6)]
    for each in results:
        assert (each.outcome, each.result.backend, each.failures) == ("done", "primary", [])
    assert (len(server.requests), server.connections) == (6, 1)


def test_a_cancellation_ends_the_wait_for_a_connection() -> None:
    with RawServer(silent) as server:
        client = client_for("own sync", backend(server.base_url), max_connections=1)
        first = threading.Thread(target=ask, args=("own sync", client))
        first.start()
        until(lambda: server.requests)
        token = Cancellation()
        ended = []
        second = threading.Thread(
            target=lambda: ended.append(ask("own sync", client, cancellation=token))
        )
        second.start()
        time.sleep(0.1)  # so that it waits
        at = time.monotonic()
        token.cancel()
        second.join(5)
        assert time.monotonic() - at < 1
        assert (ended[0].outcome, ended[0].result.attempts) == ("cancelled", 0)
        client.close()
        first.join(5)
        assert not first.is_alive()


@pytest.mark.parametrize("count", [0, -1, True, 2.5, None])
def test_the_number_of_connections_is_checked(count: Any) -> None:
    with pytest.raises(rungwise.ConfigurationError, match="max_connections"):
        Client(backend("http://localhost/v1"), max_connections=count)


def test_connections_to_several_hosts_share_the_places(way: str) -> None:
    with RawServer(echoes) as one, RawServer(echoes) as other:
        client = quick(way, one, max_connections=1)
        chain = [backend(one.base_url), backend(other.base_url)]
        texts = []
        with in_one_loop(way, client) as caller:
            for index in range(6):
                client.runtime.chain = (chain[index % 2],)
                texts.append(caller(f"q {index}", streams=False).text)
    assert texts == [f"q {index}" for index in range(6)]
    assert one.connections == other.connections == 3  # each had to make room for the other
