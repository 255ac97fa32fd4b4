"""`rungwise check`, and what `rungwise ask --discover` asks first."""

import json
from pathlib import Path
from typing import Any

import pytest

from rungwise.adapters.gateway.languages import LANGUAGES
from rungwise.adapters.gateway.languages.chat import ChatCompletions
from rungwise.adapters.provider import server
from rungwise.core import LEARNED
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.command_line import invoke, printed, refused

SAID = [{"role": "user", "content": "hi"}]
LOCAL = "http://localhost:8000/v1"


class Vllm(ChatCompletions):
    """Answer GET /v1/models as vLLM does, and nothing else."""

    def listing(self, path: str, models: Any) -> Any:
        cards = [{"id": "m", "owned_by": "vllm", "max_model_len": 5_000}]
        return {"data": cards} if path == "/v1/models" else None


@pytest.fixture(autouse=True)
def nothing_learned() -> Any:
    yield
    LEARNED.forget()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-1")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


def test_nothing_is_lost() -> None:
    assert (
        printed("check", "--model", "gpt-4o", "--image")
        == "api.openai.com/gpt-4o\n  takes all of it\n"
    )


def test_each_backend_has_a_block() -> None:
    result = invoke("check", "--model", "gpt-4o", "--image", "--fallback", f"{LOCAL}#llama-3.3-70b")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "api.openai.com/gpt-4o",
        "  takes all of it",
        "localhost:8000/llama-3.3-70b",
        "  loses: pictures, which it does not see",
    ]


def test_a_missing_key_is_told_and_ends_nothing() -> None:
    result = invoke(
        "check", "--api", "anthropic", "--model", "claude-sonnet-4-5", "--fallback", "openai:gpt-4o"
    )
    assert result.exit_code == 1
    assert "cannot be used: api_key is missing" in result.stdout
    assert "api.openai.com/gpt-4o\n  takes all of it" in result.stdout
    unset = invoke("check", "--model", "gpt-4o", "--api-key-env", "NOT_SET_ANYWHERE")
    assert unset.exit_code == 1
    assert "cannot be used: api_key is missing" in unset.stdout


def test_a_key_in_the_place_of_a_name_is_not_shown() -> None:
    assert "sk-proj-secret" not in refused(
        "check", "--model", "gpt-4o", "--api-key-env", "sk-proj-secret"
    )


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        (SAID, None),
        (
            {
                "model": "else",
                "stream": True,
                "messages": SAID,
                "max_tokens": 99,
                "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
            },
            "tools, which it does not call",
        ),
        (
            {"messages": SAID, "response_format": {"type": "json_schema"}},
            "the JSON schema, which it is not held to",
        ),
        ({"messages": SAID, "max_completion_tokens": 70_000}, "70000 tokens of output"),
    ],
)
def test_a_request_from_a_file(tmp_path: Path, body: Any, lost: str | None) -> None:
    file = tmp_path / "body.json"
    file.write_text(json.dumps(body))
    result = invoke("check", "--model", "o1-mini", "--request", file)
    assert result.exit_code == (0 if lost is None else 1)
    assert lost is None or f"  loses: {lost}" in result.stdout


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("{", "is not JSON"),
        ('{"prompt": 1}', "must hold a list of messages"),
        ("[1]", "must be a mapping"),
        ("[]", "empty"),
    ],
)
def test_a_file_that_holds_no_request(tmp_path: Path, written: str, says: str) -> None:
    file = tmp_path / "body.json"
    file.write_text(written)
    assert says in refused("check", "--model", "gpt-4o", "--request", file)


def test_tools_and_schema_of_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "birds_to_check.py").write_text("def look(city: str) -> str:\n    return city\n")
    schema = tmp_path / "answer.json"
    schema.write_text('{"type": "object"}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    given = ("--tools", "birds_to_check:look", "--returns", schema, "--max-tokens", 70_000)
    result = invoke("check", "--model", "o1-mini", *given)
    assert result.exit_code == 1
    assert [line for line in result.stdout.splitlines() if "loses" in line] == [
        "  loses: tools, which it does not call",
        "  loses: the JSON schema, which it is not held to",
        "  loses: 70000 tokens of output, of which it writes 65536 at most",
    ]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(server, "LANGUAGES", (Vllm(), *LANGUAGES))
    cut = ScriptedReply(text="Herons nest in the reeds of the northern", finish="length")
    with EmbeddedProvider(Script([cut, ScriptedReply(text=" lake.")])) as provider:
        yield provider


def test_a_server_of_ones_own_is_asked_where_that_is_wanted(vllm: EmbeddedProvider) -> None:
    given = ("check", "x" * 18_000, "--model", "m", "--base-url", vllm.base_url)
    told = invoke(*given, "--discover")
    assert told.exit_code == 1
    assert "in a window of 5000" in told.stdout
    assert invoke(*given).exit_code == 0, "nobody knows its window"
    assert not vllm.requests


def test_ask_goes_on_natively_where_it_has_asked(vllm: EmbeddedProvider) -> None:
    result = invoke("ask", "Where?", "--model", "m", "--base-url", vllm.base_url, "--discover")
    assert result.exit_code == 0
    assert result.stdout == "Herons nest in the reeds of the northern lake."
    assert "is vLLM" in result.stderr
    assert "discovered: vLLM" in result.stderr
    assert vllm.requests[-1].body["continue_final_message"] is True
