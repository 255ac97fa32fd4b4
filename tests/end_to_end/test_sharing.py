"""A key and a header go where they were meant to go, and nowhere else."""

import asyncio
import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import httpx
import pytest

import rungwise
from rungwise import Client, OpenAIChat
from rungwise.adapters.http.limits import AttemptLimits
from rungwise.adapters.http.own import OwnHttp
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.adapters.wires.endpoint import key_of_environment
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.call.chain.for_backend import headers_for
from rungwise.fsm.values.secret import Secret, SecretMap, fingerprint
from rungwise.testing import ScriptedReply
from support import modes
from support.raw_server import Peer, RawServer, echoes
from support.ways import ALL, PASSED_IN, ask, backend, client_for, http_of, is_async

KEY = "sk-9d2f6b1c44e07a35"
OTHER = "sk-0000feedbeef1234"
BUSY = ScriptedReply(status=401)
ANSWER = ScriptedReply("In the reeds.")


def test_headers_of_a_request_stay_with_the_origin_of_the_first_backend(
    serve: Any, mode: str
) -> None:
    first = serve(BUSY)
    second = serve(BUSY, ANSWER)
    chain = [
        OpenAIChat("one", base_url=first.base_url),
        OpenAIChat("two", base_url=first.base_url),
        OpenAIChat("three", base_url=second.base_url),
        OpenAIChat("four", base_url=second.base_url, headers={"x-own": "yes"}),
    ]
    options = {"headers": {"x-api-key": KEY, "x-trip": "north"}}
    with Client(chain) as client:
        modes.ask(client, mode, **options)
    assert [request.headers.get("x-api-key") for request in first.requests] == [KEY, KEY]
    assert [request.headers.get("x-trip") for request in second.requests] == [None, None]
    assert [request.headers.get("x-api-key") for request in second.requests] == [None, None]
    assert second.requests[1].headers["x-own"] == "yes"


@pytest.mark.parametrize(
    ("url", "shared"),
    [
        ("https://h.example/v1", True),
        ("https://H.example:443/other", True),
        ("http://h.example/v1", False),
        ("https://h.example:8443/v1", False),
        ("https://h.example.org/v1", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, shared: bool) -> None:
    first, link = (
        OpenAIChat("m", base_url=each, api_key=KEY) for each in ("https://h.example/v1", url)
    )
    request = Request("hi", headers={"x-a": "b"})
    assert headers_for(request, first, link) == ({"x-a": "b"} if shared else {})


def test_a_proxy_of_the_environment_is_not_given_what_stays_on_this_machine(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = serve(ScriptedReply("I heard it all."))
    provider = serve(ANSWER)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
    monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
    for url in (provider.base_url, provider.base_url.replace("127.0.0.1", "localhost")):
        with Client(OpenAIChat("m", base_url=url, api_key=KEY)) as client:
            assert client.call("Where?").text == "In the reeds."
            assert asyncio.run(client.acall("Where?")).text == "In the reeds."
    assert not proxy.requests


@pytest.mark.parametrize(
    "host",
    [
        "0.0.0.0",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost.",
        "foo.localhost",
        "LOCALHOST",
        "127.0.0.2",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0",
    ],
)
def test_this_machine_is_known_by_all_of_its_names(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example")
    monkeypatch.setenv("no_proxy", "")
    backend = OpenAIChat("m", base_url=f"http://{host}:8000/v1")
    assert backend.problem is None  # no key is asked for either
    send = Call(Request("hi"), chain=[backend]).begin()
    assert send is not None
    assert not OwnHttp(1)._is_proxied(backend.encode(send, stream=False), AttemptLimits())


@pytest.mark.parametrize(
    "host", ["128.0.0.1", "[::2]", "[::ffff:10.0.0.1]", "localhost.example", "notlocalhost", "1"]
)
def test_what_is_elsewhere_is_asked_through_the_proxy(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example")
    monkeypatch.setenv("no_proxy", "")
    assert OwnHttp(1)._is_proxied(HttpRequest(f"http://{host}:8000/v1", {}, b""), AttemptLimits())


def test_headers_of_a_request_stay_with_the_first_plain_link() -> None:
    links = [PlainLink("one.example"), PlainLink("two.example")]
    call = Call(Request("hi", headers={"x-api-key": KEY}), chain=links)
    first = call.begin()
    second = call.receive(Failure("auth", status=401))
    assert first is not None
    assert second is not None
    assert (first.headers, second.headers) == ({"x-api-key": KEY}, {})


# two keys are two backends


def test_a_second_key_for_one_model_is_asked(serve: Any) -> None:
    provider = serve(ScriptedReply(status=402), ANSWER)
    chain = [
        OpenAIChat(
            "m",
            base_url=provider.base_url,
            api_key=key,
            name=key[-4:],
        )
        for key in (KEY, KEY, OTHER)
    ]
    with Client(chain) as client:
        result = client.call("Where?")
    sent = [request.headers["authorization"] for request in provider.requests]
    assert sent == [f"Bearer {KEY}", f"Bearer {OTHER}"]
    written = result.journal.to_json()
    assert [step.event for step in result.journal.steps] == [
        "sent",
        "failed_permanently",
        "skipped",
        "sent",
        "answered",
    ]
    for secret in (
        KEY,
        OTHER,
        *(fingerprint({"authorization": f"Bearer {key}"}) + "x" for key in (KEY, OTHER)),
    ):
        assert secret not in written
    assert rungwise.replay(rungwise.Journal.from_json(written)).outcome == "done"


def test_headers_tell_backends_apart_as_keys_do() -> None:
    def identities(**fields: Any) -> Any:
        return OpenAIChat("m", base_url="http://localhost/v1", **fields).identities

    assert identities(headers={"X-Org": "a"}) == identities(headers={"x-org": "a"})
    assert identities(headers={"x-org": "a"}).isdisjoint(identities(headers={"x-org": "b"}))
    assert identities(headers={"x-org": "a"}).isdisjoint(identities())
    assert identities(api_key=KEY).isdisjoint(identities(api_key=OTHER))


# the key of the environment


def sent_by(backend: OpenAIChat) -> str | None:
    call = Call(Request("hi"), chain=[backend])
    send = call.begin()
    assert send is not None
    return backend.encode(send, stream=False).headers.get("authorization")


def test_the_key_of_the_environment_goes_to_openai_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenAIChat("gpt-5").problem is not None
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert OpenAIChat("gpt-5").problem is None
    assert sent_by(OpenAIChat("gpt-5")) == f"Bearer {KEY}"
    assert sent_by(OpenAIChat("gpt-5", base_url="https://eu.api.openai.com/v1")) == f"Bearer {KEY}"
    assert sent_by(OpenAIChat("gpt-5", api_key=OTHER)) == f"Bearer {OTHER}"
    for url in (
        "http://api.openai.com/v1",
        "https://openai.com.example.org/v1",
        "https://notopenai.com/v1",
    ):
        assert OpenAIChat("gpt-5", base_url=url).problem is not None
    for url in ("http://localhost:8000/v1", "https://x.openai.azure.com/openai/v1"):
        assert sent_by(OpenAIChat("gpt-5", base_url=url, headers={"api-key": OTHER})) is None
    assert sent_by(OpenAIChat("gpt-5", api_key_required=False)) is None
    assert (
        sent_by(OpenAIChat("gpt-5", headers={"Authorization": f"Bearer {OTHER}"}))
        == f"Bearer {OTHER}"
    )
    moved = attrs.evolve(OpenAIChat("gpt-5"), base_url="http://localhost:8000/v1")
    assert sent_by(moved) is None


def test_a_key_of_the_environment_that_cannot_be_sent_is_named_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    with pytest.raises(rungwise.ConfigurationError, match="OPENAI_API_KEY has blanks") as raised:
        OpenAIChat("gpt-5")
    assert KEY not in str(raised.value)
    monkeypatch.setenv("OPENAI_API_KEY", "  ")
    assert key_of_environment("https://api.openai.com") is None
    assert "is missing" in str(OpenAIChat("gpt-5").problem)


# what holds a key


def test_what_holds_a_key_shows_it_in_no_form_but_one() -> None:
    backend = OpenAIChat(
        "m", base_url="https://h.example/v1", api_key=KEY, headers={"x-api-key": OTHER}
    )
    request = Request("hi", headers={"x-api-key": OTHER})
    for thing in (
        backend,
        request,
        attrs.asdict(backend),
        attrs.asdict(request),
        attrs.astuple(backend),
    ):
        assert KEY not in repr(thing)
        assert OTHER not in repr(thing)
    with pytest.raises(TypeError):
        json.dumps(attrs.asdict(backend)["api_key"])
    for thing in (backend.api_key, backend.headers, request):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(thing)
    assert pickle.loads(pickle.dumps(Request("hi"))) == Request("hi")
    assert backend.api_key.reveal() == KEY == backend.api_key
    assert f"{backend.api_key}" == str(backend.api_key) == repr(backend.api_key) == "***"
    assert str(backend.headers) == repr(backend.headers) == "SecretMap(x-api-key=***)"
    assert attrs.evolve(backend, model="n").api_key == Secret(KEY) != Secret(OTHER)
    assert backend.headers == {"x-api-key": OTHER} == SecretMap({"x-api-key": OTHER})


def test_what_a_driver_holds_shows_no_prompt() -> None:
    prompt = "Where do herons nest?"
    call = Call(Request([{"role": "user", "content": prompt}], headers={"x-api-key": KEY}))
    send = call.begin()
    assert send is not None
    call.receive(Reply("", reasoning=prompt, stop_reason="stop"))
    for thing in (
        call,
        send,
        send.request,
        call._context.transcript,
        call._sender.proposed,
        call._outcome.last,
        call.journal,
    ):
        assert prompt not in repr(thing)
        assert KEY not in repr(thing)


# redirects


@contextmanager
def redirecting() -> Iterator[tuple[RawServer, RawServer]]:
    """Start a server that sends every request on to another one, and that other one."""

    def elsewhere(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(
                b"HTTP/1.1 307 Temporary Redirect\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n"
                % there
            )

    with RawServer(echoes) as other:
        there = (other.base_url + "/chat/completions").encode()
        with RawServer(elsewhere) as server:
            yield server, other


@pytest.mark.parametrize("way", ALL)
def test_redirects_are_not_followed(way: str) -> None:
    with redirecting() as (server, other):
        http = http_of(way, follow_redirects=True)
        asked = ask(way, client_for(way, backend(server.base_url), http), streams=False)
    assert asked.outcome == "failed"
    assert other.requests == []
    assert len(server.requests) == asked.result.attempts == 1


class Wrapper:
    """A client around another one, with nothing of it but what is needed."""

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
    """A client whose `send` takes no word on redirects."""

    def send(self, request: Any, *, stream: bool = False) -> Any:  # type: ignore[override]
        return self.http.send(request, stream=stream)


@pytest.mark.parametrize("way", PASSED_IN)
def test_a_client_around_another_one_is_told_to_follow_no_redirects(way: str) -> None:
    with redirecting() as (server, other):
        http = (AsyncWrapper if is_async(way) else Wrapper)(http_of(way, follow_redirects=True))
        asked = ask(way, client_for(way, backend(server.base_url), http), streams=False)
    assert (asked.outcome, other.requests) == ("failed", [])


def test_a_client_that_takes_no_word_on_redirects_is_given_none() -> None:
    with RawServer(echoes) as server:
        http = Narrow(httpx.Client())
        asked = ask(
            "httpx.Client",
            client_for("httpx.Client", backend(server.base_url), http),
            streams=False,
        )
    assert asked.outcome == "done"
