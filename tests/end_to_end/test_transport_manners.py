"""What programs behind a transport rely on besides answers: their time-outs, quiet keys, nothing
that is unasked.
"""

import json

import openai
import pytest

from rungwise import Client, OpenAIChat, Transport
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support import protocols
from support.gateways import TOOLS, asked, chained, client_over, post, posted, written
from support.plain import user
from support.runs import Stages

pytestmark = pytest.mark.sampled(8)


def test_the_time_out_of_an_sdk_ends_a_whole_call() -> None:
    with EmbeddedProvider(Script([ScriptedReply(hang=True)])) as provider:
        client = Client(OpenAIChat("m", base_url=provider.base_url))
        sdk = openai.OpenAI(
            api_key="k",
            http_client=openai.DefaultHttpxClient(transport=Transport(client)),
            max_retries=0,
            timeout=0.1,
        )
        with pytest.raises(openai.InternalServerError) as caught:
            sdk.chat.completions.create(model="m", messages=[user("x")])
        assert (caught.value.status_code, caught.value.code) == (504, "deadline_passed")
        assert provider.wait_disconnected()


@pytest.mark.parametrize("fields", [{}, {"n": 2}])
def test_no_key_of_a_backend_reaches_a_program_by_way_of_an_error(
    fields: dict[str, int], stages: Stages
) -> None:
    message = f"bad header: Bearer {protocols.KEY}, it is malformed"
    reply = ScriptedReply(status=400, error={"message": message, "type": "invalid_request_error"})
    answer = posted(stages, ("openai", [reply]), "openai", {**written("openai"), **fields})
    assert answer.status_code == 400
    assert protocols.KEY not in answer.text
    assert "bad header: Bearer ***, it is malformed" in answer.text


@pytest.mark.full
@pytest.mark.parametrize("way", ["whole", "stream"])
def test_a_program_of_anthropics_sees_foreign_reasoning_only_if_it_asked_for_any(
    way: str, stages: Stages
) -> None:
    reply = ScriptedReply("Blue.", reasoning="Hm.")
    for fields, seen in (
        ({}, ""),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "Hm."),
    ):
        answer = asked(stages, "anthropic", way, ("openai", [reply]), **fields)
        assert (answer.text, answer.reasoning, answer.error) == ("Blue.", seen, None)


def test_what_a_backend_could_not_be_given_is_in_a_header(stages: Stages) -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    body = {"messages": [user([{"type": "text", "text": "What is this?"}, audio])]}
    answer = posted(stages, ("anthropic", [ScriptedReply("A wren.")]), "openai", body)
    assert answer.json()["choices"][0]["message"]["content"] == "A wren."
    assert "audio" in answer.headers["x-rungwise-lost"]
    with chained(stages, ("openai", [ScriptedReply("A wren.")])) as transport:
        assert (
            "x-rungwise-lost"
            not in post(transport, "openai", written("openai", tools=TOOLS["openai"])).headers
        )


def test_what_of_an_answer_a_program_does_not_get_is_in_a_header(stages: Stages) -> None:
    parts = [{"text": "A wren."}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]
    content = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    drawn = ScriptedReply(body=json.dumps(content), headers={"content-type": "application/json"})
    answer = posted(stages, ("gemini", [drawn]), "openai", written("openai"))
    assert answer.json()["choices"][0]["message"]["content"] == "A wren."
    assert "image in the answer" in answer.headers["x-rungwise-lost"]


def test_a_request_without_a_model_is_told_to_name_one(stages: Stages) -> None:
    stages[0].play([ScriptedReply("x")])
    with client_over(["openai"], stages[:1]) as client:
        answer = post(Transport({"fast": client}), "openai", {"messages": []})
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        404,
        "name a model; there are: fast",
    )
    assert "x-rungwise-journal" not in answer.headers
