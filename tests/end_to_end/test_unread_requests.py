"""A request that the server does not read to its end, or answers before it has."""

import time

import pytest

from rungwise import Budget, Policy
from support.raw_server import Peer, RawServer, answer, echo
from support.ways import ONCE, SCHEMES, ask, in_one_loop, quick

pytestmark = [pytest.mark.own_connections, pytest.mark.usefixtures("trusted")]
LARGE = "heron " * 1_500_000  # more than any socket buffers
REFUSED = b"HTTP/1.1 413 Too Large\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
INFORMATION = b"HTTP/1.1 102 Processing\r\n\r\n"


@SCHEMES
@pytest.mark.parametrize(
    "before", [b"", INFORMATION, INFORMATION + REFUSED[:20]], ids=["", "102", "half a head"]
)
def test_an_answer_to_a_request_that_nobody_reads_is_read(
    way: str, tls: bool, before: bytes
) -> None:
    def play(peer: Peer) -> None:
        if peer.number > 1:
            peer.send(echo(peer.request() or {}))
            return
        if before:
            peer.send(before)
            time.sleep(0.1)
        peer.send(
            REFUSED[len(before) - len(INFORMATION) if len(before) > len(INFORMATION) else 0 :]
        )
        peer.hang()

    policy = Policy(limits=ONCE, budget=Budget(seconds=8))
    with (
        RawServer(play, tls=tls) as server,
        in_one_loop(way, quick(way, server, policy=policy)) as caller,
    ):
        refused = caller(LARGE, streams=False)
        again = caller("again", streams=False)
    assert [failure.status for failure in refused.failures] == [413]
    assert refused.seconds < 4
    assert again.text == "again"
    assert server.connections == 2


def test_an_answer_of_a_server_that_closes_a_request_unread_is_read(way: str) -> None:
    policy = Policy(limits=ONCE, budget=Budget(seconds=8))
    with (
        RawServer(lambda peer: peer.send(REFUSED)) as server,
        in_one_loop(way, quick(way, server, policy=policy)) as caller,
    ):
        failures = [failure for _ in range(5) for failure in caller(LARGE, streams=False).failures]
    assert [failure.status for failure in failures] == [413] * 5


@SCHEMES
def test_information_ends_no_request(way: str, tls: bool) -> None:
    def play(peer: Peer) -> None:
        peer.send(INFORMATION)
        time.sleep(0.2)
        peer.send(answer(f"{len((peer.request() or {})['messages'][-1]['content'])} letters"))

    with RawServer(play, tls=tls) as server:
        asked = ask(way, quick(way, server), LARGE, streams=False)
    assert (asked.text, asked.result.attempts) == (f"{len(LARGE)} letters", 1)


@SCHEMES
def test_an_answer_that_begins_well_while_the_request_is_read_ends_no_request(
    way: str, tls: bool
) -> None:
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
