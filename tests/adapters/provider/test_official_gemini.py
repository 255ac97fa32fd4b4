"""`rungwise serve` is read by Google's own client as the real thing, streamed and not, sync and
async.
"""

import asyncio
import json
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import errors, types

from rungwise import ToolCall
from rungwise.adapters.gateway.languages.language import SIGNATURE
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

MODES = pytest.mark.parametrize("mode", ["whole", "stream", "awhole", "astream"])
ASKED: dict[str, Any] = {"model": "heron-1", "contents": "Where?"}


def client_of(provider: EmbeddedProvider) -> Any:
    options = types.HttpOptions(
        base_url=provider.base_url.removesuffix("/v1"), api_version="v1beta"
    )
    return genai.Client(api_key="key", http_options=options)


def drive(mode: str, *replies: ScriptedReply) -> list[Any]:
    """Return what the client makes of the first reply: a response, or the chunks of a stream."""
    with EmbeddedProvider(Script(replies)) as provider, client_of(provider) as client:
        if mode == "whole":
            return [client.models.generate_content(**ASKED)]
        if mode == "stream":
            return list(client.models.generate_content_stream(**ASKED))

        async def ask() -> list[Any]:
            if mode == "awhole":
                return [await client.aio.models.generate_content(**ASKED)]
            return [
                chunk async for chunk in await client.aio.models.generate_content_stream(**ASKED)
            ]

        async def main() -> list[Any]:
            try:
                return await ask()
            finally:
                await client.aio.aclose()

        return asyncio.run(main())


def parts_of(chunks: list[Any]) -> list[Any]:
    return [part for chunk in chunks for part in (chunk.candidates[0].content.parts or [])]


@MODES
def test_replies_are_what_they_say(mode: str) -> None:
    chunks = drive(
        mode, ScriptedReply(text="In the reeds, mostly.", reasoning="Herons like reeds.")
    )
    parts = parts_of(chunks)
    assert "".join(part.text for part in parts if not part.thought) == "In the reeds, mostly."
    assert "".join(part.text for part in parts if part.thought) == "Herons like reeds."
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert [part.thought_signature for part in parts if part.thought_signature] == [
        b"signed by the embedded provider"
    ]
    assert all(chunk.model_version == "heron-1" and chunk.response_id for chunk in chunks)
    counts = chunks[-1].usage_metadata
    assert counts.total_token_count == (
        counts.prompt_token_count + counts.candidates_token_count + counts.thoughts_token_count
    )


@MODES
def test_tool_calls_are_whole_and_the_first_one_is_signed(mode: str) -> None:
    calls = (ToolCall("call_1", "look", '{"bird": "heron"}'), ToolCall("call_2", "look", "{}"))
    chunks = drive(mode, ScriptedReply(tool_calls=calls, signature=SIGNATURE))
    parts = [part for part in parts_of(chunks) if part.function_call]
    assert [(part.function_call.id, part.function_call.args) for part in parts] == [
        ("call_1", {"bird": "heron"}),
        ("call_2", {}),
    ]
    assert [bool(part.thought_signature) for part in parts] == [True, False]


@MODES
def test_a_cut_call_is_one_that_goes_on(mode: str) -> None:
    cut = ScriptedReply(tool_calls=(ToolCall("call_1", "look", '{"bird": "her'),), finish="length")
    chunks = drive(mode, cut)
    [part] = [part for part in parts_of(chunks) if part.function_call]
    assert part.function_call.args is None
    assert part.function_call.will_continue is True
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.MAX_TOKENS


@pytest.mark.parametrize("mode", ["whole", "stream"])
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (ScriptedReply(text="In", finish="length"), "MAX_TOKENS"),
        (ScriptedReply(text="In", finish="content_filter"), "SAFETY"),
        (ScriptedReply(refusal="Not this."), "SAFETY"),
        (ScriptedReply(finish="RECITATION"), "RECITATION"),
        (ScriptedReply(), "STOP"),
        (ScriptedReply(text="In", finish=""), None),
    ],
)
def test_every_end_is_told(mode: str, reply: ScriptedReply, reason: str | None) -> None:
    candidate = drive(mode, reply)[-1].candidates[0]
    assert (candidate.finish_reason and candidate.finish_reason.value) == reason


@pytest.mark.parametrize("mode", ["whole", "stream"])
@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (429, "RESOURCE_EXHAUSTED"),
        (503, "UNAVAILABLE"),
    ],
)
def test_errors_are_read_as_what_they_are(mode: str, status: int, name: str) -> None:
    with pytest.raises(errors.APIError) as raised:
        drive(mode, ScriptedReply(status=status, error={"message": "Gone.", "code": "WHY"}))
    assert raised.value.code == status
    assert raised.value.status == name
    assert raised.value.message == "Gone."
    kind = errors.ClientError if status < 500 else errors.ServerError
    assert isinstance(raised.value, kind)
    assert raised.value.details["error"]["details"][0]["reason"] == "WHY"


def test_an_error_inside_a_stream_is_read_as_one() -> None:
    with pytest.raises(errors.APIError) as raised:
        drive(
            "stream",
            ScriptedReply(
                text="In the",
                error_event={
                    "message": "Gone.",
                    "type": "UNAVAILABLE",
                    "code": 503,
                },
            ),
        )
    assert raised.value.code == 503
    assert raised.value.status == "UNAVAILABLE"


def test_the_models_are_listed() -> None:
    with (
        EmbeddedProvider(Script([ScriptedReply(model="heron-1")])) as provider,
        client_of(provider) as client,
    ):
        assert [model.name for model in client.models.list()] == ["models/heron-1"]


def test_a_stream_that_ends_without_a_word_has_no_finish_reason() -> None:
    chunks = drive("stream", ScriptedReply(text="In the reeds.", done=False))
    assert "".join(part.text for part in parts_of(chunks)) == "In the reeds."
    assert all(chunk.candidates[0].finish_reason is None for chunk in chunks)


def test_every_event_is_of_the_clients_own_form() -> None:
    """The client's models are lenient towards unknown names in replies; nothing here is one."""
    reply = ScriptedReply(
        text="In the reeds.",
        reasoning="Hm.",
        tool_calls=(ToolCall("1", "look", "{}"), ToolCall("2", "look", '{"')),
    )
    with EmbeddedProvider(Script([reply])) as provider:
        for method in ("generateContent", "streamGenerateContent?alt=sse"):
            body = httpx.post(f"{provider.base_url}/models/g:{method}", json={"contents": []}).text
            for line in body.splitlines():
                if line:
                    value = json.loads(line.removeprefix("data: "))
                    made = types.GenerateContentResponse.model_validate(value, extra="forbid")
                    assert (
                        made.model_dump(exclude_none=True, by_alias=True, mode="json").keys()
                        == value.keys()
                    )
