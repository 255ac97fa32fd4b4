"""The embedded provider is read by Anthropic's own client, with its strictest checks, as the real
thing.

It is imported where it is used: that takes seconds, and every process that runs tests reads this
module.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

import rungwise
from rungwise import TextPart, ToolCall
from rungwise.adapters.gateway.languages.language import SIGNATURE
from rungwise.adapters.provider.server import render
from rungwise.core import OpaquePart, ReasoningPart
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply

MODES = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
ASKED: dict[str, Any] = {
    "model": "m",
    "max_tokens": 99,
    "messages": [{"role": "user", "content": "Where?"}],
}
CALL = ToolCall("toolu_1", "look", '{"bird": "heron"}')


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    import anthropic

    with anthropic.Anthropic(
        api_key="key", max_retries=0, _strict_response_validation=True
    ) as made:
        yield made


def asked(client: Any, reply: ScriptedReply, streams: bool) -> Any:
    """Return the message that the client reads, each event of a stream checked by its own
    models.
    """
    import anthropic

    with EmbeddedProvider(Script([reply])) as provider:
        at = client.with_options(base_url=provider.base_url.removesuffix("/v1"))
        if not streams:
            raw = at.messages.with_raw_response.create(**ASKED)
            anthropic.types.Message.model_validate_json(raw.read(), strict=True)
            return raw.parse()
        with at.messages.stream(**ASKED) as stream:
            for _ in stream:
                pass
            message = stream.get_final_message()
        adapter: TypeAdapter[Any] = TypeAdapter(anthropic.types.RawMessageStreamEvent)
        for piece in render(reply, {**ASKED, "stream": True}, path="/v1/messages").pieces:
            data = piece.partition(b"data: ")[2]
            if json.loads(data)["type"] != "ping":
                adapter.validate_json(data, strict=True)
        return message


@MODES
def test_text_reasoning_and_calls_are_read(client: Any, streams: bool) -> None:
    reply = ScriptedReply(
        text="In the reeds.", reasoning="Herons like reeds.", tool_calls=(CALL,), model="heron-1"
    )
    message = asked(client, reply, streams)
    thinking, text, call = message.content
    assert thinking.thinking == "Herons like reeds."
    assert thinking.signature == SIGNATURE
    assert text.text == "In the reeds."
    assert call.id == "toolu_1"
    assert call.name == "look"
    assert call.input == {"bird": "heron"}
    assert message.stop_reason == "tool_use"
    assert message.model == "heron-1"
    assert message.type == "message"
    assert message.usage.input_tokens == 2
    assert message.usage.output_tokens_details.thinking_tokens == 5


@MODES
@pytest.mark.parametrize(
    ("reply", "stop"),
    [
        (ScriptedReply(text="x"), "end_turn"),
        (ScriptedReply(), "end_turn"),
        (ScriptedReply(text="x", finish="length"), "max_tokens"),
        (ScriptedReply(finish="content_filter"), "refusal"),
        (ScriptedReply(refusal="Not this."), "refusal"),
        (ScriptedReply(text="x", finish="pause_turn"), "pause_turn"),
        (ScriptedReply(text="x", finish=""), None),
        (
            ScriptedReply(
                text="x",
                usage={
                    "input_tokens": 7,
                    "output_tokens": 8,
                    "cache_read_input_tokens": 9,
                },
            ),
            "end_turn",
        ),
    ],
)
def test_each_end_is_read(
    client: Any,
    streams: bool,
    reply: ScriptedReply,
    stop: str | None,
) -> None:
    message = asked(client, reply, streams)
    assert message.stop_reason == stop
    if reply.refusal:
        assert message.stop_details.explanation == "Not this."
    if reply.usage:
        assert message.usage.input_tokens == 7
        assert message.usage.output_tokens == 8
        assert message.usage.cache_read_input_tokens == 9


@MODES
@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (413, "ContentTooLargeError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (504, "GatewayTimeoutError"),
        (529, "OverloadedError"),
    ],
)
def test_errors_are_read_as_what_they_are(
    client: Any,
    streams: bool,
    status: int,
    name: str,
) -> None:
    import anthropic

    with pytest.raises(anthropic.APIStatusError) as caught:
        asked(client, ScriptedReply(status=status), streams)
    assert type(caught.value).__name__ == name
    assert caught.value.status_code == status
    body = caught.value.body
    assert body["type"] == "error"
    if status != 413:  # whose documented type the client's models lack
        anthropic.types.ErrorResponse.model_validate(body, strict=True)


def test_an_error_inside_a_stream_is_read_as_one(client: Any) -> None:
    import anthropic

    reply = ScriptedReply(
        text="In the", error_event={"type": "overloaded_error", "message": "Overloaded"}
    )
    with pytest.raises(anthropic.APIStatusError) as caught:
        asked(client, reply, True)
    assert caught.value.body["error"]["type"] == "overloaded_error"


def test_a_stream_without_its_end_has_none(client: Any) -> None:
    message = asked(client, ScriptedReply(text="In the reeds.", done=False), True)
    assert message.stop_reason is None


# the other way: what its own models write is read


def written() -> Any:
    from anthropic import types

    usage = types.Usage(
        input_tokens=1, output_tokens=5, cache_read_input_tokens=2, cache_creation_input_tokens=3
    )
    search = types.ServerToolUseBlock(
        id="s1", name="web_search", input={"query": "q"}, type="server_tool_use"
    )
    found = types.WebSearchToolResultBlock(
        tool_use_id="s1",
        type="web_search_tool_result",
        content=[
            types.WebSearchResultBlock(
                encrypted_content="e", title="t", type="web_search_result", url="u"
            )
        ],
    )
    content = [
        types.ThinkingBlock(thinking="Hm.", signature="c2ln", type="thinking"),
        types.RedactedThinkingBlock(data="ZW5j", type="redacted_thinking"),
        search,
        found,
        types.TextBlock(text="In the reeds.", type="text"),
        types.ToolUseBlock(
            id="t1",
            name="look",
            input={"bird": "heron"},
            type="tool_use",
        ),
    ]
    return types.Message(
        id="msg_1",
        model="m",
        role="assistant",
        type="message",
        content=content,
        stop_reason="tool_use",
        usage=usage,
    )


@pytest.mark.parametrize("dumped", [{}, {"exclude_unset": True}, {"exclude_none": True}])
def test_replies_that_its_models_write_are_read(dumped: dict[str, Any]) -> None:
    backend = rungwise.Anthropic("m", base_url="http://localhost/v1")
    message = written()
    body = message.model_dump_json(**dumped).encode()
    reply = backend.decode(200, {}, body)
    assert [type(part) for part in reply.parts] == [
        ReasoningPart,
        OpaquePart,
        OpaquePart,
        OpaquePart,
        TextPart,
        ToolCall,
    ]
    opaque = [part.block for part in reply.parts if isinstance(part, OpaquePart)]
    assert opaque == [json.loads(block.model_dump_json(**dumped)) for block in message.content[1:4]]
    assert reply.text == "In the reeds."
    assert reply.reasoning == "Hm."
    assert reply.tool_calls[0].arguments == '{"bird":"heron"}'
    assert reply.usage == rungwise.Usage(6, 5, 2, 3)
