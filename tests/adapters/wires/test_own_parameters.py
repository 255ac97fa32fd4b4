"""What every protocol does with parameters, each of which may be said in its own words or in the
common ones.
"""

import json
from argparse import Namespace
from typing import Any

import pytest

from rungwise import ConfigurationError
from support import official, protocols
from support.protocols import body_of

URL = "http://localhost:1/v1"
SCHEMA = {"type": "object", "properties": {"bird": {"type": "string"}}}
WANTED = {"type": "json_schema", "json_schema": {"name": "bird", "schema": SCHEMA}}

ELSEWHERE: dict[str, list[tuple[dict[str, Any], str]]] = {
    "openai": [
        *(({name: "x"}, name) for name in ("model", "messages", "stream")),
        ({"n": 2}, "'n' above 1"),
    ],
    "responses": [
        ({name: 1}, name)
        for name in ("max_output_tokens", "input", "messages", "model", "stream", "background")
    ],
    "anthropic": [
        ({name: "x"}, f"cannot set '{name}'") for name in ("model", "messages", "system", "stream")
    ],
    "bedrock": [
        *(
            ({name: "x"}, "cannot set")
            for name in ("model", "modelId", "messages", "system", "stream", "maxTokens")
        ),
        ({"toolConfig": "x"}, "cannot set"),
        ({"inferenceConfig": {"maxTokens": 5}}, "cannot set"),
    ],
    "gemini": [
        ({"maxOutputTokens": 5}, "cannot set 'maxOutputTokens': max_tokens is its name"),
        (
            {"generationConfig": {"max_output_tokens": 5}},
            r"\['generationConfig'\] cannot set 'max_output_tokens'",
        ),
        *(({name: 2}, f"cannot set '{name}' above 1") for name in ("candidateCount", "n")),
        ({"generation_config": {"candidate_count": 3}}, "cannot set 'candidate_count' above 1"),
        ({"contents": []}, "cannot set 'contents': give the messages to the call"),
        ({"systemInstruction": "x"}, "cannot set .*give it as a message of role 'system'"),
    ],
    "interactions": [
        *(
            ({name: "x"}, f"cannot set '{name}'")
            for name in ("model", "input", "agent", "background", "previous_interaction_id")
        ),
        ({"max_output_tokens": 5}, "cannot set 'max_output_tokens': max_tokens is its name"),
        (
            {"generation_config": {"max_output_tokens": 5}},
            r"\['generation_config'\] cannot set 'max_output_tokens'",
        ),
        ({"system_instruction": "x"}, "cannot set .*give it as a message of role 'system'"),
        ({"n": 2}, "cannot set 'n' above 1"),
    ],
    "ollama": [
        ({"num_predict": 5}, "max_tokens"),
        ({"options": {"num_predict": 5}}, "max_tokens"),
        ({"options": 5}, "must be a mapping, not int"),
        ({"model": "n"}, "give it to the backend"),
        ({"messages": []}, "give them to the call"),
        ({"stream": True}, "choose the method that streams"),
    ],
}
"""What has a place of its own beside the parameters, and what says so."""


@pytest.mark.parametrize(
    ("api", "given", "says"), [(api, *row) for api, rows in ELSEWHERE.items() for row in rows]
)
def test_what_has_its_own_place_is_refused(api: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        protocols.backend(api, URL, parameters=given)
    assert str(caught.value).startswith("parameters")
    with pytest.raises(ConfigurationError, match=says) as caught:
        body_of(protocols.backend(api, URL), parameters=given)
    assert str(caught.value).startswith("Request.parameters")


JSON: dict[str, list[tuple[dict[str, Any], bool | None]]] = {
    "anthropic": [
        ({"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, True),
        ({"output_config": {"effort": "low"}}, None),
    ],
    "responses": [
        ({"text": {"format": {"type": "json_object"}}}, True),
        ({"text": {"format": {"type": "text"}}}, False),
        ({"text": {"verbosity": "low"}}, None),
    ],
    "gemini": [
        ({"generationConfig": {"responseMimeType": "application/json"}}, True),
        ({"response_mime_type": "text/plain"}, False),
        ({"seed": 1}, None),
    ],
    "interactions": [
        ({"response_format": {"type": "text", "mime_type": "application/json"}}, True),
        ({"response_format": [{"type": "text", "mime_type": "text/plain"}]}, False),
        ({"response_format": {"type": "image"}}, False),
    ],
    "ollama": [({"format": "json"}, True), ({"format": SCHEMA}, True), ({"format": ""}, False)],
}
"""How each says that it wants JSON, in its own words."""
COMMON = [
    ({"response_format": WANTED}, True),
    ({"response_format": {"type": "text"}}, False),
    ({}, None),
]


@pytest.mark.parametrize(
    ("api", "given", "expected"),
    [(api, *row) for api in protocols.PROTOCOLS for row in [*COMMON, *JSON.get(api, [])]],
)
def test_json_is_asked_for_in_either_words(
    api: str, given: dict[str, Any], expected: bool | None
) -> None:
    backend = protocols.backend(api, URL, parameters=given)
    assert backend.shapes.asks_for_json(given) is expected
    assert backend.expects_json is bool(expected)


NAMED = {"type": "function", "function": {"name": "note"}}
TOOL = {
    "type": "function",
    "function": {"name": "note", "parameters": {"type": "object", "properties": {}}},
}
CHOICES: dict[str, list[Any]] = {
    "auto": ["auto", {"type": "auto"}],
    "required": ["required", {"type": "any"}, {"any": {}}],
    "none": ["none", {"type": "none"}],
    "note": [
        NAMED,
        {"type": "function", "name": "note"},
        {"type": "tool", "name": "note"},
        {"tool": {"name": "note"}},
    ],
}
"""Choices of a tool in the forms of all protocols."""
CHOSEN: dict[str, dict[str, Any]] = {
    "openai": {"note": NAMED},
    "responses": {"note": CHOICES["note"][1]},
    "anthropic": {
        **{name: {"type": name} for name in ("auto", "none")},
        "required": {"type": "any"},
    },
    "gemini": {
        "auto": {"mode": "AUTO"},
        "required": {"mode": "ANY"},
        "none": {"mode": "NONE"},
    },
    "bedrock": {
        "auto": {"auto": {}},
        "required": {"any": {}},
        "none": None,
        "note": {"tool": {"name": "note"}},
    },
}
CHOSEN["anthropic"]["note"] = CHOICES["note"][2]
CHOSEN["interactions"] = {
    "required": "any",
    "note": {"allowed_tools": {"mode": "any", "tools": ["note"]}},
}
CHOSEN["gemini"]["note"] = {"mode": "ANY", "allowedFunctionNames": ["note"]}


@pytest.mark.parametrize(
    ("api", "meaning", "choice"),
    [(api, name, each) for api in CHOSEN for name in CHOICES for each in CHOICES[name]],
)
def test_a_choice_of_a_tool_is_sent_in_the_protocols_own_form(
    api: str, meaning: str, choice: Any
) -> None:
    body = body_of(protocols.backend(api, URL), tools=[TOOL], parameters={"tool_choice": choice})
    places = dict.fromkeys(("gemini", "bedrock"), "toolConfig")
    places["interactions"] = "generation_config"
    place = body.get(places.get(api, "tool_choice")) or {}
    said = {
        "gemini": "functionCallingConfig",
        "bedrock": "toolChoice",
        "interactions": "tool_choice",
    }
    assert (place.get(said[api]) if api in said else place) == CHOSEN[api].get(meaning, meaning)
    official.check(api, {**body, "max_tokens": 9} if api == "anthropic" else body)


COMMON_ONES: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 3,
    "stop": "END",
    "reasoning_effort": "low",
    "response_format": WANTED,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
}
MODELS = {
    "responses": "gpt-5",
    "anthropic": "claude-opus-5-5",
    "gemini": "gemini-2.5-flash",
    "interactions": "gemini-2.5-flash",
    "bedrock": "amazon.nova-pro-v1:0",
}
WRITTEN = {"name": "bird", "schema": json.dumps(SCHEMA, separators=(",", ":"))}
SAID: dict[str, dict[str, Any]] = {
    "openai": {**COMMON_ONES, "max_tokens": 50},
    "responses": {
        "temperature": 0.5,
        "top_p": 0.9,
        "reasoning": {"effort": "low"},
        "text": {
            "format": {"type": "json_schema", "name": "bird", "schema": SCHEMA, "strict": False}
        },
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "max_output_tokens": 50,
    },
    "anthropic": {
        "stop_sequences": ["END"],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
        "tool_choice": {"type": "auto"},
        "max_tokens": 50,
    },
    "gemini": {
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "seed": 3,
            "stopSequences": ["END"],
            "thinkingConfig": {"thinkingBudget": 1024},
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
            "maxOutputTokens": 50,
        },
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    },
    "interactions": {
        "generation_config": {
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 3,
            "stop_sequences": ["END"],
            "thinking_level": "low",
            "tool_choice": "auto",
            "max_output_tokens": 50,
        },
        "response_format": {"type": "text", "mime_type": "application/json", "schema": SCHEMA},
    },
    "ollama": {
        "options": {
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 3,
            "stop": ["END"],
            "num_predict": 50,
        },
        "think": "low",
        "format": SCHEMA,
    },
    "bedrock": {
        "inferenceConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": ["END"],
            "maxTokens": 50,
        },
        "outputConfig": {
            "effort": "low",
            "textFormat": {"type": "json_schema", "structure": {"jsonSchema": WRITTEN}},
        },
    },
}
"""What the common parameters are in each protocol, apart from what it does not have."""


@pytest.mark.parametrize("api", SAID)
def test_common_parameters_are_said_in_the_protocols_words(api: str) -> None:
    backend = protocols.backend(api, URL, model=MODELS.get(api, "m"))
    body = body_of(backend, tools=[TOOL], parameters=COMMON_ONES, max_tokens=50)
    official.check(api, body)
    usual = {"model", "messages", "input", "contents", "stream", "store", "include", "tools"}
    usual |= {"toolConfig"} if api == "bedrock" else set()
    assert {name: value for name, value in body.items() if name not in usual} == SAID[api]


@pytest.mark.parametrize("api", SAID)
def test_the_cap_of_a_backend_goes_out_and_that_of_a_call_wins(api: str) -> None:
    backend = protocols.backend(api, URL, parameters={"max_tokens": 30})
    assert backend.max_tokens == 30
    for given, cap in (({}, 30), ({"max_tokens": 5}, 5)):
        request: Any = Namespace(body=body_of(backend, **{"max_tokens": None, **given}))
        assert protocols.cap(request) == cap


REJECTED: dict[str, tuple[dict[str, Any], dict[str, list[str]]]] = {
    "openai": (
        {},
        {
            "temperature": ["temperature"],
            "reasoning_effort": ["reasoning_effort", "thinking"],
            "": ["messages", "absent"],
        },
    ),
    "responses": (
        {"service_tier": "flex", "text": {"verbosity": "low"}},
        {
            "temperature": ["temperature"],
            "effort": ["reasoning_effort", "reasoning"],
            "include": ["include"],
            "store": ["store"],
            "service_tier": ["service_tier"],
            "format": ["response_format"],
            "max_output_tokens": ["max_output_tokens"],
        },
    ),
    "anthropic": (
        {"metadata": {"user_id": "u"}},
        {
            "stop_sequences": ["stop", "stop_sequences"],
            "thinking effort": ["reasoning_effort"],
            "thinking": ["thinking"],
            "effort": ["effort"],
            "metadata": ["metadata"],
            "": ["max_tokens", "messages", "model"],
        },
    ),
    "gemini": (
        {"safetySettings": []},
        {
            "temperature": ["temperature"],
            "topP": ["topP", "top_p"],
            "seed": ["seed"],
            "stopSequences": ["stop", "stopSequences", "stop_sequences"],
            "responseMimeType responseJsonSchema": ["response_format", "responseMimeType"],
            "thinkingConfig": [
                "reasoning_effort",
                "thinkingConfig",
                "thinking_config",
                "Thinking",
                "thinkingLevel",
            ],
            "toolConfig": ["tool_choice", "toolConfig", "tool_config"],
            "safetySettings": ["safetySettings", "safety_settings"],
            "": ["contents", "systemInstruction", "system_instruction", "maxOutputTokens"],
        },
    ),
    "interactions": (
        {"labels": {"a": "b"}, "thinking_summaries": "auto"},
        {
            "temperature": ["temperature", "generation_config.temperature"],
            "stop_sequences": ["stop", "stop_sequences"],
            "thinking_level": ["reasoning_effort", "thinking_level", "Thinking"],
            "thinking_summaries": ["thinking_summaries"],
            "response_format": ["response_format"],
            "tool_choice": ["tool_choice"],
            "labels": ["labels"],
            "": ["input", "system_instruction", "max_output_tokens"],
        },
    ),
    "ollama": (
        {},
        {
            "temperature": ["temperature"],
            "think": ["think", "thinking", "reasoning_effort"],
            "format": ["response_format"],
            "num_predict": ["max_tokens", "num_predict"],
            "": ["options"],
        },
    ),
    "bedrock": (
        {"additionalModelRequestFields": {"top_k": 5}},
        {
            "temperature": ["temperature"],
            "topP": ["top_p", "topP"],
            "stopSequences": ["stop", "stopSequences"],
            "top_k": ["top_k"],
            "maxTokens": ["max_tokens"],
        },
    ),
}
"""Parameters of a protocol's own, and what is left out where a name is rejected."""


def flat(value: Any, path: str = "") -> dict[str, str]:
    """Return the members of an object by their paths."""
    if not isinstance(value, dict) or not value:
        return {path: repr(value)}
    found = {}
    for name, inner in value.items():
        found |= flat(inner, f"{path} {name}")
    return found


@pytest.mark.parametrize(
    ("api", "gone", "name"),
    [
        (api, gone, name)
        for api, (_, rows) in REJECTED.items()
        for gone, names in rows.items()
        for name in names
    ],
)
def test_what_a_provider_has_rejected_is_left_out_under_any_name_and_nothing_else(
    api: str, gone: str, name: str
) -> None:
    own, _ = REJECTED[api]
    backend = protocols.backend(api, URL, model=MODELS.get(api, "m"))
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    asked = {"tools": [TOOL], "parameters": {**COMMON_ONES, **own}, "max_tokens": 50}
    whole = flat(body_of(backend, *messages, **asked))
    body = body_of(backend, *messages, **asked, dropped=frozenset({name}))
    official.check(api, body)
    left = flat(body)
    assert left.items() <= whole.items()
    assert whole.keys() - left.keys() == {
        path for path in whole if {*path.split()} & {*gone.split()}
    }
