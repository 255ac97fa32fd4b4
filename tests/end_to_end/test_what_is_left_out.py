"""What a protocol cannot be told, or only in part, is said once: in the journal of a chain, and by
a check.
"""

import json
import re
from itertools import product
from typing import Any

import pytest

import rungwise
from rungwise import Client, Journal, replay
from rungwise.adapters.cli.describe import steps_text
from rungwise.adapters.gateway.languages import language_of
from rungwise.adapters.wires.classes import backend_class
from rungwise.adapters.wires.registry import WIRES
from rungwise.core import Request
from rungwise.fsm.engine.journal.path import read_path
from rungwise.testing import ScriptedReply
from support import protocols
from support.command_line import invoke
from support.modes import ask, waits_into
from support.plain import user
from support.protocols import backend
from support.told import told

DOWN, AGAIN = ScriptedReply(status=401), ScriptedReply(status=500)
ANSWER = ScriptedReply("In the reeds.")
NAMED: dict[str, Any] = {"temperature": 0.5, "seed": 7}


def notes(result: rungwise.Result) -> list[tuple[str, str | None]]:
    return [(step.backend, step.note) for step in result.journal.steps if step.event == "sent"]


def test_what_the_fallback_cannot_be_told_is_not_sent_and_said_once(mode: str, serve: Any) -> None:
    first = serve(DOWN)
    second = serve(AGAIN, AGAIN, ANSWER)
    chain = [
        backend("openai", first.base_url, name="first"),
        backend("anthropic", second.base_url, name="second"),
    ]
    request = Request("Where?", **NAMED, parameters={"logit_bias": {"5": 1}})
    with Client(chain, **waits_into([])) as client:
        result = ask(client, mode, request)
    noted = notes(result)
    assert [name for name, _ in noted] == ["first", "second", "second", "second"]
    assert [note for _, note in noted[:1] + noted[2:]] == [None] * 3
    said = noted[1][1]
    assert said is not None
    assert said.startswith("left out: logit_bias: it is a parameter of another protocol; seed: ")
    assert "temperature" not in said
    assert first.requests[0].body["seed"] == 7
    for received in second.requests:
        assert received.body["temperature"] == 0.5
        assert not {"seed", "logit_bias"} & received.body.keys()
    text = result.journal.to_json()
    assert notes(replay(Journal.from_json(text))) == noted
    assert said in steps_text(read_path(text, rungwise.CALL, Journal))


TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
TRACES: dict[str, tuple[Any, str]] = {
    "temperature": (0.25, r"0\.25"),
    "top_p": (0.875, r"0\.875"),
    "stop": (["HALT"], "HALT"),
    "seed": (7919, "7919"),
    "response_format": (
        {
            "type": "json_schema",
            "json_schema": {"name": "bird", "schema": {"type": "object", "title": "Bird7919"}},
        },
        "Bird7919",
    ),
    "reasoning_effort": ("low", r"(?i)effort\W+low|budget|\bthink|reasoning"),
    "tool_choice": ("required", r"(?i)required|\bany\b"),
    "parallel_tool_calls": (False, r"(?i)parallel"),
}
"""A value for each option by name, and what shows in a body that says it, in whatever words."""

MODELS = (
    "m",
    "gpt-5",
    "claude-opus-4-6",
    "claude-3-5-haiku-latest",
    "gemini-2.5-flash",
    "gemini-3-pro",
    "gpt-oss:20b",
)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "api", [api for api, wire in WIRES.items() if language_of(wire.client_path)]
)
def test_no_option_vanishes_without_a_word(api: str, model: str, serve: Any) -> None:
    provider = serve(ScriptedReply(tool_calls=[{"name": "look", "arguments": "{}"}]))
    backend = backend_class(api)(model, base_url=provider.base_url, api_key="sk-1")
    every = {name: value for name, (value, _) in TRACES.items()}
    with Client(backend) as client:
        unforced = {name: value for name, value in every.items() if name != "tool_choice"}
        given_together = [*({name: value} for name, value in every.items()), every, unforced]
        for given, cap in product(given_together, (300, 30_000)):
            result = client.call(
                "Where?",
                tools=[TOOL],
                max_tokens=cap,
                **given,
            )  # type: ignore[typeddict-item]
            body = json.dumps(provider.requests[-1].body)
            note = notes(result)[0][1] or ""
            for name in given:
                assert re.search(TRACES[name][1], body) or f"{name}: " in note, (name, note, body)


def test_a_turn_says_it_in_each_of_its_calls(serve: Any) -> None:
    provider = serve(ScriptedReply(tool_calls=[{"name": "look", "arguments": "{}"}]), ANSWER)

    def look() -> str:
        """Look around."""
        return "reeds"

    with Client(backend("anthropic", provider.base_url)) as client:
        result = client.turn("Where?", tools=[look], seed=7)
    assert result.outcome == "finished"
    document = json.loads(result.journal.to_json())
    assert str(document).count("left out: seed: ") == 2
    assert replay(rungwise.TurnJournal.from_json(json.dumps(document))).outcome == "finished"


def test_the_command_line_says_it_beside_the_request(serve: Any, tmp_path: Any) -> None:
    provider = serve(ANSWER)
    journal = tmp_path / "call.json"
    given = ("--api", "gemini", "--model", "gemini-2.0-flash", "--base-url", provider.base_url)
    result = invoke("ask", "Where?", *given, "--reasoning-effort", "low", "--journal", journal)
    assert (result.exit_code, result.stdout) == (0, "In the reeds.")
    assert "(left out: reasoning_effort" in result.stderr
    shown = invoke("explain", journal, "--format", "text")
    assert "left out: reasoning_effort" in shown.stdout
    assert "left out: reasoning_effort" in invoke("explain", journal, "--format", "html").stdout


ODD = {"type": "hologram", "x": 1}


def test_parts_of_a_message_that_have_no_form_are_told(serve: Any) -> None:
    messages = [user([ODD, {"type": "text", "text": "Where?"}, ODD])]
    made = told(serve, "openai", "gemini", messages=messages)
    said = "hologram in the messages, 2 x: it has no form here"
    assert said in made.lost
    assert made.notes[1:] == [f"left out: {said}"]
    assert made.bodies[0]["messages"][0]["content"][0] == ODD


@pytest.mark.parametrize(
    ("api", "parameters", "named"),
    [
        ("openai", {"best_of": 3}, "best_of"),
        ("openai", {"max_output_tokens": 9}, "max_tokens"),
        ("openai", {"extra_body": {"max_tokens": 9}}, "extra_body"),
        ("anthropic", {"max_tokens_to_sample": 9}, "max_tokens"),
        ("bedrock", {"additionalModelRequestFields": {"max_gen_len": 9}}, "max_tokens"),
    ],
)
def test_no_other_name_of_the_cap_and_no_second_answer_goes_round_a_budget(
    api: str, parameters: Any, named: str
) -> None:
    with pytest.raises(rungwise.ConfigurationError, match=named):
        backend(api, "http://localhost:1/v1", parameters=parameters)


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/heron.png"}}
DRAWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SUNG = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
WRITTEN = {
    "type": "file",
    "file": {"filename": "heron.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
}
SEEN_IN_A_TOOL = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
    },
    {
        "role": "tool",
        "tool_call_id": "c",
        "content": [{"type": "text", "text": "Look."}, PICTURE],
    },
]
"""A picture in the result of a tool."""


@pytest.mark.parametrize(
    ("api", "model", "lost"),
    [
        ("ollama", "m", {"image by URL": 3, "audio": 1, "file": 1}),
        ("bedrock", "m", {"image by URL": 3}),
        ("anthropic", "m", {"audio": 1}),
        ("responses", "m", {"audio": 1}),
        ("gemini", "gemini-2.0-flash", {"image by URL": 3, "name of a file": 1}),
        ("gemini", "gemini-3-pro", {"name of a file": 1}),
        ("openai", "m", {}),
    ],
)
def test_pictures_and_files_that_a_protocol_cannot_carry_are_told(
    api: str,
    model: str,
    lost: Any,
    serve: Any,
) -> None:
    asked: list[Any] = [
        user([PICTURE, DRAWN, SUNG, WRITTEN, {"type": "text", "text": "Where?"}]),
        *SEEN_IN_A_TOOL,
        rungwise.Message(
            "user", (rungwise.MediaPart("image", url="https://example.org/reeds.png"),)
        ),
    ]
    said = "; ".join(
        f"{kind} in the messages, {count} x: it has no form here" for kind, count in lost.items()
    )
    made = told(serve, {"api": api, "model": model}, messages=asked)
    assert "; ".join(each for each in made.lost if "in the messages" in each) == said
    assert made.notes == [f"left out: {said}" if said else None]
    body = json.dumps(made.body)
    for kind, url in (
        ("image", "https://example.org/heron.png"),
        ("audio", "audio/wav"),
        ("file", "heron.pdf"),
    ):
        assert (f"({kind}: {url})" in body) is any(each.startswith(kind) for each in lost)


NAMED_ONES: list[Any] = [
    {"role": "system", "name": "house", "content": "Be brief."},
    {"role": "user", "name": "Ada", "content": "Where?"},
    {"role": "assistant", "name": "guide", "content": "In the reeds."},
    {
        "role": "user",
        "name": "Bert",
        "content": [{"type": "text", "text": "Which?"}],
    },
]
CALLED: list[Any] = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "name": "f", "tool_call_id": "c", "content": "Reeds."},
]


@pytest.mark.parametrize("mode", ["call", "stream"])
def test_who_speaks_is_told_where_a_protocol_has_no_names(api: str, mode: str, serve: Any) -> None:
    made = told(serve, api, messages=NAMED_ONES, mode=mode)
    body = json.dumps(made.body)
    said = () if api == "openai" else ("name in the messages, 4 x: it has no form here",)
    assert tuple(each for each in made.lost if "messages" in each) == said
    assert made.notes == [f"left out: {said[0]}" if said else None]
    for name in ("house", "Ada", "guide", "Bert"):
        assert (name in body) is (api == "openai")


def test_the_name_of_a_tool_is_no_such_name(api: str) -> None:
    with Client(backend(api, "http://localhost:1/v1")) as client:
        [found] = client.check([user("Where?"), *CALLED]).backends
    assert not [each for each in found.losses if "messages" in each]


@pytest.mark.parametrize("role", ["system", "developer", "user", "tool"])
def test_a_member_of_a_message_that_nobody_reads_is_told(api: str, role: str, serve: Any) -> None:
    odd = {"role": role, "content": "Where?", "mood": "merry"}
    if role == "tool":
        odd["tool_call_id"] = "c"
    asked = [
        user("Hm."),
        *CALLED[: role == "tool"],
        odd,
        user("Hm?"),
    ]
    made = told(serve, api, messages=asked)
    is_told = "mood in the messages, 1 x: it has no form here" in made.lost
    assert is_told is not ("merry" in json.dumps(made.body))
    assert is_told is (api != "openai")


# what is changed


CLAUDE = "claude-sonnet-4-6"
OLD = "claude-sonnet-4-5"
EARLIER = "claude-3-5-haiku-latest"
NOVA = "amazon.nova-pro-v1:0"
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
    (
        "anthropic",
        CLAUDE,
        {"stop": ["\n", "END"]},
        {"stop_sequences": ["END"]},
        "blank sequences in stop, 1 x",
    ),
    (
        "bedrock",
        NOVA,
        {"stop": ["\n", " ", "X"]},
        {"inferenceConfig.stopSequences": ["X"]},
        "blank sequences in stop, 2 x",
    ),
    (
        "bedrock",
        NOVA,
        {"stop": "\n"},
        {"inferenceConfig": None},
        "stop: no blank sequence is taken",
    ),
    ("bedrock", CLAUDE, {"stop": ["X"]}, {"inferenceConfig.stopSequences": ["X"]}, None),
    (
        "anthropic",
        CLAUDE,
        {"reasoning_effort": "minimal"},
        {"output_config.effort": "low"},
        sent_as("minimal", "low"),
    ),
    (
        "bedrock",
        CLAUDE,
        {"reasoning_effort": "minimal"},
        {"outputConfig.effort": "low"},
        sent_as("minimal", "low"),
    ),
    (
        "ollama",
        "gpt-oss",
        {"reasoning_effort": "xhigh"},
        {"think": "high"},
        sent_as("xhigh", "high"),
    ),
    ("ollama", "m", {"reasoning_effort": "minimal"}, {"think": "low"}, sent_as("minimal", "low")),
    ("ollama", "m", {"reasoning_effort": "none"}, {"think": False}, None),
    *[
        (
            "gemini",
            model,
            {"reasoning_effort": effort},
            {f"generationConfig.thinkingConfig.{name}": sent},
            told,
        )
        for model, effort, name, sent, told in (
            ("gemini-3-pro-preview", "medium", "thinkingLevel", "HIGH", sent_as("medium", "high")),
            ("gemini-3-pro-preview", "none", "thinkingLevel", "LOW", sent_as("none", "low")),
            (
                "gemini-3-flash-preview",
                "none",
                "thinkingLevel",
                "MINIMAL",
                sent_as("none", "minimal"),
            ),
            ("gemini-flash-latest", "xhigh", "thinkingLevel", "HIGH", sent_as("xhigh", "high")),
            ("gemini-2.5-flash", "xhigh", "thinkingBudget", 24_576, sent_as("xhigh", "high")),
            ("gemini-2.5-flash", "minimal", "thinkingBudget", 1024, sent_as("minimal", "low")),
            (
                "gemini-2.5-pro",
                "none",
                "thinkingBudget",
                128,
                "reasoning_effort none: it is sent as 128 tokens",
            ),
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
        {
            "parameters": {"thinking": THINKING},
            "max_tokens": 6_000,
            "tool_choice": "required",
        },
        {"thinking": None},
        FORCED,
    ),
    (
        "bedrock",
        OLD,
        {
            "parameters": ON_BEDROCK,
            "max_tokens": 6_000,
            "tool_choice": {"any": {}},
        },
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
    (
        "anthropic",
        OLD,
        {"parameters": {"thinking": THINKING}, "max_tokens": 6_000},
        {"thinking": THINKING},
        None,
    ),
    (
        "bedrock",
        CLAUDE,
        {"tool_choice": {"tool": {"name": "look"}}},
        {"toolConfig.toolChoice.tool.name": "look"},
        None,
    ),
    (
        "bedrock",
        NOVA,
        {"tool_choice": "look"},
        {"toolConfig.toolChoice": None},
        "tool_choice: it has no form here",
    ),
]
"""A protocol, a model, what is given, what is sent of it, and what is said of it."""


def at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body


@pytest.mark.parametrize(("api", "model", "given", "sent", "named"), CHANGES)
def test_what_is_changed_is_named_before_and_in_the_journal(
    api: str,
    model: str,
    given: Any,
    sent: Any,
    named: str | None,
    serve: Any,
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
    own = {
        "api": api,
        "model": CLAUDE,
        "parameters": {
            "temperature": 1.8,
            "top_p": 1.2,
            "seed": 7,
        },
    }
    assert "top_p above 1: it is sent as 1" in told(serve, own).lost
    [note] = told(serve, own, top_p=0.5).notes
    assert note is not None
    assert "temperature above 1: it is sent as 1" in note
    assert "seed: " in note
    assert "top_p" not in note, "the request's own wins"


def test_a_cap_of_a_backend_above_what_its_model_writes_is_told(serve: Any) -> None:
    most = protocols.backend(
        "anthropic", "http://localhost/v1", model=CLAUDE
    ).capabilities.largest_output
    made = told(
        serve,
        {
            "api": "anthropic",
            "model": CLAUDE,
            "parameters": {"max_tokens": 1_000_000},
        },
    )
    assert made.body["max_tokens"] == most
    named = f"max_tokens above {most}: it is sent as {most}"
    assert made.notes == [f"left out: {named}"]
    assert named in made.lost
