"""Where models are served: the hosts of November 2026, their keys, and the URLs there."""

import json
from typing import Any

import pytest

from rungwise import Anthropic, Bedrock, Gemini, OpenAIChat, OpenAIResponses
from rungwise.core import Request
from rungwise.fsm.replies.parts import MediaPart, Message, TextPart
from support.protocols import body_of, encoded

KEY = "key-of-the-environment-9d2f"
QUESTION = {"role": "user", "content": "Where?"}


def url_of(backend: Any) -> str:
    return str(encoded(backend).url)


@pytest.mark.parametrize("region", ["us-east-1", "eu-north-1", "ap-southeast-4"])
@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/messages"])
def test_anthropic_on_aws(region: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AWS_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_AWS_WORKSPACE_ID", "wrkspc_7")
    host = f"https://aws-external-anthropic.{region}.api.aws"
    http = encoded(Anthropic("claude-opus-5", base_url=f"{host}{end}"))
    assert http.url == f"{host}/v1/messages"
    assert http.headers["authorization"] == f"Bearer {KEY}"
    assert http.headers["anthropic-workspace-id"] == "wrkspc_7"
    assert http.headers["anthropic-version"] == "2026-10-21"
    elsewhere = encoded(Anthropic("claude-opus-5", base_url="https://a.example/v1"))
    assert "anthropic-workspace-id" not in elsewhere.headers
    own = {"anthropic-workspace-id": "wrkspc_8"}
    mine = Anthropic("claude-opus-5", base_url=host, headers=own)
    assert encoded(mine).headers["anthropic-workspace-id"] == "wrkspc_8"


def test_both_doors_of_bedrock_mantle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    for region in ("us-west-2", "eu-central-1"):
        host = f"https://bedrock-mantle.{region}.api.aws"
        urls = {
            OpenAIChat(
                "openai.gpt-oss-120b", base_url=f"{host}/openai/v1"
            ): "/openai/v1/chat/completions",
            OpenAIResponses("openai.gpt-5.5", base_url=f"{host}/openai/v1"): "/openai/v1/responses",
            Anthropic(
                "anthropic.claude-opus-5", base_url=f"{host}/anthropic"
            ): "/anthropic/v1/messages",
            Anthropic(
                "anthropic.claude-opus-5", base_url=f"{host}/anthropic/v1"
            ): "/anthropic/v1/messages",
        }
        for backend, path in urls.items():
            http = encoded(backend)
            assert backend.problem is None
            assert http.url == f"{host}{path}"
            assert http.headers["authorization"] == f"Bearer {KEY}"
            assert "x-api-key" not in http.headers


@pytest.mark.parametrize(
    "host",
    [
        "us-central1-aiplatform.googleapis.com",
        "aiplatform.googleapis.com",
        "aiplatform.us.rep.googleapis.com",
        "aiplatform.eu.rep.googleapis.com",
    ],
)
def test_gemini_on_vertex_takes_a_token_as_its_key(host: str) -> None:
    root = f"https://{host}/v1/projects/p/locations/global/publishers/google"
    made = Gemini("gemini-3-pro", base_url=root, api_key=lambda: "ya29.token-of-google")
    http = encoded(made)
    assert http.url == f"{root}/models/gemini-3-pro:generateContent"
    assert http.headers["authorization"] == "Bearer ya29.token-of-google"
    assert "x-goog-api-key" not in http.headers
    plain = encoded(Gemini("gemini-3-pro", base_url=root, api_key="AIza-1"))
    assert plain.headers["x-goog-api-key"] == "AIza-1"


@pytest.mark.parametrize("end", ["", "/workspaces/w/invoke", "/workspaces/w/invoke/v1/messages"])
def test_claude_on_googles_gateway(end: str) -> None:
    root = "https://claude.googleapis.com/v1/projects/p/locations/global"
    made = Anthropic("claude-opus-5", base_url=f"{root}{end}", api_key="ya29.token")
    http = encoded(made, parameters={"temperature": 0.5})
    assert http.url == f"{root}{end.removesuffix('/v1/messages')}/v1/messages"
    assert http.headers["authorization"] == "Bearer ya29.token"
    assert http.headers["anthropic-version"] == "2026-10-21"
    assert json.loads(http.body)["model"] == "claude-opus-5"


@pytest.mark.parametrize("region", ["us", "eu", "ae", "au", "in", "jp"])
def test_openais_regional_hosts_are_openai(region: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    url = f"https://{region}.api.openai.com/v1"
    for kind in (OpenAIChat, OpenAIResponses):
        there, at_home = kind("gpt-5", base_url=url), kind("gpt-5")
        assert encoded(there).headers["authorization"] == f"Bearer {KEY}"
        assert there.capabilities == at_home.capabilities
        assert there.known_parameters == at_home.known_parameters
        assert body_of(there, max_tokens=5) == body_of(at_home, max_tokens=5)


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("gemini-3-pro", "xhigh", {"thinkingLevel": "HIGH"}),
        ("gemini-3-pro", "max", {"thinkingLevel": "HIGH"}),
        ("gemini-3.6-flash", "minimal", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.6-flash", "max", {"thinkingLevel": "HIGH"}),
        ("gemini-4-argon", "xhigh", {"thinkingLevel": "HIGH"}),
        ("gemini-4-argon", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-4-argon", "medium", {"thinkingLevel": "MEDIUM"}),
        ("gemini-4.3-xenon", "max", {"thinkingLevel": "HIGH"}),
        ("gemini-11-pro", "max", {"thinkingLevel": "HIGH"}),
        ("gemini-2.5-flash", "max", {"thinkingBudget": 24_576}),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 24_576}),
    ],
)
def test_every_effort_has_a_level_at_gemini(model: str, effort: str, sent: Any) -> None:
    made = Gemini(model, base_url="http://localhost")
    body = body_of(made, parameters={"reasoning_effort": effort})
    assert body["generationConfig"]["thinkingConfig"] == sent
    losses = made.lost(Request("x", reasoning_effort=effort))
    assert [loss.partition(":")[0] for loss in losses] in ([], [f"reasoning_effort {effort}"])


@pytest.mark.parametrize("level", ["MINIMAL", "XHIGH", "A_LEVEL_OF_TOMORROW"])
def test_geminis_own_level_goes_out_as_it_is(level: str) -> None:
    own = {"thinkingConfig": {"thinkingLevel": level}}
    made = Gemini("gemini-4-argon", base_url="http://localhost", parameters=own)
    assert body_of(made)["generationConfig"] == own


@pytest.mark.parametrize(
    ("kind", "media_type", "format"),
    [
        ("audio", "audio/pcm", "pcm"),
        ("audio", "audio/x-matroska", "mka"),
        ("audio", "audio/x-aac", "x-aac"),
        ("audio", "audio/mpga", "mpga"),
        ("audio", "audio/mpeg", "mp3"),
        ("audio", "audio/wav; rate=8000", "wav"),
        ("video", "video/mpg", "mpg"),
        ("video", "video/3gpp", "three_gp"),
        ("video", "video/x-matroska", "mkv"),
        ("video", "video/quicktime", "mov"),
        ("image", "image/jpg", "jpeg"),
        ("file", "text/csv", "csv"),
        ("file", "text/markdown", "md"),
    ],
)
def test_converse_has_a_format_for_each_medium(kind: Any, media_type: str, format: str) -> None:
    made = Bedrock("m", base_url="http://localhost", region="eu-north-1", api_key="k-1")
    part = MediaPart(kind, data="AAAA", media_type=media_type)
    body = body_of(made, Message("user", (TextPart("?"), part)))
    block = body["messages"][0]["content"][1]
    assert next(iter(block.values()))["format"] == format


@pytest.mark.parametrize(
    ("model", "stays"),
    [
        ("anthropic.claude-opus-4-8", True),
        ("eu.anthropic.claude-sonnet-6-1-v1:0", True),
        ("anthropic.claude-sonnet-4-5", False),
        ("amazon.nova-pro-v1:0", False),
    ],
)
def test_a_system_turn_in_the_middle_stays_where_converse_takes_it(model: str, stays: bool) -> None:
    made = Bedrock(model, base_url="http://localhost", region="eu-north-1", api_key="k-1")
    said = {"role": "system", "content": "Now in French."}
    body = body_of(made, {"role": "system", "content": "Be short."}, QUESTION, said)
    roles = [turn["role"] for turn in body["messages"]]
    assert roles == (["user", "system"] if stays else ["user"])
    assert ("Now in French." in json.dumps(body["system"])) is not stays
