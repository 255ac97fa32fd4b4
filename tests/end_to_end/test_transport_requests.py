"""Requests over `rungwise.Transport`: a backend of the same protocol gets them as written, any
other translated.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from rungwise.testing import ReceivedRequest, ScriptedReply
from support import official, protocols, sdks
from support.gateways import OWN, TOOLS, chained, post, posted, written
from support.protocols import PROTOCOLS
from support.runs import Stage, Stages
from support.sdks import APIS

ANSWER: Final = ScriptedReply("In the reeds.")
SHARED: Final[Mapping[str, dict[str, Any]]] = {
    "openai": {
        "temperature": 0.5,
        "top_p": 0.6,
        "stop": ["END"],
        "max_tokens": 77,
        "reasoning_effort": "low",
        "tools": TOOLS["openai"],
        "tool_choice": "required",
    },
    "responses": {
        "temperature": 0.5,
        "top_p": 0.6,
        "max_output_tokens": 77,
        "reasoning": {"effort": "low"},
        "tools": TOOLS["responses"],
        "tool_choice": "required",
    },
    "anthropic": {
        "temperature": 0.5,
        "top_p": 0.6,
        "stop_sequences": ["END"],
        "max_tokens": 77,
        "tools": TOOLS["anthropic"],
        "tool_choice": {"type": "any"},
        "output_config": {"effort": "low"},
    },
    "gemini": {
        "tools": OWN["gemini"]["tools"],
        "toolConfig": OWN["gemini"]["toolConfig"],
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.6,
            "stopSequences": ["END"],
            "maxOutputTokens": 77,
            "thinkingConfig": {"thinkingLevel": "LOW"},
        },
    },
    "interactions": {
        "tools": OWN["interactions"]["tools"],
        "generation_config": {
            "temperature": 0.5,
            "top_p": 0.6,
            "stop_sequences": ["END"],
            "max_output_tokens": 77,
            "thinking_level": "low",
            "tool_choice": "any",
        },
    },
}
"""What each protocol can say in every other."""
CALLS: Final = ScriptedReply(tool_calls=({"name": "look", "arguments": '{"bird": "heron"}'},))
PLACES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "openai": {
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        "stop": ("stop",),
        "choice": ("tool_choice",),
    },
    "responses": {
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        "choice": ("tool_choice",),
    },
    "anthropic": {
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        "stop": ("stop_sequences",),
        "choice": ("tool_choice",),
    },
    "gemini": {
        "temperature": ("generationConfig", "temperature"),
        "top_p": ("generationConfig", "topP"),
        "stop": ("generationConfig", "stopSequences"),
        "choice": ("toolConfig", "functionCallingConfig", "mode"),
    },
    "interactions": {
        "temperature": ("generation_config", "temperature"),
        "top_p": ("generation_config", "top_p"),
        "stop": ("generation_config", "stop_sequences"),
        "choice": ("generation_config", "tool_choice"),
    },
    "ollama": {
        "temperature": ("options", "temperature"),
        "top_p": ("options", "top_p"),
        "stop": ("options", "stop"),
    },
    "bedrock": {
        "temperature": ("inferenceConfig", "temperature"),
        "top_p": ("inferenceConfig", "topP"),
        "stop": ("inferenceConfig", "stopSequences"),
        "choice": ("toolConfig", "toolChoice"),
    },
}
CHOICES: Final = {
    "openai": "required",
    "responses": "required",
    "gemini": "ANY",
    "interactions": "any",
    "bedrock": {"any": {}},
}


every = pytest.mark.parametrize("api", APIS)
few = pytest.mark.sampled(8)
everywhere = pytest.mark.parametrize("backend", PROTOCOLS)


def at(body: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        body = body[name]
    return body


def one(stage: Stage) -> ReceivedRequest:
    [request] = stage.requests
    return request


def holds(sent: Any, wanted: Any) -> bool:
    """Tell whether what was sent has all that was wanted, at any depth."""
    if isinstance(wanted, Mapping) and isinstance(sent, Mapping):
        return all(name in sent and holds(sent[name], each) for name, each in wanted.items())
    if isinstance(wanted, list) and isinstance(sent, list):
        return len(sent) == len(wanted) and all(map(holds, sent, wanted))
    return bool(sent == wanted)


@few
@pytest.mark.parametrize("streams", [False, True])
@every
def test_a_backend_of_the_same_protocol_gets_every_field_as_written(
    api: str, streams: bool, stages: Stages
) -> None:
    response = posted(stages, (api, [CALLS]), api, written(api, **OWN[api]), streams=streams)
    assert response.status_code == 200, response.text
    assert response.headers.get("x-rungwise-outcome") == (None if streams else "done")
    sent = one(stages[0]).body
    wanted = dict(OWN[api])
    if api == "anthropic":  # the system prompt may be written as blocks
        assert protocols.said(one(stages[0]))[-1].text == sdks.QUESTION
        assert "Be short." in json.dumps(sent["system"])
        wanted.pop("system")
    assert {name: each for name, each in wanted.items() if not holds(sent.get(name), each)} == {}


@everywhere
@every
def test_a_backend_of_another_protocol_gets_what_both_can_say(
    api: str, backend: str, stages: Stages
) -> None:
    response = posted(stages, (backend, [CALLS]), api, written(api, **SHARED[api]))
    assert response.status_code == 200, response.text
    request = one(stages[0])
    # the SDK has another idea
    newer = {"anthropic": ("temperature", "top_p"), "ollama": ("tools",)}.get(backend, ())
    official.check(
        backend, {name: each for name, each in request.body.items() if name not in newer}
    )
    wanted = {
        "temperature": 0.5,
        "top_p": 0.6,
        "stop": ["END"],
        "choice": CHOICES.get(backend, {"type": "any"}),
    }
    if api == "responses":
        wanted.pop("stop")
    places = PLACES[backend]
    assert {name: at(request.body, places[name]) for name in wanted if name in places} == {
        name: each for name, each in wanted.items() if name in places
    }
    assert protocols.cap(request) == 77
    assert protocols.said(request)[-1].text == sdks.QUESTION
    assert "look" in json.dumps(request.body)
    assert protocols.model_of(request) == "model-0"


@pytest.mark.sampled(2)
@everywhere
@every
def test_a_system_prompt_and_earlier_turns_go_along(api: str, backend: str, stages: Stages) -> None:
    turns: list[Any] = [("user", "Hello."), ("assistant", "Hello to you."), ("user", sdks.QUESTION)]
    told = [{"role": role, "content": text} for role, text in turns]
    body: dict[str, Any] = written(api)
    if api == "openai":
        body["messages"] = [{"role": "system", "content": "Be short."}, *told]
    elif api == "responses":
        body |= {"instructions": "Be short.", "input": told}
    elif api == "anthropic":
        body |= {"system": [{"type": "text", "text": "Be short."}], "messages": told}
    elif api == "interactions":
        steps = []
        for role, text in turns:
            kind = "user_input" if role == "user" else "model_output"
            steps.append({"type": kind, "content": [{"type": "text", "text": text}]})
        body |= {"system_instruction": "Be short.", "input": steps}
    else:
        contents = [
            {"role": role.replace("assistant", "model"), "parts": [{"text": text}]}
            for role, text in turns
        ]
        body |= {"system_instruction": {"parts": [{"text": "Be short."}]}, "contents": contents}
    response = posted(stages, (backend, [ANSWER]), api, body)
    assert response.status_code == 200, response.text
    request = one(stages[0])
    official.check(backend, request.body)
    said = [(one.role, one.text) for one in protocols.said(request) if one.role != "system"]
    assert said == [(role, text) for role, text in turns]
    assert "Be short." in json.dumps(request.body)


def test_a_backend_of_the_same_protocol_gets_what_does_not_go_with_thinking(
    stages: Stages,
) -> None:
    fields = {
        "top_k": 5,
        "temperature": 0.5,
        "output_config": {"effort": "low"},
    }
    with chained(stages, ("anthropic", [ANSWER])) as transport:
        assert post(transport, "anthropic", written("anthropic", **fields)).status_code == 200
    sent = one(stages[0]).body
    assert (sent["top_k"], sent["temperature"]) == (5, 0.5)


@everywhere
@every
def test_pictures_go_along(api: str, backend: str, stages: Stages) -> None:
    data = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAA"
        "BJRU5ErkJggg=="
    )
    url = f"data:image/png;base64,{data}"
    source = {"type": "base64", "media_type": "image/png", "data": data}
    parts: dict[str, list[Any]] = {
        "openai": [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": url}},
        ],
        "responses": [
            {"type": "input_text", "text": "What is it?"},
            {"type": "input_image", "image_url": url},
        ],
        "anthropic": [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}],
        "gemini": [
            {"text": "What is it?"},
            {"inlineData": {"mimeType": "image/png", "data": data}},
        ],
        "interactions": [
            {"type": "text", "text": "What is it?"},
            {"type": "image", "mime_type": "image/png", "data": data},
        ],
    }
    turn = {"role": "user", "parts" if api == "gemini" else "content": parts[api]}
    if api == "interactions":
        turn = {"type": "user_input", "content": parts[api]}
    names = {"responses": "input", "gemini": "contents", "interactions": "input"}
    response = posted(
        stages, (backend, [ANSWER]), api, {**written(api), names.get(api, "messages"): [turn]}
    )
    assert response.status_code == 200, response.text
    assert data in json.dumps(one(stages[0]).body)
    official.check(backend, one(stages[0]).body)


@few
@pytest.mark.parametrize(
    ("api", "fields"),
    [
        (
            "openai",
            {
                "n": 1,
                "logprobs": False,
                "store": False,
                "user": None,
                "functions": None,
                "stream": False,
            },
        ),
        (
            "openai",
            {
                "frequency_penalty": 0,
                "presence_penalty": 0.0,
                "logit_bias": {},
                "modalities": ["text"],
            },
        ),
        (
            "openai",
            {
                "response_format": {"type": "text"},
                "stream_options": None,
                "metadata": {"a": "b"},
            },
        ),
        (
            "responses",
            {
                "background": False,
                "truncation": "disabled",
                "top_logprobs": 0,
                "metadata": {},
                "store": True,
            },
        ),
        (
            "responses",
            {"include": ["reasoning.encrypted_content"], "text": {"format": {"type": "text"}}},
        ),
        (
            "responses",
            {
                "include": [],
                "previous_response_id": None,
                "reasoning": {"summary": "auto"},
            },
        ),
        (
            "anthropic",
            {
                "thinking": {"type": "disabled"},
                "metadata": {"user_id": "u"},
                "service_tier": "auto",
            },
        ),
        ("anthropic", {"cache_control": {"type": "ephemeral"}, "output_config": {"format": None}}),
        (
            "gemini",
            {
                "generationConfig": {"candidateCount": 1, "responseModalities": ["TEXT"]},
                "labels": {"a": "b"},
            },
        ),
        (
            "interactions",
            {
                "store": True,
                "background": False,
                "response_format": {"type": "text", "mime_type": "text/plain"},
                "response_modalities": ["text"],
                "labels": {},
            },
        ),
        (
            "gemini",
            {
                "generation_config": {"top_p": 1, "response_mime_type": "text/plain"},
                "cachedContent": None,
            },
        ),
    ],
)
def test_what_asks_for_nothing_goes_to_any_backend(api: str, fields: Any, stages: Stages) -> None:
    other = "anthropic" if api != "anthropic" else "gemini"
    response = posted(stages, (other, [ANSWER]), api, written(api, **fields))
    assert (response.status_code, response.headers.get("x-rungwise-outcome")) == (200, "done"), (
        response.text
    )


@pytest.mark.parametrize("other", PROTOCOLS)
@every
def test_a_fallback_of_another_protocol_gets_only_what_its_own_has_a_form_for(
    api: str, other: str, stages: Stages
) -> None:
    if api == other:
        return
    with chained(stages, (api, [ScriptedReply(status=401)]), (other, [CALLS])) as transport:
        response = post(transport, api, written(api, **OWN[api]))
    assert (response.status_code, response.headers["x-rungwise-backend"]) == (200, "second"), (
        response.text
    )
    sent = {name: each for name, each in one(stages[1]).body.items() if name != "tools"}
    # servers take these, and the client has no name for them
    sent.get("options", {}).pop("min_p", None)
    unknown = {"anthropic": ("temperature", "top_p", "top_k"), "openai": ("top_k",)}.get(other, ())
    official.check(other, {name: each for name, each in sent.items() if name not in unknown})
    assert (
        not {"labels", "safetySettings", "safety_settings", "logit_bias", "prediction", "speed"}
        & sent.keys()
    )
    if {api, other} != {"openai", "responses"}:  # which mean the same by these
        assert not {"user", "verbosity", "prompt_cache_key", "truncation"} & sent.keys()
        assert sent.get("metadata") in (None, {"user_id": "s"})


@few
@every
def test_only_headers_of_tracing_and_betas_go_along(api: str, stages: Stages) -> None:
    own = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "anthropic-beta": "a-beta",
    }
    more = {"cookie": "a=b", "x-of-mine": "c", "openai-organization": "d"}
    with chained(stages, (api, [ANSWER])) as transport:
        post(transport, api, written(api), headers={**own, **more})
    sent = one(stages[0]).headers
    assert {name: sent.get(name) for name in own} == own
    assert not more.keys() & sent.keys()


FORCED: Final = ({"type": "function", "function": {"name": "look"}}, "required")


@few
@pytest.mark.parametrize(
    ("api", "fields", "member", "sent"),
    [
        *[
            (
                "anthropic",
                {"thinking": {"type": "enabled", "budget_tokens": budget}},
                "reasoning_effort",
                effort,
            )
            for budget, effort in ((1_024, "low"), (10_000, "medium"), (30_000, "high"))
        ],
        ("anthropic", {"thinking": {"type": "adaptive"}}, "reasoning_effort", None),
        *[
            (
                "gemini",
                {"tools": OWN["gemini"]["tools"], "toolConfig": {"functionCallingConfig": calling}},
                "tool_choice",
                choice,
            )
            for calling, choice in (
                ({"mode": "AUTO"}, "auto"),
                ({"mode": "NONE"}, "none"),
                ({"mode": "ANY"}, "required"),
                ({"mode": "ANY", "allowedFunctionNames": ["look"]}, FORCED[0]),
            )
        ],
    ],
)
def test_budgets_of_thinking_and_modes_of_calling_have_other_words_elsewhere(
    api: str, fields: Any, member: str, sent: Any, stages: Stages
) -> None:
    script = [CALLS if sent in FORCED else ANSWER]
    response = posted(stages, ("openai", script), api, written(api, **fields))
    assert response.status_code == 200, response.text
    assert one(stages[0]).body.get(member) == sent
