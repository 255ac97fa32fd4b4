"""A choice of a tool goes out in the form in which the tool does, whatever form it was given in."""

from typing import Any

import pytest

from support import official
from support.protocols import PROTOCOLS
from support.told import told

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
FREE = {"type": "custom", "name": "note"}
FUNCTION: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "look"}},
    {"type": "function", "name": "look"},
    {"type": "tool", "name": "look"},
    {"tool": {"name": "look"}},
]
CUSTOM: list[dict[str, Any]] = [
    {"type": "custom", "custom": {"name": "note"}},
    {"type": "custom", "name": "note"},
    {"type": "tool", "name": "note"},
    {"tool": {"name": "note"}},
]
DEEP = [FUNCTION[0], CUSTOM[0]]
FLAT = [FUNCTION[1], CUSTOM[1]]
ALLOWED: list[dict[str, Any]] = [
    {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": DEEP}},
    {"type": "allowed_tools", "mode": "required", "tools": FLAT},
]
ONE = {"type": "allowed_tools", "mode": "required", "tools": [FUNCTION[1]]}
AUTO: list[Any] = ["auto", {"type": "auto"}, {"auto": {}}]
FORCED: list[Any] = ["required", {"type": "any"}, {"any": {}}]


def gemini(mode: str, *names: str) -> dict[str, Any]:
    return {"functionCallingConfig": {"mode": mode, **({"allowedFunctionNames": [*names]} if names else {})}}


def cases() -> list[tuple[str, Any, Any]]:
    """Return protocols, choices, and what is to be sent for them; None where the protocol cannot say it."""
    found: list[tuple[str, Any, Any]] = []
    for given, name, place in ((FUNCTION, "look", 0), (CUSTOM, "note", 1)):
        sent = {"openai": DEEP[place], "responses": FLAT[place], "anthropic": {"type": "tool", "name": name}}
        sent |= {"gemini": gemini("ANY", name), "bedrock": {"tool": {"name": name}}, "ollama": None}
        found += [(api, each, sent[api]) for api in PROTOCOLS for each in given]
    lists = {"openai": ALLOWED[0], "responses": ALLOWED[1], "gemini": gemini("ANY", "look", "note")}
    found += [(api, each, lists.get(api)) for api in PROTOCOLS for each in ALLOWED]
    single = {"anthropic": {"type": "tool", "name": "look"}, "bedrock": {"tool": {"name": "look"}}}
    found += [(api, ONE, sent) for api, sent in single.items()]
    words: dict[str, tuple[Any, Any]] = {
        **dict.fromkeys(("openai", "responses"), ("auto", "required")),
        "anthropic": ({"type": "auto"}, {"type": "any"}),
        "gemini": (gemini("AUTO"), gemini("ANY")),
        "bedrock": ({"auto": {}}, {"any": {}}),
    }
    for api, said in words.items():
        found += [(api, each, sent) for given, sent in zip((AUTO, FORCED), said, strict=True) for each in given]
    return found


@pytest.mark.parametrize(("api", "choice", "sent"), cases(), ids=str)
def test_a_choice_is_sent_as_the_protocol_has_it_or_told(api: str, choice: Any, sent: Any, serve: Any) -> None:
    made = told(serve, api, tools=[LOOK, FREE], tool_choice=choice)
    body = made.body
    place = {"gemini": "toolConfig"}.get(api, "tool_choice")
    assert (body["toolConfig"].get("toolChoice") if api == "bedrock" else body.get(place)) == sent
    assert any(each.startswith("tool_choice: ") for each in made.lost) is (sent is None)
    official.check(api, body)


@pytest.mark.parametrize("choice", [FUNCTION[1], CUSTOM[1], ALLOWED[1]], ids=str)
def test_a_choice_is_written_for_the_fallback_as_its_tools_are(choice: Any, serve: Any) -> None:
    first, second = told(serve, "responses", "openai", tools=[LOOK, FREE], tool_choice=choice).bodies
    assert first["tool_choice"] == choice
    official.check("openai", second)


@pytest.mark.parametrize("choice", [{"type": ["tool"], "name": "look"}, {"type": None}, {}], ids=str)
@pytest.mark.parametrize("api", PROTOCOLS)
def test_what_is_no_choice_breaks_nothing(api: str, choice: Any, serve: Any) -> None:
    result = told(serve, api, tools=[LOOK], tool_choice=choice).result
    assert (result.text, result.attempts) == ("In the reeds.", 1)
