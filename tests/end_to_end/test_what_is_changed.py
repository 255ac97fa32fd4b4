"""What a protocol can say only in part, or at another level, is named in the journal and by a check."""

from typing import Any

import pytest

from support import protocols
from support.told import told

CLAUDE, OLD, EARLIER = "claude-sonnet-4-6", "claude-sonnet-4-5", "claude-3-5-haiku-latest"
NOVA = "amazon.nova-pro-v1:0"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
THINKING = {"type": "enabled", "budget_tokens": 5_000}
ON_BEDROCK = {"additionalModelRequestFields": {"thinking": THINKING}}

HOT = "temperature above 1: it is sent as 1"
LESS = "thinking above the output cap: 1500 tokens are sent"
FORCED = "thinking: this model does not reason where a tool is forced"


def sent_as(given: str, sent: str) -> str:
    return f"reasoning_effort {given}: it is sent as {sent}"


CHANGES: list[tuple[str, str, dict[str, Any], dict[str, Any], str | None]] = [
    ("anthropic", CLAUDE, {"temperature": 1.8}, {"temperature": 1}, HOT),
    ("anthropic", EARLIER, {"temperature": 1.01}, {"temperature": 1}, HOT),
    ("anthropic", CLAUDE, {"temperature": 1}, {"temperature": 1}, None),
    ("bedrock", NOVA, {"temperature": 2}, {"inferenceConfig.temperature": 1}, HOT),
    ("bedrock", CLAUDE, {"temperature": 1.5}, {"inferenceConfig.temperature": 1}, HOT),
    ("bedrock", NOVA, {"temperature": 0.5}, {"inferenceConfig.temperature": 0.5}, None),
    ("anthropic", CLAUDE, {"stop": ["\n", "END"]}, {"stop_sequences": ["END"]}, "blank sequences in stop, 1 x"),
    (
        "bedrock",
        NOVA,
        {"stop": ["\n", " ", "X"]},
        {"inferenceConfig.stopSequences": ["X"]},
        "blank sequences in stop, 2 x",
    ),
    ("bedrock", NOVA, {"stop": "\n"}, {"inferenceConfig": None}, "stop: no blank sequence is taken"),
    ("bedrock", CLAUDE, {"stop": ["X"]}, {"inferenceConfig.stopSequences": ["X"]}, None),
    ("anthropic", CLAUDE, {"reasoning_effort": "minimal"}, {"output_config.effort": "low"}, sent_as("minimal", "low")),
    ("bedrock", CLAUDE, {"reasoning_effort": "minimal"}, {"outputConfig.effort": "low"}, sent_as("minimal", "low")),
    ("ollama", "gpt-oss", {"reasoning_effort": "xhigh"}, {"think": "high"}, sent_as("xhigh", "high")),
    ("ollama", "m", {"reasoning_effort": "minimal"}, {"think": "low"}, sent_as("minimal", "low")),
    ("ollama", "m", {"reasoning_effort": "none"}, {"think": False}, None),
    *[
        ("gemini", model, {"reasoning_effort": effort}, {f"generationConfig.thinkingConfig.{name}": sent}, told)
        for model, effort, name, sent, told in (
            ("gemini-3-pro-preview", "medium", "thinkingLevel", "HIGH", sent_as("medium", "high")),
            ("gemini-3-pro-preview", "none", "thinkingLevel", "LOW", sent_as("none", "low")),
            ("gemini-3-flash-preview", "none", "thinkingLevel", "MINIMAL", sent_as("none", "minimal")),
            ("gemini-flash-latest", "xhigh", "thinkingLevel", "HIGH", sent_as("xhigh", "high")),
            ("gemini-2.5-flash", "xhigh", "thinkingBudget", 24_576, sent_as("xhigh", "high")),
            ("gemini-2.5-flash", "minimal", "thinkingBudget", 1024, sent_as("minimal", "low")),
            ("gemini-2.5-pro", "none", "thinkingBudget", 128, "reasoning_effort none: it is sent as 128 tokens"),
            ("gemini-2.5-flash", "none", "thinkingBudget", 0, None),
            ("gemini-2.5-flash", "high", "thinkingBudget", 24_576, None),
            ("gemini-3-pro-preview", "low", "thinkingLevel", "LOW", None),
        )
    ],
    (
        "anthropic",
        OLD,
        {"parameters": {"thinking": THINKING}, "max_tokens": 3_000},
        {"thinking.budget_tokens": 1_500},
        LESS,
    ),
    (
        "bedrock",
        OLD,
        {"parameters": ON_BEDROCK, "max_tokens": 3_000},
        {"additionalModelRequestFields.thinking.budget_tokens": 1_500},
        LESS,
    ),
    (
        "anthropic",
        OLD,
        {"parameters": {"thinking": THINKING}, "max_tokens": 1_000},
        {"thinking": None},
        "thinking: there is none under an output cap of 1000 tokens",
    ),
    (
        "anthropic",
        OLD,
        {"parameters": {"thinking": THINKING}, "max_tokens": 6_000, "tool_choice": "required"},
        {"thinking": None},
        FORCED,
    ),
    (
        "bedrock",
        OLD,
        {"parameters": ON_BEDROCK, "max_tokens": 6_000, "tool_choice": {"any": {}}},
        {"additionalModelRequestFields": None, "toolConfig.toolChoice": {"any": {}}},
        FORCED,
    ),
    (
        "bedrock",
        OLD,
        {"parameters": ON_BEDROCK, "max_tokens": 6_000, "temperature": 0.5},
        {"inferenceConfig.temperature": None},
        "temperature: this model takes none while it reasons",
    ),
    ("anthropic", OLD, {"parameters": {"thinking": THINKING}, "max_tokens": 6_000}, {"thinking": THINKING}, None),
    ("bedrock", CLAUDE, {"tool_choice": {"tool": {"name": "look"}}}, {"toolConfig.toolChoice.tool.name": "look"}, None),
    ("bedrock", NOVA, {"tool_choice": "look"}, {"toolConfig.toolChoice": None}, "tool_choice: it has no form here"),
]
"""A protocol, a model, what is given, what is sent of it, and what is said of it."""


def at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body


@pytest.mark.parametrize(("api", "model", "given", "sent", "named"), CHANGES)
def test_what_is_changed_is_named_before_and_in_the_journal(
    api: str, model: str, given: dict[str, Any], sent: dict[str, Any], named: str | None, serve: Any
) -> None:
    made = told(serve, {"api": api, "model": model}, tools=[TOOL], **given)
    assert {path: at(made.body, path) for path in sent} == sent
    if named is None:
        assert (made.notes, made.lost) == ([None], ())
    else:
        assert str(made.notes[0]).startswith(f"left out: {named}")
        assert any(loss.startswith(named) for loss in made.lost)


@pytest.mark.parametrize("api", ["anthropic", "bedrock"])
def test_what_a_backend_was_built_with_is_told_likewise(api: str, serve: Any) -> None:
    own = {"api": api, "model": CLAUDE, "parameters": {"temperature": 1.8, "top_p": 1.2, "seed": 7}}
    assert "top_p above 1: it is sent as 1" in told(serve, own).lost
    [note] = told(serve, own, top_p=0.5).notes
    assert note is not None
    assert "temperature above 1: it is sent as 1" in note
    assert "seed: " in note
    assert "top_p" not in note, "the request's own wins"


def test_a_cap_of_a_backend_above_what_its_model_writes_is_told(serve: Any) -> None:
    most = protocols.backend("anthropic", "http://localhost/v1", model=CLAUDE).capabilities.largest_output
    made = told(serve, {"api": "anthropic", "model": CLAUDE, "parameters": {"max_tokens": 1_000_000}})
    assert made.body["max_tokens"] == most
    named = f"max_tokens above {most}: it is sent as {most}"
    assert made.notes == [f"left out: {named}"]
    assert named in made.lost
