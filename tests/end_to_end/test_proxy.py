"""The SDKs and other programs through the proxy, over sockets: paths, keys, headers, models, and an
own application.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

import rungwise
from rungwise import Budget, Client, Policy, Prices, Result
from rungwise.adapters.gateway.gateway import Gateway
from rungwise.adapters.gateway.proxy import Metrics, Proxy
from rungwise.fsm.values.secret import Secret
from rungwise.testing import ScriptedReply
from support import protocols, sdks
from support.gateways import PATHS, TOOLS, client_over, fault_of, no_secret_in, path_of, written
from support.modes import waits_into
from support.proxied import echoing, served
from support.runs import Stage
from support.sdks import APIS, FINISHES, WAYS

TEXT: Final = "In the reeds, mostly; some of them in the alders behind the boathouse."
CALLS: Final = (
    {
        "id": "call_1",
        "name": "look",
        "arguments": '{"bird": "heron"}',
    },
)
POLICY: Final = Policy(budget=Budget(seconds=60, money=1.0))


every = pytest.mark.parametrize("api", APIS)
few = pytest.mark.sampled(8)


@pytest.fixture(scope="module")
def own_stages() -> Iterator[list[Stage]]:
    stages = [Stage(), Stage()]
    yield stages
    for stage in stages:
        stage.provider.close()


@pytest.fixture(scope="module")
def kept() -> dict[str, Result]:
    """Return the results that the proxy keeps, by their ids."""
    return {}


@pytest.fixture(scope="module")
def proxy(own_stages: list[Stage], kept: dict[str, Any]) -> Iterator[str]:
    """Serve two chains without a key, and return the address."""
    metrics = Metrics()

    def keep(id: str, result: Result) -> None:
        metrics.count(result)
        kept[id] = result

    chain = [
        protocols.backend(
            api, stage.provider.base_url, model="m", name=api, prices=Prices(1.0, 2.0)
        )
        for api, stage in zip(("openai", "anthropic"), own_stages, strict=True)
    ]
    quick = client_over(["gemini"], own_stages[1:])
    with Client(chain, policy=POLICY, **waits_into([])) as client, quick as fast:
        app = Proxy(
            Gateway(
                {
                    "fast": fast,
                    "default": client,
                    "*": client,
                },
                False,
                keep,
            ),
            metrics=metrics,
        )
        with served(app) as url:
            yield url


@pytest.fixture
def stage(own_stages: list[Stage]) -> Iterator[Stage]:
    for each in own_stages:
        each.play([ScriptedReply(TEXT, chunk_size=6)])
    yield own_stages[0]
    for each in own_stages:
        for request in each.requests:
            no_secret_in(request)


def send(
    url: str,
    api: str,
    *,
    streams: bool = False,
    headers: Any = (),
    **fields: Any,
) -> httpx.Response:
    body = written(api, **fields)
    if streams and api != "gemini":
        body["stream"] = True
    return httpx.post(url + path_of(api, streams=streams), json=body, headers=dict(headers))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
@every
def test_an_sdk_reads_its_answer(
    api: str,
    way: str,
    proxy: str,
    stage: Stage,
) -> None:
    seen = sdks.ask(api, way, base_url=proxy)
    assert (seen.error, seen.text, seen.finish, seen.model) == (
        None,
        TEXT,
        FINISHES[api]["stop"],
        "m",
    )
    stage.play(
        [ScriptedReply(status=503, headers={"retry-after": "0"}), ScriptedReply(tool_calls=CALLS)]
    )
    seen = sdks.ask(api, way, base_url=proxy, tools=TOOLS[api])
    assert (seen.error, seen.calls) == (None, [("look", {"bird": "heron"})])
    assert len(stage.requests) == 2
    stage.play(
        [
            ScriptedReply(
                status=400, error={"message": "Too long.", "code": "context_length_exceeded"}
            )
        ]
    )
    seen = sdks.ask(api, way, base_url=proxy)
    assert seen.status == 400 or seen.text == TEXT  # the other backend may take it


@few
@every
def test_an_application_of_ones_own_takes_it_under_a_prefix(
    api: str, stages: tuple[Stage, ...]
) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    stages[0].play([ScriptedReply(TEXT)])
    with client_over(["openai"], stages[:1]) as client:
        app = Starlette(routes=[Mount("/our/models", app=rungwise.asgi(client))])
        with served(app) as url:
            for way in ("whole", "astream"):
                assert sdks.ask(api, way, base_url=f"{url}/our/models").text == TEXT
            assert httpx.get(f"{url}/our/models/v1/nothing").status_code == 404


@few
@every
def test_the_headers_of_a_whole_answer_tell_of_its_call(
    api: str,
    proxy: str,
    stage: Stage,
    kept: Any,
) -> None:
    response = send(proxy, api)
    assert response.status_code == 200
    own = {
        name: value for name, value in response.headers.items() if name.startswith("x-rungwise-")
    }
    journal = own.pop("x-rungwise-journal")
    cost = float(own.pop("x-rungwise-cost"))
    assert cost > 0
    assert own == {
        "x-rungwise-outcome": "done",
        "x-rungwise-attempts": "1",
        "x-rungwise-backend": "openai",
    }
    assert kept[journal].text == TEXT
    assert kept[journal].cost == pytest.approx(cost, abs=1e-6)


@few
@every
def test_a_stream_says_before_its_end_how_its_call_went(
    api: str,
    proxy: str,
    stage: Stage,
    kept: Any,
) -> None:
    response = send(proxy, api, streams=True)
    assert [name for name in response.headers if name.startswith("x-rungwise-")] == [
        "x-rungwise-journal"
    ]
    assert kept[response.headers["x-rungwise-journal"]].outcome == "done"
    comments = [line for line in response.text.splitlines() if line.startswith(": ")]
    if api == "gemini":
        assert comments == []
    else:
        assert ": x-rungwise-outcome: done" in comments
        assert ": x-rungwise-attempts: 1" in comments
        rest = response.text.partition(comments[-1])[2]
        assert any(word in rest for word in ("[DONE]", "response.completed", "message_stop"))


@few
@pytest.mark.parametrize("version", ["/v1", "/v1beta", "/v1alpha", ""])
def test_gemini_is_served_under_each_of_its_versions(
    version: str, proxy: str, stage: Stage
) -> None:
    for method in ("generateContent", "streamGenerateContent?alt=sse"):
        response = httpx.post(f"{proxy}{version}/models/any:{method}", json=written("gemini"))
        assert response.status_code == 200
        assert "reeds" in response.text


def test_the_models_are_the_chains(proxy: str) -> None:
    with sdks.sdk_of("openai", "whole", base_url=proxy) as sdk:
        assert sorted(model.id for model in sdk.models.list()) == ["default", "fast"]
    assert [each["name"] for each in httpx.get(f"{proxy}/v1beta/models").json()["models"]] == [
        "models/fast",
        "models/default",
    ]


def test_health_and_metrics(proxy: str, stage: Stage) -> None:
    assert httpx.get(f"{proxy}/healthz").json() == {"status": "ok", "running": 0}
    stage.play([ScriptedReply(status=503, headers={"retry-after": "0"}), ScriptedReply(TEXT)])
    send(proxy, "anthropic")
    page = httpx.get(f"{proxy}/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=")
    for line in (
        'rungwise_calls_total{backend="openai",outcome="done"}',
        'rungwise_attempts_total{backend="openai"}',
        "rungwise_cost_total",
        "rungwise_call_seconds_bucket",
    ):
        assert line in page.text


@few
@pytest.mark.parametrize(
    ("path", "member"),
    [
        ("/v1/files", "error"),
        ("/v1/messages/batches", "type"),
        ("/v1beta/models/m:batchGenerateContent", "error"),
    ],
)
def test_what_is_no_model_call_is_404(
    path: str,
    member: str,
    proxy: str,
    stage: Stage,
) -> None:
    response = httpx.post(proxy + path, json={})
    assert response.status_code == 404
    assert member in response.json()
    assert httpx.get(proxy + PATHS["openai"]).status_code == 404
    assert stage.requests == []


# limits that a request sets


@few
@every
def test_a_request_may_lower_its_deadline_and_its_budget(
    api: str,
    proxy: str,
    stage: Stage,
    kept: Any,
) -> None:
    lower = {"x-rungwise-deadline": "12.5", "x-rungwise-budget": "0.5"}
    response = send(proxy, api, headers=lower)
    assert response.status_code == 200
    setting = kept[response.headers["x-rungwise-journal"]].journal.setting
    assert setting.policy.budget.money == 0.5
    assert setting.deadline == pytest.approx(12.5, abs=5)


@few
@pytest.mark.parametrize("streams", [False, True])
@every
def test_a_deadline_that_passes_is_504(
    api: str,
    streams: bool,
    proxy: str,
    stage: Stage,
    own_stages: list[Stage],
    kept: Any,
) -> None:
    for each in own_stages:
        each.play([ScriptedReply(hang=True)])
    response = send(proxy, api, streams=streams, headers={"x-rungwise-deadline": "0.05"})
    assert response.status_code == 504
    assert fault_of(api, response)
    assert (
        response.headers["x-rungwise-outcome"]
        == kept[response.headers["x-rungwise-journal"]].outcome
    )


@few
@every
@pytest.mark.parametrize(
    "header",
    [
        ("x-rungwise-deadline", "61"),
        ("x-rungwise-deadline", "0"),
        ("x-rungwise-deadline", "-1"),
        ("x-rungwise-deadline", "soon"),
        ("x-rungwise-deadline", "nan"),
        ("x-rungwise-deadline", "inf"),
        ("x-rungwise-budget", "1.5"),
        ("x-rungwise-budget", "0"),
        ("x-rungwise-budget", "nan"),
    ],
)
def test_a_request_may_raise_neither(
    api: str,
    header: Any,
    proxy: str,
    stage: Stage,
) -> None:
    response = send(proxy, api, headers=[header])
    assert response.status_code == 400
    assert header[0] in response.text
    assert stage.requests == []


@few
@every
def test_the_trace_goes_on_to_the_backend(api: str, proxy: str, stage: Stage) -> None:
    trace = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
    }
    assert (
        send(
            proxy,
            api,
            headers={
                **trace,
                "x-other": "no",
                "cookie": "no",
            },
        ).status_code
        == 200
    )
    [request] = stage.requests
    assert {name: request.headers.get(name) for name in trace} == trace
    assert not {"x-other", "cookie"} & request.headers.keys()


# keys


@pytest.fixture(scope="module")
def guarded(own_stages: list[Stage]) -> Iterator[str]:
    with (
        client_over(["openai"], own_stages[:1]) as client,
        served(Proxy(Gateway(client), key=Secret(sdks.KEY))) as url,
    ):
        yield url


@few
@pytest.mark.parametrize("header", ["authorization", "x-api-key", "x-goog-api-key"])
@every
def test_a_key_may_be_shown_in_each_of_three_headers(
    api: str,
    header: str,
    guarded: str,
    stage: Stage,
) -> None:
    shown = {header: f"Bearer {sdks.KEY}" if header == "authorization" else sdks.KEY}
    assert send(guarded, api, headers=shown).status_code == 200
    assert len(stage.requests) == 1


@few
@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"x-api-key": sdks.KEY[:-1]},
        {"x-goog-api-key": ""},
        {"x-api-key": "é"},
    ],
)
@every
def test_without_the_key_a_request_is_401(
    api: str,
    shown: Any,
    guarded: str,
    stage: Stage,
) -> None:
    given = {name: value.encode() for name, value in shown.items()}
    response = httpx.post(guarded + path_of(api), json=written(api), headers=given)  # type: ignore[arg-type]
    assert response.status_code == 401
    assert "error" in response.json()
    assert sdks.KEY not in response.text
    assert stage.requests == []
    assert httpx.get(f"{guarded}/v1/models", headers=given).status_code == 401  # type: ignore[arg-type]
    assert httpx.get(f"{guarded}/healthz").status_code == 200


@few
@every
def test_without_a_key_no_web_page_gets_in(api: str, proxy: str, stage: Stage) -> None:
    assert send(proxy, api, headers={"origin": "https://elsewhere.example"}).status_code == 403
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
    ):
        plain = httpx.post(
            proxy + path_of(api), content=json.dumps(written(api)), headers={"content-type": kind}
        )
        assert plain.status_code == 415
        assert "error" in plain.json()
    assert stage.requests == []


# what is forwarded


@pytest.fixture(scope="module")
def forwarding() -> Iterator[tuple[str, str]]:
    """Serve a proxy that forwards, and return its address with that of the provider, whose base URL
    has no path.
    """
    with echoing() as provider:
        own = rungwise.OpenAIChat(
            "m", base_url=f"{provider}/chat/completions", api_key=protocols.KEY
        )
        client = Client([protocols.backend("ollama", provider), own])
        with client, served(Proxy(Gateway(client), key=Secret(sdks.KEY), forwards=True)) as url:
            yield url, provider


@few
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/completions"),
        ("POST", "/v1/files?purpose=batch&x=%20"),
        ("DELETE", "/v1/responses/resp_1"),
        ("GET", "/v1/batches"),
    ],
)
def test_other_requests_are_forwarded_on_request(method: str, path: str, forwarding: Any) -> None:
    own = {"authorization": f"Bearer {sdks.KEY}"}
    answer = httpx.request(
        method, forwarding[0] + path, headers={**own, "cookie": sdks.KEY}, content=b"as it is"
    )
    assert answer.status_code == 200
    assert answer.headers["x-rungwise-outcome"] == "forwarded"
    got = {
        "path": path.removeprefix("/v1"),
        "key": "Bearer ***",  # it was there, and leaves nowhere
        "body": "as it is",
    }
    assert (answer.json()["method"], answer.json()["got"]) == (method, got)
    assert httpx.request(method, forwarding[0] + path).status_code == 401


@few
@pytest.mark.parametrize(
    "path", ["/v1/models/m:countTokens", "/v1/messages/batches", "/nothing", "/"]
)
def test_what_no_backend_takes_is_404(path: str, forwarding: Any) -> None:
    answer = httpx.post(
        forwarding[0] + path, headers={"authorization": f"Bearer {sdks.KEY}"}, json={}
    )
    assert answer.status_code == 404
    assert "error" in answer.json()


@few
@pytest.mark.parametrize(
    "rest", ["@{}", "@{}/x", ":{}/x", ".elsewhere.example/x", "@elsewhere.example"]
)
def test_no_path_leads_to_another_host(rest: str, forwarding: Any) -> None:
    """The key of the backend goes with it."""
    with echoing() as other:
        host = other.removeprefix("http://")
        path = "/v1" + rest.format(host if rest.startswith("@") else host.partition(":")[2])
        answer = httpx.get(forwarding[0] + path, headers={"authorization": f"Bearer {sdks.KEY}"})
    assert answer.status_code == 404
    assert protocols.KEY not in answer.text
