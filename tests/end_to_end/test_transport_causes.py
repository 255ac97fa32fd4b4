"""An SDK over `rungwise.Transport` raises what it raises without it: the status is that of the
cause, with the time to come back if that is known.
"""

import json
from typing import Any, Final

import httpx
import pytest

from rungwise import Budget, Client, Limits, Policy, Quota, Transport, Waits, asgi
from rungwise.adapters.gateway.languages.anthropic import ERRORS
from rungwise.adapters.gateway.languages.chat import ERRORS as CHAT_ERRORS
from rungwise.testing import ScriptedReply
from support import protocols, sdks
from support.clocked import clocked
from support.gateways import (
    asked,
    backends,
    chained,
    client_over,
    path_of,
    post,
    posted,
    written,
)
from support.protocols import PROTOCOLS
from support.proxied import served
from support.remembering import Clock
from support.runs import Stages
from support.sdks import APIS, HOST, WAYS

TEXT: Final = "In the reeds."
ONCE: Final = Policy(limits=Limits(retries=0), waits=Waits(longest_asked=5))
STATUSES: Final = (401, 402, 403, 404, 409, 422, 429, 500, 502, 503, 504, 529)
UNKNOWN: Final = {"n": 2}

every = pytest.mark.parametrize("api", APIS)
always = pytest.mark.parametrize("way", WAYS)
streamed_or_not = pytest.mark.parametrize("streams", [False, True])
few = pytest.mark.sampled(8)


def busy(seconds: float) -> ScriptedReply:
    """Return a refusal that names the seconds after which to come back."""
    return ScriptedReply(status=429, headers={"retry-after": str(seconds)})


def retry_after(error: Any) -> float | None:
    """Return the seconds that the response of an SDK's error asks to wait."""
    value = error.response.headers.get("retry-after")
    return None if value is None else float(value)


@few
@pytest.mark.parametrize("status", STATUSES)
@always
@every
def test_an_sdk_raises_what_it_would_raise_without_us(
    api: str,
    way: str,
    status: int,
    stages: Stages,
) -> None:
    reply = ScriptedReply(status=status)
    stages[0].play([reply])
    alone = sdks.ask(api, way, base_url=stages[0].provider.base_url)
    over = asked(stages, api, way, (api, [reply]), policy=ONCE)
    assert alone.error is not None
    assert type(over.error) is type(alone.error)
    assert over.status == alone.status == status


@few
@pytest.mark.parametrize("backend", PROTOCOLS)
@pytest.mark.parametrize("status", [401, 403, 404, 429])
@every
def test_whatever_protocol_the_backend_speaks(
    api: str,
    status: int,
    backend: str,
    stages: Stages,
) -> None:
    seen = asked(stages, api, "whole", (backend, [ScriptedReply(status=status)]), policy=ONCE)
    assert seen.status == status
    assert protocols.KEY not in seen.message


@every
@always
def test_the_wait_that_is_known_stands_in_retry_after(api: str, way: str, stages: Stages) -> None:
    """Of several backends that ask for a wait, the one that is back first counts."""
    links = ("openai", [busy(40)]), ("anthropic", [busy(90)])
    seen = asked(stages, api, way, *links, policy=ONCE)
    assert seen.status == 429
    assert 38 <= (retry_after(seen.error) or 0) <= 40


def test_google_reads_the_wait_in_the_body_too(stages: Stages) -> None:
    seen = asked(stages, "gemini", "whole", ("openai", [busy(40)]), policy=ONCE)
    details = seen.error.details["error"]["details"]  # type: ignore[union-attr]
    [wait] = [each["retryDelay"] for each in details if each["@type"].endswith("RetryInfo")]
    assert wait in ("39s", "40s")


@pytest.mark.parametrize(
    ("replies", "status", "waits"),
    [
        ([busy(40), ScriptedReply(status=500)], 500, True),
        ([ScriptedReply(status=401), busy(40)], 429, True),
        ([busy(40), ScriptedReply(status=401)], 401, False),
        ([busy(40), ScriptedReply(status=429)], 429, True),
        ([ScriptedReply(status=429), ScriptedReply(status=429)], 429, False),
        ([ScriptedReply(status=400), ScriptedReply(status=503)], 503, False),
        ([busy(40), ScriptedReply(status=404)], 404, False),
    ],
    ids=range(7),
)
@streamed_or_not
@every
def test_of_several_backends_the_last_one_gives_the_status(
    api: str,
    streams: bool,
    replies: list[ScriptedReply],
    status: int,
    waits: bool,
    stages: Stages,
) -> None:
    """And nobody is told to come back to what no wait mends."""
    links = [("openai", [reply]) for reply in replies]
    with chained(stages, *links, policy=ONCE) as transport:
        response = post(transport, api, written(api), streams=streams)
    assert response.status_code == status
    assert ("retry-after" in response.headers) is waits


@every
@streamed_or_not
def test_a_quota_of_our_own_is_429(api: str, streams: bool, stages: Stages) -> None:
    clock = Clock()
    stages[0].play([ScriptedReply(TEXT)])
    chain = backends(["openai"], stages[:1], quota=Quota(requests_per_minute=1))
    with Client(chain, policy=ONCE, **clocked(clock.options)) as client:
        client.call("Where?")
        clock.advance(10)
        response = post(Transport(client), api, written(api), streams=streams)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "50"
    assert len(stages[0].requests) == 1


@every
@streamed_or_not
def test_so_is_one_behind_a_backend_that_failed(api: str, streams: bool, stages: Stages) -> None:
    clock = Clock()
    stages[0].play([ScriptedReply(status=400)])
    stages[1].play([ScriptedReply(TEXT)])
    [first] = backends(["openai"], stages[:1])
    quota = Quota(requests_per_minute=1)
    last = protocols.backend("anthropic", stages[1].provider.base_url, name="last", quota=quota)
    with Client([first, last], policy=ONCE, **clocked(clock.options)) as client:
        client.call("Where?")
        response = post(Transport(client), api, written(api), streams=streams)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "60"


@every
@streamed_or_not
def test_a_backend_that_is_open_says_when_it_is_back(
    api: str, streams: bool, stages: Stages
) -> None:
    clock = Clock()
    stages[0].play([busy(40)])
    stages[1].play([ScriptedReply(status=429)])
    chain = backends(["openai", "openai"], stages)
    options = clocked({**clock.options, "wall_clock": lambda: 1e9 + clock.now})
    with Client(chain, policy=ONCE, **options) as client:
        post(Transport(client), api, written(api), streams=streams)
        clock.advance(7)
        response = post(Transport(client), api, written(api), streams=streams)
    assert [len(stage.requests) for stage in stages[:2]] == [1, 2], "the first one is open"
    assert response.status_code == 429
    assert response.headers["retry-after"] == "33"


@every
@streamed_or_not
def test_a_wait_that_the_budget_has_no_time_for(api: str, streams: bool, stages: Stages) -> None:
    policy = Policy(budget=Budget(seconds=20), limits=Limits(retries=3))
    link = ("openai", [busy(40)])
    with chained(stages, link, policy=policy) as transport:
        response = post(transport, api, written(api), streams=streams)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "40"


@pytest.mark.full
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [401, 429, 500])
def test_the_retries_of_an_sdk_are_refused(kind: str, status: int, stages: Stages) -> None:
    import anthropic
    import openai

    calls: list[Any] = []

    class Counting(Transport):
        def handle_request(self, request: Any) -> Any:
            calls.append(request)
            return super().handle_request(request)

    stages[0].play([ScriptedReply(status=status)])
    library: Any = {"openai": openai, "anthropic": anthropic}[kind]
    with client_over(["openai"], stages[:1], policy=ONCE) as client:
        http = library.DefaultHttpxClient(transport=Counting(client))
        make = {"openai": openai.OpenAI, "anthropic": anthropic.Anthropic}[kind]
        sdk: Any = make(api_key="x", http_client=http, base_url=HOST, max_retries=2)
        create = sdk.chat.completions.create if kind == "openai" else sdk.messages.create
        with pytest.raises(library.APIStatusError) as caught:
            create(**sdks.asking(kind))
    assert caught.value.status_code == status
    assert len(calls) == 1


@pytest.mark.parametrize("status", [401, 429, 529])
@every
def test_an_error_within_a_stream_has_the_kind_of_its_cause(
    api: str, status: int, stages: Stages
) -> None:
    """The reasoning has gone out, so the head cannot have the status any more."""
    thinks = ScriptedReply(reasoning="Let me see.", error_event={"message": "Busy."})
    link = (api, [thinks, ScriptedReply(status=status)])
    fields = {"thinking": {"type": "adaptive"}} if api == "anthropic" else {}
    with chained(stages, link, policy=Policy(limits=Limits(retries=1))) as transport:
        response = post(transport, api, written(api, **fields), streams=True)
    assert response.status_code == 200
    assert "Let me see." in response.text
    events = [line for line in response.text.splitlines() if line.startswith("data: {")]
    error = json.loads(events[-1].removeprefix("data: "))
    kinds = {
        "openai": lambda: error["error"]["type"] == CHAT_ERRORS.get(status, [""])[0],
        "responses": lambda: "HTTP" in error["message"],
        "anthropic": lambda: error["error"]["type"] == ERRORS[status][0],
        "gemini": lambda: error["error"]["code"] == status,
        "interactions": lambda: "HTTP" in error["error"]["message"],
    }
    assert kinds[api](), error


@streamed_or_not
@every
def test_a_forwarded_error_keeps_its_wait(api: str, streams: bool, stages: Stages) -> None:
    body = {**written(api), "unheard_of": 5}
    response = posted(stages, (api, [busy(40)]), api, body, streams=streams)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "40"


@streamed_or_not
@every
def test_over_loopback_too(api: str, streams: bool, stages: Stages) -> None:
    stages[0].play([busy(40)])
    with client_over(["openai"], stages[:1], policy=ONCE) as client, served(asgi(client)) as url:
        body = written(api)
        if streams and api != "gemini":
            body = {**body, "stream": True}
        response = httpx.post(url + path_of(api, streams=streams), json=body)
    assert response.status_code == 429
    assert response.headers["retry-after"] in ("39", "40")
    assert response.headers["x-should-retry"] == "false"
