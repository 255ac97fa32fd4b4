"""Servers of one's own are asked what they are, and are then gone on with in their own way."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import httpx
import pytest

import rungwise
from rungwise import Capabilities, Client, OpenAIChat
from rungwise.adapters.gateway.languages.chat import ChatCompletions
from rungwise.adapters.provider import server
from rungwise.adapters.wires.chat.discovery import LARGEST_PAGE, Server, inquiry
from rungwise.adapters.wires.learned import LEARNED
from rungwise.testing import ScriptedReply

LLAMA_CPP = {
    "/props": {
        "default_generation_settings": {
            "id": 0,
            "n_ctx": 8_192,
            "params": {"n_predict": -1},
        },
        "total_slots": 4,
        "model_path": "m.gguf",
        "modalities": {"vision": False, "audio": False},
        "chat_template": "{% for message in messages %}...",
        "build_info": "b8681-Debian",
    },
    "/v1/models": {
        "object": "list",
        "data": [{"id": "m", "object": "model", "owned_by": "llamacpp"}],
    },
}
VLLM = {
    "/version": {"version": "0.11.2"},
    "/v1/models": {
        "object": "list",
        "data": [
            {
                "id": "other",
                "owned_by": "vllm",
                "root": "o",
                "max_model_len": 1_024,
            },
            {
                "id": "m",
                "owned_by": "vllm",
                "root": "org/m",
                "max_model_len": 32_768,
            },
        ],
    },
}
SGLANG = {
    "/v1/models": {
        "data": [
            {
                "id": "m",
                "owned_by": "sglang",
                "root": "m",
                "max_model_len": 16_384,
            }
        ]
    }
}
OLDER_SGLANG = {
    "/get_model_info": {
        "model_path": "org/m",
        "tokenizer_path": "org/m",
        "is_generation": True,
    }
}
LM_STUDIO = {
    "/api/v0/models": {
        "data": [
            {
                "id": "m",
                "type": "vlm",
                "compatibility_type": "gguf",
                "state": "loaded",
                "loaded_context_length": 4_096,
            },
            {
                "id": "n",
                "type": "llm",
                "compatibility_type": "mlx",
                "state": "not-loaded",
                "max_context_length": 9,
            },
        ]
    },
    "/v1/models": {
        "data": [
            {
                "id": "m",
                "object": "model",
                "owned_by": "organization_owner",
            }
        ]
    },
}
OLLAMA = {
    "/api/version": {"version": "0.12.3"},
    "/v1/models": {"data": [{"id": "m", "owned_by": "library"}]},
}

CUT = ScriptedReply(text="Herons nest in the reeds of the northern", finish="length")
REST = ScriptedReply(text=" lake.")


class Pages(ChatCompletions):
    """Answer what a server says of itself, and note which pages were asked for."""

    def __init__(self, pages: Mapping[str, Any]) -> None:
        self.pages, self.asked = pages, []  # type: ignore[var-annotated]

    def listing(self, path: str, models: Iterable[str]) -> Any:
        self.asked.append(path)
        return self.pages.get(path)


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Any]], Pages]:
    """Let every provider of the test answer pages, and nothing else beside what is scripted."""

    def says(pages: Mapping[str, Any]) -> Pages:
        page = Pages(pages)
        monkeypatch.setattr(server, "LANGUAGES", (page,))
        return page

    return says


def backend(provider: Any, **options: Any) -> OpenAIChat:
    return OpenAIChat(
        "m",
        **{
            "base_url": provider.base_url,
            "name": "mine",
            "api_key_required": False,
            **options,
        },
    )


def discovered(client: Client, way: str) -> dict[str, str]:
    return client.discover() if way == "sync" else asyncio.run(client.adiscover())


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize(
    ("pages", "name", "prefills", "known"),
    [
        (
            LLAMA_CPP,
            "llama.cpp b8681-Debian",
            True,
            Capabilities(window=8_192, images=False, hides_cuts=True),
        ),
        (VLLM, "vLLM 0.11.2", True, Capabilities(window=32_768)),
        ({"/v1/models": VLLM["/v1/models"]}, "vLLM", True, Capabilities(window=32_768)),
        (SGLANG, "SGLang", True, Capabilities(window=16_384)),
        (OLDER_SGLANG, "SGLang", True, Capabilities()),
        (LM_STUDIO, "LM Studio", False, Capabilities(window=4_096, images=True)),
        (OLLAMA, "Ollama 0.12.3", False, Capabilities()),
    ],
)
def test_a_server_says_what_it_is(
    serve: Any,
    says: Any,
    way: str,
    pages: Any,
    name: str,
    prefills: bool,
    known: Capabilities,
) -> None:
    says(pages)
    with Client(backend(serve(REST))) as client:
        assert discovered(client, way) == {"mine": name}
        [now] = client.chain
    assert isinstance(now, OpenAIChat)
    assert now.prefills is prefills
    assert now.capabilities == known.or_else(Capabilities(prefill=prefills or None))


@pytest.mark.parametrize("pages", [LLAMA_CPP, VLLM, SGLANG])
def test_a_cut_text_is_gone_on_from_natively_without_a_flag(
    serve: Any, says: Any, pages: Any
) -> None:
    says(pages)
    provider = serve(CUT, REST)
    with Client(backend(provider)) as client:
        client.discover()
        result = client.call("Where do herons nest?")
    assert result.text == "Herons nest in the reeds of the northern lake."
    last = provider.requests[-1].body
    assert (last["continue_final_message"], last["add_generation_prompt"]) == (True, False)
    assert last["messages"][-1] == {"role": "assistant", "content": CUT.text}
    sent = [step.note for step in result.journal.steps if step.event == "sent"]
    assert sent[0] is not None
    assert sent[0].startswith("discovered: ")
    assert sent[1:] == [None]
    written = result.journal.to_json()
    LEARNED.forget()
    assert rungwise.replay(rungwise.Journal.from_json(written)).journal.to_json() == written


def test_responses_of_llama_cpp_hide_cuts(serve: Any, says: Any) -> None:
    says(LLAMA_CPP)
    responses = rungwise.OpenAIResponses(
        "m", base_url=serve(REST).base_url, name="mine", api_key_required=False
    )
    with Client(responses) as client:
        assert client.discover() == {"mine": "llama.cpp b8681-Debian"}
        [now] = client.chain
    assert now.capabilities.hides_cuts  # type: ignore[attr-defined]


def test_what_the_caller_says_counts(serve: Any, says: Any) -> None:
    says(LLAMA_CPP)
    mine = backend(serve(REST), prefill="no", capabilities=Capabilities(window=100))
    with Client(mine) as client:
        client.discover()
        [now] = client.chain
    assert not now.prefills
    assert now.capabilities == Capabilities(window=100, images=False, hides_cuts=True)  # type: ignore[attr-defined]


def test_a_process_asks_once_until_it_forgets(serve: Any, says: Any) -> None:
    pages = says(OLLAMA)
    provider = serve(REST)
    for _ in range(2):
        with Client(backend(provider)) as client:
            assert client.discover() == client.discover() == {"mine": "Ollama 0.12.3"}
    assert pages.asked == [
        "/props",
        "/v1/models",
        "/get_model_info",
        "/api/v0/models",
        "/api/version",
    ]
    LEARNED.forget()
    with Client(backend(provider)) as client:
        client.discover()
    assert len(pages.asked) == 10


def test_an_unknown_server_is_asked_once_as_well(serve: Any, says: Any) -> None:
    pages = says({})
    provider = serve(REST)
    for _ in range(2):
        with Client(backend(provider)) as client:
            assert client.discover() == {}
            assert client.call("hi").journal.steps[0].note is None
    assert len(pages.asked) == 5


@pytest.mark.parametrize("way", ["sync", "async"])
def test_nobody_there_is_no_error_and_not_remembered(dead_url: str, way: str) -> None:
    one = OpenAIChat("m", base_url=dead_url)
    with Client(one) as client:
        assert discovered(client, way) == {}
    assert LEARNED.server_of(one.places) is None


def test_a_client_that_was_passed_in_asks_too(serve: Any, says: Any) -> None:
    says(VLLM)
    with httpx.Client(trust_env=False) as http, Client(backend(serve(REST)), http=http) as client:
        assert client.discover() == {"mine": "vLLM 0.11.2"}


def test_only_servers_of_ones_own_are_asked() -> None:
    chain = [
        OpenAIChat("gpt-5", api_key="sk-1"),
        rungwise.Gemini("gemini-2.5-pro", base_url="http://localhost:9/v1beta", api_key="k"),
    ]
    with Client(chain) as client:
        assert client.discover() == {}
        assert client.chain == tuple(chain)


@pytest.mark.parametrize(
    "root", ["http://localhost:8000/v1", "http://localhost:8000/llama/v1/", "http://localhost:8000"]
)
def test_keys_go_to_their_own_origin_alone(root: str) -> None:
    one = OpenAIChat(
        "m",
        base_url=root,
        api_key="sk-1",
        headers={"x-tenant": "t"},
    )
    questions = inquiry(one)
    asked = [next(questions)]
    with suppress(StopIteration):
        while len(asked) < 100:
            asked.append(questions.send(b""))
    prefix = "http://localhost:8000/llama" if "llama" in root else "http://localhost:8000"
    assert [request.url for request in asked] == [
        f"{prefix}/props",
        f"{one.root}/models",
        f"{prefix}/get_model_info",
        f"{prefix}/api/v0/models",
        f"{prefix}/api/version",
    ]
    assert {(request.method, request.body) for request in asked} == {("GET", b"")}
    assert all(request.headers["authorization"] == "Bearer sk-1" for request in asked)
    with pytest.raises(rungwise.ConfigurationError, match="origin"):
        one.question("http://localhost:8000.example.com/props")


@pytest.mark.parametrize(
    "answer",
    [
        b"not JSON",
        b"[" * 10_000,
        b'{"default_generation_settings": 7, "build_info": 1}',
        b'{"data": [{"owned_by": "vllm", "max_model_len": "many"}, 3]}',
        b'{"data": [{"state": 1, "compatibility_type": [], "id": {}, "type": []}]}',
        b'{"default_generation_settings": {"n_ctx": -1}, "build_info": {}, "modalities": '
        b'{"vision": "yes"}}',
        b'{"version": {"a": NaN}}',
        json.dumps({"version": "\x1b[31m" + "9" * 1_000}).encode(),
        b'{"model_path": "\\ud800", "tokenizer_path": 1, "is_generation": null}',
        b"\xff\xfe",
    ],
)
def test_what_a_stranger_says_never_raises(answer: bytes) -> None:
    questions = inquiry(OpenAIChat("m", base_url="http://localhost:8000/v1"))
    next(questions)
    found: Server | None = None
    try:
        for _ in range(10):
            questions.send(answer)
    except StopIteration as end:
        found = end.value
    assert found is None or (
        len(found.name) <= 80 and found.name.isprintable() and found.known.window is None
    )


def test_a_page_without_end_is_left(serve: Any, says: Any) -> None:
    says({"/props": {**LLAMA_CPP["/props"], "chat_template": "x" * LARGEST_PAGE}})
    with Client(backend(serve(REST))) as client:
        assert client.discover() == {}
