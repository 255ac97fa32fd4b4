"""Tokens are counted wherever a server reports them, whole and streamed, on every wire."""

import json
from typing import Any

import pytest

from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.adapters.wires.counts import counted_in
from support import protocols

TEXT = "Herons stand still."
Event = dict[str, Any]


def chat(**members: Any) -> list[Event]:
    said = {"choices": [{"index": 0, "delta": {"content": TEXT}}]}
    return [said, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **members}]


def choice(**members: Any) -> list[Event]:
    said, end = chat()
    end["choices"][0] |= members
    return [said, end]


def responses(**members: Any) -> list[Event]:
    said = {"type": "response.output_text.delta", "output_index": 0, "delta": TEXT}
    return [said, {"type": "response.completed", "response": {"status": "completed"}, **members}]


def messages(start: Event = {}, last: Event = {}) -> list[Event]:  # noqa: B006
    delta = {"type": "text_delta", "text": TEXT}
    return [
        {"type": "message_start", "message": {"role": "assistant"}, **start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop", **last},
    ]


def gemini(**members: Any) -> list[Event]:
    content = {"role": "model", "parts": [{"text": TEXT}]}
    return [{"candidates": [{"content": content, "finishReason": "STOP"}], **members}]


def ollama(**members: Any) -> list[Event]:
    message = {"role": "assistant", "content": TEXT}
    return [{"message": message, "done": False}, {"message": {}, "done": True, **members}]


def converse(**members: Any) -> list[Event]:
    return [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": TEXT}}},
        {"messageStop": {"stopReason": "end_turn", **members}},
    ]


SNAKE = {"prompt_token_count": 30, "candidates_token_count": 7}
CAMEL = {"promptTokens": 30, "completionTokens": 7}
CHAT = {"prompt_tokens": 30, "completion_tokens": 7}
MESSAGES = {"input_tokens": 30, "output_tokens": 7}
CONVERSE = {"inputTokens": 30, "outputTokens": 7}
METRICS = {"inputTokenCount": 30, "outputTokenCount": 7}
OLLAMA = {"prompt_eval_count": 30, "eval_count": 7}
WRITTEN = {"prompt_tokens": "30", "completion_tokens": "7"}
PLACES: list[tuple[str, list[Event]]] = [
    ("openai", chat(timings={"prompt_n": 30, "predicted_n": 7})),
    ("openai", chat(usage=CAMEL)),
    ("openai", chat(usage=WRITTEN)),
    ("openai", chat(usageMetadata={"promptTokenCount": 30, "candidatesTokenCount": 7})),
    ("openai", choice(delta={"usage": CHAT})),
    ("openai", choice(message={"usage": MESSAGES})),
    ("openai", chat(**CHAT)),
    ("responses", responses(usage=MESSAGES)),
    ("responses", responses(response={"status": "completed", "usage": CAMEL})),
    ("anthropic", messages(last={"usage": MESSAGES})),
    ("anthropic", messages(last={"amazon-bedrock-invocationMetrics": METRICS})),
    ("anthropic", messages(last={"message": {"usage": CHAT}})),
    ("gemini", gemini(usage_metadata=SNAKE)),
    ("gemini", gemini(usageMetadata=SNAKE)),
    ("gemini", gemini(usageMetadata={"promptTokenCount": "30", "candidatesTokenCount": "7"})),
    ("gemini", gemini(usage=CHAT)),
    ("ollama", ollama(usage=CHAT)),
    ("ollama", ollama(metrics=OLLAMA)),
    ("bedrock", converse(usage=CONVERSE)),
    ("bedrock", converse(usage=MESSAGES)),
]


def stream_of(api: str, events: list[Event]) -> bytes:
    if api == "bedrock":
        return b"".join([frame(*each) for event in events for each in event.items()])
    if api == "ollama":
        return b"".join([json.dumps(event).encode() + b"\n" for event in events])
    return b"".join([b"data: " + json.dumps(event).encode() + b"\n\n" for event in events])


def read(api: str, events: list[Event]) -> Any:
    decoder = protocols.backend(api, "http://host/v1").decoder({})
    decoder.feed(stream_of(api, events))
    return decoder.close()


@pytest.mark.parametrize(("api", "events"), PLACES)
def test_tokens_are_counted_wherever_they_stand_in_a_stream(api: str, events: list[Event]) -> None:
    reply = read(api, events)
    assert reply.text == TEXT
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (30, 7)
    assert not reply.usage.estimated


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("openai", {"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]}),
        ("anthropic", {"content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn"}),
        ("gemini", gemini()[0]),
        ("ollama", {"message": {"content": TEXT}, "done": True}),
        (
            "bedrock",
            {"output": {"message": {"content": [{"text": TEXT}]}}, "stopReason": "end_turn"},
        ),
    ],
)
@pytest.mark.parametrize(
    "report",
    [
        {"usage": CAMEL},
        {"usage": WRITTEN},
        {"usage_metadata": SNAKE},
        {"timings": {"prompt_n": 30, "predicted_n": 7}},
        {"usage": CONVERSE},
        {"metrics": METRICS},
        OLLAMA,
    ],
)
def test_tokens_are_counted_wherever_they_stand_in_a_body(
    api: str, body: Event, report: Event
) -> None:
    content = json.dumps({**body, **report}).encode()
    reply: Any = protocols.backend(api, "http://host/v1").decode(200, {}, content)
    assert reply.text == TEXT
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (30, 7)
    assert not reply.usage.estimated


def test_zeros_behind_a_count_leave_it() -> None:
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    usage = read("openai", [*chat(usage=CHAT), {"choices": [], "usage": zeros}]).usage
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (30, 7, False)


def test_a_count_from_before_the_text_is_not_its_count() -> None:
    start = {"usage": {"input_tokens": 30, "output_tokens": 1}}
    usage = read("anthropic", messages(start=start)).usage
    assert (usage.input_tokens, usage.estimated) == (30, True)
    assert usage.output_tokens > 1


def test_the_arguments_of_a_call_count_nothing() -> None:
    arguments = {"usage": {"output_tokens": 99}, "output_tokens": 99}
    call = {"function": {"name": "count", "arguments": arguments}}
    assert counted_in({"message": {"content": TEXT, "tool_calls": [call]}, "done": True}) is None
    part = {"functionCall": {"name": "count", "args": arguments}}
    assert counted_in({"candidates": [{"content": {"parts": [part]}}]}) is None


@pytest.mark.parametrize("count", [-1, 0, 1.5, True, None, [], {}, "", "-3", "9" * 40, 10**40])
def test_what_is_no_count_is_none(count: Any) -> None:
    assert counted_in({"usage": {"completion_tokens": count}}) is None
