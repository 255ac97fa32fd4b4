"""LiteLLM in front of a chat model that reasons: its Responses are read as what the model said."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from adoption.environments import python_for
from adoption.playing import PROGRAMS
from rungwise import Client, OpenAIResponses, Text, ToolCall
from rungwise.testing import EmbeddedProvider, ScriptedReply
from support.missing import missing

pytestmark = [pytest.mark.full, pytest.mark.slowest]

TEXT = "Herons stand still for hours, and then they do not."
THOUGHTS = "The question is about herons. They wait."
OWL = {"bird": "owl"}
LOOK = {
    "name": "look",
    "description": "Look for a bird.",
    "parameters": {"type": "object", "properties": {"bird": {"type": "string"}}},
}


class Model:
    """The chat model behind LiteLLM: it says one thing, whenever it is asked."""

    def __init__(self) -> None:
        self.says = ScriptedReply()

    def __call__(self, request: object) -> ScriptedReply:
        return self.says


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def provider(model: Model) -> Iterator[EmbeddedProvider]:
    with EmbeddedProvider(model) as provider:
        yield provider


@pytest.fixture(scope="module")
def client(provider: EmbeddedProvider) -> Iterator[Client]:
    try:
        python = python_for("litellm")
    except subprocess.CalledProcessError as error:
        missing(f"LiteLLM cannot be had: {error}")
    command = [str(python), str(PROGRAMS / "bridge_litellm.py"), provider.base_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            backend = OpenAIResponses("thinker", base_url=url, api_key="none")
            with Client([backend]) as client:
                yield client
        finally:
            process.kill()


@pytest.mark.parametrize("thoughts", ["", THOUGHTS])
def test_a_text_is_read_once(
    model: Model, provider: EmbeddedProvider, client: Client, thoughts: str
) -> None:
    model.says = ScriptedReply(TEXT, reasoning=thoughts, chunk_size=9)
    asked = len(provider.requests)
    assert client.call("What do herons do?").text == TEXT
    with client.stream("What do herons do?") as stream:
        shown = "".join([event.text for event in stream if isinstance(event, Text)])
    assert (stream.result.outcome, stream.result.text, shown) == ("done", TEXT, TEXT)
    assert len(provider.requests) == asked + 2


@pytest.mark.parametrize("text", ["", "I look."])
@pytest.mark.parametrize("thoughts", ["", THOUGHTS])
def test_a_call_is_read_once(model: Model, client: Client, thoughts: str, text: str) -> None:
    call = {"id": "call_1", "name": "look", "arguments": json.dumps(OWL)}
    model.says = ScriptedReply(text, reasoning=thoughts, tool_calls=[call], chunk_size=5)
    whole = client.call("Where is the owl?", tools=[LOOK])
    with client.stream("Where is the owl?", tools=[LOOK]) as stream:
        for _ in stream:
            pass
    for result in (whole, stream.result):
        calls: tuple[ToolCall, ...] = result.tool_calls
        assert [(each.name, json.loads(each.arguments)) for each in calls] == [("look", OWL)]
        assert result.text == text
