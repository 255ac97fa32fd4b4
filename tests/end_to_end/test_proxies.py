"""The proxies that the environment names."""

import multiprocessing
import os
from typing import Any

import pytest

from support.raw_server import RawServer, answer, echo, echoes
from support.ways import ask, backend, client_for, is_async, several

pytestmark = pytest.mark.own_connections


def through(monkeypatch: pytest.MonkeyPatch, proxy: RawServer) -> None:
    """Let the environment name a proxy."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, proxy.base_url.removesuffix("/v1"))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "elsewhere.test,127.0.0.1")


@pytest.mark.parametrize("host", ["models.test", "elsewhere.test"])
def test_the_proxies_of_the_environment_are_used(
    monkeypatch: pytest.MonkeyPatch, way: str, host: str
) -> None:
    with RawServer(echoes) as proxy:
        through(monkeypatch, proxy)
        client = client_for(way, backend(f"http://{host}/v1"))
        asked = ask(way, client, "through the proxy", streams=False)
        if not is_async(way):
            client.close()
    if host == "models.test":
        assert asked.text == "through the proxy"
        assert proxy.requests[0].startswith(
            b"POST http://models.test/v1/chat/completions HTTP/1.1\r\n"
        )
    else:
        assert (asked.outcome, proxy.requests) == ("failed", [])


def test_a_reply_that_nobody_asked_for_answers_no_later_call_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    extra = answer("I answer nobody.")
    with RawServer(
        lambda peer: [peer.send(echo(request) + extra) for request in peer.requests()]
    ) as proxy:
        through(monkeypatch, proxy)
        asked = several(way, client_for(way, backend("http://models.test/v1")), 3)
    assert [each.text for each in asked] == ["question 0", "question 1", "question 2"]
    assert proxy.connections == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_shares_no_connection_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(echoes) as proxy:
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


@pytest.mark.parametrize("cookie", ["sid=one; Path=/", "sid=é; Path=/"])
def test_a_cookie_that_comes_through_a_proxy_is_given_to_nobody(
    monkeypatch: pytest.MonkeyPatch, way: str, cookie: str
) -> None:
    extra = f"set-cookie: {cookie}\r\n".encode()
    with RawServer(
        lambda peer: [peer.send(answer("Yes.", extra)) for _ in peer.requests()]
    ) as proxy:
        through(monkeypatch, proxy)
        asked = several(way, client_for(way, backend("http://models.test/v1")), 2)
    assert [each.outcome for each in asked] == ["done", "done"]
    assert [request for request in proxy.requests if b"\r\ncookie:" in request.lower()] == []
