"""What is written to each kind of server in its own way."""

import re
from typing import Any

import pytest

from rungwise import Message, OpenAIChat, ToolCall, ToolResult
from rungwise.adapters.wires.chat.dialects import DIALECTS, dialect_of
from support.protocols import body_of, chat_call, encoded

KEY = "0123456789abcdef0123456789abcdef"
DASHSCOPE = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"
MISTRAL = "https://api.mistral.ai/v1"
USER = {"role": "user", "content": "What is this?"}


@pytest.mark.parametrize(
    ("url", "model", "cap", "prefill"),
    [
        ("https://api.openai.com/v1", "gpt-5", "max_completion_tokens", "no"),
        ("https://x.openai.azure.com/openai/v1", "gpt-5", "max_completion_tokens", "no"),
        ("https://api.deepseek.com", "deepseek-chat", "max_tokens", "no"),
        ("https://api.deepseek.com/beta", "deepseek-chat", "max_tokens", "prefix"),
        (MISTRAL, "mistral-large-latest", "max_tokens", "prefix"),
        ("https://api.moonshot.ai/v1", "kimi-k2", "max_tokens", "partial"),
        (DASHSCOPE, "qwen-max", "max_tokens", "partial"),
        ("https://api.groq.com/openai/v1", "llama-3.3-70b-versatile", "max_tokens", "trailing"),
        ("https://api.cerebras.ai/v1", "llama3.1-8b", "max_completion_tokens", "no"),
        ("https://openrouter.ai/api/v1", "openai/gpt-5", "max_tokens", "no"),
        ("https://api.x.ai/v1", "grok-4", "max_completion_tokens", "no"),
        ("https://api.z.ai/api/paas/v4", "glm-4.6", "max_tokens", "no"),
        ("https://api.minimax.io/v1", "MiniMax-M2", "max_tokens", "no"),
        (
            "https://api.together.xyz/v1",
            "meta-llama/Llama-3.3-70B-Instruct-Turbo",
            "max_tokens",
            "no",
        ),
        (
            "https://api.fireworks.ai/inference/v1",
            "accounts/fireworks/models/llama-v3p1-8b",
            "max_tokens",
            "no",
        ),
        ("https://eu.api.openai.com/v1", "gpt-4o", "max_completion_tokens", "no"),
        ("https://notopenai.com/v1", "m", "max_tokens", "no"),
        ("https://codestral.mistral.ai/v1", "codestral-latest", "max_tokens", "prefix"),
        ("https://mistral.ai.example.com/v1", "mistral-large", "max_tokens", "no"),
        ("https://api.deepseek.com/beta/", "deepseek-reasoner", "max_tokens", "no"),
        ("https://api.deepseek.com/v1", "deepseek-chat", "max_tokens", "no"),
        ("https://api.moonshot.cn/v1", "kimi-k2", "max_tokens", "partial"),
        (DASHSCOPE, "qwen3-coder-plus", "max_tokens", "partial"),
        (DASHSCOPE, "qwen3-235b-a22b-thinking-2507", "max_tokens", "no"),
        (DASHSCOPE, "qwq-plus", "max_tokens", "no"),
        ("https://api.groq.com/openai/v1", "openai/gpt-oss-120b", "max_tokens", "no"),
        ("https://api.groq.com/openai/v1", "qwen/qwen3-32b", "max_tokens", "no"),
        ("http://localhost:8000/v1", "llama", "max_tokens", "no"),
    ],
)
def test_caps_and_continuations(
    url: str,
    model: str,
    cap: str,
    prefill: str,
) -> None:
    dialect = dialect_of(url, model)
    assert dialect.cap_field == cap
    assert dialect.prefill == prefill
    body = body_of(OpenAIChat(model, base_url=url, api_key=KEY), USER, max_tokens=50)
    assert {name: body[name] for name in body if "max" in name} == {cap: 50}


def test_every_row_says_something() -> None:
    for row in DIALECTS:
        assert row != type(row)(host=row.host, path=row.path, model=row.model)


# ---- keys
# --------------------------------------------------------------------------------------------------

AZURE = "https://x.openai.azure.com"
TOKEN = "eyJ0eXAiOiJKV1QifQ.eyJhdWQiOiJ4In0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("url", "key", "name"),
    [
        (f"{AZURE}/openai/v1", KEY, "authorization"),
        ("https://x.services.ai.azure.com/openai/v1/", KEY, "authorization"),
        (f"{AZURE}/openai/deployments/gpt-4o?api-version=2024-10-21", KEY, "api-key"),
        ("https://x.services.ai.azure.com/models?api-version=2024-05-01-preview", KEY, "api-key"),
        (f"{AZURE}/openai/deployments/gpt-4o?api-version=2024-10-21", TOKEN, "authorization"),
        ("https://models.inference.ai.azure.com", KEY, "authorization"),
        ("https://api.openai.com/v1", KEY, "authorization"),
    ],
)
def test_where_the_key_goes(url: str, key: str, name: str) -> None:
    backend = OpenAIChat("gpt-4o", base_url=url, api_key=key)
    headers = encoded(backend, USER).headers
    sent = {
        each: str(value) for each, value in headers.items() if each in ("authorization", "api-key")
    }
    assert sent == {name: f"Bearer {key}" if name == "authorization" else key}
    assert backend.problem is None


def test_azures_key_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    for url, name, value in (
        (f"{AZURE}/openai/v1", "authorization", f"Bearer {KEY}"),
        (f"{AZURE}/openai/deployments/m?api-version=x", "api-key", KEY),
    ):
        backend = OpenAIChat("m", base_url=url)
        assert backend.problem is None
        assert encoded(backend, USER).headers[name] == value
    assert (
        encoded(backend, USER).url == f"{AZURE}/openai/deployments/m/chat/completions?api-version=x"
    )


# ---- ids of tool calls
# -----------------------------------------------------------------------------------------------


def history(*ids: str) -> list[Any]:
    calls = [chat_call(id, "look") for id in ids]
    results = [{"role": "tool", "tool_call_id": id, "content": id} for id in ids]
    return [USER, {"role": "assistant", "content": None, "tool_calls": calls}, *results, USER]


def ids_in(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls", ())]
    return calls, [
        message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"
    ]


@pytest.mark.parametrize("is_portable", [False, True])
def test_mistral_is_sent_ids_of_nine_letters(is_portable: bool) -> None:
    given = ("call_0fypS1hVX", "abcDEF123", "call_0fypS1hVY", "short")
    calls, results = ids_in(
        body_of(OpenAIChat("m", base_url=MISTRAL), *history(*given), portable=is_portable)
    )
    assert calls == results
    assert len(set(calls)) == 4
    assert calls[1] == "abcDEF123"
    assert all(re.fullmatch("[A-Za-z0-9]{9}", id) for id in calls)


def test_replies_that_came_back_are_sent_such_ids_too() -> None:
    said = Message("assistant", (ToolCall("call_0fypS1hVX", "look", "{}"),))
    told = Message("tool", (ToolResult("call_0fypS1hVX", "look", "A heron."),))
    calls, results = ids_in(body_of(OpenAIChat("m", base_url=MISTRAL), USER, said, told))
    assert calls == results
    assert re.fullmatch("[A-Za-z0-9]{9}", calls[0])


def test_accepted_ids_go_out_unchanged() -> None:
    own = history("abcDEF123")
    assert body_of(OpenAIChat("m", base_url=MISTRAL), *own)["messages"] == own
    others = history("call_0fypS1hVX")
    assert body_of(OpenAIChat("m", base_url="http://localhost/v1"), *others)["messages"] == others


VLLMS = "chatcmpl-tool-" + "0123456789abcdef" * 2


@pytest.mark.parametrize("is_portable", [False, True])
@pytest.mark.parametrize(
    "url", ["https://api.openai.com/v1", "https://x.openai.azure.com/openai/v1"]
)
def test_openai_is_sent_ids_of_at_most_forty_characters(url: str, is_portable: bool) -> None:
    backend = OpenAIChat("m", base_url=url)
    given = history(VLLMS, "call_0fypS1hVX", "x" * 40, VLLMS[:-1] + "0")
    calls, results = ids_in(body_of(backend, *given, portable=is_portable))
    assert calls == results
    assert len(set(calls)) == 4
    assert calls[1:3] == ["call_0fypS1hVX", "x" * 40]
    assert all(len(id) <= 40 for id in calls)
    assert (calls, results) == ids_in(body_of(backend, *given, *given[:1], portable=is_portable))
    others = OpenAIChat("m", base_url="http://localhost/v1")
    assert body_of(others, *given)["messages"] == given


def test_openai_gets_its_own_ids_back_word_for_word() -> None:
    backend = OpenAIChat("m", base_url="https://api.openai.com/v1")
    for provider in (backend.provider, "another"):
        said = Message("assistant", (ToolCall(VLLMS, "look", "{}", {}, provider),))
        told = Message("tool", (ToolResult(VLLMS, "look", "A heron."),))
        calls, results = ids_in(body_of(backend, USER, said, told))
        assert calls == results
        assert (calls == [VLLMS]) is (provider == backend.provider)
