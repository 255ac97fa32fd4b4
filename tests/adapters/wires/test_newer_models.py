"""Models that no table knows: newer ones of a family inherit, and others of the name do not."""

import json
import re
from typing import Any

import pytest

import rungwise
from rungwise import Capabilities, Client
from rungwise.adapters.wires.capabilities.table import _FAMILIES, capabilities_of
from rungwise.adapters.wires.classes import backend_class
from rungwise.adapters.wires.learned import LEARNED
from rungwise.core import Lessons, Request, Send

OPENAI = "https://api.openai.com/v1"
OPENROUTER = "https://openrouter.ai/api/v1"
PLACES: dict[str, tuple[str, str]] = {
    "gpt": ("responses", OPENAI),
    "o": ("responses", OPENAI),
    "gemini": ("gemini", "https://generativelanguage.googleapis.com/v1beta"),
    "claude": ("anthropic", "https://api.anthropic.com"),
    "grok": ("openai", "https://api.x.ai/v1"),  # whose rows are those of its host
    "deepseek": ("openai", "https://api.deepseek.com"),
    "kimi": ("openai", "https://api.moonshot.ai/v1"),
    "glm": ("openai", "https://api.z.ai/api/paas/v4"),
}
AZURE = "https://me.openai.azure.com/openai/v1"
BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com"
VERTEX = "https://aiplatform.googleapis.com/v1"
pytestmark = pytest.mark.sampled(1)
SCHEMA = {
    "type": "object",
    "properties": {"bird": {"type": "string"}},
    "required": ["bird"],
    "additionalProperties": False,
}


def one_newer(model: str) -> list[str]:
    """Return the ids of models one number newer: in the last number of the version, and a year."""
    match = re.search(r"\d+(?:([.-])(\d+))?(?![\w])", model) or re.search(r"(\d+)", model)
    assert match is not None
    first, _, last = re.split(r"([.-])", match[0]) if match[0].count(".") else (match[0], "", "")
    whole = int(re.match(r"\d+", first)[0])  # type: ignore[index]
    names = [model[: match.start()] + str(whole + 1) + model[match.end() :]]
    if last:
        names.append(model[: match.start()] + f"{first}.{int(last) + 1}" + model[match.end() :])
    return [*names, f"{names[0]}-20271231", f"{names[0]}-zephyr"]


NEWER = [(family.newest, name) for family in _FAMILIES for name in one_newer(family.newest)]


def backend_of(model: str, **options: Any) -> Any:
    api, url = PLACES[re.match(r"[a-z]+", model)[0]]  # type: ignore[index]
    return backend_class(api)(model, base_url=url, api_key="sk-1", **options)


def body_of(backend: Any, request: Request, **changes: Any) -> Any:
    send = Send(
        rung="ask",
        backend=0,
        wait=0.0,
        messages=request.messages,
        max_tokens=None,
        request=request,
        **changes,
    )
    return json.loads(backend.encode(send, stream=False).body)


@pytest.mark.parametrize(("newest", "newer"), NEWER)
def test_a_model_one_number_newer_does_what_the_newest_of_its_family_does(
    newest: str, newer: str
) -> None:
    known = backend_of(newest)
    heir = backend_of(newer)
    assert heir.capabilities == Capabilities(inferred_from=newest).or_else(known.capabilities)
    assert heir.asks_by(SCHEMA, {}, ()) == known.asks_by(SCHEMA, {}, ())
    for effort in (None, "minimal", "low", "medium", "high", "xhigh"):
        options: Any = {} if effort is None else {"reasoning_effort": effort}
        request = Request("Name a bird.", **options)
        if newest.startswith("gpt") and effort in ("minimal", "low"):
            continue  # GPT-6 has no effort below "low"; see below
        if newer.startswith("gemini-4-flash-lite"):
            config = body_of(heir, request).get("generationConfig", {})
            level = config.get("thinkingConfig", {}).get("thinkingLevel", "LOW")
            assert level in ("LOW", "MEDIUM", "HIGH")  # which every newer model has
            continue
        for lowered in (False, True):
            bodies = []
            for backend in (known, heir):
                body = body_of(backend, request, lower_reasoning=lowered)
                bodies.append({**body, "model": "m"})
            assert bodies[0] == bodies[1]
    with Client(heir) as client:
        [check] = client.check("Name a bird.", max_tokens=10_000_000).backends
    assert check.inferred_from == newest
    assert f"inferred: what it can do, from {newest}" in str(check)
    # the window is known, or said to be unknown
    if heir.capabilities.window is None:
        assert any("window" in unknown for unknown in check.unknowns)
    else:
        assert any("in a window of" in loss for loss in check.losses)


@pytest.mark.parametrize("model", ["grok-5", "grok-4.7-zephyr"])
def test_what_a_host_does_holds_for_all_of_its_models(model: str) -> None:
    backend = backend_of(model)
    assert backend.asks_by(SCHEMA, {}, ())[0] == "schema"
    with Client(backend) as client:
        check = client.check("Name a bird.", max_tokens=10_000_000)
    assert "fit its window" in str(check)


@pytest.mark.parametrize("model", ["gpt-6.1-sol", "gpt-7", "gpt-12.3-terra"])
def test_what_is_asked_for_less_reasoning_never_gets_below_low_there(model: str) -> None:
    for effort in ("low", "medium", "high"):
        request = Request("Name a bird.", reasoning_effort=effort)
        body = body_of(backend_of(model), request, lower_reasoning=True)
        assert body["reasoning"]["effort"] == "low"


@pytest.mark.parametrize(
    ("api", "url", "model", "newest"),
    [
        ("openai", OPENROUTER, "openai/gpt-6.3-sol", "gpt-5.5"),
        ("openai", OPENROUTER, "google/gemini-4.1-argon", "gemini-3.8-flash"),
        ("openai", OPENROUTER, "anthropic/claude-sonnet-6.1", "claude-opus-5-5"),
        ("openai", OPENROUTER, "deepseek/deepseek-v5", "deepseek-v4"),
        ("openai", OPENROUTER, "moonshotai/kimi-k3-thinking", "kimi-k2.5"),
        ("openai", "http://localhost:4000", "azure/gpt-6-astra", "gpt-5.5"),
        (
            "openai",
            AZURE,
            "gpt-6-nano-2027-03-01",
            "gpt-5.4-mini",
        ),
        (
            "bedrock",
            BEDROCK,
            "openai.gpt-6-luna-v1:0",
            "gpt-5.5",
        ),
        (
            "bedrock",
            BEDROCK,
            "eu.anthropic.claude-fable-6-20270101-v1:0",
            "claude-opus-5-5",
        ),
        (
            "bedrock",
            BEDROCK,
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-haiku-7-v1:0",
            "claude-haiku-5-5",
        ),
        (
            "gemini",
            VERTEX,
            "publishers/google/models/gemini-5.2-neon-001",
            "gemini-3.8-flash",
        ),
        (
            "gemini",
            VERTEX,
            "models/gemini-4-flash-lite",
            "gemini-3.5-flash-lite",
        ),
        (
            "anthropic",
            "https://claude.googleapis.com/v1",
            "claude-opus-6@20270101",
            "claude-opus-5-5",
        ),
    ],
)
def test_names_of_gateways_clouds_and_regions_are_of_the_family(
    api: str, url: str, model: str, newest: str
) -> None:
    capabilities = capabilities_of(api, url, model)
    assert capabilities.inferred_from == newest
    assert capabilities.json_schema == capabilities_of(api, url, newest).json_schema
    assert capabilities.window == capabilities_of(api, url, newest).window


@pytest.mark.parametrize(
    "model",
    [
        "gpt-6-image",
        "gpt-7-realtime-preview",
        "gpt-6-mini-tts",
        "gpt-6-audio",
        "gpt-6-transcribe",
        "gpt-6-search-api",
        "gpt-35-turbo",
        "gpt-oss-240b",
        "openai/gpt-oss-2-20b",
        "text-embedding-6",
        "ft:gpt-6-mini:acme::abc",
        "acme/gpt-7-clone",
        "acme/deepseek-v5",
        "deepseek-ai/deepseek-v5-distill-qwen-7b",
        "gemini-embedding-4",
        "gemini-5-flash-image",
        "gemini-4.1-flash-live",
        "gemini-5-pro-tts",
        "marco-o7",
        "claude-instant-6",
        "my-deployment",
        "gpt-5.5",
        "gpt-4o",
        "gpt-4.1",
        "gpt-5-mini-2025-08-07",
        "o3-2025-04-16",
        "claude-opus-5-5-20261001",
        "claude-3-7-sonnet-20250219",
        "gemini-2.5-pro",
        "gemini-3.8-flash",
    ],
)
def test_models_of_another_kind_or_that_rows_know_inherit_nothing(model: str) -> None:
    for api, url in ((api, url) for api in ("openai", "gemini") for url in (OPENAI, OPENROUTER)):
        assert capabilities_of(api, url, model).inferred_from is None


def test_what_a_reply_teaches_outweighs_what_is_inferred() -> None:
    backend = rungwise.OpenAIResponses("gpt-6.1-sol", base_url="http://localhost:1/v1")
    LEARNED.learn(backend.places, Lessons(largest_output=64_000))
    try:
        with Client(backend) as client:
            check = client.check("Name a bird.", max_tokens=100_000)
            assert "of which it writes 64000 at most" in str(check)
    finally:
        LEARNED.forget()


def test_what_the_caller_knows_wins() -> None:
    own = Capabilities(window=2_000_000, json_schema=False)
    backend = rungwise.OpenAIChat("gpt-9", api_key="sk-1", capabilities=own)
    assert backend.capabilities.window == 2_000_000
    assert backend.capabilities.json_schema is False
    assert backend.capabilities.tools is True
    assert backend.capabilities.inferred_from == "gpt-5.5"
