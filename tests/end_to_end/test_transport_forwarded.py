"""What a chain cannot express goes word for word to one backend; what is no model call goes to its
own address.
"""

import json
import logging
from collections.abc import Iterator
from typing import Any, Final

import httpx
import httpx2
import pytest

from rungwise import Budget, Client, Policy, Prices, Transport
from rungwise.testing import ScriptedReply
from support import protocols, sdks
from support.gateways import (
    asked,
    backends,
    chained,
    fault_of,
    no_secret_in,
    path_of,
    post,
    posted,
    written,
)
from support.proxied import echoing
from support.runs import Stages
from support.sdks import APIS, WAYS

TEXT: Final = "In the reeds."
UNKNOWN: Final[dict[str, dict[str, Any]]] = {
    "openai": {"n": 4, "a_field_of_tomorrow": {"a": [1, 2.50]}},
    "responses": {
        "previous_response_id": "resp_1",
        "input": [{"type": "item_reference", "id": "msg_1"}],
    },
    "anthropic": {
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        "container": "c",
    },
    "gemini": {"tools": [{"googleSearch": {}}], "cachedContent": "cachedContents/1"},
    "interactions": {"tools": [{"type": "google_search"}], "previous_interaction_id": "v1_0"},
}
"""What no chain can express, in each protocol."""
ALONE: Final = [
    ("openai", {"n": 2}, "n"),
    ("openai", {"logprobs": True}, "logprobs"),
    ("openai", {"modalities": ["text", "audio"]}, "modalities"),
    ("openai", {"web_search_options": {}}, "web_search_options"),
    ("openai", {"functions": [{"name": "f"}]}, "functions"),
    ("openai", {"response_format": {"type": "a_new_one"}}, "response_format"),
    ("openai", {"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools"),
    ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
    ("responses", {"conversation": "conv_1"}, "conversation"),
    ("responses", {"background": True}, "background"),
    ("responses", {"input": [{"type": "item_reference", "id": "x"}]}, "input"),
    ("responses", {"tools": [{"type": "web_search"}]}, "tools"),
    ("responses", {"prompt": {"id": "p"}}, "prompt"),
    ("responses", {"text": {"format": {"type": "grammar"}}}, "text.format"),
    ("anthropic", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools"),
    ("anthropic", {"mcp_servers": []}, "mcp_servers"),
    ("anthropic", {"output_config": {"new": 1}}, "output_config.new"),
    ("gemini", {"cachedContent": "c"}, "cachedContent"),
    ("gemini", {"tools": [{"codeExecution": {}}]}, "tools"),
    ("gemini", {"generationConfig": {"candidateCount": 2}}, "candidateCount"),
    ("gemini", {"generationConfig": {"responseModalities": ["IMAGE"]}}, "responseModalities"),
    ("gemini", {"toolConfig": {"retrievalConfig": {"languageCode": "en"}}}, "toolConfig"),
    ("interactions", {"previous_interaction_id": "v1_0"}, "previous_interaction_id"),
    ("interactions", {"background": True}, "background"),
    ("interactions", {"continuation_token": "t"}, "continuation_token"),
    ("interactions", {"tools": [{"type": "code_execution"}]}, "tools"),
    ("interactions", {"response_format": {"type": "image"}}, "response_format"),
    ("interactions", {"generation_config": {"image_config": {}}}, "image_config"),
]


every = pytest.mark.parametrize("api", APIS)
few = pytest.mark.sampled(8)
streamed_or_not = pytest.mark.parametrize("streams", [False, True])


def extra(api: str) -> Any:
    """Return a field that no chain can express, as an SDK takes it."""
    if api == "gemini":
        return {"cached_content": "cachedContents/1"}
    if api == "interactions":
        return {"previous_interaction_id": "v1_0"}
    return {"extra_body": {"a_field_of_tomorrow": 1}}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@few
@streamed_or_not
@every
def test_it_goes_word_for_word_to_the_first_backend_of_its_protocol(
    api: str,
    streams: bool,
    stages: Stages,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = "ollama"
    body = written(api, **UNKNOWN[api])
    if streams and api != "gemini":
        body["stream"] = True
    raw = json.dumps(body, indent=1, ensure_ascii=False).encode()
    with chained(stages, (other, [ScriptedReply()]), (api, [ScriptedReply(TEXT)])) as transport:
        response = post(transport, api, raw, streams=streams)
        own = {"authorization": f"Bearer {protocols.KEY}"}
        url = stages[1].provider.base_url.removesuffix("/v1") + path_of(api, streams=streams)
        direct = httpx.post(url, content=raw, headers=own)
    assert response.status_code == 200, response.text
    assert response.headers["x-rungwise-outcome"] == "forwarded"
    assert response.headers["content-type"] == direct.headers["content-type"]
    assert response.text.count("model-1") == direct.text.count("asked-for")
    same = []
    for each in (response, direct):
        # Behind the terminal event nothing more is waited for.
        text = each.text.removesuffix("data: [DONE]\n\n")
        text = text.replace("0002", "0001").replace("0003", "0001")
        same.append(text.replace("model-1", "asked-for"))
    assert TEXT.split()[0] in same[0]
    assert len(same[0]) == len(same[1])
    assert stages[0].requests == []
    request = stages[1].requests[0]
    if api != "gemini":  # whose model is in the path
        body["model"] = "model-1"
    assert request.body == body
    assert protocols.KEY in json.dumps(dict(request.headers))
    no_secret_in(request)
    [warning] = warnings(caplog)
    assert "second" in warning


@few
@pytest.mark.parametrize(("api", "fields", "name"), ALONE)
def test_a_warning_names_what_was_forwarded_and_an_error_what_cannot_be(
    api: str,
    fields: Any,
    name: str,
    stages: Stages,
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = [ScriptedReply(TEXT)]
    response = posted(stages, (api, script), api, written(api, **fields))
    assert response.headers["x-rungwise-outcome"] == "forwarded"
    [warning] = warnings(caplog)
    assert warning.endswith(name)
    assert [record.name for record in caplog.records if record.levelno == logging.WARNING] == [
        "rungwise"
    ]
    other = "anthropic" if api != "anthropic" else "gemini"
    response = posted(stages, (other, script), api, written(api, **fields))
    if name in ("logprobs", "modalities"):  # without which an answer is one
        assert (response.status_code, response.json()["choices"][0]["message"]["content"]) == (
            200,
            TEXT,
        )
        assert name in response.headers["x-rungwise-lost"]
        return
    assert response.status_code == 400
    assert name in fault_of(api, response)
    assert stages[0].requests == []


@pytest.mark.parametrize("way", WAYS)
@every
def test_an_sdk_reads_what_was_forwarded(api: str, way: str, stages: Stages) -> None:
    seen = asked(stages, api, way, (api, [ScriptedReply(TEXT)]), **extra(api))
    assert (seen.error, seen.text) == (None, TEXT)
    assert len(stages[0].requests) == 1


@few
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
@streamed_or_not
@every
def test_an_error_comes_back_word_for_word(
    api: str,
    streams: bool,
    status: int,
    stages: Stages,
) -> None:
    error = {"message": "Not in this house.", "code": "house_rule"}
    response = posted(
        stages,
        (api, [ScriptedReply(status=status, error=error)]),
        api,
        written(api, **UNKNOWN[api]),
        streams=streams,
    )
    assert response.status_code == status
    assert response.headers["x-rungwise-outcome"] == "forwarded"
    assert "Not in this house." in response.text
    assert len(stages[0].requests) == 1, "it is one attempt"


@pytest.mark.parametrize("way", ["whole", "stream"])
@every
def test_a_forwarded_stream_that_is_cut_is_no_success(api: str, way: str, stages: Stages) -> None:
    cut = protocols.cut_in_half(ScriptedReply(TEXT * 20))
    seen = asked(stages, api, way, (api, [cut]), **extra(api))
    assert seen.error is not None
    assert seen.status in ((503,) if way == "whole" else (None, 200, 500, 503))


@every
def test_a_forwarded_call_to_nobody_is_an_error_of_the_protocol(api: str, dead_url: str) -> None:
    with Client(protocols.backend(api, dead_url)) as client:
        for streams in (False, True):
            response = post(Transport(client), api, written(api, **UNKNOWN[api]), streams=streams)
            assert response.status_code == 503
            assert fault_of(api, response)


@few
@streamed_or_not
@every
def test_it_counts_against_the_budget(api: str, streams: bool, stages: Stages) -> None:
    stages[0].play([ScriptedReply(TEXT * 40)])
    caps: dict[str, dict[str, Any]] = {
        "openai": {"max_tokens": 1_000},
        "responses": {"max_output_tokens": 1_000},
        "anthropic": {"max_tokens": 1_000},
        "gemini": {"generationConfig": {"maxOutputTokens": 1_000}},
        "interactions": {"generation_config": {"max_output_tokens": 1_000}},
    }
    asked = written(api, **{**UNKNOWN[api], **caps[api]})
    chain = backends([api], stages[:1], prices=Prices(0.0, 1_000.0))
    with Client(chain, policy=Policy(budget=Budget(money=0.5))) as client:
        response = post(Transport(client), api, asked, streams=streams)
    assert response.status_code == 400, "a thousand tokens cost 1"
    assert "the budget allows" in fault_of(api, response)
    assert stages[0].requests == []
    with Client(chain, policy=Policy(budget=Budget(money=5.0, attempts=1))) as client:
        response = post(Transport(client), api, asked, streams=streams)
    assert response.status_code == 200, response.text
    if not streams:
        assert float(response.headers["x-rungwise-cost"]) > 0
        assert response.headers["x-rungwise-attempts"] == "1"
        assert response.headers["x-rungwise-backend"] == "primary"


# requests that are no model calls


@pytest.fixture
def host() -> Iterator[str]:
    with echoing() as address:
        yield address


@pytest.mark.parametrize("library", [httpx, httpx2])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/files"),
        ("POST", "/v1/completions"),
        ("GET", "/v1/chat/completions/1"),
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/messages/count_tokens"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1beta/models/m:countTokens"),
        ("POST", "/v1beta/models/m:batchEmbedContents"),
    ],
)
def test_other_requests_go_on_as_written_to_their_own_address(
    library: Any,
    method: str,
    path: str,
    host: str,
    stages: Stages,
) -> None:
    with (
        chained(stages, ("openai", [ScriptedReply(TEXT)])) as transport,
        library.Client(transport=transport) as client,
    ):
        answer = client.request(
            method, host + path, content="as it is", headers={"authorization": f"Bearer {sdks.KEY}"}
        )
    assert answer.json()["got"] == {
        "path": path,
        "key": f"Bearer {sdks.KEY}",
        "body": "as it is",
    }
    assert stages[0].requests == []


@few
def test_an_sdk_lists_the_models_of_its_own_host(host: str, stages: Stages) -> None:
    import asyncio

    async def listed(transport: Any) -> Any:
        async with sdks.sdk_of("openai", "awhole", transport=transport, base_url=host) as sdk:
            await sdk.models.list()
            return await sdk.models.list()

    async def left_open(transport: Any) -> Any:
        return await sdks.sdk_of(
            "openai", "awhole", transport=transport, base_url=host
        ).models.list()

    with chained(stages, ("openai", [ScriptedReply(TEXT)])) as transport:
        for _ in range(2):
            with sdks.sdk_of("openai", "whole", transport=transport, base_url=host) as sdk:
                assert sdk.models.list().data == []
                assert sdk.models.list().data == []
        assert asyncio.run(listed(transport)).data == []
        assert asyncio.run(listed(transport)).data == [], "in another event loop, too"
        assert asyncio.run(left_open(transport)).data == []
        assert asyncio.run(left_open(transport)).data == [], "nothing was closed in between"
