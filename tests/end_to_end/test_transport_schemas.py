"""Schemas and tools in the requests of SDKs are checked, and what is wrong is corrected within the
call.
"""

import json
from typing import Any, Final

import pydantic
import pytest

from rungwise import ToolCall
from rungwise.testing import ScriptedReply
from support import protocols, sdks
from support.gateways import TOOLS, asked, asking_for, chained, fault_of, post, posted, written
from support.plain import user
from support.protocols import PROTOCOLS
from support.runs import Stages
from support.sdks import APIS, FINISHES, WAYS

every = pytest.mark.parametrize("api", APIS)
always = pytest.mark.parametrize("way", WAYS)
few = pytest.mark.sampled(8)
everywhere = pytest.mark.parametrize("backend", PROTOCOLS)


class Bird(pydantic.BaseModel):
    name: str
    legs: int


SCHEMA: Final = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "legs": {"type": "integer"}},
    "required": ["name", "legs"],
    "additionalProperties": False,
}
RIGHT: Final = '{"name": "heron", "legs": 2}'
WRONG: Final = '{"name": "heron", "legs": "two"}'
FORMATS: Final = asking_for(SCHEMA)
LIST: Final = {"type": "array", "items": {"type": "integer"}}


@everywhere
@always
@every
def test_a_wrong_answer_is_corrected_within_the_call(
    api: str,
    way: str,
    backend: str,
    stages: Stages,
) -> None:
    script = [ScriptedReply(WRONG), ScriptedReply(RIGHT)]
    seen = asked(stages, api, way, (backend, script), hold=sdks.streams(way), **FORMATS[api])
    assert (seen.error, json.loads(seen.text)) == (None, json.loads(RIGHT))
    assert seen.finish == FINISHES[api]["stop"]
    first, second = stages[0].requests
    assert "legs" in json.dumps(first.body)
    said = "".join(message.text for message in protocols.said(second))
    assert WRONG in said
    assert "two" in said


@always
@every
def test_an_answer_that_stays_wrong_is_an_error(api: str, way: str, stages: Stages) -> None:
    script = [ScriptedReply(WRONG.replace("two", f"{n} two")) for n in range(5)]
    seen = asked(stages, api, way, ("openai", script), hold=True, **FORMATS[api])
    if seen.error is None:  # what there is ends as cut
        assert seen.finish == FINISHES[api]["length"]
    else:
        assert seen.status == 503
    assert len(stages[0].requests) > 1


@always
@every
def test_json_in_a_fence_comes_out_bare(api: str, way: str, stages: Stages) -> None:
    seen = asked(
        stages,
        api,
        way,
        ("anthropic", [ScriptedReply(f"```json\n{RIGHT}\n```")]),
        hold=True,
        **FORMATS[api],
    )
    assert (seen.error, json.loads(seen.text)) == (None, json.loads(RIGHT))


@pytest.mark.parametrize("way", ["whole", "stream"])
def test_a_schema_that_is_no_object_reaches_the_program_bare(way: str, stages: Stages) -> None:
    def answer(request: Any) -> ScriptedReply:
        wraps = '"value"' in json.dumps(request.body)
        return ScriptedReply('{"value": [1, 2]}' if wraps else "[1, 2]")

    form = {"response_mime_type": "application/json", "response_json_schema": LIST}
    seen = asked(stages, "gemini", way, ("openai", [answer]), **form)
    assert (seen.error, json.loads(seen.text)) == (None, [1, 2])


@few
@pytest.mark.parametrize("backend", ["openai", "anthropic", "gemini"])
def test_the_sdks_own_parsers_get_what_they_wanted(backend: str, stages: Stages) -> None:
    script = [ScriptedReply(WRONG), ScriptedReply(RIGHT)]
    told = [user(sdks.QUESTION)]
    heron = Bird(name="heron", legs=2)
    with chained(stages, (backend, script)) as transport:
        openai = sdks.sdk_of("openai", "whole", transport=transport)
        chat = openai.chat.completions.parse(model="m", messages=told, response_format=Bird)
        assert chat.choices[0].message.parsed == heron
        stages[0].play(script)
        assert (
            openai.responses.parse(model="m", input=sdks.QUESTION, text_format=Bird).output_parsed
            == heron
        )
        stages[0].play(script)
        anthropic = sdks.sdk_of("anthropic", "whole", transport=transport)
        message = anthropic.messages.parse(
            model="m", messages=told, max_tokens=99, output_format=Bird
        )
        assert message.parsed_output == heron
        stages[0].play(script)
        config = {"response_mime_type": "application/json", "response_schema": Bird}
        gemini = sdks.sdk_of("gemini", "whole", transport=transport)
        answer = gemini.models.generate_content(model="m", contents=sdks.QUESTION, config=config)
        assert answer.parsed == heron
        assert len(stages[0].requests) == 2


def test_the_sdks_own_gatherers_of_streams_get_the_whole_answer(stages: Stages) -> None:
    reply = ScriptedReply(RIGHT, reasoning="Herons have two.", chunk_size=3)
    told = [user(sdks.QUESTION)]
    with chained(stages, ("gemini", [reply])) as transport:
        openai = sdks.sdk_of("openai", "whole", transport=transport)
        with openai.chat.completions.stream(
            model="m", messages=told, response_format=Bird
        ) as stream:
            [*_] = stream
            assert stream.get_final_completion().choices[0].message.parsed == Bird(
                name="heron", legs=2
            )
        with openai.responses.stream(model="m", input=sdks.QUESTION, text_format=Bird) as stream:
            [*_] = stream
            assert stream.get_final_response().output_parsed == Bird(name="heron", legs=2)
        anthropic = sdks.sdk_of("anthropic", "whole", transport=transport)
        with anthropic.messages.stream(model="m", messages=told, max_tokens=99) as stream:
            message = stream.get_final_message()
        assert [block.type for block in message.content] == ["text"]
        assert message.content[0].text == RIGHT


@always
@every
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("lock", '{"bird": "heron"}'),
        ("look", '{"bird": 5}'),
        ("look", "{}"),
        ("look", '{"bird": "her'),
    ],
)
def test_calls_of_tools_are_checked(
    api: str, way: str, name: str, arguments: str, stages: Stages
) -> None:
    wrong = ScriptedReply(tool_calls=(ToolCall("call_1", name, arguments),))
    right = ScriptedReply(tool_calls=(ToolCall("call_2", "look", '{"bird": "heron"}'),))
    seen = asked(stages, api, way, ("openai", [wrong, right]), tools=TOOLS[api])
    assert (seen.error, seen.calls) == (None, [("look", {"bird": "heron"})])
    assert len(stages[0].requests) == 2


@few
@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("openai", {"response_format": {"type": "json_schema"}}),
        (
            "openai",
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": 5}}},
        ),
        (
            "openai",
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 7}}}},
        ),
        (
            "responses",
            {"text": {"format": {"type": "json_schema", "schema": {"$ref": "#/nowhere"}}}},
        ),
        ("anthropic", {"output_config": {"format": {"type": "json_schema", "schema": []}}}),
        ("gemini", {"generationConfig": {"responseJsonSchema": "x"}}),
        ("gemini", {"generationConfig": {"responseSchema": {"type": 5}}}),
        ("interactions", {"response_format": {"type": "text", "schema": "x"}}),
        ("interactions", {"response_format": {"type": 5}}),
    ],
)
def test_a_schema_that_is_none_is_a_faulty_request(api: str, fields: Any, stages: Stages) -> None:
    with chained(stages, ("openai", [ScriptedReply("{}")])) as transport:
        for streams in (False, True):
            response = post(transport, api, written(api, **fields), streams=streams)
            assert response.status_code == 400, response.text
            assert fault_of(api, response)
    assert stages[0].requests == []


@pytest.mark.parametrize("api", ["openai", "responses", "gemini", "interactions"])
@everywhere
def test_any_json_may_be_asked_for(api: str, backend: str, stages: Stages) -> None:
    forms: dict[str, dict[str, Any]] = {
        "openai": {"response_format": {"type": "json_object"}},
        "responses": {"text": {"format": {"type": "json_object"}}},
        "gemini": {"generationConfig": {"responseMimeType": "application/json"}},
        "interactions": {"response_format": {"type": "text", "mime_type": "application/json"}},
    }
    response = posted(
        stages,
        (backend, [ScriptedReply(RIGHT)]),
        api,
        written(api, "Say it in JSON.", **forms[api]),
    )
    assert response.status_code == 200
    assert "heron" in response.text
    assert len(stages[0].requests) == 1
    assert "json" in json.dumps(stages[0].requests[0].body).replace("Say it in JSON.", "").lower()
