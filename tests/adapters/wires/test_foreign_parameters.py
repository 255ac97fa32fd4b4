"""Every parameter that the newest official clients declare, at a backend of every protocol: it is
sent in that protocol's own words, or it is named as left out.
"""

import inspect
import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

import pytest

from rungwise.adapters.check import check_request
from rungwise.adapters.wires.plain.parameters import known_parameters
from rungwise.core import Call, Request
from support import protocols
from support.protocols import PROTOCOLS

_CONVERSATION: Final = """
    betas contents extra_body extra_headers extra_query http_options input instructions
    max_completion_tokens max_output_tokens max_tokens maxOutputTokens messages model modelId
    num_predict self stream stream_options system systemInstruction system_instruction timeout
    toolConfig tool_config tools generationConfig options inferenceConfig functions function_call
    automatic_continuation automatic_function_calling should_return_http_response n
    candidateCount candidate_count background background_options prompt previous_interaction_id
    continuation_token
"""
CONVERSATION: Final = frozenset(_CONVERSATION.split())
"""What is no parameter but the conversation, its tools, the cap, the client's own, or refused."""

_COMMON: Final = (
    "temperature top_p stop seed response_format reasoning_effort tool_choice parallel_tool_calls"
    " stop_sequences topP stopSequences"
)
COMMON: Final = frozenset(_COMMON.split())
"""What has tests of its own."""


@cache
def declared(api: str) -> frozenset[str]:
    """Return the parameters that a protocol's official client declares."""
    names: set[str] = set()
    if api == "openai":
        params = import_module("openai.types.chat.completion_create_params")
        names |= params.CompletionCreateParamsBase.__annotations__.keys()
    elif api == "responses":
        params = import_module("openai.types.responses.response_create_params")
        names |= params.ResponseCreateParamsBase.__annotations__.keys()
    elif api == "anthropic":
        for module in ("anthropic.types", "anthropic.types.beta"):
            params = import_module(f"{module}.message_create_params")
            names |= params.MessageCreateParamsBase.__annotations__.keys()
        names.add("top_k")  # of the version before
    elif api == "gemini":
        types = import_module("google.genai.types")
        for name, field in types.GenerationConfig.model_fields.items():
            names.add(field.alias or name)
        names |= {"cachedContent", "labels", "safetySettings", "serviceTier", "continuationToken"}
        names |= {"store", "modelArmorConfig", "outputConfig", "modelConfig"}  # [models.py]
    elif api == "interactions":
        types = import_module("google.genai.interactions")
        names |= types.CreateModelInteractionParam.__annotations__.keys()
        names |= types.GenerationConfigParam.__annotations__.keys()
    elif api == "ollama":
        client = import_module("ollama")
        names |= inspect.signature(client.Client.chat).parameters.keys()
        names |= client.Options.model_fields.keys()
    else:
        session = import_module("botocore.session").get_session()
        operation = session.get_service_model("bedrock-runtime").operation_model("Converse")
        names |= operation.input_shape.members.keys()
    return frozenset(names - CONVERSATION)


VALUES: Final[Mapping[str, Any]] = {
    "additionalModelRequestFields": {"top_k": 7919},
    "context_management": {"edits": [{"type": "x7919"}]},
    "generationConfig": {"topK": 7919},
    "generation_config": {"thinking_level": "low"},
    "include": ["x7919"],
    "labels": {"a": "x7919"},
    "logprobs": True,
    "metadata": {"user_id": "x7919"},
    "modalities": ["text", "x7919"],
    "outputConfig": {"effort": "low"},
    "output_config": {"effort": "low"},
    "reasoning": {"effort": "low"},
    "requestMetadata": {"a": "x7919"},
    "responseModalities": ["TEXT", "X7919"],
    "response_modalities": ["text"],
    "serviceTier": {"type": "flex"},
    "service_tier": "flex",
    "text": {"verbosity": "low"},
    "think": "high",
    "thinking_level": "low",
    "thinking": {"type": "adaptive"},
    "top_k": 5,
    "user_profile_id": "u7919",
}


def value_for(api: str, name: str) -> Any:
    if api == "gemini" and name == "serviceTier":
        return "FLEX"
    if api == "gemini" and name == "outputConfig":
        return {"a": "x7919"}
    if api == "anthropic" and name == "service_tier":
        return "standard_only"
    if api == "gemini" and name == "logprobs":
        return 3
    if api == "responses" and name == "context_management":
        return [{"type": "compaction"}]
    return VALUES.get(name, "x7919")


MODELS: Final = {
    "gemini": "gemini-3-pro",
    "interactions": "gemini-3-pro",
    "bedrock": "anthropic.claude-sonnet-4-5",
    "anthropic": "claude-sonnet-4-5",
}


@cache
def backend(api: str, name: str = "one") -> Any:
    url = "https://api.openai.com/v1" if api in ("openai", "responses") else "http://localhost/v1"
    return protocols.backend(api, url, model=MODELS.get(api, "m"), name=name)


def body_of(request: Request, first: Any) -> dict[str, Any]:
    send = Call(request, chain=(first,)).begin()
    assert send is not None
    return json.loads(first.encode(send, stream=False).body)  # type: ignore[no-any-return]


@cache
def plain_body(api: str) -> Mapping[str, Any]:
    return body_of(Request("x"), backend(api))


def sent_and_lost(request: Request, api: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the parameters that a backend is sent, and what the check says it loses."""
    body = body_of(request, backend(api))
    losses = check_request(request, (backend(api),)).backends[0].losses
    for name, value in plain_body(api).items():
        if isinstance(value, dict) and isinstance(body.get(name), dict):
            body[name] = {each: v for each, v in body[name].items() if each not in value}
        if body.get(name) in (value, {}):
            del body[name]
    return body, losses


PAIRS: Final = [(api, other) for api in PROTOCOLS for other in PROTOCOLS]


def is_declared(api: str, name: str) -> bool:
    """Tell whether a member of a body is one of the protocol's."""
    return name in known_parameters(api) | CONVERSATION | COMMON


@pytest.mark.parametrize("api", PROTOCOLS)
def test_each_protocol_declares_what_its_client_does(api: str) -> None:
    pytest.importorskip(
        {
            "responses": "openai",
            "gemini": "google.genai",
            "interactions": "google.genai",
            "bedrock": "botocore",
        }.get(api, api)
    )
    assert declared(api) - known_parameters(api) - COMMON == set()


@pytest.mark.parametrize(("api", "other"), PAIRS)
def test_a_parameter_is_sent_in_the_protocols_words_or_named(api: str, other: str) -> None:
    """In a chain that lacks the protocol that it comes from."""
    for name in sorted(declared(api) - COMMON):
        value = value_for(api, name)
        sent, losses = sent_and_lost(Request("x", parameters={name: value}), other)
        assert [each for each in sent if not is_declared(other, each)] == [], name
        said = [each for each in losses if each.startswith((name, f"{name}."))]
        assert bool(sent) != bool(said), (name, sent, losses)
        if api == other:
            assert said == [], name


@pytest.mark.parametrize("api", PROTOCOLS)
def test_a_parameter_reaches_its_own_protocol_behind_a_server_that_does_not_take_it(
    api: str,
) -> None:
    """Though other servers of the first one's protocol know the name, too."""
    first = backend("openai")
    for name in sorted(declared(api) - COMMON - first.known_parameters):
        request = Request("x", parameters={name: value_for(api, name)})
        losses = check_request(request, (first, backend(api, "two"))).backends[1].losses
        assert [each for each in losses if each.startswith(name)] == [], name


def test_what_ollama_is_to_think_is_an_effort_elsewhere() -> None:
    sent, losses = sent_and_lost(Request("x", parameters={"think": "high"}), "openai")
    assert (sent, losses) == ({"reasoning_effort": "high"}, ())
    sent, losses = sent_and_lost(Request("x", parameters={"think": True}), "openai")
    assert (sent, [each.partition(":")[0] for each in losses]) == ({}, ["think"])
