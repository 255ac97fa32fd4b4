"""Which connection a request goes out on: never one that has died, holds bytes of before, or
belongs to a parent.
"""

import asyncio
import multiprocessing
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import httpx2
import pytest

import rungwise
from rungwise import Client
from support.modes import waits_into
from support.raw_server import (
    Peer,
    RawServer,
    answer,
    answering,
    echo,
    echoes,
    stream_of,
)
from support.waiting import until
from support.ways import (
    ALL,
    ONCE,
    OWN,
    PASSED_IN,
    SCHEMES,
    Asked,
    Either,
    aask,
    ask,
    backend,
    client_for,
    in_one_loop,
    is_async,
    quick,
    several,
)

pytestmark = [pytest.mark.own_connections, pytest.mark.usefixtures("trusted")]


def echo_once(peer: Peer) -> None:
    """Answer the first request on a connection, and close it under the second."""
    if (request := peer.request()) is not None:
        peer.send(echo(request))
        peer.request()


def echo_first(then: Callable[[Peer], Any]) -> Callable[[Peer], None]:
    """Return a script that answers the first request on a connection, and does something else with
    the second.
    """

    def play(peer: Peer) -> None:
        echo_once(peer)
        then(peer)

    return play


def three_idle_and_dead() -> Callable[[Peer], None]:
    """Return a script that leaves three connections idle, each of which closes under its second
    request.
    """
    everybody = threading.Barrier(3, timeout=10)

    def play(peer: Peer) -> None:
        request = peer.request() or {}
        if peer.number <= 3:
            everybody.wait()
        peer.send(echo(request))
        peer.request()

    return play


def with_idle_connections(way: str, client: Client, count: int) -> Asked:
    """Ask several times at once, so that as many connections are idle, and then once more."""

    async def main() -> Asked:
        async with Either(way, client) as one:
            await asyncio.gather(
                *(one.ask(f"question {number}", streams=False) for number in range(count))
            )
            return await one.ask("again", streams=False)

    return asyncio.run(main())


@SCHEMES
def test_a_connection_serves_one_call_after_another(way: str, tls: bool) -> None:
    with RawServer(echoes, tls=tls) as server:
        asked = several(way, quick(way, server), 5)
    assert [each.text for each in asked] == [f"question {number}" for number in range(5)]
    assert (server.connections, len(server.requests)) == (1, 5)


@pytest.mark.parametrize("way", ALL)
@SCHEMES
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_that_dies_under_a_request_is_stale(way: str, tls: bool, how: str) -> None:
    steps: list[rungwise.Step] = []
    with RawServer(echo_first(Peer.reset) if how == "reset" else echo_once, tls=tls) as server:
        asked = several(way, quick(way, server, observer=steps.append), 4)
    assert [each.text for each in asked] == [f"question {number}" for number in range(4)]
    # Our own connections learn from the first loss (llama.cpp's server closes the connection of
    # each stream so); those of a client that was passed in are its own affair.
    attempts = [1, 2, 1, 1] if way in OWN else [1, 2, 2, 2]
    assert [each.result.attempts for each in asked] == attempts
    assert (server.connections, len(server.requests)) == (4, sum(attempts))
    assert sum(step.event == "failed_transiently" for step in steps) == sum(attempts) - 4


def test_a_connection_that_stays_open_is_trusted_again(way: str) -> None:
    def play(peer: Peer) -> None:
        for number, request in enumerate(peer.requests()):
            if number and peer.number == 1:
                return
            peer.send(echo(request))

    with (
        RawServer(play) as server,
        pytest.MonkeyPatch.context() as patch,
        in_one_loop(way, quick(way, server)) as caller,
    ):
        asked = [caller(), caller()]  # on the first connection, and on a second one after the loss
        # as if that had been idle for so long
        patch.setattr("rungwise.adapters.http.pool.SOON", 0.0)
        asked.append(caller())
        patch.undo()
        asked.append(caller())
    assert [each.result.attempts for each in asked] == [1, 2, 1, 1]
    assert server.connections == 2


@pytest.mark.parametrize("way", ALL)
def test_what_a_stale_connection_lost_is_sent_again_at_once_where_no_retry_is_left(
    way: str,
) -> None:
    waits: list[float] = []
    policy = rungwise.Policy(limits=rungwise.Limits(**{**ONCE, "resends": 1}))
    with RawServer(echo_once) as server:
        client = quick(way, server, policy=policy, **waits_into(waits))
        asked = several(way, client, 2)
    assert [(each.outcome, each.text, each.result.attempts) for each in asked] == [
        ("done", "question 0", 1),
        ("done", "question 1", 2),
    ]
    lost = [step for step in asked[1].result.journal.steps if step.target == "resend"]
    assert [(step.event, step.guard, step.wait, step.draw) for step in lost] == [
        ("failed_transiently", "may_resend", 0.0, None)
    ]
    assert rungwise.replay(asked[1].result.journal).outcome == "done"
    assert (waits, server.connections) == ([], 2)
    assert server.requests[1] == server.requests[2]  # the same bytes, on another connection


def test_a_resend_counts_as_an_attempt(way: str) -> None:
    policy = rungwise.Policy(budget=rungwise.Budget(attempts=1))
    with RawServer(echo_once) as server:
        asked = several(way, quick(way, server, policy=policy), 2)
    assert [each.outcome for each in asked] == ["done", "over_budget"]
    assert len(server.requests) == 2


@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize(
    ("play", "calls", "reason"),
    [(lambda peer: peer.request(), 1, "connection"), (echo_first(Peer.hang), 2, "timeout")],
    ids=["a first request that dies", "a silent reused connection"],
)
def test_what_may_not_be_the_fault_of_the_connection_is_not_stale(
    way: str, play: Any, calls: int, reason: str
) -> None:
    policy = rungwise.Policy(limits=ONCE, timeouts=rungwise.Timeouts(total=0.3))
    with RawServer(play) as server:
        *_, last = several(way, quick(way, server, policy=policy), calls)
    assert [(failure.reason, failure.is_stale) for failure in last.failures] == [(reason, False)]


BROKEN = {
    "half a head": b"HTTP/1.1 200 OK\r\nconte",
    "half a status line": b"H",
    "an information": b"HTTP/1.1 102 Processing\r\n\r\n",
    "an information and half a head": b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200",
    "no HTTP": b"I am no server\r\n\r\n",
    "another version": b"HTTP/9.9 xx\r\n\r\n",
    "no header": b"HTTP/1.1 200 OK\r\nfoo bar\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
    "a long head": b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000 + b"\r\n\r\n",
}

HALF_A_HEAD = (
    "half a status line",
    "half a head",
    "an information",
    "an information and half a head",
)


@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_reused_connection_on_which_something_has_come_is_not_stale(way: str, kind: str) -> None:
    with RawServer(echo_first(lambda peer: peer.send(BROKEN[kind]))) as server:
        asked = several(way, quick(way, server, policy=rungwise.Policy(limits=ONCE)), 2)
    # httpx does not tell that anything had come
    is_stale = way in PASSED_IN and kind in HALF_A_HEAD
    assert [(failure.reason, failure.is_stale) for failure in asked[1].failures] == [
        ("connection", is_stale)
    ]
    assert (server.connections, len(server.requests)) == (1, 2)


@pytest.mark.parametrize("way", ALL)
def test_no_attempt_is_stale_twice_in_a_row(way: str) -> None:
    """A client that was passed in takes the next dead connection, which is then waited for."""
    waits: list[float] = []
    policy = rungwise.Policy(limits=rungwise.Limits(retries=3))
    with RawServer(three_idle_and_dead()) as server:
        client = quick(way, server, policy=policy, **waits_into(waits))
        last = with_idle_connections(way, client, 3)
    attempts = 2 if way in OWN else 4
    assert (last.text, last.result.attempts, server.connections) == ("again", attempts, 4)
    assert len(waits) == attempts - 2


@SCHEMES
def test_a_connection_that_was_closed_behind_a_reply_is_not_used_again(way: str, tls: bool) -> None:
    with RawServer(lambda peer: peer.send(echo(peer.request() or {})), tls=tls) as server:
        asked = several(way, quick(way, server), 4, between=lambda: time.sleep(0.05))
    assert [each.result.attempts for each in asked] == [1] * 4
    assert server.connections == 4


@SCHEMES
@pytest.mark.parametrize("when", ["in one piece", "a moment later", "half of it"])
def test_a_reply_that_nobody_asked_for_answers_no_later_call(
    way: str, tls: bool, when: str
) -> None:
    sent = threading.Semaphore(0)

    def play(peer: Peer) -> None:
        for request in peer.requests():
            extra = answer("I answer nobody.")
            if when == "in one piece":
                peer.send(echo(request) + extra)
            elif when == "half of it":
                peer.send(echo(request) + extra[:20])
            else:
                peer.send(echo(request))
                time.sleep(0.05)
                peer.send(extra)
            sent.release()

    with RawServer(play, tls=tls) as server:
        asked = several(way, quick(way, server), 3, between=lambda: sent.acquire(timeout=20))
    assert [each.text for each in asked] == ["question 0", "question 1", "question 2"]
    assert [each.result.attempts for each in asked] == [1, 1, 1]
    assert server.connections == 3


@pytest.mark.parametrize(("is_whole", "connections"), [(False, 2), (True, 1)])
def test_a_stream_that_was_left_early_answers_no_later_call(
    way: str, is_whole: bool, connections: int
) -> None:
    reply = stream_of("one", "two")

    def play(peer: Peer) -> None:
        for request in peer.requests():
            is_first = request["messages"][0]["content"] == "first"
            peer.send(reply if is_whole or not is_first else reply[: reply.index(b"two")])

    async def main(client: Client) -> Asked:
        async with Either(way, client) as one:
            stream = one.stream("first")
            await stream.text()
            await stream.close()
            return await one.ask("second")

    with RawServer(play) as server:
        second = asyncio.run(main(quick(way, server)))
    assert second.text == "onetwo"
    assert server.connections == connections, (
        "one serves again only when the whole reply has been read"
    )


def test_what_came_together_is_handed_out_together(way: str) -> None:
    words = [f"word{number} " for number in range(200)]
    with RawServer(answering(stream_of(*words))) as server:
        events = ask(way, quick(way, server)).events
    texts = [each.text for each in events if isinstance(each, rungwise.Text)]
    assert "".join(texts) == "".join(words)
    assert len(texts) <= 20, "a few readings brought all of it"


def test_what_came_together_with_a_broken_chunk_is_kept(way: str) -> None:
    whole = stream_of("Herons ", "nest in ", "reeds.")
    place = whole.index(b"data: ", whole.index(b"nest in ") + 1)
    broken = whole[: whole.rindex(b"\r\n", 0, place - 2) + 2] + b"no number\r\n"

    def play(peer: Peer) -> None:
        peer.request()
        peer.send(broken if peer.number == 1 else stream_of("reeds."))

    with RawServer(play) as server:
        asked = ask(way, quick(way, server))
    assert asked.text == "Herons nest in reeds."
    [failure] = asked.failures
    assert re.search("illegal chunk header|Invalid character in chunk size", str(failure.exception))
    assert [b'"Herons nest in "' in request for request in server.requests] == [False, True]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
@pytest.mark.parametrize("extra", [b"\r\n", b"HTTP/1.1 500 Oops\r\n\r\n"])
def test_bytes_behind_a_reply_that_closes_the_connection_are_none_of_it(
    way: str,
    streams: bool,
    version: bytes,
    extra: bytes,
) -> None:
    reply = answer("Herons.", b"connection: close\r\n").replace(b"HTTP/1.1", version)

    with (
        RawServer(answering(reply + extra)) as server,
        in_one_loop(way, client_for(way, backend(server.base_url, streams=streams))) as caller,
    ):
        asked = [caller() for _ in range(2)]
    assert [(each.text, each.result.attempts) for each in asked] == [("Herons.", 1)] * 2
    assert server.connections == 2


def test_bytes_behind_an_error_that_closes_the_connection_hide_no_status(way: str) -> None:
    body = b'{"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}'
    head = b"HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )
    with RawServer(answering(head + body + b"\r\n")) as server:
        (asked,) = several(way, quick(way, server), 1)
    assert [failure.reason for failure in asked.failures] == ["auth"]
    assert len(server.requests) == 1


# forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("before", OWN)
@pytest.mark.parametrize("after", OWN)
@SCHEMES
def test_a_forked_child_opens_connections_of_its_own(before: str, after: str, tls: bool) -> None:
    with RawServer(echoes, tls=tls) as server:
        client = quick("own sync", server)
        if before == "own sync":
            first = ask(before, client, "parent", streams=False)
        else:
            first = asyncio.run(aask(client, "parent", streams=False))
        assert first.text == "parent"

        def child(number: int, answers: Any) -> None:
            texts = [
                ask(after, client, f"child {number}.{index}", streams=False).text
                for index in range(3)
            ]
            answers.put((number, texts))

        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()
        children = [context.Process(target=child, args=(number, answers)) for number in range(3)]
        for process in children:
            process.start()
        again = [ask(before, client, f"parent {index}", streams=False).text for index in range(3)]
        told = dict(answers.get() for _ in children)
        for process in children:
            process.join(10)
    assert again == [f"parent {index}" for index in range(3)]
    assert told == {
        number: [f"child {number}.{index}" for index in range(3)] for number in range(3)
    }


# what is left behind


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors cannot be counted here")
@pytest.mark.parametrize("library", [httpx, httpx2])
def test_nothing_is_left_behind_by_many_calls(way: str, library: Any) -> None:
    def play(peer: Peer) -> None:
        for number, request in enumerate(peer.requests()):
            if number == 3:
                peer.reset()
                return
            peer.send(echo(request))

    name = f"{library.__name__}.{'AsyncClient' if is_async(way) else 'Client'}"
    with RawServer(play) as server:
        several(way, quick(way, server), 2)
        threads = threading.active_count()
        files = descriptors()
        client = quick(way, server)
        assert {each.outcome for each in several(way, client, 40)} == {"done"}
        client.close()
        if is_async(way):

            async def main() -> None:
                async with library.AsyncClient() as http:
                    for _ in range(40):
                        await aask(quick(name, server, http=http), streams=False)

            asyncio.run(main())
        else:
            with library.Client() as http:
                for _ in range(40):
                    ask(name, quick(name, server, http=http), streams=False)
        until(lambda: threading.active_count() <= threads and descriptors() <= files)


def test_a_connection_is_not_kept_for_ever() -> None:
    with RawServer(echoes) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr("rungwise.adapters.http.connection.KEEP", 0.05)
        several("own sync", quick("own sync", server), 2, between=lambda: time.sleep(0.1))
    assert server.connections == 2


def test_the_end_of_a_stream_is_read_so_that_its_connection_can_be_used_again(way: str) -> None:
    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(stream_of("Yes.").removesuffix(b"0\r\n\r\n"))
            time.sleep(0.02)
            peer.send(b"0\r\n\r\n")

    with RawServer(play) as server, in_one_loop(way, quick(way, server)) as caller:
        asked = [caller() for _ in range(3)]
    assert [each.text for each in asked] == ["Yes."] * 3
    assert server.connections == 1


def test_a_flood_leaves_other_tasks_their_turns() -> None:
    def play(peer: Peer) -> None:
        peer.request()
        peer.flood(b"HTTP/1.1 102 Processing\r\n\r\n")

    async def main(server: RawServer) -> int:
        client = client_for(
            "own async",
            backend(server.base_url),
            policy=rungwise.Policy(budget=rungwise.Budget(seconds=1.0)),
        )
        task = asyncio.create_task(aask(client))
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        await client.aclose()
        return turns

    with RawServer(play) as server:
        assert asyncio.run(main(server)) > 5  # one or two where it keeps the event loop to itself


@pytest.mark.parametrize("way", PASSED_IN)
def test_a_cookie_that_a_client_cannot_send_back_fails_the_call(way: str) -> None:
    extra = "set-cookie: sid=é; Path=/\r\n".encode()
    with RawServer(answering(answer("Yes.", extra))) as server:
        asked = several(way, client_for(way, backend(server.base_url)), 2)
    assert [each.outcome for each in asked] == ["done", "failed"]
    (failure,) = asked[1].failures
    assert (type(failure.exception), failure.reason) == (httpx.LocalProtocolError, "connection")
    assert len(server.requests) == 1
