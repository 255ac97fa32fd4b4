"""A repair that would change nothing is not sent: a second request equals no one that was just
rejected.
"""

from collections.abc import Mapping
from typing import Any

import pytest

import rungwise
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.protocols import PROTOCOLS, backend

WELL = ScriptedReply(text="They nest in reeds.")


def rejecting(name: str) -> ScriptedReply:
    """Reject a parameter, as most servers do."""
    return ScriptedReply(
        status=400,
        error={
            "message": f"Unsupported parameter: '{name}' is not supported with this model.",
            "type": "invalid_request_error",
            "param": name,
            "code": "unsupported_parameter",
        },
    )


def asked(
    api: str, replies: list[ScriptedReply], *, streams: bool = False, **options: Any
) -> tuple[rungwise.Result, list[Mapping[str, Any]]]:
    """Ask a backend that has a fallback, and return the result with the bodies that it got."""
    with (
        EmbeddedProvider(Script(replies), sleep=lambda _: None) as first,
        EmbeddedProvider(Script([WELL]), sleep=lambda _: None) as second,
    ):
        chain = [
            backend(api, first.base_url, learns=False),
            backend("openai", second.base_url, name="second"),
        ]
        with rungwise.Client(chain, health=None) as client:
            if streams:
                with client.stream("Where do herons nest?", **options) as stream:
                    for _ in stream:
                        pass
                    result = stream.result
            else:
                result = client.call("Where do herons nest?", **options)
        return result, [request.body for request in first.requests]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ["temperature", "seed", "reasoning.effort", "no_such_thing"])
@pytest.mark.parametrize("api", PROTOCOLS)
def test_a_parameter_that_was_not_sent_is_not_left_out(api: str, name: str, streams: bool) -> None:
    result, bodies = asked(api, [rejecting(name), WELL], streams=streams)
    assert len(bodies) == 1
    assert result.backend == "second"


@pytest.mark.parametrize("api", PROTOCOLS)
def test_one_that_was_sent_is_left_out(api: str) -> None:
    result, bodies = asked(api, [rejecting("temperature"), WELL], parameters={"temperature": 0.5})
    assert result.backend == "primary"
    assert ["temperature" in str(body) for body in bodies] == [True, False]


@pytest.mark.parametrize("api", PROTOCOLS)
def test_none_is_left_out_twice(api: str) -> None:
    given = {"temperature": 0.5, "top_p": 0.5}
    result, bodies = asked(api, [rejecting("temperature")] * 3, parameters=given)
    assert len(bodies) == 2
    assert result.backend == "second"


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("reasoning_signature", "messages.1.content.0: Invalid `signature` in `thinking` block"),
        ("prefill_unsupported", "This model does not support assistant message prefill."),
    ],
)
@pytest.mark.parametrize("api", PROTOCOLS)
def test_what_was_not_in_the_conversation_is_not_taken_out_of_it(
    api: str, reason: str, message: str
) -> None:
    rejection = ScriptedReply(
        status=400, error={"message": message, "type": "invalid_request_error"}
    )
    result, bodies = asked(api, [rejection, WELL])
    assert len(bodies) == 1
    assert [step.reason for step in result.journal.steps if step.reason] == [reason]
    assert result.backend == "second"


def test_a_cap_that_is_smaller_than_what_there_is_room_for_is_not_lowered() -> None:
    room = "This model's maximum context length is 4096 tokens and your request has 96 input tokens"
    rejection = ScriptedReply(
        status=400, error={"message": room, "type": "invalid_request_error", "param": "max_tokens"}
    )
    for cap, requests in ((1000, 1), (3990, 2)):
        result, bodies = asked("openai", [rejection, WELL], max_tokens=cap)
        assert len(bodies) == requests
        assert result.backend == ("second" if requests == 1 else "primary")


MEMBERS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "reasoning.effort": (
        "responses",
        {"reasoning": {"effort": "high", "summary": "auto"}},
        {"summary": "auto"},
    ),
    "reasoning.summary": (
        "responses",
        {"reasoning": {"effort": "high", "summary": "auto"}},
        {"effort": "high"},
    ),
    "reasoning_effort": (
        "responses",
        {"reasoning": {"effort": "high", "summary": "auto"}},
        {"summary": "auto"},
    ),
    "text.verbosity": (
        "responses",
        {"text": {"verbosity": "low", "format": {"type": "text"}}},
        {"format": {"type": "text"}},
    ),
    "provider.order": (
        "openai",
        {"provider": {"order": ["a"], "zdr": True}},
        {"zdr": True},
    ),
    "metadata.trace": ("openai", {"metadata": {"trace": "7"}}, None),
    "stop[0]": ("openai", {"stop": ["End"]}, None),
    "thinking.budget_tokens": (
        "anthropic",
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        None,
    ),
    "output_config.effort": (
        "anthropic",
        {"output_config": {"effort": "high", "task_budget": 9}},
        {"task_budget": 9},
    ),
    "generationConfig.thinkingConfig.thinkingLevel": (
        "gemini",
        {"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}},
        {"includeThoughts": True},
    ),
    "options.top_k": ("ollama", {"options": {"top_k": 3, "seed": 1}}, {"seed": 1}),
    "inferenceConfig.topP": (
        "bedrock",
        {"inferenceConfig": {"topP": 0.5, "temperature": 1}},
        {"temperature": 1},
    ),
}
"""A rejected name, with its protocol, what is sent, and what is left of that in the repair."""


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_is_left_out_alone(name: str) -> None:
    api, given, left = MEMBERS[name]
    result, bodies = asked(api, [rejecting(name), WELL], parameters=given, max_tokens=4000)
    assert (result.backend, len(bodies)) == ("primary", 2)
    [place] = given
    first, second = (body.get("generationConfig", {}) | body for body in bodies)
    assert first[place].items() >= given[place].items() if api != "openai" else first[place]
    kept = second.get(place)
    if kept is not None:
        kept = {key: value for key, value in kept.items() if key in given[place]}
    assert (kept or None) == left
