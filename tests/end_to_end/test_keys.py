"""Which key a backend sends, and where."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import httpx2
import pytest

import rungwise
from rungwise import Anthropic, Client, ConfigurationError, OpenAIChat, OpenAIResponses
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.testing import ReceivedRequest, ScriptedReply
from support import modes, protocols
from support.protocols import encoded
from support.raw_server import Peer, RawServer

KEY = "key-of-the-environment-9d2f"
TEXT = "In the reeds."


@pytest.fixture
def anywhere(serve: Any) -> Iterator[tuple[Any, httpx.Client]]:
    """Send what goes to any host to one server on this machine."""
    provider = serve(ScriptedReply(text=TEXT))
    here = httpx.URL(provider.base_url)

    class Here(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            request.url = request.url.copy_with(scheme="http", host=here.host, port=here.port)
            return super().handle_request(request)

    with httpx.Client(transport=Here()) as http:
        yield provider, http


BEDROCK = "AWS_BEARER_TOKEN_BEDROCK"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "url", "variable"),
    [
        (OpenAIChat, "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
        (OpenAIChat, "https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1", BEDROCK),
        (OpenAIChat, "https://bedrock-mantle.us-east-1.api.aws/v1", BEDROCK),
        (OpenAIResponses, "https://bedrock-mantle.us-east-1.api.aws/v1", BEDROCK),
        (Anthropic, "https://bedrock-mantle.us-east-1.api.aws/anthropic/v1", BEDROCK),
    ],
)
def test_a_key_of_the_environment_is_sent_to_its_host(
    monkeypatch: pytest.MonkeyPatch, anywhere: Any, kind: type[HttpBackend], url: str, variable: str
) -> None:
    provider, http = anywhere
    monkeypatch.setenv(variable, KEY)
    with Client(kind("m", base_url=url), http=http) as client:
        assert client.call("Where do herons nest?").text == TEXT
    (request,) = provider.requests
    header = request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")
    assert header == KEY


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://bedrock-runtime-evil.s3.amazonaws.com/openai/v1", BEDROCK),
        ("https://bedrock-runtime-evil.us-east-1.elb.amazonaws.com/openai/v1", BEDROCK),
        ("https://api.perplexity.ai.example.org", "PERPLEXITY_API_KEY"),
        ("https://api.minimaxi.io/v1", "MINIMAX_API_KEY"),
    ],
)
def test_nothing_is_sent_to_a_host_that_looks_like_it(
    monkeypatch: pytest.MonkeyPatch, anywhere: Any, url: str, variable: str
) -> None:
    provider, http = anywhere
    monkeypatch.setenv(variable, KEY)
    with pytest.raises(ConfigurationError, match="api_key is missing"):
        Client(OpenAIChat("m", base_url=url))
    elsewhere = OpenAIChat("n", base_url=provider.base_url)
    with Client([OpenAIChat("m", base_url=url), elsewhere], http=http) as client:
        assert client.call("Where do herons nest?").text == TEXT  # passed over: a backend without a key is unusable
    (request,) = provider.requests
    assert (request.body["model"], KEY in str(request.headers)) == ("n", False)


# a function that returns the key

FRESH = "token-2-5a1e"


def only(key: str, reply: ScriptedReply) -> Any:
    """Answer requests with this key, and any other with 401."""

    def answer(request: ReceivedRequest) -> ScriptedReply:
        return reply if key in str(request.headers) else ScriptedReply(status=401)

    return answer


def tokens(*, is_async: bool) -> tuple[Any, list[str]]:
    """Return a function that returns `token-1...`, then `token-2...` and so on, and what it has returned."""
    numbers, given = itertools.count(1), list[str]()

    def key() -> str:
        given.append(f"token-{next(numbers)}-5a1e")
        return given[-1]

    async def async_key() -> str:
        await asyncio.sleep(0)
        return key()

    return (async_key if is_async else key), given


def sent_keys(provider: Any) -> list[str]:
    names = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
    return [
        next(request.headers[name] for name in names if name in request.headers).removeprefix("Bearer ")
        for request in provider.requests
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("is_async", [False, True], ids=["", "async"])
def test_a_function_is_asked_once_more_after_a_401(api: str, mode: str, serve: Any, is_async: bool) -> None:
    if is_async and not mode.startswith("a"):
        return
    key, given = tokens(is_async=is_async)
    provider = serve(only(FRESH, ScriptedReply(text=TEXT)))
    backend = protocols.backend(api, provider.base_url, api_key=key)
    waits: list[float] = []
    with Client(backend, **modes.options_of(mode), **modes.waits_into(waits)) as client:
        result = modes.ask(client, mode, "Where do herons nest?")
    assert (result.text, sent_keys(provider), given) == (TEXT, ["token-1-5a1e", FRESH], ["token-1-5a1e", FRESH])
    taken = [(step.event, step.target, step.note) for step in result.journal.steps if step.event == "rejected_fixably"]
    assert taken == [("rejected_fixably", "repair", "key")]
    first, second = [request.body for request in provider.requests]
    assert first == second
    assert FRESH not in repr(backend) + result.journal.to_json()
    assert rungwise.replay(rungwise.Journal.from_json(result.journal.to_json())).outcome == "done"


def test_a_second_401_is_final_and_the_next_backend_begins_anew(mode: str, serve: Any) -> None:
    first, second = serve(only("never", ScriptedReply())), serve(only(FRESH, ScriptedReply(text=TEXT)))
    chain = [
        OpenAIChat(name, base_url=each.base_url, api_key=tokens(is_async=False)[0], name=name)
        for name, each in (("one", first), ("two", second))
    ]
    with Client(chain, **modes.options_of(mode), **modes.waits_into([])) as client:
        assert modes.ask(client, mode, "Where?").text == TEXT
    assert (len(first.requests), len(second.requests)) == (2, 2)


def test_a_key_that_is_no_function_is_not_asked_again(mode: str, serve: Any) -> None:
    provider = serve(only("never", ScriptedReply()))
    backend = OpenAIChat("m", base_url=provider.base_url, api_key=KEY)
    failed = pytest.raises(rungwise.Failed, match="check this backend's API key")
    with Client(backend, **modes.options_of(mode)) as client, failed:
        modes.ask(client, mode, "Where?")
    assert len(provider.requests) == 1


async def hangs() -> str:
    await asyncio.sleep(3600)
    return KEY


async def returns_nothing() -> Any:
    return None


@pytest.mark.parametrize(
    ("mode", "key", "words"),
    [
        ("call", hangs, "only async calls"),
        ("call", lambda: None, "must return a key, not NoneType"),
        ("acall", returns_nothing, "must return a key, not NoneType"),
        ("call", lambda: f"{KEY}\n", "blanks"),
    ],
)
def test_a_function_that_returns_no_key_is_refused(mode: str, serve: Any, key: Any, words: str) -> None:
    provider = serve(ScriptedReply(text=TEXT))
    backend = OpenAIChat("m", base_url=provider.base_url, api_key=key)
    refused = pytest.raises(ConfigurationError, match=words)
    with Client(backend, **modes.options_of(mode)) as client, refused as raised:
        modes.ask(client, mode, "Where?")
    assert KEY not in str(raised.value)
    assert provider.requests == []


def raising(error: Exception, *, is_async: bool, then: str | None = None) -> Any:
    """Return a function that raises, each time or only the first."""
    asked = itertools.count()

    def key() -> str:
        if then is None or next(asked) == 0:
            raise error
        return then

    async def async_key() -> str:
        return key()

    return async_key if is_async else key


def test_a_function_that_raises_costs_its_backend_alone_and_is_quoted_nowhere(mode: str, serve: Any) -> None:
    first, second = serve(ScriptedReply(text=TEXT)), serve(ScriptedReply(text=TEXT))
    key = raising(RuntimeError(f"no token for {FRESH}"), is_async=mode.startswith("a"))
    chain = [
        OpenAIChat("one", base_url=first.base_url, api_key=key),
        OpenAIChat("two", base_url=second.base_url, api_key=KEY),
    ]
    with Client(chain, **modes.options_of(mode)) as client:
        result = modes.ask(client, mode, "Where?")
    assert (result.text, first.requests, sent_keys(second)) == (TEXT, [], [KEY])
    assert [step.reason for step in result.journal.steps if step.reason] == ["auth"]
    with Client(chain[0], **modes.options_of(mode)) as client, pytest.raises(rungwise.Failed) as failed:
        modes.ask(client, mode, "Where?")
    error = failed.value
    assert "check this backend's API key" in str(error)
    assert FRESH not in f"{error} {error.result!r} {error.result.cause} {error.result.journal.to_json()}"
    assert error.result.usage.output_tokens == 0


def test_a_function_that_cannot_reach_its_server_is_asked_again(mode: str, serve: Any) -> None:
    provider = serve(ScriptedReply(text=TEXT))
    key = raising(httpx.ConnectError("refused"), is_async=mode.startswith("a"), then=FRESH)
    waits: list[float] = []
    backend = OpenAIChat("m", base_url=provider.base_url, api_key=key)
    with Client(backend, **modes.options_of(mode), **modes.waits_into(waits)) as client:
        assert modes.ask(client, mode, "Where?").text == TEXT
    assert (sent_keys(provider), len(waits)) == ([FRESH], 1)


def test_a_function_that_hangs_ends_with_the_time_of_the_call(serve: Any) -> None:
    provider = serve(ScriptedReply(text=TEXT))
    policy = rungwise.Policy(budget=rungwise.Budget(seconds=0.3), limits=rungwise.Limits(retries=0))
    backend = OpenAIChat("m", base_url=provider.base_url, api_key=hangs)
    with Client(backend, policy=policy) as client, pytest.raises(rungwise.CallError):
        asyncio.run(client.acall("Where?"))
    assert provider.requests == []


# Claude elsewhere, as the official client asks for it

VERTEX = "/v1/projects/p1/locations/europe-west1"
TOKEN = "eyJ0eXAiOiJKV1QifQ.eyJhdWQiOiJ4In0.c2lnbmF0dXJl"
ASKED = {"max_tokens": 50, "messages": [{"role": "user", "content": "Where?"}]}
MESSAGE = {
    **{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"},
    "content": [{"type": "text", "text": TEXT}],
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def theirs(make: Any) -> httpx2.Request:
    """Return what the official client sends."""
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json=MESSAGE)

    make(httpx2.Client(transport=httpx2.MockTransport(answer))).messages.create(model="claude-opus-4-8", **ASKED)
    return seen[0]


@pytest.mark.parametrize("where", ["vertex", "azure by token", "azure by key"])
def test_claude_elsewhere_is_asked_as_the_official_client_asks(where: str) -> None:
    given = {"vertex": "ya29.token", "azure by token": TOKEN, "azure by key": KEY}[where]
    if where == "vertex":
        url = f"https://europe-west1-aiplatform.googleapis.com{VERTEX}/publishers/anthropic"
        request = theirs(
            lambda http: anthropic.AnthropicVertex(
                region="europe-west1", project_id="p1", access_token=given, http_client=http
            )
        )
    else:
        url = "https://res.services.ai.azure.com/anthropic/v1"
        how = {"api_key": given} if where == "azure by key" else {"azure_ad_token_provider": lambda: given}
        request = theirs(lambda http: anthropic.AnthropicFoundry(resource="res", http_client=http, **how))
    ours = encoded(
        Anthropic("claude-opus-4-8", base_url=url, api_key=lambda: given), ASKED["messages"][0], max_tokens=50
    )
    assert ours.url == str(request.url)
    assert json.loads(ours.body) == json.loads(request.content)
    differs = {
        name
        for name in {*map(str.lower, ours.headers), *request.headers}
        if not name.startswith("x-stainless") and ours.headers.get(name) != request.headers.get(name)
    }
    # The transport and the name of the client apart: the client asks for its own version of the API, and sends a key
    # under both of the names that Azure takes.
    own = {"vertex": set(), "azure by token": {"anthropic-version"}, "azure by key": {"anthropic-version", "api-key"}}
    assert differs - {"accept", "accept-encoding", "connection", "content-length", "host", "user-agent"} == own[where]


@pytest.mark.sampled(1)
def test_claude_on_vertex_is_asked_over_http(mode: str) -> None:
    body = json.dumps(MESSAGE).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)

    def answer(peer: Peer) -> None:
        for _ in peer.requests():
            peer.send(head + body)

    with RawServer(answer) as server:
        base = server.base_url.removesuffix("/v1") + f"{VERTEX}/publishers/anthropic"
        backend = Anthropic("claude-opus-4-8", base_url=base, api_key=lambda: "ya29.t")
        with Client(backend, **modes.options_of(mode)) as client:
            assert modes.ask(client, mode, "Where?").text == TEXT
    (sent,) = server.requests
    assert f"POST {VERTEX}/publishers/anthropic/models/claude-opus-4-8:".encode() in sent
    assert b"authorization: Bearer ya29.t" in sent
    assert b'"model"' not in sent
