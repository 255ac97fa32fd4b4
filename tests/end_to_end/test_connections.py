"""Which connection a request goes out on: never one that has died, holds bytes of before, or belongs to a parent."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import httpx2
import pytest
from raw_server import CERTIFICATE, STREAM_HEAD, Peer, RawServer, answer, chunk, event, stream_of
from ways import ALL, ONCE, OWN, PASSED_IN, aask, aclose, ask, backend, client_for, close_all, http_of, is_async, until

import rungwise
from rungwise import Client

BOTH = pytest.mark.parametrize("way", OWN)
SCHEMES = pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
RETRYING = rungwise.Policy(limits=rungwise.Limits(retries=2))


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Close every client that a test has made."""
    yield
    close_all()


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the tests' own certificate."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))


def several(way: str, client: Client, count: int, between: Callable[[], Any] = lambda: None) -> list[Any]:
    """Ask several times, one after another, in one event loop where the way asks for one."""
    if not is_async(way):
        asked = []
        for number in range(count):
            if number:
                between()
            asked.append(ask(way, client, f"question {number}", streams=False))
        return asked

    async def main() -> list[Any]:
        asked = []
        for number in range(count):
            if number:
                await asyncio.to_thread(between)
            asked.append(await aask(client, f"question {number}", streams=False))
        await aclose(client)
        return asked

    return asyncio.run(main())


def with_idle_connections(way: str, client: Client, count: int) -> Any:
    """Ask several times at once, so that as many connections are idle, and then once more."""

    async def main() -> Any:
        await asyncio.gather(*(aask(client, f"question {number}", streams=False) for number in range(count)))
        last = await aask(client, "again", streams=False)
        await aclose(client)
        return last

    if is_async(way):
        return asyncio.run(main())
    threads = [threading.Thread(target=ask, args=(way, client)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ask(way, client, "again", streams=False)


def echo(request: dict[str, Any]) -> bytes:
    """Answer with the question."""
    return answer(request["messages"][-1]["content"])


def quick(way: str, server: RawServer, **options: Any) -> Client:
    """Return a client that retries without waiting."""

    async def no_wait(seconds: float) -> None:
        pass

    options = {"sleep": lambda seconds: None, "async_sleep": no_wait, "policy": RETRYING, **options}
    return client_for(way, backend(server.base_url), **options)


@BOTH
@SCHEMES
def test_a_connection_serves_one_call_after_another(way: str, tls: bool) -> None:
    with RawServer(lambda peer: [peer.send(echo(request)) for request in peer.requests()], tls=tls) as server:
        asked = several(way, quick(way, server), 5)
    assert [each.text for each in asked] == [f"question {number}" for number in range(5)]
    assert (server.connections, len(server.requests)) == (1, 5)


@pytest.mark.parametrize("way", ALL)
@SCHEMES
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_that_dies_under_a_request_is_stale(way: str, tls: bool, how: str) -> None:
    def play(peer: Peer) -> None:
        for number, request in enumerate(peer.requests()):
            if number:  # the second request on a connection is never answered
                if how == "reset":
                    peer.reset()
                return
            peer.send(echo(request))

    steps: list[rungwise.Step] = []
    with RawServer(play, tls=tls) as server:
        asked = several(way, quick(way, server, observer=steps.append), 3)
    assert [each.text for each in asked] == ["question 0", "question 1", "question 2"]
    assert [each.result.attempts for each in asked] == [1, 2, 2]
    assert (server.connections, len(server.requests)) == (3, 5)
    assert sum(step.event == "failed_transiently" for step in steps) == 2


@pytest.mark.parametrize("way", ALL)
@SCHEMES
def test_a_stale_connection_is_named_in_the_failure(way: str, tls: bool) -> None:
    def play(peer: Peer) -> None:
        for number, request in enumerate(peer.requests()):
            if number:
                return
            peer.send(echo(request))

    with RawServer(play, tls=tls) as server:
        asked = several(way, quick(way, server, policy=rungwise.Policy(limits=ONCE)), 2)
    assert asked[1].outcome == "failed"
    assert [(failure.reason, failure.is_stale) for failure in asked[1].failures] == [("connection", True)]


@pytest.mark.parametrize("way", ALL)
def test_a_first_request_that_dies_is_not_stale(way: str) -> None:
    with RawServer(lambda peer: peer.request()) as server:
        asked = several(way, quick(way, server, policy=rungwise.Policy(limits=ONCE)), 1)
    assert [(failure.reason, failure.is_stale) for failure in asked[0].failures] == [("connection", False)]


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


@pytest.mark.parametrize("way", ALL)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_reused_connection_on_which_something_has_come_is_not_stale(way: str, kind: str) -> None:
    def play(peer: Peer) -> None:
        for number, request in enumerate(peer.requests()):
            if number:
                peer.send(BROKEN[kind])
                return
            peer.send(echo(request))

    with RawServer(play) as server:
        asked = several(way, quick(way, server, policy=rungwise.Policy(limits=ONCE)), 2)
    assert [(failure.reason, failure.is_stale) for failure in asked[1].failures] == [("connection", False)]
    assert (server.connections, len(server.requests)) == (1, 2)


@pytest.mark.parametrize("way", PASSED_IN)
def test_a_client_that_was_passed_in_is_asked_at_once_again_only_the_first_time(way: str) -> None:
    everybody = threading.Barrier(3, timeout=10)
    waits: list[float] = []

    def play(peer: Peer) -> None:
        for number, request in enumerate(peer.requests()):
            if number:
                return
            if peer.number <= 3:
                everybody.wait()  # so that three connections are idle afterwards
            peer.send(echo(request))

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    with RawServer(play) as server:
        policy = rungwise.Policy(limits=rungwise.Limits(retries=3))
        client = quick(way, server, policy=policy, sleep=waits.append, async_sleep=wait)
        last = with_idle_connections(way, client, 3)
    assert (last.text, last.result.attempts) == ("again", 4)
    assert len(waits) == 2  # before the third attempt and the fourth


@pytest.mark.parametrize("way", ALL)
def test_a_silent_reused_connection_is_not_stale(way: str) -> None:
    def play(peer: Peer) -> None:
        for number, request in enumerate(peer.requests()):
            if number:
                peer.hang()
            peer.send(echo(request))

    policy = rungwise.Policy(limits=ONCE, timeouts=rungwise.Timeouts(total=0.3))
    with RawServer(play) as server:
        asked = several(way, quick(way, server, policy=policy), 2)
    assert [(failure.reason, failure.is_stale) for failure in asked[1].failures] == [("timeout", False)]


@BOTH
def test_no_attempt_is_stale_twice_in_a_row(way: str) -> None:
    everybody = threading.Barrier(3, timeout=10)

    def play(peer: Peer) -> None:
        for number, request in enumerate(peer.requests()):
            if number:
                return
            if peer.number <= 3:
                everybody.wait()  # so that three connections are idle afterwards
            peer.send(echo(request))

    with RawServer(play) as server:
        last = with_idle_connections(way, quick(way, server), 3)
    assert (last.text, last.result.attempts) == ("again", 2)
    assert server.connections == 4


@BOTH
@SCHEMES
def test_a_connection_that_was_closed_behind_a_reply_is_not_used_again(way: str, tls: bool) -> None:
    with RawServer(lambda peer: peer.send(echo(peer.request() or {})), tls=tls) as server:
        asked = several(way, quick(way, server), 4, between=lambda: time.sleep(0.05))
    assert [each.result.attempts for each in asked] == [1] * 4
    assert server.connections == 4


@BOTH
@SCHEMES
@pytest.mark.parametrize("when", ["in one piece", "a moment later", "half of it"])
def test_a_reply_that_nobody_asked_for_answers_no_later_call(way: str, tls: bool, when: str) -> None:
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

    with RawServer(play, tls=tls) as server:
        asked = several(way, quick(way, server), 3, between=lambda: time.sleep(0.15))
    assert [each.text for each in asked] == ["question 0", "question 1", "question 2"]
    assert [each.result.attempts for each in asked] == [1, 1, 1]
    assert server.connections == 3


@BOTH
def test_a_stream_that_was_left_early_answers_no_later_call(way: str) -> None:
    with RawServer(lambda peer: [peer.send(stream_of("one", "two")) for _ in peer.requests()]) as server:
        client = quick(way, server)

        async def main() -> Any:
            async with client.astream("first") as stream:
                async for step in stream:
                    if isinstance(step, rungwise.Text):
                        break
            second = await aask(client, "second")
            await aclose(client)
            return second

        if is_async(way):
            second = asyncio.run(main())
        else:
            with client.stream("first") as stream:
                next(step for step in stream if isinstance(step, rungwise.Text))
            second = ask(way, client, "second")
    assert second.text == "onetwo"
    assert server.connections == 2


@pytest.mark.parametrize("way", ALL)
def test_redirects_are_not_followed(way: str) -> None:
    def elsewhere(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % there)

    with RawServer(lambda peer: [peer.send(echo(request)) for request in peer.requests()]) as other:
        there = (other.base_url + "/chat/completions").encode()
        with RawServer(elsewhere) as server:
            http = http_of(way, follow_redirects=True)
            asked = ask(way, client_for(way, backend(server.base_url), http), streams=False)
    assert asked.outcome == "failed"
    assert other.requests == []
    assert len(server.requests) == asked.result.attempts == 1


class Wrapper:
    """Be a client around another one, with nothing of it but what is needed."""

    def __init__(self, http: Any) -> None:
        self.http = http

    def build_request(self, *args: Any, **options: Any) -> Any:
        return self.http.build_request(*args, **options)

    def send(self, request: Any, **options: Any) -> Any:
        return self.http.send(request, **options)


class AsyncWrapper(Wrapper):
    async def send(self, request: Any, **options: Any) -> Any:
        return await self.http.send(request, **options)

    async def aclose(self) -> None:
        await self.http.aclose()


class Narrow(Wrapper):
    """Take no word on redirects."""

    def send(self, request: Any, *, stream: bool = False) -> Any:  # type: ignore[override]
        return self.http.send(request, stream=stream)


@pytest.mark.parametrize("way", PASSED_IN)
def test_a_client_around_another_one_is_told_to_follow_no_redirects(way: str) -> None:
    def elsewhere(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % there)

    with RawServer(lambda peer: [peer.send(echo(request)) for request in peer.requests()]) as other:
        there = (other.base_url + "/chat/completions").encode()
        with RawServer(elsewhere) as server:
            http = (AsyncWrapper if is_async(way) else Wrapper)(http_of(way, follow_redirects=True))
            asked = ask(way, client_for(way, backend(server.base_url), http), streams=False)
    assert (asked.outcome, other.requests) == ("failed", [])


def test_a_client_that_takes_no_word_on_redirects_is_given_none() -> None:
    with RawServer(lambda peer: [peer.send(echo(request)) for request in peer.requests()]) as server:
        http = Narrow(httpx.Client())
        asked = ask("httpx.Client", client_for("httpx.Client", backend(server.base_url), http), streams=False)
    assert asked.outcome == "done"


# forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("before", OWN)
@pytest.mark.parametrize("after", OWN)
@SCHEMES
def test_a_forked_child_opens_connections_of_its_own(before: str, after: str, tls: bool) -> None:
    with RawServer(lambda peer: [peer.send(echo(request)) for request in peer.requests()], tls=tls) as server:
        client = quick("own sync", server)
        sync = asynchronous = None
        if before == "own sync":
            sync = ask(before, client, "parent", streams=False)
        else:
            asynchronous = asyncio.run(aask(client, "parent", streams=False))
        assert (sync or asynchronous).text == "parent"

        def child(number: int, answers: Any) -> None:
            texts = [ask(after, client, f"child {number}.{index}", streams=False).text for index in range(3)]
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
    assert told == {number: [f"child {number}.{index}" for index in range(3)] for number in range(3)}


# how many connections there may be


@pytest.mark.parametrize("way", OWN)
def test_calls_beyond_the_connections_wait_in_turn(way: str) -> None:
    open_at_once, most, lock = 0, 0, threading.Lock()

    def play(peer: Peer) -> None:
        nonlocal open_at_once, most
        for request in peer.requests():
            with lock:
                open_at_once += 1
                most = max(most, open_at_once)
            time.sleep(0.002)
            with lock:
                open_at_once -= 1
            peer.send(echo(request))

    with RawServer(play) as server:
        client = quick(way, server, max_connections=4)
        results = at_once(way, client, 60)
    assert {each.outcome for each in results} == {"done"}
    assert {each.result.attempts for each in results} == {1}
    assert most <= 4
    assert server.connections <= 4


def at_once(way: str, client: Client, count: int) -> list[Any]:
    """Run calls at the same time."""
    if is_async(way):

        async def main() -> list[Any]:
            asked = await asyncio.gather(*(aask(client, f"q {number}", streams=False) for number in range(count)))
            await client.aclose()
            return asked

        return asyncio.run(main())
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(ask(way, client, streams=False))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    return results


def hold(peer: Peer) -> None:
    """Begin an answer and fall silent."""
    peer.request()
    peer.send(STREAM_HEAD + b"\r\n" + chunk(event("Yes")))
    peer.hang()


@pytest.mark.parametrize("way", OWN)
def test_waiting_for_a_connection_counts_against_the_time_of_the_call_and_is_no_failure(way: str) -> None:
    policy = rungwise.Policy(limits=ONCE, budget=rungwise.Budget(seconds=0.5), timeouts=rungwise.Timeouts(connect=0.1))
    with RawServer(hold) as server:
        client = client_for(way, backend(server.base_url), policy=policy, max_connections=1)

        async def main() -> list[Any]:
            async with client.astream("Where?") as stream:  # which holds the only connection until it is read on
                await anext(stream)
                asked = await asyncio.gather(*(aask(client, streams=False) for _ in range(3)))
            await aclose(client)
            return asked

        if is_async(way):
            asked = asyncio.run(main())
        else:
            with client.stream("Where?") as stream:
                next(stream)
                asked = [ask(way, client, streams=False)]
    for each in asked:
        assert (each.outcome, each.result.attempts, each.failures) == ("over_budget", 0, [])
        assert 0.4 < each.seconds < 3
    assert len(server.requests) <= 1


@pytest.mark.parametrize("way", OWN)
def test_a_wait_for_a_connection_outlasts_the_limit_of_an_attempt_and_is_charged_to_no_backend(way: str) -> None:
    policy = rungwise.Policy(timeouts=rungwise.Timeouts(total=0.2))
    let_go = threading.Event()

    def play(peer: Peer) -> None:
        for request in peer.requests():
            if not request.get("stream"):
                peer.send(echo(request))
                continue
            peer.send(STREAM_HEAD + b"\r\n" + chunk(event("Yes")))
            let_go.wait(5)
            return

    with RawServer(play) as server:
        chain = [backend(server.base_url), backend(server.base_url, name="second")]
        client = client_for(way, chain, policy=policy, max_connections=1)

        async def main() -> Any:
            async with client.astream("Where?") as stream:
                await anext(stream)
                waiting = asyncio.create_task(aask(client, "Here.", streams=False))
                await asyncio.sleep(0.6)
            asked = await waiting
            await aclose(client)
            return asked

        if is_async(way):
            asked = asyncio.run(main())
        else:
            stream = client.stream("Where?")
            next(stream)
            threading.Timer(0.6, stream.close).start()
            asked = ask(way, client, "Here.", streams=False)
        let_go.set()
    assert (asked.outcome, asked.text, asked.result.attempts, asked.failures) == ("done", "Here.", 1, [])
    assert asked.result.backend == "primary"
    assert [body["model"] for body in server.bodies if not body["stream"]] == ["m"]


@pytest.mark.parametrize("way", OWN)
def test_a_wait_for_a_connection_outlasts_the_limit_for_connecting(way: str) -> None:
    policy = rungwise.Policy(limits=ONCE, timeouts=rungwise.Timeouts(connect=0.1))

    def play(peer: Peer) -> None:
        for request in peer.requests():
            time.sleep(0.3)
            peer.send(echo(request))

    with RawServer(play) as server:
        client = client_for(way, backend(server.base_url), policy=policy, max_connections=1)
        results = at_once(way, client, 3)
    assert [each.outcome for each in results] == ["done"] * 3


def test_a_cancellation_ends_the_wait_for_a_connection() -> None:
    from rungwise import Cancellation

    with RawServer(lambda peer: [peer.request(), peer.hang()]) as server:
        client = client_for("own sync", backend(server.base_url), max_connections=1)
        first = threading.Thread(target=ask, args=("own sync", client))
        first.start()
        until(lambda: server.requests)
        token, ended = Cancellation(), []
        second = threading.Thread(target=lambda: ended.append(ask("own sync", client, cancellation=token)))
        second.start()
        time.sleep(0.2)
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


@pytest.mark.parametrize("way", OWN)
def test_connections_to_several_hosts_share_the_places(way: str) -> None:
    def play(peer: Peer) -> None:
        for request in peer.requests():
            peer.send(echo(request))

    with RawServer(play) as one, RawServer(play) as other:
        clients = [quick(way, one, max_connections=1)]
        chain = [backend(one.base_url), backend(other.base_url)]
        client = clients[0]

        async def main() -> list[str]:
            texts = []
            for index in range(6):
                client.chain = (chain[index % 2],)
                texts.append((await aask(client, f"q {index}", streams=False)).text)
            await aclose(client)
            return texts

        if is_async(way):
            texts = asyncio.run(main())
        else:
            texts = []
            for index in range(6):
                client.chain = (chain[index % 2],)
                texts.append(ask(way, client, f"q {index}", streams=False).text)
    assert texts == [f"q {index}" for index in range(6)]
    assert one.connections == other.connections == 3  # each had to make room for the other


# a request that is not read to its end

LARGE = "heron " * 1_500_000  # more than any socket buffers
REFUSED = b"HTTP/1.1 413 Too Large\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
INFORMATION = b"HTTP/1.1 102 Processing\r\n\r\n"


@BOTH
@SCHEMES
@pytest.mark.parametrize("before", [b"", INFORMATION, INFORMATION + REFUSED[:20]], ids=["", "102", "half a head"])
def test_an_answer_to_a_request_that_nobody_reads_is_read(way: str, tls: bool, before: bytes) -> None:
    def play(peer: Peer) -> None:
        if peer.number > 1:
            peer.send(echo(peer.request() or {}))
            return
        if before:
            peer.send(before)
            time.sleep(0.1)
        peer.send(REFUSED[len(before) - len(INFORMATION) if len(before) > len(INFORMATION) else 0 :])
        peer.hang()

    policy = rungwise.Policy(limits=ONCE, budget=rungwise.Budget(seconds=8))
    with RawServer(play, tls=tls) as server:
        client = quick(way, server, policy=policy)

        async def main() -> tuple[Any, Any]:
            asked = await aask(client, LARGE, streams=False), await aask(client, "again", streams=False)
            await aclose(client)
            return asked

        if is_async(way):
            refused, again = asyncio.run(main())
        else:
            refused, again = ask(way, client, LARGE, streams=False), ask(way, client, "again", streams=False)
    assert [failure.status for failure in refused.failures] == [413]
    assert refused.seconds < 4
    assert again.text == "again"
    assert server.connections == 2


@BOTH
@SCHEMES
def test_information_ends_no_request(way: str, tls: bool) -> None:
    def play(peer: Peer) -> None:
        peer.send(INFORMATION)
        time.sleep(0.2)
        peer.send(answer(f"{len((peer.request() or {})['messages'][-1]['content'])} letters"))

    with RawServer(play, tls=tls) as server:
        asked = ask(way, quick(way, server), LARGE, streams=False)
    assert (asked.text, asked.result.attempts) == (f"{len(LARGE)} letters", 1)


@BOTH
@SCHEMES
def test_an_answer_that_begins_well_while_the_request_is_read_ends_no_request(way: str, tls: bool) -> None:
    def play(peer: Peer) -> None:
        whole = answer("All is well here.")
        head, _, body = whole.partition(b"\r\n\r\n")
        peer.send(head + b"\r\n\r\n")
        time.sleep(0.2)
        peer.request()
        peer.send(body)

    with RawServer(play, tls=tls) as server:
        asked = ask(way, quick(way, server), LARGE, streams=False)
    assert (asked.text, asked.result.attempts) == ("All is well here.", 1)


# what is left behind


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors cannot be counted here")
@pytest.mark.parametrize("way", OWN)
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
        threads, files = threading.active_count(), descriptors()
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
    with (
        RawServer(lambda peer: [peer.send(echo(request)) for request in peer.requests()]) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("rungwise.adapters.http.connection.KEEP", 0.05)
        several("own sync", quick("own sync", server), 2, between=lambda: time.sleep(0.1))
    assert server.connections == 2


@BOTH
def test_the_end_of_a_stream_is_read_so_that_its_connection_can_be_used_again(way: str) -> None:
    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(stream_of("Yes.").removesuffix(b"0\r\n\r\n"))
            time.sleep(0.02)
            peer.send(b"0\r\n\r\n")

    with RawServer(play) as server:
        client = quick(way, server)

        async def main() -> list[Any]:
            asked = [await aask(client) for _ in range(3)]
            await aclose(client)
            return asked

        asked = asyncio.run(main()) if is_async(way) else [ask(way, client) for _ in range(3)]
    assert [each.text for each in asked] == ["Yes."] * 3
    assert server.connections == 1


def test_a_flood_leaves_other_tasks_their_turns() -> None:
    def play(peer: Peer) -> None:
        peer.request()
        peer.flood(b"HTTP/1.1 102 Processing\r\n\r\n")

    async def main(server: RawServer) -> int:
        client = client_for(
            "own async", backend(server.base_url), policy=rungwise.Policy(budget=rungwise.Budget(seconds=1.0))
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


# proxies of the environment


def through(monkeypatch: pytest.MonkeyPatch, proxy: RawServer) -> None:
    """Let the environment name a proxy."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, proxy.base_url.removesuffix("/v1"))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "elsewhere.test,127.0.0.1")


@pytest.mark.parametrize("way", OWN)
@pytest.mark.parametrize("host", ["models.test", "elsewhere.test"])
def test_the_proxies_of_the_environment_are_used(monkeypatch: pytest.MonkeyPatch, way: str, host: str) -> None:
    with RawServer(lambda peer: [peer.send(echo(request)) for request in peer.requests()]) as proxy:
        through(monkeypatch, proxy)
        client = client_for(way, backend(f"http://{host}/v1"))
        asked = ask(way, client, "through the proxy", streams=False)
        if not is_async(way):
            client.close()
    if host == "models.test":
        assert asked.text == "through the proxy"
        assert proxy.requests[0].startswith(b"POST http://models.test/v1/chat/completions HTTP/1.1\r\n")
    else:
        assert (asked.outcome, proxy.requests) == ("failed", [])


@BOTH
def test_a_reply_that_nobody_asked_for_answers_no_later_call_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    extra = answer("I answer nobody.")
    with RawServer(lambda peer: [peer.send(echo(request) + extra) for request in peer.requests()]) as proxy:
        through(monkeypatch, proxy)
        asked = several(way, client_for(way, backend("http://models.test/v1")), 3)
    assert [each.text for each in asked] == ["question 0", "question 1", "question 2"]
    assert proxy.connections == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_shares_no_connection_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(lambda peer: [peer.send(echo(request)) for request in peer.requests()]) as proxy:
        through(monkeypatch, proxy)
        client = client_for("own sync", backend("http://models.test/v1"))
        assert ask("own sync", client, "parent", streams=False).text == "parent"

        def child(answers: Any) -> None:
            answers.put(ask("own sync", client, "child", streams=False).text)

        context = multiprocessing.get_context("fork")
        answers = context.SimpleQueue()
        process = context.Process(target=child, args=(answers,))
        process.start()
        told = answers.get()
        process.join(10)
        assert (told, ask("own sync", client, "again", streams=False).text) == ("child", "again")
    assert proxy.connections == 3


@BOTH
@pytest.mark.parametrize("cookie", ["sid=one; Path=/", "sid=é; Path=/"])
def test_a_cookie_that_comes_through_a_proxy_is_given_to_nobody(
    monkeypatch: pytest.MonkeyPatch, way: str, cookie: str
) -> None:
    extra = f"set-cookie: {cookie}\r\n".encode()
    with RawServer(lambda peer: [peer.send(answer("Yes.", extra)) for _ in peer.requests()]) as proxy:
        through(monkeypatch, proxy)
        asked = several(way, client_for(way, backend("http://models.test/v1")), 2)
    assert [each.outcome for each in asked] == ["done", "done"]
    assert [request for request in proxy.requests if b"\r\ncookie:" in request.lower()] == []


@pytest.mark.parametrize("way", PASSED_IN)
def test_a_cookie_that_a_client_cannot_send_back_fails_the_call(way: str) -> None:
    extra = "set-cookie: sid=é; Path=/\r\n".encode()
    with RawServer(lambda peer: [peer.send(answer("Yes.", extra)) for _ in peer.requests()]) as server:
        asked = several(way, client_for(way, backend(server.base_url)), 2)
    assert [each.outcome for each in asked] == ["done", "failed"]
    (failure,) = asked[1].failures
    assert (type(failure.exception), failure.reason) == (httpx.LocalProtocolError, "connection")
    assert len(server.requests) == 1
