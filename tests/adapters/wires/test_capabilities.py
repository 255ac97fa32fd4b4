"""Who continues a trailing assistant turn, and who taught this process that it does not."""

import pytest

from rungwise import Capabilities, OpenAIChat
from rungwise.adapters.wires.capabilities.table import capabilities_of
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
    assert dialect_of("http://[broken", model).prefill == "no"


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
@pytest.mark.parametrize(
    "url", ["https://api.openai.com/v1", OPENROUTER, GOOGLE, "https://mine.openai.azure.com"]
)
def test_models_that_think_in_silence_have_more_time_for_their_first_token(
    url: str, model: str, thinks_in_silence: bool
) -> None:
    first_token = capabilities_of("openai", url, model).first_token
    assert first_token == (300 if thinks_in_silence else None)
    backend = OpenAIChat(model, base_url=url, api_key="sk-1")
    assert backend.thinks_for == first_token
    assert backend.first_token is None
    assert OpenAIChat(model, base_url=url, api_key="sk-1", first_token=20).first_token == 20


KNOWN = {
    # model: (tools, images, documents, json_schema, reasoning, window, largest output), None where
    # nobody knows
    "claude-3-haiku-20240307": (True, True, None, None, False, 200_000, 4_096),
    "claude-3-5-sonnet-20241022": (True, True, True, None, False, 200_000, 8_192),
    "claude-3-7-sonnet-latest": (True, True, True, None, True, 200_000, 64_000),
    "claude-sonnet-4-20250514": (True, True, True, None, True, 200_000, 64_000),
    "claude-opus-4-1-20250805": (True, True, True, None, True, 200_000, 32_000),
    "claude-haiku-4-5": (True, True, True, True, True, 200_000, 64_000),
    "anthropic/claude-sonnet-4.5": (True, True, True, True, True, 200_000, 64_000),
    "us.anthropic.claude-opus-4-6-v1:0": (True, True, True, True, True, 1_000_000, 128_000),
    "claude-sonnet-5-5": (True, True, True, True, True, 1_000_000, 128_000),
    "claude-haiku-5-5": (True, True, True, True, True, None, None),
    "claude-2.1": (False, False, False, None, False, None, None),
    "gpt-3.5-turbo": (None, False, None, False, False, 16_385, 4_096),
    "gpt-4-turbo": (True, True, None, False, False, 128_000, 4_096),
    "gpt-4o-2024-05-13": (True, True, None, False, False, 128_000, 4_096),
    "gpt-4o-mini": (True, True, None, True, False, 128_000, 16_384),
    "gpt-4o-audio-preview": (None, None, None, None, None, None, None),
    "gpt-4.1-nano": (True, True, None, True, False, 1_047_576, 32_768),
    "gpt-5-chat-latest": (None, True, None, None, None, 128_000, 16_384),
    "openai/gpt-5": (True, True, None, True, True, 400_000, 128_000),
    "gpt-5-pro": (True, True, None, True, True, 400_000, 272_000),
    "gpt-5.2-codex": (True, True, None, True, True, 400_000, 128_000),
    "gpt-5.4": (True, True, None, True, True, 1_050_000, 128_000),
    "gpt-5.4-mini": (True, True, None, True, True, 400_000, 128_000),
    "gpt-5.9": (True, True, None, True, True, 1_050_000, 128_000),
    "o1-mini": (False, False, None, False, None, 128_000, 65_536),
    "o3-mini": (True, False, None, True, True, 200_000, 100_000),
    "o4-mini": (True, True, None, True, True, 200_000, 100_000),
    "openai/gpt-oss-120b": (True, False, False, None, True, 131_072, None),
    "gemini-2.0-flash": (True, True, True, True, False, 1_048_576, 8_192),
    "gemini-2.5-flash-lite": (True, True, True, True, True, 1_048_576, 65_536),
    "gemini-3.1-pro-preview": (True, True, True, True, True, 1_048_576, 65_536),
    "gemini-2.5-flash-image": (None, None, None, None, None, None, None),
    "grok-3": (None, False, None, None, False, 131_072, None),
    "grok-3-mini": (None, False, None, None, True, 131_072, None),
    "grok-4-0709": (True, True, None, True, False, 256_000, None),
    "grok-4.1-fast": (True, True, None, True, None, 2_000_000, None),
    "deepseek-v4-pro": (True, None, None, None, True, 1_000_000, 384_000),
    "deepseek-r1:14b": (None, False, False, None, None, None, None),
    "codestral-latest": (None, False, None, None, None, None, None),
    "moonshotai/kimi-k2.6": (True, True, None, None, None, 262_144, None),
    "kimi-k2-thinking": (True, False, None, None, None, 262_144, None),
    "qwen/qwen3-32b": (None, False, None, None, None, None, None),
    "qwen3-vl-32b-instruct": (None, None, None, None, None, None, None),
    "glm-4.6": (True, False, None, None, True, 200_000, None),
    "glm-4.5v": (None, True, None, None, None, None, None),
    "llama-3.3-70b-versatile": (None, False, None, None, False, None, None),
    "my-own-model": (None, None, None, None, None, None, None),
}


@pytest.mark.parametrize(("model", "known"), KNOWN.items())
def test_what_is_known_of_a_model_wherever_it_is(model: str, known: tuple[object, ...]) -> None:
    found = capabilities_of("openai", "https://api.example.com/v1", model)
    told = (found.tools, found.images, found.documents, found.json_schema, found.reasoning)
    assert (*told, found.window, found.largest_output) == known
    assert found.prefill in (None, False)


@pytest.mark.parametrize(
    ("url", "model", "known"),
    [
        ("https://api.openai.com/v1", "gpt-4o", {"documents": True, "images": True}),
        ("https://api.openai.com/v1", "o3-mini", {"documents": None, "images": False}),
        (
            "https://api.deepseek.com",
            "deepseek-v4-pro",
            {"images": False, "json_schema": False, "window": 1_000_000},
        ),
        (
            "https://api.mistral.ai/v1",
            "mistral-large-latest",
            {"images": True, "tools": True, "json_schema": True},
        ),
        ("https://api.mistral.ai/v1", "codestral-latest", {"images": False, "tools": True}),
        (DASHSCOPE, "qwen3-vl-plus", {"images": True, "tools": True}),
        (
            GROQ,
            "llama-3.3-70b-versatile",
            {"images": False, "tools": True, "largest_output": 32_768},
        ),
        (GROQ, "meta-llama/llama-4-scout-17b-16e-instruct", {"images": True, "tools": True}),
        ("https://api.x.ai/v1", "grok-5", {"tools": True, "images": None}),
        ("http://localhost:8000/v1", "llama-4-scout", {"tools": None, "images": None}),
        ("http://[broken", "llama-4-scout", {"tools": None}),
    ],
)
def test_what_is_known_of_a_model_at_its_place(
    url: str, model: str, known: dict[str, object]
) -> None:
    found = capabilities_of("openai", url, model)
    assert {name: getattr(found, name) for name in known} == known


@pytest.mark.parametrize(
    ("api", "model", "prefill"),
    [
        ("anthropic", "claude-opus-4-5", True),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("anthropic", "claude-opus-4-6", False),
        ("bedrock", "anthropic.claude-opus-5-5", False),
        ("anthropic", "claude-mythos-preview", False),
        ("gemini", "gemini-3-pro-preview", True),
        ("gemini", "gemini-3.6-flash", None),
        ("responses", "gpt-5", None),
        ("ollama", "llama3.2", None),
        ("anthropic", "my-own-model", None),
    ],
)
def test_who_continues_a_turn_in_which_protocol(api: str, model: str, prefill: bool | None) -> None:
    assert capabilities_of(api, "https://api.example.com", model).prefill is prefill


def test_every_protocol_waits_for_models_that_think_in_silence() -> None:
    for api, model in (
        ("responses", "gpt-5.2"),
        ("gemini", "gemini-3-pro-preview"),
        ("anthropic", "claude-opus-5"),
    ):
        assert capabilities_of(api, "https://api.example.com", model).first_token == 300
    assert (
        capabilities_of("anthropic", "https://api.example.com", "claude-opus-4-6").first_token
        is None
    )


def test_what_the_caller_knows_better_counts() -> None:
    given = Capabilities(images=True, window=8_192, prefill=True)
    backend = OpenAIChat("llama-3.3-70b", base_url="http://localhost:8000/v1", capabilities=given)
    assert backend.capabilities.images is True
    assert backend.capabilities.window == 8_192
    assert backend.capabilities.reasoning is False, "what is not given is asked of the table"
    assert backend.prefills
    denied = Capabilities(prefill=False)
    assert not OpenAIChat(
        "claude-opus-4-5", base_url=ANTHROPIC, api_key="sk-1", capabilities=denied
    ).prefills
    assert OpenAIChat(
        "m",
        base_url=ANTHROPIC,
        capabilities=denied,
        prefill="trailing",
    ).prefills, "it says how as well"


def test_how_a_turn_is_continued_says_whether() -> None:
    assert (
        OpenAIChat("m", base_url="https://api.mistral.ai/v1", api_key="sk-1").capabilities.prefill
        is True
    )
    assert OpenAIChat("m", prefill="trailing", api_key="sk-1").capabilities.prefill is True
    denied = OpenAIChat("m", prefill="no", api_key="sk-1", capabilities=Capabilities(prefill=True))
    assert denied.prefills is False
    assert denied.capabilities.prefill is False
    assert OpenAIChat("gpt-4o", api_key="sk-1").capabilities.prefill is None
