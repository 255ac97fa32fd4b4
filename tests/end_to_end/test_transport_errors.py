"""Errors over `rungwise.Transport` have the shape and status of their protocol, so that SDKs raise
their own.
"""

import json
from typing import Any, Final

import httpx
import pytest

import rungwise
from rungwise import Budget, Client, Limits, Policy, Prices, Transport
from rungwise.testing import ScriptedReply
from support import protocols, sdks
from support.gateways import (
    asked,
    backends,
    chained,
    client_over,
    fault_of,
    path_of,
    post,
    posted,
    written,
)
from support.protocols import PROTOCOLS
from support.runs import Stages
from support.sdks import APIS, WAYS

TEXT: Final = "In the reeds."
NONSENSE: Final = [
    b"",
    b"nonsense",
    b"[]",
    b"5",
    b"null",
    b'"text"',
    b'{"messages": ',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"messages": ' + b"[" * 500 + b"]" * 500 + b"}",
    b'{"messages": [{"role": "user", "content": "\\ud800"}], "model": "m"}',
    b"{}",
    b'{"model": 5, "messages": 5, "input": 5, "contents": 5}',
    b'{"model": null, "messages": null, "input": null, "contents": null}',
    b'{"messages": [5], "input": [5], "contents": [5], "max_tokens": 9}',
    b'{"messages": [[]], "input": [[]], "contents": [[]], "max_tokens": 9}',
    b'{"messages": [], "input": [], "contents": [], "max_tokens": 9}',
    b'{"messages": [{"role": 5}], "input": [{"role": 5}], "contents": [{"role": 5}], '
    b'"max_tokens": 9}',
]


every = pytest.mark.parametrize("api", APIS)
always = pytest.mark.parametrize("way", WAYS)
few = pytest.mark.sampled(8)
streamed_or_not = pytest.mark.parametrize("streams", [False, True])


def of(api: str, error: Exception | None, name: str) -> bool:
    """Tell whether an error is the SDK's own of a name."""
    import anthropic
    import openai
    from google.genai import _interactions_errors, errors

    libraries = {"anthropic": anthropic, "gemini": errors, "interactions": _interactions_errors}
    library: Any = libraries.get(api, openai)
    names = {
        "InternalServerError": "ServerError",
        "BadRequestError": "ClientError",
        "NotFoundError": "ClientError",
    }
    return isinstance(error, getattr(library, names[name] if api == "gemini" else name))


def body_of(seen: sdks.Seen) -> dict[str, Any]:
    """Return the error's object in the body of a response."""
    error: Any = seen.error
    body = getattr(error, "body", None) or getattr(error, "details", None)
    return dict(body.get("error", body))


@pytest.mark.parametrize("backend", PROTOCOLS)
@always
@every
def test_a_providers_failure_has_its_status_and_its_causes(
    api: str,
    way: str,
    backend: str,
    stages: Stages,
) -> None:
    policy = Policy(limits=Limits(retries=2))
    seen = asked(stages, api, way, (backend, [ScriptedReply(status=500)]), policy=policy)
    assert of(api, seen.error, "InternalServerError")
    assert seen.status == 500
    assert len(stages[0].requests) == 3
    body = body_of(seen)
    if api in ("gemini", "interactions"):
        body = body["details"][0]["metadata"]
    assert int(body["attempts"]) == 3
    assert "primary" in str(body["causes"])


@always
@every
def test_a_budget_that_is_spent_is_503(api: str, way: str, stages: Stages) -> None:
    chain = backends(["openai"], stages[:1], prices=Prices(1_000.0, 1_000.0))
    stages[0].play([ScriptedReply(TEXT)])
    with Client(chain, policy=Policy(budget=Budget(money=0.001))) as client:
        seen = sdks.ask(api, way, transport=Transport(client))
    assert seen.status == 503
    assert stages[0].requests == []
    if api not in ("gemini", "interactions"):
        assert body_of(seen)["attempts"] == 0


@always
@every
def test_a_deadline_that_has_passed_is_504(api: str, way: str, stages: Stages) -> None:
    passed = [0.0]

    def late(request: Any) -> ScriptedReply:
        passed[0] += 60.0
        return ScriptedReply(status=503)

    policy = Policy(budget=Budget(seconds=50))
    with chained(stages, ("openai", [late]), policy=policy, clock=lambda: passed[0]) as transport:
        seen = sdks.ask(api, way, transport=transport)
    assert of(api, seen.error, "InternalServerError")
    assert seen.status == 504
    assert len(stages[0].requests) == 1


@always
@every
@pytest.mark.parametrize(
    "error",
    [
        {
            "message": "This model's maximum context length is 8192 tokens.",
            "code": "context_length_exceeded",
        },
        {
            "message": "The prompt was flagged by our content policy.",
            "code": "content_policy_violation",
        },
    ],
)
def test_a_faulty_request_keeps_the_providers_reason(
    api: str,
    way: str,
    error: Any,
    stages: Stages,
) -> None:
    seen = asked(stages, api, way, ("openai", [ScriptedReply(status=400, error=error)]))
    assert of(api, seen.error, "BadRequestError")
    assert seen.status == 400
    assert error["message"] in seen.message
    assert error["code"] in json.dumps(body_of(seen))


@few
@streamed_or_not
@every
def test_what_is_too_large_for_the_provider_keeps_its_status(
    api: str, streams: bool, stages: Stages
) -> None:
    large = ScriptedReply(status=413, error={"message": "Too large for us."})
    response = posted(stages, ("openai", [large]), api, written(api), streams=streams)
    assert response.status_code == 413
    assert "Too large for us." in fault_of(api, response)


@few
@every
def test_every_error_tells_the_sdk_not_to_ask_again(api: str, stages: Stages) -> None:
    once = Policy(limits=Limits(retries=0))
    troubles = {503: ScriptedReply(status=503), 400: ScriptedReply(status=400)}
    for status, reply in (*troubles.items(), (503, ScriptedReply())):
        with chained(stages, ("openai", [reply]), policy=once) as transport:
            for streams in (False, True):
                response = post(transport, api, written(api), streams=streams)
                assert response.status_code == status
                assert response.headers["content-type"] == "application/json"
                assert fault_of(api, response)
                assert response.headers["x-rungwise-attempts"]
                assert response.headers["x-rungwise-journal"] == response.headers["x-request-id"]


# models and chains


@few
@every
def test_the_model_selects_a_chain(api: str, stages: Stages) -> None:
    for number, stage in enumerate(stages):
        stage.play([ScriptedReply(f"I am {number}.")])
    fast, slow, other = (client_over(["openai"], [stage]) for stage in stages)
    transport = Transport({"fast": fast, "slow": slow, "*": other})
    with fast, slow, other:
        for number, model in enumerate(("fast", "slow", sdks.MODEL)):
            path = path_of(api).replace(sdks.MODEL, model)
            body = written(api) if api == "gemini" else {**written(api), "model": model}
            answer = httpx.Client(transport=transport).post(sdks.HOST + path, json=body)
            assert f"I am {number}." in answer.text
    assert [protocols.model_of(stage.requests[0]) for stage in stages] == ["model-0"] * 3


@always
@every
def test_a_model_that_nobody_has_is_404(api: str, way: str, stages: Stages) -> None:
    stages[0].play([ScriptedReply(TEXT)])
    with client_over(["openai"], stages[:1]) as client:
        seen = sdks.ask(api, way, transport=Transport({"fast": client}))
    assert of(api, seen.error, "NotFoundError")
    assert seen.status == 404
    assert "fast" in seen.message
    assert stages[0].requests == []


@pytest.mark.parametrize("chains", [None, 5, {}, {"a": 5}, [], "x"])
def test_what_is_no_client_is_refused_at_once(chains: Any) -> None:
    with pytest.raises(rungwise.ConfigurationError, match="Client"):
        Transport(chains)


# nonsense


@pytest.mark.sampled(2)
@streamed_or_not
@pytest.mark.parametrize("body", NONSENSE, ids=range(len(NONSENSE)))
@every
def test_nonsense_is_a_faulty_request(
    api: str,
    body: bytes,
    streams: bool,
    stages: Stages,
) -> None:
    response = posted(stages, ("openai", [ScriptedReply(TEXT)]), api, body, streams=streams)
    if response.status_code != 200:  # some of it is a question, however odd
        assert response.status_code == 400, response.text
        assert fault_of(api, response)
        assert stages[0].requests == []


@few
def test_gemini_streams_as_events_alone(stages: Stages) -> None:
    path = path_of("gemini", streams=True).removesuffix("?alt=sse")
    with chained(stages, ("openai", [ScriptedReply(TEXT)])) as transport:
        response = httpx.Client(transport=transport).post(sdks.HOST + path, json=written("gemini"))
    assert response.status_code == 400
    assert "alt=sse" in fault_of("gemini", response)
