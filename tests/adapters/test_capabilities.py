"""Who continues a trailing assistant turn, and who taught this process that it does not."""

from __future__ import annotations

import threading

import pytest

from rungwise.adapters.capabilities import LEARNED, Learned
from rungwise.adapters.wires.chat.backend import OpenAIChat
from rungwise.adapters.wires.chat.dialects import dialect_of

ANTHROPIC = "https://api.anthropic.com/v1"
OPENROUTER = "https://openrouter.ai/api/v1"
GOOGLE = "https://generativelanguage.googleapis.com/v1beta/openai"
DASHSCOPE = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"
GROQ = "https://api.groq.com/openai/v1"


@pytest.mark.parametrize(
    "model",
    [
        "claude-haiku-4-5",
        "claude-sonnet-4-5-20250929",
        "claude-opus-4-5",
        "claude-opus-4-1-20250805",
        "claude-sonnet-4-20250514",
        "claude-opus-4-0",
        "claude-3-7-sonnet-latest",
        "claude-3-5-sonnet-v2@20241022",
        "claude-3-opus-20240229",
        "claude-2.1",
        "anthropic/claude-sonnet-4.5",
        "anthropic/claude-3.5-haiku",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_older_claude_models_prefill(model: str) -> None:
    assert dialect_of(ANTHROPIC, model).prefill == "trailing"
    assert dialect_of(OPENROUTER, model).prefill == "trailing"


@pytest.mark.parametrize(
    "model",
    [
        "claude-opus-4-6",
        "claude-opus-4-7",
        "claude-opus-4-8-20260101",
        "claude-sonnet-4-6",
        "claude-sonnet-4.6",
        "claude-opus-5",
        "claude-opus-5-5",
        "claude-sonnet-5",
        "claude-haiku-5-5",
        "claude-fable-5-1",
        "claude-mythos-preview",
        "anthropic/claude-3.7-sonnet:thinking",
    ],
)
def test_newer_claude_models_and_thinking_ones_do_not(model: str) -> None:
    assert dialect_of(ANTHROPIC, model).prefill == "no"


@pytest.mark.parametrize(
    ("model", "mode"),
    [
        ("gemini-2.0-flash", "trailing"),
        ("gemini-2.5-pro", "trailing"),
        ("google/gemini-3-pro-preview", "trailing"),
        ("gemini-3.1-pro", "trailing"),
        ("gemini-3.5-flash", "no"),
        ("gemini-3.5-flash-lite", "no"),
        ("gemini-3.6-flash", "no"),
        ("gemini-3.8-flash", "no"),
    ],
)
def test_gemini_prefills_up_to_the_generation_that_rejects_it(model: str, mode: str) -> None:
    assert dialect_of(GOOGLE, model).prefill == mode
    assert dialect_of(OPENROUTER, model).prefill == mode
    assert dialect_of("https://api.example.com/v1", model).prefill == "no"


@pytest.mark.parametrize(
    ("url", "model", "mode"),
    [
        ("https://api.mistral.ai/v1", "mistral-large-latest", "prefix"),
        ("https://codestral.mistral.ai/v1", "codestral-latest", "prefix"),
        ("https://api.deepseek.com/beta", "deepseek-chat", "prefix"),
        ("https://api.deepseek.com/beta/", "deepseek-reasoner", "no"),
        ("https://api.deepseek.com/v1", "deepseek-chat", "no"),
        ("https://api.moonshot.ai/v1", "kimi-k2", "partial"),
        ("https://api.moonshot.cn/v1", "kimi-k2", "partial"),
        (DASHSCOPE, "qwen-plus", "partial"),
        (DASHSCOPE, "qwen3-coder-plus", "partial"),
        (DASHSCOPE, "qwen3-235b-a22b-thinking-2507", "no"),
        (DASHSCOPE, "qwq-plus", "no"),
        (GROQ, "llama-3.3-70b-versatile", "trailing"),
        (GROQ, "openai/gpt-oss-120b", "no"),
        (GROQ, "qwen/qwen3-32b", "no"),
        ("https://api.openai.com/v1", "gpt-4o", "no"),
        ("https://api.x.ai/v1", "grok-4", "no"),
        ("http://localhost:11434/v1", "llama3.2", "no"),
        ("https://mistral.ai.example.com/v1", "mistral-large", "no"),
        ("http://[broken", "gpt-4o", "no"),
    ],
)
def test_hosts(url: str, model: str, mode: str) -> None:
    assert dialect_of(url, model).prefill == mode


def test_only_mistral_echoes() -> None:
    assert dialect_of("https://api.mistral.ai/v1", "mistral-large-latest").echoes
    assert not dialect_of("https://api.moonshot.ai/v1", "kimi-k2").echoes
    assert not dialect_of("https://api.openai.com/v1", "gpt-4o").echoes


@pytest.mark.parametrize(
    ("model", "thinks_in_silence"),
    [
        ("o1", True),
        ("o3-mini", True),
        ("openai/o4-mini", True),
        ("gpt-5", True),
        ("gpt-5.2-codex", True),
        ("openai/gpt-5-pro", True),
        ("gpt-6", True),
        ("gpt-5-chat-latest", False),
        ("gpt-4o", False),
        ("gpt-oss-120b", False),
        ("grok-4", True),
        ("x-ai/grok-4.1-fast", True),
        ("grok-4-fast-non-reasoning", False),
        ("grok-3-mini", False),
        ("gemini-2.5-pro", True),
        ("google/gemini-3-flash-preview", True),
        ("gemini-2.5-flash-lite", False),
        ("gemini-2.0-flash", False),
        ("sonar-deep-research", True),
        ("deepseek-reasoner", False),
        ("claude-opus-4-5", False),
        ("m", False),
    ],
)
@pytest.mark.parametrize("url", ["https://api.openai.com/v1", OPENROUTER, GOOGLE, "https://mine.openai.azure.com"])
def test_models_that_think_in_silence_have_more_time_for_their_first_token(
    url: str, model: str, thinks_in_silence: bool
) -> None:
    first_token = dialect_of(url, model).first_token
    assert first_token == (300 if thinks_in_silence else None)
    assert OpenAIChat(model, base_url=url, api_key="sk-1").first_token == first_token
    assert OpenAIChat(model, base_url=url, api_key="sk-1", first_token=20).first_token == 20


def test_who_refuses_to_stream_is_learned_for_its_key_only() -> None:
    one, other = (OpenAIChat("gpt-5", api_key=f"sk-proj-{number}") for number in range(2))
    try:
        for identity in one.identities:
            LEARNED.learn_no_stream(identity)
        assert (one.streams, other.streams) == (False, True)
    finally:
        LEARNED.forget()
    assert one.streams
    assert not OpenAIChat("gpt-5", streams=False).streams


def test_a_rejection_is_learned_for_its_backend_only() -> None:
    learned = Learned()
    mine = frozenset({("api.example.com", "m"), ("https://api.example.com/v1", "m")})
    assert not learned.refuses_prefill(mine)
    learned.learn_no_prefill(("https://api.example.com/v1", "m"))
    assert learned.refuses_prefill(mine)
    assert not learned.refuses_prefill({("api.example.com", "n"), ("https://api.example.com/v1", "n")})
    learned.forget()
    assert not learned.refuses_prefill(mine)


def test_learning_from_several_threads_loses_nothing() -> None:
    learned = Learned()
    threads = [threading.Thread(target=learned.learn_no_prefill, args=(("host", str(n)),)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(learned.refuses_prefill({("host", str(n))}) for n in range(50))
