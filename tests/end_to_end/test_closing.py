"""Closing a client ends its running calls, at once and honestly."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import rungwise
from support.raw_server import Peer, RawServer, answer, answering, silent, stuck_in_a_stream
from support.waiting import auntil, until
from support.ways import ALL, SYNC, Either, aask, ask, backend, client_for

SOON = 1.0  # the promise is 0.1 s


def failing(peer: Peer) -> None:
    """Ask to wait for long."""
    peer.request()
    peer.send(
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 60\r\ncontent-length: 0\r\nconnection: "
        b"close\r\n\r\n"
    )


PLAYS = pytest.mark.parametrize("play", [stuck_in_a_stream, silent, failing])


@pytest.mark.parametrize("way", ALL)
@PLAYS
def test_closing_ends_the_calls_under_way(way: str, play: Any) -> None:
    steps: list[rungwise.Step] = []
    events: list[list[Any]] = [[], [], []]

    def are_under_way(server: RawServer) -> bool:
        if play is stuck_in_a_stream:
            return all(any(isinstance(event, rungwise.Text) for event in each) for each in events)
        if play is failing:
            return [step.event for step in steps].count("failed_transiently") == 3
        return len(server.requests) == 3

    async def main(server: RawServer) -> None:
        async with Either(
            way, backend(server.base_url), policy=rungwise.Policy(), observer=steps.append
        ) as one:
            tasks = [asyncio.create_task(one.ask(events=each)) for each in events]
            await auntil(lambda: are_under_way(server))
            at = time.monotonic()
            await one.close()
            ended = await asyncio.gather(*tasks)
            assert time.monotonic() - at < SOON
        text = "In the " if play is stuck_in_a_stream else ""
        assert [(asked.outcome, asked.text) for asked in ended] == [("cancelled", text)] * 3

    with RawServer(play) as server:
        asyncio.run(main(server))


@pytest.mark.parametrize("way", ALL)
def test_closing_ends_a_stream_that_nobody_is_reading(way: str) -> None:
    async def main(server: RawServer) -> None:
        async with Either(way, backend(server.base_url)) as one:
            stream = one.stream()
            assert await stream.text() == "In the "
            began = time.monotonic()
            await one.close()
            assert stream.result.outcome == "cancelled"
            with pytest.raises(rungwise.Cancelled) as raised:
                await stream.next()
            assert time.monotonic() - began < SOON
            assert (raised.value.result.outcome, raised.value.result.text) == (
                "cancelled",
                "In the ",
            )
            assert await stream.next() is None

    with RawServer(stuck_in_a_stream) as server:
        asyncio.run(main(server))


@pytest.mark.parametrize("way", SYNC)
def test_closing_ends_a_stream_that_has_not_begun(way: str) -> None:
    with RawServer(stuck_in_a_stream) as server:
        client = client_for(way, backend(server.base_url))
        stream = client.stream("Where?")
        client.close()
        with pytest.raises(rungwise.Cancelled):
            next(stream)
        assert server.requests == []


def test_closing_ends_calls_that_wait_for_a_connection(way: str) -> None:
    async def main(server: RawServer) -> list[Any]:
        async with Either(way, backend(server.base_url), max_connections=1) as one:
            tasks = [asyncio.create_task(one.ask()) for _ in range(4)]
            await auntil(lambda: server.requests)
            await asyncio.sleep(0.1)  # so that the others wait
            await one.close()
            return await asyncio.gather(*tasks)

    with RawServer(silent) as server:
        ended = asyncio.run(main(server))
    assert [asked.outcome for asked in ended] == ["cancelled"] * 4
    assert sorted(asked.result.attempts for asked in ended) == [0, 0, 0, 1]
    assert len(server.requests) == 1


@pytest.mark.parametrize("way", ALL)
def test_a_stream_that_is_closed_while_another_thread_or_task_reads_it_ends_there(way: str) -> None:
    async def main(server: RawServer) -> None:
        async with Either(way, backend(server.base_url)) as one:
            stream = one.stream()
            await stream.text()
            reader = asyncio.create_task(stream.text())
            await asyncio.sleep(0.1)  # so that it waits for more
            at = time.monotonic()
            await stream.close()
            with pytest.raises(rungwise.Cancelled) as raised:
                await reader
            assert time.monotonic() - at < SOON
            for result in (raised.value.result, stream.result):
                assert (result.outcome, result.text) == ("cancelled", "In the ")
            await stream.close()
            assert await stream.next() is None

    with RawServer(stuck_in_a_stream) as server:
        asyncio.run(main(server))
        assert len(server.requests) == 1


def test_an_observer_may_close_the_stream_that_it_watches() -> None:
    with RawServer(stuck_in_a_stream) as server:
        client = client_for(
            "own sync", backend(server.base_url), observer=lambda step: stream.close()
        )
        stream = client.stream("Where?")
        with pytest.raises(rungwise.Cancelled):
            list(stream)
        assert stream.result.outcome == "cancelled"
        assert server.requests == []


def too_long(peer: Peer) -> None:
    """Refuse every request as too long."""
    body = b'{"error": {"code": "context_length_exceeded", "message": "too long"}}'
    for _ in peer.requests():
        peer.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


@pytest.mark.parametrize("how", ["closed", "out of time"])
def test_a_compactor_that_is_awaited_ends_with_its_call(how: str) -> None:
    begun = []
    ended = []

    async def compactor(messages: Any) -> Any:
        begun.append(how)
        try:
            await asyncio.sleep(20)
        finally:
            ended.append(how)

    async def main(server: RawServer) -> None:
        policy = rungwise.Policy(budget=rungwise.Budget(seconds=None if how == "closed" else 0.3))
        client = client_for(
            "own async", backend(server.base_url), policy=policy, compactor=compactor
        )
        task = asyncio.create_task(aask(client))
        await auntil(lambda: begun)
        at = time.monotonic()
        if how == "closed":
            await client.aclose()
        asked = await task
        assert time.monotonic() - at < SOON
        assert asked.outcome == ("cancelled" if how == "closed" else "over_budget")
        assert asked.result.attempts == len(server.requests) == 1
        assert ended == [how]

    with RawServer(too_long) as server:
        asyncio.run(main(server))


def test_a_timeout_of_the_compactors_own_is_raised() -> None:
    async def compactor(messages: Any) -> Any:
        raise TimeoutError("the summary took too long")

    async def main(server: RawServer) -> None:
        client = client_for(
            "own async", backend(server.base_url), policy=rungwise.Policy(), compactor=compactor
        )
        with pytest.raises(TimeoutError, match="the summary"):
            await client.acall("Where?")
        await client.aclose()

    with RawServer(too_long) as server:
        asyncio.run(main(server))
    assert len(server.requests) == 1


@pytest.mark.parametrize("way", ALL)
def test_a_closed_client_takes_further_calls(way: str) -> None:
    async def main(server: RawServer) -> None:
        async with Either(way, backend(server.base_url)) as one:
            for _ in range(3):
                assert (await one.ask(streams=False)).text == "Yes."
                await one.close()

    with RawServer(answering(answer("Yes."))) as server:
        asyncio.run(main(server))


def test_closing_leaves_the_calls_of_another_client_alone() -> None:
    let_go = threading.Event()

    def play(peer: Peer) -> None:
        if peer.request():
            let_go.wait(10)
            peer.send(answer("Yes."))

    with RawServer(play) as server:
        client, other = (client_for("own sync", backend(server.base_url)) for _ in range(2))
        with ThreadPoolExecutor(1) as thread:
            call = thread.submit(ask, "own sync", client, streams=False)
            until(lambda: server.requests)
            other.close()
            let_go.set()
            assert call.result(5).text == "Yes."
