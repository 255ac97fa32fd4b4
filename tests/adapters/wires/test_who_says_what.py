"""Who says what, in the form of every protocol."""

import json
from typing import Any

import pytest

from rungwise import Message, ToolCall, ToolResult
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.portability import written
from support import official, protocols

ALL = pytest.mark.parametrize("api", protocols.PROTOCOLS)
QUESTION = Message.saying("user", "Where?")


def backend(api: str) -> Any:
    return protocols.backend(api, "http://localhost:1/v1")


def sent(api: str, *messages: Any, **fields: Any) -> tuple[dict[str, Any], Any]:
    """Return the body of a request and the conversation in it."""
    body = protocols.body_of(backend(api), *messages, max_tokens=100, **fields)
    official.check(api, body)
    return body, next(body[name] for name in ("messages", "input", "contents") if name in body)


@ALL
def test_the_turn_that_is_gone_on_from_ends_in_no_blank(api: str) -> None:
    _, said = sent(api, QUESTION, Message.saying("assistant", "In the \n"), prefill=True)
    assert read_messages(said[-1:]) == (Message.saying("assistant", "In the"),)


@ALL
@pytest.mark.parametrize("role", ["system", "developer"])
def test_what_the_system_says_has_its_place(api: str, role: str) -> None:
    body, said = sent(api, {"role": role, "content": "Be brief."}, QUESTION)
    assert json.dumps(body).count("Be brief.") == 1
    place = {
        "anthropic": "system",
        "bedrock": "system",
        "gemini": "systemInstruction",
        "interactions": "system_instruction",
    }.get(api)
    if place:
        assert "Be brief." in json.dumps(body[place])
        assert read_messages(said) == (QUESTION,)
    else:
        assert said[0]["role"] == ("system" if api == "ollama" else role)
        assert read_messages(said) == (Message.saying("system", "Be brief."), QUESTION)


@ALL
@pytest.mark.parametrize("form", ["its own", "none", "openai"])
def test_the_role_of_a_message_is_known(api: str, form: str) -> None:
    called = Message("assistant", (ToolCall("c1", "look_up", "{}"),))
    found = Message("tool", (ToolResult("c1", "look_up", "Reeds."),))
    messages: Any = [QUESTION, called, found, Message.saying("assistant", "There.")]
    if form != "none":
        shapes = backend(api if form == "its own" else form).shapes
        messages = written(messages, shapes, "", is_portable=True)
    roles = [backend(api).shapes.role_of(message) for message in messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
