"""What the last events of a stream say of those before them: no count goes back, and no cut is
taken back.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from rungwise import Usage
from rungwise.adapters.gateway.languages.bedrock import frame
from rungwise.core import Reply
from rungwise.testing import ScriptedReply
from support.protocols import backend
from support.streams import rendered

TEXT: Final = "Herons nest in the reeds."
ESTIMATE: Final = -(-len(TEXT) // 4)


def events(*values: Mapping[str, Any]) -> bytes:
    return b"".join([b"data: %b\n\n" % json.dumps(value).encode() for value in values])


def anthropic(counts: tuple[Any, ...], stops: tuple[str, ...]) -> bytes:
    first, *others = counts or ({},)
    start = {"type": "message_start", "message": {"usage": first}}
    text = {"type": "text", "text": TEXT}
    block = {"type": "content_block_start", "index": 0, "content_block": text}
    ends = [{"type": "message_delta", "delta": {}, "usage": usage} for usage in others]
    ends += [{"type": "message_delta", "delta": {"stop_reason": stop}} for stop in stops]
    return events(start, block, *ends, {"type": "message_stop"})


def openai(counts: tuple[Any, ...], stops: tuple[str, ...]) -> bytes:
    def choice(delta: Any, stop: str | None) -> dict[str, Any]:
        return {
            "choices": [
                {
                    "index": 0,
                    "delta": delta,
                    "finish_reason": stop,
                }
            ]
        }

    ends = [choice({}, stop) for stop in stops]
    usages = [{"choices": [], "usage": usage} for usage in counts]
    return events(choice({"content": TEXT}, None), *ends, *usages) + b"data: [DONE]\n\n"


def gemini(counts: tuple[Any, ...], stops: tuple[str, ...]) -> bytes:
    content = {"role": "model", "parts": [{"text": TEXT}]}
    text = {"candidates": [{"index": 0, "content": content}]}
    ends = [{"candidates": [{"index": 0, "finishReason": stop}]} for stop in stops]
    usages = [{"usageMetadata": usage} for usage in counts]
    return events(*usages[:1], text, *ends, *usages[1:])


def bedrock(counts: tuple[Any, ...], stops: tuple[str, ...]) -> bytes:
    said = frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": TEXT}})
    return said + b"".join([frame("messageStop", {"stopReason": stop}) for stop in stops])


STREAMS: Final = {
    "anthropic": anthropic,
    "openai": openai,
    "gemini": gemini,
    "bedrock": bedrock,
}


def read(api: str, counts: tuple[Any, ...] = (), stops: tuple[str, ...] = ("stop",)) -> Reply:
    decoder = backend(api, "http://localhost:1/v1").decoder({})
    decoder.feed(STREAMS[api](counts, stops))
    reply = decoder.close()
    assert isinstance(reply, Reply)
    return reply


NAMES: Final = {
    "anthropic": {
        "in": "input_tokens",
        "out": "output_tokens",
        "cached": "cache_read_input_tokens",
    },
    "openai": {"in": "prompt_tokens", "out": "completion_tokens"},
    "gemini": {
        "in": "promptTokenCount",
        "out": "candidatesTokenCount",
        "thought": "thoughtsTokenCount",
    },
}


@pytest.mark.parametrize(
    ("api", "counts", "usage"),
    [
        # Thus servers of other models have it, in the protocol of Anthropic.
        ("anthropic", ({"in": 1000, "out": 1}, {"in": 0, "out": 50}), Usage(1000, 50)),
        (
            "anthropic",
            ({"in": 600, "cached": 400}, {"out": 5, "cached": 0}),
            Usage(1000, 5, cache_read_tokens=400),
        ),
        ("anthropic", ({"in": 1000, "out": 1}, {"out": 0}), Usage(1000, ESTIMATE, estimated=True)),
        ("anthropic", ({"in": 1000, "out": 1}, {}), Usage(1000, ESTIMATE, estimated=True)),
        ("openai", ({"in": 1000, "out": 50}, {"in": 0, "out": 0}), Usage(1000, 50)),
        ("openai", ({"in": 1000, "out": 9}, {"in": -1, "out": 10**15}), Usage(1000, 9)),
        (
            "gemini",
            ({"in": 1000}, {"in": 1000, "thought": 500}),
            Usage(1000, 500, reasoning_tokens=500),
        ),
        (
            "gemini",
            ({"in": 1000, "out": 2, "thought": 500}, {"in": 1000, "out": 10}),
            Usage(1000, 510, reasoning_tokens=500),
        ),
        (
            "gemini",
            ({"in": 1000, "out": 2, "thought": 500}, {"in": 1000}),
            Usage(1000, 502, reasoning_tokens=500, estimated=True),
        ),
        (
            "gemini",
            ({"in": 1000, "out": 2}, {"in": 0, "out": 0}),
            Usage(1000, ESTIMATE, estimated=True),
        ),
    ],
)
def test_what_was_counted_once_is_used(api: str, counts: tuple[Any, ...], usage: Usage) -> None:
    stop = {"anthropic": "end_turn", "gemini": "STOP"}.get(api, "stop")
    names = NAMES[api]
    reports = []
    for each in counts:
        reports.append({names[name]: count for name, count in each.items()})
    assert read(api, tuple(reports), (stop,)).usage == usage


@pytest.mark.parametrize(
    ("api", "stops", "reason"),
    [
        ("anthropic", ("max_tokens", "end_turn"), "length"),
        ("anthropic", ("refusal", "end_turn"), "content_filter"),
        ("anthropic", ("end_turn", "max_tokens"), "length"),
        ("openai", ("length", "stop"), "length"),
        ("openai", ("content_filter", "stop"), "content_filter"),
        ("openai", ("length", "tool_calls"), "length"),
        ("openai", ("stop", "length"), "length"),
        ("openai", ("nobody knows", "stop"), "stop"),
        ("gemini", ("MAX_TOKENS", "STOP"), "length"),
        ("gemini", ("SAFETY", "STOP"), "content_filter"),
        ("gemini", ("FINISH_REASON_UNSPECIFIED", "STOP"), "stop"),
        ("bedrock", ("max_tokens", "end_turn"), "length"),
    ],
)
def test_a_clean_end_takes_no_cut_back(api: str, stops: tuple[str, ...], reason: str) -> None:
    reply = read(api, stops=stops)
    assert reply.text == TEXT
    assert reply.stop_reason == reason


def test_a_clean_end_takes_no_failure_back() -> None:
    reply = read("gemini", stops=("MALFORMED_FUNCTION_CALL", "STOP"))
    assert reply.failure.reason == "failed_generation"
    assert reply.stop_raw == "MALFORMED_FUNCTION_CALL"


def test_reports_of_ever_other_names_are_not_gathered_for_ever() -> None:
    decoder = backend("openai", "http://localhost:1/v1").decoder({})
    for number in range(2_000):
        usage = {f"count{number}": 1, "completion_tokens": 7}
        decoder.feed(events({"choices": [], "usage": usage}))
    assert len(decoder._usage) <= 200
    assert decoder.close().usage.output_tokens == 7


UNCOUNTED: Final[Mapping[str, Any]] = {
    "openai": {"prompt_tokens": 9, "completion_tokens": 7.5},
    "responses": {"input_tokens": 9, "output_tokens": 7.5},
    "anthropic": {"input_tokens": 9, "output_tokens": 7.5},
    "gemini": {"promptTokenCount": 9, "candidatesTokenCount": 7.5},
    "ollama": {"prompt_eval_count": 9, "eval_count": 7.5},
    "bedrock": {"inputTokens": 9, "outputTokens": 7.5},
}


@pytest.mark.parametrize("api", UNCOUNTED)
@pytest.mark.parametrize("stream", [False, True])
def test_what_was_said_counts_where_its_tokens_are_no_whole_number(api: str, stream: bool) -> None:
    asked = backend(api, "http://localhost:1/v1")
    body = rendered(asked, ScriptedReply(text=TEXT, usage=UNCOUNTED[api]), streams=stream)
    if stream:
        decoder = asked.decoder({})
        decoder.feed(body)
        read = decoder.close()
    else:
        read = asked.decode(200, {}, body)
    assert read.text == TEXT
    assert read.usage == Usage(9, ESTIMATE, estimated=True)
