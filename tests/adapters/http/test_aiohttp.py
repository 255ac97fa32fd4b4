"""What is aiohttp's alone; the tests of `end_to_end` go its way as they go all others."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import httpx
import pytest
import trio

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.adapters.http.aiohttp_session import WHOLE
from rungwise.adapters.http.connection import LARGEST_HEAD
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.raw_server import Peer, RawServer, answer, echoes
from support.ways import ask, backend, client_for, several

ANSWER = ScriptedReply(text="In the reeds.")


def test_another_transport_is_refused() -> None:
    with pytest.raises(rungwise.ConfigurationError, match="transport must be 'own' or 'aiohttp', not 'requests'"):
        Client(OpenAIChat("m", api_key="k"), transport="requests")  # type: ignore[arg-type]


def test_a_client_that_is_passed_in_has_a_transport_already() -> None:
    with pytest.raises(rungwise.ConfigurationError, match="async_http"):
        Client(OpenAIChat("m", api_key="k"), transport="aiohttp", async_http=httpx.AsyncClient())


def test_where_it_is_not_installed_the_error_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(rungwise.ConfigurationError, match=r"pip install 'rungwise\[aiohttp\]'"):
        Client(OpenAIChat("m", api_key="k"), transport="aiohttp")


def test_trio_is_told_that_it_is_not_for_it() -> None:
    client = Client(OpenAIChat("m", api_key="k"), transport="aiohttp")
    with pytest.raises(rungwise.ConfigurationError, match="on trio leave it out"):
        trio.run(client.acall, "Where?")


def test_threads_send_on_their_own_connections() -> None:
    with EmbeddedProvider(Script([ANSWER])) as provider:
        client = client_for("own sync", backend(provider.base_url), transport="aiohttp")
        assert ask("own sync", client).text == "In the reeds."


def test_no_cookie_is_sent_back() -> None:
    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(answer("Herons.", b"set-cookie: who=heron; path=/\r\n"))

    with RawServer(play) as server:
        asked = several("aiohttp", client_for("aiohttp", backend(server.base_url)), 2)
    assert [each.text for each in asked] == ["Herons."] * 2
    assert server.connections == 1
    assert not [request for request in server.requests if b"cookie" in request.lower()]


def test_a_path_goes_out_letter_by_letter() -> None:
    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(answer("Herons."))

    with RawServer(play) as server:
        client = client_for("aiohttp", backend(f"{server.base_url}/a%3Ab%2fc~(d)/%7Ev1"))
        assert ask("aiohttp", client, streams=False).text == "Herons."
    assert b"/a%3Ab%2fc~(d)/%7Ev1/chat/completions HTTP/1.1\r\n" in server.requests[0]


def test_a_body_waits_for_no_leave_to_be_sent() -> None:
    with RawServer(echoes) as server:
        client = client_for("aiohttp", backend(server.base_url))
        asked = ask("aiohttp", client, streams=False, headers={"Expect": "100-continue"}, deadline=time.time() + 5)
    assert asked.text == "Where?"
    assert b"\r\nexpect: 100-continue\r\n" in server.requests[0].lower()


def test_a_prompt_of_megabytes_goes_out_whole_and_without_a_warning() -> None:
    prompt = "reeds " * WHOLE
    with EmbeddedProvider(Script([ANSWER])) as provider, warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = ask("aiohttp", client_for("aiohttp", backend(provider.base_url)), prompt, streams=False)
        assert asked.text == "In the reeds."
        assert provider.requests[0].body["messages"][0]["content"] == prompt


@pytest.mark.parametrize("head", [b"x: " + b"a" * (2 * LARGEST_HEAD), b"x: a\r\n" * LARGEST_HEAD])
def test_a_head_without_an_end_is_bounded(head: bytes) -> None:
    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(b"HTTP/1.1 200 OK\r\n" + head)

    with RawServer(play) as server:
        asked = ask("aiohttp", client_for("aiohttp", backend(server.base_url)), streams=False)
    assert [failure.reason for failure in asked.failures] == ["connection"]
    assert "aaa" not in str(asked.failures[0].exception)


PROGRAM = """
import asyncio, sys, rungwise
client = rungwise.Client(rungwise.OpenAIChat("m", base_url=sys.argv[1], api_key="k"), transport="aiohttp")
async def main():
    await client.acall("Where?")
    async for event in client.astream("Where?"):
        break
for _ in range(2):
    asyncio.run(main())
"""


def test_a_program_may_end_without_closing_anything() -> None:
    with EmbeddedProvider(Script([ANSWER])) as provider:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, provider.base_url], capture_output=True, text=True, timeout=60
        )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_client_that_is_dropped_leaves_no_connection_in_its_loop() -> None:
    is_over = threading.Event()

    def play(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(answer("Herons."))
        is_over.set()

    async def main(server: RawServer) -> bool:
        client: Any = Client(backend(server.base_url, streams=False), transport="aiohttp")
        await client.acall("Where?")
        del client
        gc.collect()
        return await asyncio.to_thread(is_over.wait, 4)  # below the time for which an idle one is kept

    with RawServer(play) as server:
        assert asyncio.run(main(server))
