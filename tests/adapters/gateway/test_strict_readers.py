"""Strict readers take what the encoders write: the types of the official SDKs, without leniency.

An SDK builds its objects without checking them, so it hides a member that is missing or null where
it must not be. Programs in other languages check.
"""

import json
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final

import pytest
from attrs import evolve
from pydantic import TypeAdapter

from rungwise.adapters.gateway.gateway import SPOKEN
from rungwise.adapters.gateway.languages.language import AnswerRequest, Completion
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.usage import Usage

LANGUAGES: Final = {each.api: each for each in SPOKEN}
TYPES: Final = {
    "openai": ("openai.types.chat", "ChatCompletion", "ChatCompletionChunk"),
    "responses": ("openai.types.responses", "Response", "ResponseStreamEvent"),
    "anthropic": ("anthropic.types", "Message", "RawMessageStreamEvent"),
    "gemini": ("google.genai.types", "GenerateContentResponse", "GenerateContentResponse"),
    "interactions": ("google.genai.interactions", "Interaction", "InteractionSSEEvent"),
}
"""Where an SDK has its types; what a whole answer is, and an event of a stream."""
MODELS: Final = {"interactions": "gemini-3.8-flash"}
"""The models of SDKs that read strictly none but those that they know."""
CALL: Final = ToolCall("call_1", "look", '{"bird": "heron"}')
ANSWERS: Final = {
    "text": Completion(text="In the reeds."),
    "nothing": Completion(),
    "thought": Completion(text="In the reeds.", reasoning="Let me see."),
    "signed": Completion(text="In the reeds.", reasoning="Let me see.", signature="c2ln"),
    "call": Completion(tool_calls=(CALL,)),
    "all": Completion(
        text="I look.", reasoning="Hm.", commentary="So.", tool_calls=(CALL, evolve(CALL, id="b"))
    ),
    "cut": Completion(text="In the", finish="length"),
    "refused": Completion(refusal="I will not."),
    "filtered": Completion(text="In", finish="content_filter"),
}
USAGES: Final = {
    "none": Usage(),
    "cached": Usage(input_tokens=9, output_tokens=5, reasoning_tokens=2, cache_read_tokens=3),
    "long": Usage(input_tokens=9, cache_creation_tokens=5, cache_creation_long_tokens=3),
    "billed": Usage(input_tokens=9, output_tokens=5, cost=0.5, units={"web_search": 2}),
}
BODY: Final[dict[str, Any]] = {
    "stream_options": {"include_usage": True},
    "include": ["reasoning.encrypted_content"],
}

every = pytest.mark.parametrize("api", TYPES)
each_answer = pytest.mark.parametrize("answer", ANSWERS)
each_usage = pytest.mark.parametrize("usage", USAGES)


def parts(api: str, answer: str, usage: str) -> tuple[Any, Completion, AnswerRequest]:
    """Return a protocol, an answer, and the request that it is for."""
    language = LANGUAGES[api]
    counts = language.counts(USAGES[usage])
    request = AnswerRequest("asked-for", False, BODY, 7)
    model = MODELS.get(api, "model-0")
    return language, evolve(ANSWERS[answer], usage=counts, model=model), request


def whole(api: str, answer: str, usage: str = "cached") -> Any:
    """Return a whole answer."""
    language, completion, request = parts(api, answer, usage)
    return json.loads(language.whole(completion, request))


def events(api: str, answer: str, usage: str = "cached") -> Iterator[Any]:
    """Yield the events of a stream that have data."""
    language, completion, request = parts(api, answer, usage)
    for line in b"".join(language.events(completion, request)).splitlines():
        if line.startswith(b"data: {"):
            event = json.loads(line.removeprefix(b"data: "))
            if event.get("type") != "ping":  # the SDK's types leave it out
                yield event


@cache
def reader(api: str, *, streams: bool) -> TypeAdapter[Any]:
    """Return the SDK's reader of whole answers, or of events. An SDK is imported by the first test
    that reads with it, for it takes seconds.
    """
    module, answer, event = TYPES[api]
    return TypeAdapter(getattr(import_module(module), event if streams else answer))


def nulls(value: Any, name: str = "") -> Iterator[str]:
    """Yield the names of members that are null, at any depth."""
    if isinstance(value, dict):
        for member, each in value.items():
            yield from nulls(each, member)
    elif isinstance(value, list):
        for each in value:
            yield from nulls(each, name)
    elif value is None:
        yield name


@each_usage
@each_answer
@every
def test_the_official_types_take_a_whole_answer(api: str, answer: str, usage: str) -> None:
    text = json.dumps(whole(api, answer, usage))
    reader(api, streams=False).validate_json(text, strict=True)


@each_usage
@each_answer
@every
def test_and_every_event_of_a_stream(api: str, answer: str, usage: str) -> None:
    seen = list(events(api, answer, usage))
    assert seen
    for event in seen:
        reader(api, streams=True).validate_json(json.dumps(event), strict=True)


NULLS: Final = {
    "openai": {"refusal", "logprobs", "content", "finish_reason", "usage"},
    "anthropic": {"stop_reason", "stop_sequence", "stop_details", "category", "explanation"},
    "gemini": set(),
    "interactions": set(),
    "responses": {
        "status",
        "error",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "previous_response_id",
        "effort",
        "summary",
        "usage",
    },
}
"""The members that the providers themselves write as null; they leave out any other."""


@each_answer
@every
def test_nothing_is_null_that_the_provider_leaves_out(api: str, answer: str) -> None:
    """Vercel's reader refuses `citations: null`, though the types of Anthropic's SDK take it."""
    written = [whole(api, answer), *events(api, answer)]
    assert {*nulls(written)} <= NULLS[api]


@each_answer
def test_a_chat_completion_has_what_openais_schema_requires(answer: str) -> None:
    [choice] = whole("openai", answer)["choices"]
    assert choice.keys() == {"index", "message", "logprobs", "finish_reason"}
    assert choice["message"].keys() >= {"role", "content", "refusal"}
