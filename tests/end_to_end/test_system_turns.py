"""System messages in the middle of a conversation with Claude keep their place where the model
accepts it.
"""

from typing import Any

import pytest

from rungwise import Anthropic, Client
from rungwise.core import Request
from rungwise.testing import ScriptedReply
from support import modes, official
from support.plain import user

FIRST = {"role": "system", "content": "Be short."}
USER = user("Where?")
MORE = user("When?")
SAID = {"role": "assistant", "content": "In reeds."}
LATE = {"role": "system", "content": "Now in French."}
ADDS = {
    "role": "system",
    "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "look"}}],
}
MOVED = "system messages between the turns: they go to the front"


def sent(
    serve: Any,
    mode: str,
    model: str,
    messages: list[Any],
) -> tuple[Any, list[str]]:
    provider = serve(ScriptedReply("Au nord."))
    backend = Anthropic(model, base_url=provider.base_url, api_key="k9")
    with Client(backend, **modes.options_of(mode)) as client:
        assert modes.ask(client, mode, messages).text == "Au nord."
    (request,) = provider.requests
    return request.body, [each for each in backend.lost(Request(messages)) if each == MOVED]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "model", ["claude-opus-4-8", "claude-sonnet-5", "claude-opus-5-5-20261001"]
)
def test_a_newer_model_gets_them_in_their_place(serve: Any, mode: str, model: str) -> None:
    body, moved = sent(serve, mode, model, [FIRST, USER, SAID, MORE, LATE])
    assert (body["system"], body["messages"], moved) == ("Be short.", [USER, SAID, MORE, LATE], [])
    body, moved = sent(serve, mode, model, [FIRST, USER, LATE, SAID, MORE])
    assert (body["system"], body["messages"], moved) == ("Be short.", [USER, LATE, SAID, MORE], [])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", ["claude-opus-4-7", "claude-sonnet-4-5", "claude-haiku-4-5"])
def test_an_older_model_gets_them_in_front_and_check_says_so(
    serve: Any, mode: str, model: str
) -> None:
    body, moved = sent(serve, mode, model, [FIRST, USER, SAID, MORE, LATE])
    assert (body["messages"], moved) == ([USER, SAID, MORE], [MOVED])
    assert [block["text"] for block in body["system"]] == ["Be short.", "Now in French."]
    official.check("anthropic", body)


@pytest.mark.parametrize("messages", [[USER, SAID, LATE, MORE], [USER, LATE, MORE]])
def test_a_place_that_the_api_refuses_is_not_kept(serve: Any, messages: Any) -> None:
    body, moved = sent(serve, "call", "claude-opus-4-8", messages)
    assert (body["system"], moved) == ("Now in French.", [MOVED])
    assert "system" not in [message["role"] for message in body["messages"]]


def test_an_addition_of_tools_never_lands_in_the_system_prompt(serve: Any) -> None:
    body, _ = sent(serve, "call", "claude-opus-4-7", [FIRST, USER, SAID, MORE, ADDS])
    assert body["system"] == "Be short."
    body, _ = sent(serve, "call", "claude-opus-4-8", [FIRST, USER, SAID, MORE, ADDS])
    assert body["system"] == "Be short."
    assert body["messages"][-1] == ADDS


def test_googles_cloud_and_a_callers_own_word_decide_too() -> None:
    url = (
        "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers"
        "/anthropic"
    )
    assert Anthropic("claude-opus-4-8", base_url=url, api_key="k").capabilities.system_turns is None
    assert Anthropic("claude-opus-4-8", api_key="k").capabilities.system_turns is True
