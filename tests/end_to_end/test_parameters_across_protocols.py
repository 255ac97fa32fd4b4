"""What a parameter of one protocol becomes in another, as it was sent and as it was named."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from rungwise import Client
from rungwise.testing import ScriptedReply
from support import protocols
from support.gateways import chained, post, posted, written
from support.runs import Stages
from support.told import told

CLAUDE: Final = "claude-sonnet-4-5"
LOGPROBS: Final = ["message.output_text.logprobs"]

FORMS: Final[list[tuple[dict[str, Any], Mapping[str, Any]]]] = [
    (
        {"verbosity": "low"},
        {"openai.verbosity": "low", "responses.text.verbosity": "low"},
    ),
    (
        {"text": {"verbosity": "high"}},
        {"openai.verbosity": "high", "responses.text.verbosity": "high"},
    ),
    (
        {"top_k": 7},
        {
            "anthropic.top_k": 7,
            "gemini.generationConfig.topK": 7,
            "ollama.options.top_k": 7,
            "bedrock.additionalModelRequestFields.top_k": 7,
            "openai.top_k": 7,
        },
    ),
    (
        {"topK": 7},
        {
            "anthropic.top_k": 7,
            "gemini.generationConfig.topK": 7,
            "ollama.options.top_k": 7,
            "bedrock.additionalModelRequestFields.top_k": 7,
            "openai.top_k": 7,
        },
    ),
    (
        {"safety_identifier": "u7"},
        {
            "openai.safety_identifier": "u7",
            "responses.safety_identifier": "u7",
            "anthropic.metadata.user_id": "u7",
        },
    ),
    (
        {"metadata": {"user_id": "u7"}},
        {
            "openai.safety_identifier": "u7",
            "responses.safety_identifier": "u7",
            "anthropic.metadata.user_id": "u7",
        },
    ),
    (
        {"metadata": {"order": "7"}},
        {
            "openai.metadata.order": "7",
            "responses.metadata.order": "7",
            "bedrock.requestMetadata.order": "7",
        },
    ),
    (
        {"service_tier": "flex"},
        {
            "openai.service_tier": "flex",
            "responses.service_tier": "flex",
            "gemini.serviceTier": "FLEX",
            "interactions.service_tier": "flex",
            "bedrock.serviceTier.type": "flex",
        },
    ),
    (
        {"serviceTier": {"type": "default"}},
        {
            "openai.service_tier": "default",
            "responses.service_tier": "default",
            "anthropic.service_tier": "standard_only",
            "gemini.serviceTier": "STANDARD",
            "interactions.service_tier": "standard",
            "bedrock.serviceTier.type": "default",
        },
    ),
    (
        {"logprobs": True},
        {
            "openai.logprobs": True,
            "responses.include": LOGPROBS,
            "gemini.generationConfig.responseLogprobs": True,
            "ollama.logprobs": True,
        },
    ),
    (
        {"top_logprobs": 3},
        {
            "openai.top_logprobs": 3,
            "responses.top_logprobs": 3,
            "gemini.generationConfig.logprobs": 3,
            "ollama.top_logprobs": 3,
        },
    ),
    (
        {"modalities": ["text", "image"]},
        {
            "openai.modalities": ["text", "image"],
            "gemini.generationConfig.responseModalities": ["TEXT", "IMAGE"],
            "interactions.response_modalities": ["text", "image"],
        },
    ),
    (
        {"presencePenalty": 0.5},
        {
            "openai.presence_penalty": 0.5,
            "gemini.generationConfig.presencePenalty": 0.5,
            "ollama.options.presence_penalty": 0.5,
        },
    ),
    ({"truncation": "auto"}, {"responses.truncation": "auto"}),
    ({"max_tool_calls": 3}, {"responses.max_tool_calls": 3}),
    ({"num_ctx": 9_000}, {"ollama.options.num_ctx": 9_000}),
    ({"embedding_only": False}, {"ollama.options.embedding_only": False}),
    ({"inference_geo": "eu"}, {"anthropic.inference_geo": "eu"}),
    (
        {"performanceConfig": {"latency": "optimized"}},
        {"bedrock.performanceConfig.latency": "optimized"},
    ),
    (
        {"translationConfig": {"a": "b"}},
        {"gemini.generationConfig.translationConfig.a": "b"},
    ),
    ({"model_config": {"a": "b"}}, {"gemini.generationConfig.modelConfig.a": "b"}),
]
"""What is asked, and where it stands in a body, by the protocols that have a form for it."""


def at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
@pytest.mark.parametrize("behind", [False, True])
def test_it_is_sent_in_the_words_of_the_protocol_or_named(
    api: str, behind: bool, serve: Any
) -> None:
    # one that has no encrypted reasoning to ask for
    model = {"bedrock": f"anthropic.{CLAUDE}", "responses": "gpt-4o"}.get(api, CLAUDE)
    last = {"api": api, "model": model}
    first = "gemini" if api != "gemini" else "anthropic"
    for given, forms in FORMS:
        name = next(iter(given))
        chain = [first, last] if behind else [last]
        made = told(serve, *chain, parameters=given)
        wanted = {
            place.partition(".")[2]: value
            for place, value in forms.items()
            if place.partition(".")[0] == api
        }
        said = [loss for loss in made.lost if loss.startswith(name)]
        assert {place: at(made.body, place) for place in wanted} == wanted, (given, made.body)
        if wanted:
            assert said == [], given
        elif next(iter(given.values())) is not False:
            assert len(said) == 1, (given, made.lost)
            assert said[0] in str(made.notes[-1]), given
            assert "7" not in str(made.body.get("metadata")), given


@pytest.mark.parametrize("api", protocols.PROTOCOLS)
def test_a_name_that_no_table_knows_goes_to_the_protocol_it_was_written_for(
    api: str, serve: Any
) -> None:
    given = {"a_parameter_of_tomorrow": 1}
    made = told(serve, api, parameters=given)
    assert "omorrow" in str(made.body)
    other = "ollama" if api != "ollama" else "openai"
    behind = told(serve, other, api, parameters=given)
    assert "omorrow" not in str(behind.body)
    assert "a_parameter_of_tomorrow: it is a parameter of another protocol" in behind.lost


def test_a_backends_own_parameters_pass_as_they_are(serve: Any) -> None:
    own = {"api": "anthropic", "model": CLAUDE, "parameters": {"verbosity": "low"}}
    made = told(serve, own)
    assert (made.body["verbosity"], made.lost) == ("low", ())


def test_openais_own_host_is_not_sent_what_only_other_servers_take() -> None:
    for host in ("api.openai.com", "eu.api.openai.com", "x.openai.azure.com/openai"):
        made = protocols.backend("openai", f"https://{host}/v1")
        with Client(made) as client:
            found = client.check("x", parameters={"top_k": 5, "verbosity": "low"})
        assert found.backends[0].losses == ("top_k: it is a parameter of another protocol",)


ASKED: Final[Mapping[str, dict[str, Any]]] = {
    "openai": {"verbosity": "low", "logprobs": True, "top_logprobs": 2, "service_tier": "flex"},
    "responses": {
        "text": {"verbosity": "low"},
        "truncation": "auto",
        "max_tool_calls": 3,
        "reasoning": {"mode": "pro", "context": "auto"},
        "access_programs": ["x"],
    },
    "anthropic": {"metadata": {"user_id": "u7"}, "top_k": 5, "inference_geo": "eu"},
    "gemini": {
        "serviceTier": "PRIORITY",
        "generationConfig": {"topK": 5, "responseLogprobs": True},
    },
    "interactions": {
        "service_tier": "flex",
        "labels": {"a": "b"},
        "generation_config": {"thinking_summaries": "auto"},
    },
}
"""What programs ask for in each protocol of the transport."""
LOST: Final[Mapping[str, str]] = {
    "openai": "verbosity logprobs top_logprobs service_tier",
    "responses": "text.verbosity truncation max_tool_calls reasoning.mode reasoning.context"
    " access_programs",
    "anthropic": "top_k inference_geo",
    "gemini": "serviceTier responseLogprobs",
    "interactions": "service_tier labels thinking_summaries",
}
"""What of it a chain of Anthropic's, or for Anthropic's own of OpenAI's host, does without."""


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("api", ASKED)
def test_a_program_gets_an_answer_and_a_header_that_names_what_was_lost(
    api: str, streams: bool, stages: Stages
) -> None:
    other = "anthropic" if api != "anthropic" else "responses"
    body = written(api, **ASKED[api])
    response = posted(stages, (other, [ScriptedReply("Blue.")]), api, body, streams=streams)
    assert response.status_code == 200, response.text
    [request] = stages[0].requests
    lost = response.headers["x-rungwise-lost"]
    for name in LOST[api].split():
        assert name in lost, lost
        assert name.rpartition(".")[2] not in request.body
    if api == "anthropic":
        assert request.body["safety_identifier"] == "u7"


def test_a_fallback_of_the_programs_protocol_gets_what_the_first_cannot(stages: Stages) -> None:
    script = [ScriptedReply(status=401)]
    with chained(stages, ("anthropic", script), ("openai", [ScriptedReply("Blue.")])) as transport:
        response = post(
            transport, "openai", written("openai", verbosity="low", metadata={"a": "b"})
        )
    assert response.headers["x-rungwise-backend"] == "second"
    assert not {"verbosity", "metadata"} & stages[0].requests[0].body.keys()
    sent = stages[1].requests[0].body
    assert (sent["verbosity"], sent["metadata"]) == ("low", {"a": "b"})
    assert "verbosity" in response.headers["x-rungwise-lost"]


@pytest.mark.parametrize("version", ["2023-06-01", "2026-10-21"])
def test_the_version_of_a_program_goes_along_and_the_body_follows_it(
    version: str, stages: Stages
) -> None:
    body = written("anthropic", temperature=0.5, top_k=5)
    headers = {"anthropic-version": version}
    with chained(stages, ("anthropic", [ScriptedReply("Blue.")])) as transport:
        response = post(transport, "anthropic", body, headers=headers)
    [request] = stages[0].requests
    assert request.headers["anthropic-version"] == version
    is_old = version == "2023-06-01"
    assert ("temperature" in request.body, "top_k" in request.body) == (is_old, is_old)
    assert ("x-rungwise-lost" in response.headers) is not is_old


@pytest.mark.parametrize("where", ["check", "journal"])
def test_on_bedrock_a_system_message_that_has_to_move_is_named(where: str, serve: Any) -> None:
    messages = [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "There."},
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "And?"},
    ]
    made = told(serve, {"api": "bedrock", "model": f"anthropic.{CLAUDE}"}, messages=messages)
    sentence = "system messages between the turns: they go to the front"
    assert sentence in (made.lost if where == "check" else str(made.notes[0]))
