"""`rungwise serve` is read by OpenAI's own client, with its strictest checks, as the real thing.

The client runs in a process of its own, so that another version of it, in the environment that
`OPENAI_PYTHON` names, can do the same; one process reads what every test of a version serves, for
it takes a second to begin.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from rungwise import ToolCall
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

PYTHONS = [sys.executable, *filter(None, [os.environ.get("OPENAI_PYTHON")])]

CLIENT = r"""
import asyncio, json, sys
import openai
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk

asked = dict(model="m", messages=[{"role": "user", "content": "hi"}])

def take(chunk):
    told["usage"] = chunk.usage.total_tokens if chunk.usage else told["usage"]
    for choice in chunk.choices:
        told["text"] += choice.delta.content or ""
        for call in choice.delta.tool_calls or ():
            told["calls"].append(call.function.arguments)

def read(client):
    raw = client.chat.completions.with_raw_response.create(**asked)
    ChatCompletion.model_validate_json(raw.content, strict=True)
    whole = client.chat.completions.create(**asked)
    assert whole._request_id and raw.headers["x-request-id"] and whole._request_id != raw.headers["x-request-id"]
    message = whole.choices[0].message
    told.update(text=message.content or "", usage=whole.usage.total_tokens)
    told["calls"] = [call.function.arguments for call in message.tool_calls or ()]

def stream(client):
    with client.chat.completions.with_streaming_response.create(stream=True, **asked) as raw:
        lines = [line.removeprefix("data: ") for line in raw.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    for line in lines:
        if "error" not in json.loads(line):
            ChatCompletionChunk.model_validate_json(line, strict=True)
    for chunk in client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked):
        take(chunk)

async def astream(options):
    async with openai.AsyncOpenAI(**options) as client:
        async for chunk in await client.chat.completions.create(stream=True, **asked):
            assert chunk.id

for line in sys.stdin:
    base_url, mode = line.split()
    told = {"version": openai.__version__, "text": "", "calls": [], "usage": None, "error": None}
    options = dict(api_key="key", base_url=base_url, max_retries=0, _strict_response_validation=True)
    with openai.OpenAI(**options) as client:
        page = client.models.with_raw_response.list()
        for model in json.loads(page.content)["data"]:
            Model.model_validate(model, strict=True)
        told["models"] = [model.id for model in client.models.list()]
        try:
            if mode == "stream":
                stream(client)
                asyncio.run(astream(options))
            else:
                read(client)
        except openai.APIError as error:
            told["error"] = [type(error).__name__, error.code, error.type, bool(getattr(error, "request_id", None))]
    print(json.dumps(told), flush=True)
"""  # noqa: E501

Driver = subprocess.Popen[str]


def drive(client: Driver, reply: ScriptedReply, mode: str) -> dict[str, Any]:
    assert client.stdin is not None
    with EmbeddedProvider(Script([reply])) as provider:
        print(provider.base_url, mode, file=client.stdin, flush=True)
        line = client.stdout.readline()
    assert line, "the client has ended; its traceback is on stderr"
    told: dict[str, Any] = json.loads(line)
    assert told["models"] == [reply.model or "embedded"]
    return told


@pytest.fixture(scope="module", params=PYTHONS, ids=range(len(PYTHONS)))
def client(request: pytest.FixtureRequest) -> Iterator[Driver]:
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
    }
    with subprocess.Popen(
        [request.param, "-c", CLIENT], env={**os.environ, "NO_PROXY": "*"}, **pipes
    ) as process:
        yield process
    assert process.returncode == 0


MODES = pytest.mark.parametrize("mode", ["whole", "stream"])


@MODES
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(ScriptedReply(text="In the reeds."), marks=pytest.mark.full),
        ScriptedReply(text="In the reeds.", reasoning="Herons like reeds.", model="heron-1"),
        ScriptedReply(
            text="In the reeds.",
            finish="length",
            usage={
                "prompt_tokens": 1,
                "completion_tokens": 2,
                "total_tokens": 3,
            },
        ),
        pytest.param(
            ScriptedReply(text="In the reeds.", refusal="No more."), marks=pytest.mark.full
        ),
    ],
)
def test_replies_are_valid(client: Driver, mode: str, reply: ScriptedReply) -> None:
    told = drive(client, reply, mode)
    assert told["text"] == "In the reeds."
    assert told["error"] is None
    assert told["usage"] > 0


@MODES
def test_tool_calls_are_valid(client: Driver, mode: str) -> None:
    calls = (ToolCall("call_1", "look", '{"bird": "heron"}'), ToolCall("call_2", "look", "{}"))
    told = drive(client, ScriptedReply(tool_calls=calls), mode)
    assert "".join(told["calls"]) == '{"bird": "heron"}{}'


@pytest.mark.full
@MODES
@pytest.mark.parametrize(
    ("status", "name"),
    [
        (429, "RateLimitError"),
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (404, "NotFoundError"),
    ],
)
def test_errors_are_read_as_what_they_are(
    client: Driver,
    mode: str,
    status: int,
    name: str,
) -> None:
    kind, _, _, has_id = drive(client, ScriptedReply(status=status), mode)["error"]
    assert kind == name
    assert has_id is True


def test_an_error_inside_a_stream_is_read_as_one(client: Driver) -> None:
    told = drive(
        client,
        ScriptedReply(text="In the", error_event={"message": "Gone.", "code": "gone"}),
        "stream",
    )
    assert told["error"][:2] == ["APIError", "gone"]
