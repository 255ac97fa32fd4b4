"""What a provider says in an error is what the error says, in every protocol: cut, and without the
prompt or a key; and what failed where no provider could be reached.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx
import pytest

import rungwise
from rungwise import Budget, CallError, Client, Policy, Prices
from rungwise.testing import ScriptedReply
from support import protocols, ways
from support.modes import EVERY
from support.plain import user
from support.raw_server import RawServer
from support.runs import asking

SECRET: Final = "My patient Marzipan Quendolin lives at Elsewhere 48213377."
ASKED: Final = [user(SECRET)]
VERIFY: Final = "Your organization must be verified to stream this model."
ONCE: Final = Policy(limits=ways.ONCE)


@contextmanager
def failing(api: str, mode: str, *replies: ScriptedReply, **options: Any) -> Iterator[CallError]:
    """Yield the error of a call for which a provider says this."""
    with asking(mode, replies, lambda url: protocols.backend(api, url), policy=ONCE, **options) as (
        one,
        _,
        _,
    ):
        result = one(ASKED)
    with pytest.raises(CallError) as raised:
        result.raise_for_outcome()
    yield raised.value


def error(status: int, message: str, **more: Any) -> ScriptedReply:
    return ScriptedReply(status=status, error={"message": message, **more})


@pytest.mark.parametrize("mode", EVERY)
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_the_words_of_the_provider_stand_in_the_error_and_in_the_cause(api: str, mode: str) -> None:
    with failing(api, mode, error(403, VERIFY)) as raised:
        assert str(raised) == (
            "failed after 1 attempt: the provider rejected the request for good: "
            f'"{VERIFY}" (primary: auth, HTTP 403)'
        )
        assert raised.result.cause == f'the provider rejected the request for good: "{VERIFY}"'
        assert raised.result.failures[0][1].quote == VERIFY
        journal = raised.result.journal.to_json()
        assert "organization" not in journal


@pytest.mark.parametrize("mode", EVERY)
@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_what_a_provider_repeats_of_prompt_and_key_is_nowhere(
    api: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"Invalid value: '{SECRET}' with the key {protocols.KEY}. Please use another value."
    with (
        caplog.at_level("DEBUG", logger="rungwise"),
        failing(api, mode, error(400, said), contents=True) as raised,
    ):
        quote = raised.result.failures[0][1].quote
    assert quote.startswith("Invalid value: '***")
    assert quote.endswith("Please use another value.")
    shown = [str(raised), repr(raised), str(raised.result.cause), repr(raised.result), caplog.text]
    shown += [raised.result.journal.to_json(), repr(raised.result.failures)]
    for word in (*SECRET.rstrip(".").split(), protocols.KEY, protocols.KEY[4:]):
        if len(word) > 3:
            assert word not in "\n".join(shown)


@pytest.mark.parametrize("mode", EVERY)
def test_only_a_journal_with_contents_quotes_and_a_replay_says_the_same(mode: str) -> None:
    for contents in (False, True):
        with failing("openai", mode, error(403, VERIFY), contents=contents) as raised:
            journal = rungwise.Journal.from_json(raised.result.journal.to_json())
        quotes = [step.content.get("provider") for step in journal.steps if step.content]
        assert quotes == ([VERIFY] if contents else [])
        replayed = rungwise.replay(journal)
        assert (replayed.cause == raised.result.cause) is contents


@pytest.mark.parametrize(
    "reply",
    [
        error(400, "Failed to read the call: {'diagnosis': 'gout'}", code="tool_use_failed"),
        ScriptedReply(body="Gout is what I would say."),
        ScriptedReply(status=502, body="<html><body>Gout</body></html>"),
        ScriptedReply(status=502, body=json.dumps({"error": "\\u0047out"})),
    ],
)
def test_what_may_be_the_models_words_is_not_quoted(reply: ScriptedReply) -> None:
    with failing("openai", "call", reply) as raised:
        assert "gout" not in f"{raised} {raised.result.cause}".lower()


@pytest.mark.parametrize("mode", ["stream", "astream"])
def test_an_error_in_a_stream_repeats_nothing_of_the_text_before(mode: str) -> None:
    cut = [
        {"choices": [{"index": 0, "delta": {"content": "Herons nest near Quarrelwood."}}]},
        {"error": {"message": "The server had an error behind 'near Quarrelwood.'", "code": 500}},
    ]
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in cut)
    reply = ScriptedReply(body=body, headers={"content-type": "text/event-stream"})
    with asking(mode, [reply], lambda url: protocols.backend("openai", url), policy=ONCE) as (
        one,
        _,
        _,
    ):
        result = one("Where?")
    assert result.outcome == "partial"
    assert str(result.cause).endswith(": \"The server had an error behind 'near ***.'\"")


def test_of_several_backends_each_says_its_own() -> None:
    with (
        RawServer(refusing(429, "Rate limit reached for this project")) as first,
        RawServer(refusing(400, VERIFY)) as second,
    ):
        chain = [
            ways.backend(first.base_url, name="one"),
            ways.backend(second.base_url, name="two"),
        ]
        with Client(chain, policy=ONCE) as client, pytest.raises(rungwise.Failed) as raised:
            client.call(ASKED)
    assert str(raised.value) == (
        f'failed after 2 attempts: the provider rejected the request for good: "{VERIFY}" '
        "(one: rate_limit, HTTP 429, Rate limit reached for this project; two: format, HTTP 400)"
    )


def refusing(status: int, message: str) -> Any:
    body = json.dumps({"error": {"message": message}}).encode()
    head = f"HTTP/1.1 {status} No\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    return lambda peer: [peer.send(head + body) for _ in peer.requests()]


# where nobody could be reached


def said_of(way: str, url: str, **options: Any) -> str:
    """Return what the error says of a call that reached nobody."""
    backend = ways.backend(url)
    client = ways.client_for(way, backend, policy=ONCE, **options)
    asked = ways.ask(way, client, streams=False)
    if not ways.is_async(way):
        client.close()
    with pytest.raises(CallError) as raised:
        asked.result.raise_for_outcome()
    text = str(raised.value)
    cause = asked.result.cause or ""
    assert cause.partition(": ")[2] in text
    assert asked.result.journal.last.note in cause
    return text


@pytest.mark.own_connections  # httpx over aiohttp is one of the ways
@pytest.mark.parametrize("way", ways.ALL)
def test_a_refused_connection_says_so(way: str, dead_url: str) -> None:
    assert ": the connection was refused (primary: unreachable" in said_of(way, dead_url)


@pytest.mark.own_connections  # httpx over aiohttp is one of the ways
@pytest.mark.parametrize("way", ways.ALL)
def test_a_name_that_is_not_found_says_so(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    text = said_of(way, "http://nowhere.example/v1")
    assert ": the name was not found (primary: unreachable" in text


@pytest.mark.own_connections  # httpx over aiohttp is one of the ways
@pytest.mark.parametrize("way", ways.ALL)
def test_tls_with_a_server_that_has_none_says_so(way: str) -> None:
    with RawServer(lambda peer: peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        text = said_of(way, server.base_url.replace("http://", "https://"))
    assert ": TLS failed (primary: " in text


@pytest.mark.own_connections
@pytest.mark.parametrize("way", ways.OWN)
def test_a_proxy_of_the_environment_is_named_with_its_host(
    way: str, dead_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = httpx.URL(dead_url).netloc.decode()
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://someone:hunter2@{host}")
    text = said_of(way, "http://models.test/v1")
    assert f": the connection was refused (proxy {host})" in text
    assert "hunter2" not in text


# money


def test_the_sentence_about_money_says_how_much_is_left_and_needed(dead_url: str) -> None:
    backend = ways.backend(dead_url, prices=Prices(100.0, 200.0))

    def ask(money: float) -> CallError:
        policy = Policy(budget=Budget(money=money), limits=ways.ONCE)
        with Client(backend, policy=policy) as client, pytest.raises(CallError) as raised:
            client.call("Where do the herons of the northern lake nest, and where do they feed?")
        return raised.value

    said = str(ask(0.001))
    assert "the money of the budget cannot pay for another attempt: 0.001 is left, and " in said
    needed = float(said.rpartition("it needs ")[2].split()[0].strip(","))
    assert isinstance(ask(needed), rungwise.Failed)  # it was sent
