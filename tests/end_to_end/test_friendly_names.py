"""What a newcomer types: each name that is called otherwise says so, and nothing is sent."""

import warnings
from typing import Any

import pytest

import rungwise
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.modes import MODES, ask

ANSWER = ScriptedReply(text="In reeds.")
BACKEND = rungwise.OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key="")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("model", "rungwise.OpenAI"),
        ("base_url", "backend"),
        ("timeout", "policy"),
        ("max_retries", "policy"),
        ("fallbacks", "chain"),
        ("http_client", "http"),
        ("no_such_thing", "unexpected"),
    ],
)
def test_an_argument_that_stands_elsewhere_says_where(name: str, says: str) -> None:
    with pytest.raises(TypeError, match=name) as raised:
        rungwise.Client(BACKEND, **{name: None})  # type: ignore[arg-type]
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("response_model", "returns"),
        ("output_type", "returns"),
        ("instructions", "system"),
        ("system_prompt", "system"),
        ("timeout", "policy"),
    ],
)
def test_an_option_that_is_called_otherwise_says_how(name: str, says: str) -> None:
    client = rungwise.Client(BACKEND)
    for method in (client.call, client.turn):
        with pytest.raises(rungwise.ConfigurationError, match=name) as raised:
            method("Where?", **{name: "x"})
        assert says in str(raised.value)


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("content", "text"),
        ("choices", "text"),
        ("output_text", "text"),
        ("parsed", "value"),
        ("finish_reason", "reply.stop_reason"),
    ],
)
def test_an_attribute_that_is_called_otherwise_says_how(name: str, here: str) -> None:
    with EmbeddedProvider(Script([ANSWER])) as provider:
        backend = rungwise.OpenAIChat("m", base_url=provider.base_url, api_key="")
        with rungwise.Client(backend, health=None) as client:
            results: list[Any] = [client.call("Where?"), client.turn("Where?")]
    for result in results:
        assert not hasattr(result, name)
        if "." not in here or not hasattr(type(result), "calls"):
            with pytest.raises(AttributeError, match=f"it is called {here} here"):
                getattr(result, name)
        with pytest.raises(AttributeError, match="no attribute 'texts'"):
            _ = result.texts


@pytest.mark.parametrize("prompt", ["", "  ", "\n"])
def test_an_empty_prompt_is_refused_before_anything_is_sent(prompt: str) -> None:
    client = rungwise.Client(BACKEND)
    for method in (client.call, client.stream, client.turn, client.stream_turn):
        with pytest.raises(rungwise.ConfigurationError, match="the prompt is empty"):
            method(prompt)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "messages", ["Where?", [{"role": "user", "content": "Where?"}]], ids=["text", "list"]
)
def test_system_stands_before_the_messages(mode: str, messages: Any) -> None:
    with EmbeddedProvider(Script([ANSWER])) as provider:
        backend = rungwise.OpenAIChat("m", base_url=provider.base_url, api_key="")
        with rungwise.Client(backend, health=None) as client:
            assert ask(client, mode, messages, system="Be brief.").text == "In reeds."
            assert client.turn(messages, system="Be brief.").text == "In reeds."
    for request in provider.requests:
        assert request.body["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where?"},
        ]


def test_a_system_that_is_no_text_or_stands_beside_a_request_is_refused() -> None:
    client = rungwise.Client(BACKEND)
    with pytest.raises(rungwise.ConfigurationError, match="system must be a text"):
        client.call("Where?", system=3)  # type: ignore[arg-type]
    with pytest.raises(rungwise.ConfigurationError, match="system beside it"):
        client.call(rungwise.core.Request("Where?"), system="Be brief.")


def test_a_fallback_without_a_key_is_told_once_when_the_client_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    missing = rungwise.Anthropic("claude-sonnet-5")
    with pytest.warns(UserWarning, match="ANTHROPIC_API_KEY") as told:
        rungwise.Client([BACKEND, missing])
    assert len(told) == 1
    assert "claude-sonnet-5" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rungwise.Client(BACKEND)
    with pytest.raises(rungwise.ConfigurationError, match="ANTHROPIC_API_KEY"):
        rungwise.Client(missing)
