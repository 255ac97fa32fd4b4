"""The embedded provider's Responses are read by OpenAI's own client, with its strictest checks, as
the real thing.
"""

import asyncio
from typing import Any

import pytest

from rungwise import ToolCall
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

ASKED: dict[str, Any] = {
    "model": "m",
    "input": "hi",
    "include": ["reasoning.encrypted_content"],
}
CALL = ToolCall("call_1", "look", '{"city": "Reykjavik"}')
REPLIES = {
    "text": ScriptedReply(text="In the reeds, mostly."),
    "reasoning": ScriptedReply(text="In the reeds.", reasoning="Herons like reeds."),
    "calls": ScriptedReply(text="I look.", tool_calls=[CALL]),
    "refusal": ScriptedReply(refusal="I will not."),
    "length": ScriptedReply(text="In the", finish="length"),
    "filtered": ScriptedReply(text="In the", finish="content_filter"),
    "failed": ScriptedReply(finish="failed"),
    "error inside": ScriptedReply(
        text="In the", error_event={"message": "boom", "code": "rate_limit_exceeded"}
    ),
    "empty": ScriptedReply(),
}


ENDS = {
    "length": ("incomplete", "max_output_tokens"),
    "filtered": ("incomplete", "content_filter"),
    "failed": ("failed", None),
    "error inside": ("failed", None),
}
"""The status of those that are not completed, and its reason."""


def client(provider: EmbeddedProvider) -> Any:
    import openai

    return openai.OpenAI(
        api_key="k", base_url=provider.base_url, max_retries=0, _strict_response_validation=True
    )


@pytest.mark.parametrize("name", REPLIES)
def test_a_whole_response(name: str) -> None:
    import openai

    reply = REPLIES[name]
    with EmbeddedProvider(Script([reply])) as provider, client(provider) as own:
        raw = own.responses.with_raw_response.create(**ASKED)
        openai.types.responses.Response.model_validate_json(raw.content, strict=True)
        response = own.responses.create(**ASKED)
    kinds = [item.type for item in response.output]
    assert response.output_text == ("" if reply.error_event else reply.text)
    assert ("reasoning" in kinds) == bool(reply.reasoning)
    assert ("function_call" in kinds) == bool(reply.tool_calls)
    status, reason = ENDS.get(name, ("completed", None))
    assert response.status == status
    assert (response.incomplete_details and response.incomplete_details.reason) == reason
    assert (response.error is not None) is (status == "failed")
    if reply.reasoning:
        assert response.output[0].encrypted_content
        assert response.output[0].summary[0].text == reply.reasoning
    if reply.refusal:
        assert response.output[0].content[0].refusal == reply.refusal


@pytest.mark.parametrize("name", REPLIES)
def test_the_events_of_a_stream(name: str) -> None:
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    reply = REPLIES[name]
    numbers = []
    adapter = TypeAdapter(ResponseStreamEvent)
    with EmbeddedProvider(Script([reply])) as provider, client(provider) as own:
        with own.responses.with_streaming_response.create(stream=True, **ASKED) as raw:
            for line in raw.iter_lines():
                if line.startswith("data: "):
                    numbers.append(
                        adapter.validate_json(
                            line.removeprefix("data: "), strict=True
                        ).sequence_number
                    )
        assert numbers == [*range(len(numbers))]
        with own.responses.stream(**ASKED) as stream:
            events = [*stream]
            last = events[-1]
            if last.type == "response.completed":
                final = stream.get_final_response()
                assert final.output_text == reply.text
                assert [item.type for item in final.output] == [
                    item.type for item in last.response.output
                ]
    said = {"text": "", "reasoning": "", "refusal": "", "arguments": ""}
    for event in events:
        place = {
            "response.output_text.delta": "text",
            "response.reasoning_summary_text.delta": "reasoning",
            "response.refusal.delta": "refusal",
            "response.function_call_arguments.delta": "arguments",
        }.get(event.type)
        if place:
            said[place] += event.delta
    arguments = "".join(call.arguments for call in reply.tool_calls)
    assert said == {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "refusal": reply.refusal,
        "arguments": arguments,
    }
    if name != "error inside":
        status, _ = ENDS.get(name, ("completed", None))
        assert last.type == f"response.{status}"
    else:
        assert last.type == "error"
        assert last.code == "rate_limit_exceeded"
        assert last.message == "boom"


def test_a_stream_in_an_event_loop() -> None:
    import openai

    async def read(base_url: str) -> str:
        options = {
            "api_key": "k",
            "base_url": base_url,
            "_strict_response_validation": True,
        }
        async with openai.AsyncOpenAI(**options) as own, own.responses.stream(**ASKED) as stream:
            return str((await stream.get_final_response()).output_text)

    with EmbeddedProvider(Script([REPLIES["reasoning"]])) as provider:
        assert asyncio.run(read(provider.base_url)) == "In the reeds."


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    ],
)
def test_an_error_status(status: int, error: str) -> None:
    import openai

    with (
        EmbeddedProvider(Script([ScriptedReply(status=status)])) as provider,
        client(provider) as own,
    ):
        with pytest.raises(getattr(openai, error)) as caught:
            own.responses.create(**ASKED)
        assert caught.value.body["message"]


@pytest.mark.parametrize("given", [{"done": False}, {"finish": ""}])
def test_a_stream_without_its_terminal_event(given: dict[str, Any]) -> None:
    scripted = ScriptedReply(text="In the reeds", **given)
    with (
        EmbeddedProvider(Script([scripted])) as provider,
        client(provider) as own,
        own.responses.stream(**ASKED) as stream,
    ):
        kinds = [event.type for event in stream]
    assert kinds[-1] == "response.output_item.done"
