"""What is billed is read in every protocol, whole and streamed: caches by their lifetime, units,
tiers, costs, and each model that a server asked for one reply.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise import Usage
from rungwise.adapters.gateway.languages import anthropic, chat, responses
from rungwise.adapters.wires.counts import more_of
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import COUNTS
from rungwise.testing import ScriptedReply
from support import protocols
from support.streams import rendered

TEXT: Final = "In the reeds."


def decoded(name: str, data: bytes, *, size: int = 10_000) -> Reply:
    decoder = protocols.backend(name, "http://host/v1").decoder({})
    for start in range(0, len(data), size):
        decoder.feed(data[start : start + size])
    reply = decoder.close()
    assert isinstance(reply, Reply), reply
    return reply


def reply_of(name: str, usage: Mapping[str, Any], *, streams: bool) -> Reply:
    script = ScriptedReply(TEXT)
    object.__setattr__(script, "usage", dict(usage))  # a script refuses what is no count
    return decoded(
        name, rendered(protocols.backend(name, "http://host/v1"), script, streams=streams)
    )


TOKENS: Final = {
    "openai": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    "responses": {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120},
    "anthropic": {"input_tokens": 40, "output_tokens": 20},
    "bedrock": {"inputTokens": 40, "outputTokens": 20, "totalTokens": 120},
    "gemini": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120},
}
LONG: Final = {"cache_creation_tokens": 60, "cache_creation_long_tokens": 50}
CASES: Final[list[tuple[str, dict[str, Any], dict[str, Any]]]] = [
    (
        "anthropic",
        {
            "cache_creation_input_tokens": 60,
            "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 50},
        },
        LONG,
    ),
    (
        "anthropic",
        {"cache_creation": {"ephemeral_30m_input_tokens": 10, "ephemeral_24h_input_tokens": 50}},
        LONG,
    ),
    (
        "openai",
        {
            "prompt_tokens_details": {
                "cache_write_tokens": 60,
                "cache_write_tokens_details": {"ttl_30m_tokens": 10, "ttl_12h_tokens": 50},
            }
        },
        LONG,
    ),
    (
        "openai",  # LiteLLM's
        {
            "prompt_tokens_details": {
                "cache_creation_tokens": 60,
                "cache_creation_token_details": {
                    "ephemeral_5m_input_tokens": 10,
                    "ephemeral_1h_input_tokens": 50,
                },
            }
        },
        LONG,
    ),
    (
        "responses",
        {
            "input_tokens_details": {
                "cache_write_tokens": 60,
                "cache_write_tokens_details": {"ttl_30m_tokens": 10, "ttl_2d_tokens": 50},
            }
        },
        LONG,
    ),
    (
        "bedrock",
        {
            "cacheWriteInputTokens": 60,
            "cacheDetails": [
                {"ttl": "5m", "inputTokens": 10},
                {"ttl": "1h", "inputTokens": 50},
            ],
        },
        LONG,
    ),
    (
        "anthropic",
        {
            "server_tool_use": {
                "web_search_requests": 3,
                "web_fetch_requests": 2,
                "telescope_requests": 1,
                "nothing_requests": 0,
            }
        },
        {"units": {"web_search": 3, "web_fetch": 2, "telescope": 1}, "input_tokens": 40},
    ),
    (
        "openai",  # OpenRouter's
        {"server_tool_use": {"web_search_requests": 3}, "cost": 0.0125},
        {"units": {"web_search": 3}, "cost": 0.0125},
    ),
    (
        "openai",
        {"server_side_tool_usage_details": {"x_search_calls": 2, "y": {"total_seconds": 9}}},
        {"units": {"x_search": 2, "y_total_seconds": 9}},
    ),
    (
        "openai",  # Perplexity's, and a count of tokens, which is no unit
        {"num_search_queries": 4, "num_cached_tokens": 9},
        {"units": {"search": 4}},
    ),
    ("openai", {"cost": {"total_cost": 0.5}}, {"cost": 0.5}),
    (
        "openai",  # OpenRouter with the caller's own key
        {"cost": 0.25, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}},
        {"cost": 0.75},
    ),
    ("openai", {"cost": 0}, {"cost": 0.0}),
    *[("openai", {"cost": wrong}, {"cost": None}) for wrong in (-1, True, "much", None, 1e300)],
    ("anthropic", {"service_tier": "priority", "speed": "standard"}, {"tier": "priority"}),
    ("anthropic", {"service_tier": "standard", "speed": "fast"}, {"tier": "fast"}),
    ("anthropic", {"service_tier": "batch"}, {"tier": "batch"}),
    ("gemini", {"serviceTier": "FLEX"}, {"tier": "flex"}),
    ("gemini", {"trafficType": "ON_DEMAND"}, {"tier": None}),
    ("gemini", {"trafficType": "ON_DEMAND_OFFPEAK"}, {"tier": "offpeak"}),
    ("gemini", {"trafficType": "PROVISIONED_THROUGHPUT"}, {"tier": "provisioned_throughput"}),
]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("name", "report", "expected"), CASES)
@pytest.mark.sampled(1)
def test_a_report_is_read_with_all_that_it_bills(
    name: str, report: dict[str, Any], expected: dict[str, Any], streams: bool
) -> None:
    usage = reply_of(name, {**TOKENS[name], **report}, streams=streams).usage
    expected = {"input_tokens": 100, "output_tokens": 20, "estimated": False, **expected}
    if "tier" in expected and name == "anthropic":
        expected["input_tokens"] = 40
    assert {field: getattr(usage, field) for field in expected} == expected


WHOLE: Final[dict[str, dict[str, Any]]] = {
    "openai": {
        "choices": [{"index": 0, "message": {"content": TEXT}, "finish_reason": "stop"}],
        "usage": TOKENS["openai"],
        "service_tier": "priority",
    },
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": TEXT}]}],
        "usage": TOKENS["responses"],
        "service_tier": "priority",
        "tool_usage": {
            "web_search": {"num_requests": 3},
            "image_gen": {
                "input_tokens": 7,
                "output_tokens": 9,
                "total_tokens": 16,
                "input_tokens_details": {"a": 1},
            },
        },
    },
    "bedrock": {
        "output": {"message": {"role": "assistant", "content": [{"text": TEXT}]}},
        "stopReason": "end_turn",
        "usage": TOKENS["bedrock"],
        "serviceTier": {"type": "priority"},
    },
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_stands_beside_the_report_is_read_as_well(name: str) -> None:
    reply = decoded(name, json.dumps(WHOLE[name]).encode())
    assert (reply.text, reply.usage.tier) == (TEXT, "priority")
    if name == "responses":
        assert reply.usage.units == {
            "web_search": 3,
            "image_gen_input_tokens": 7,
            "image_gen_output_tokens": 9,
        }
        body = {"type": "response.completed", "response": WHOLE[name]}
        streamed = decoded(name, f"data: {json.dumps(body)}\n\n".encode(), size=17)
        assert streamed.usage == reply.usage
    if name == "openai":
        chunk = {**WHOLE[name], "choices": [{"index": 0, "delta": {"content": TEXT}}]}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        data = "".join([f"data: {json.dumps(each)}\n\n" for each in (chunk, end)])
        assert decoded(name, f"{data}data: [DONE]\n\n".encode()).usage == reply.usage


# several iterations of one message


def counts(fresh: int, output: int, **more: Any) -> dict[str, Any]:
    return {"input_tokens": fresh, "output_tokens": output, **more}


ITERATED: Final[list[tuple[dict[str, Any], Usage]]] = [
    (
        counts(10, 5, iterations=[counts(10, 5, type="message")]),
        Usage(10, 5),
    ),
    (
        counts(
            10,
            5,
            iterations=[
                counts(1000, 80, type="compaction"),
                counts(10, 5, type="message"),
            ],
        ),
        Usage(1010, 85),
    ),
    (counts(10, 5, iterations=[counts(1000, 80, type="compaction")]), Usage(1010, 85)),
    (
        counts(
            10,
            5,
            iterations=[
                counts(10, 5, type="message"),
                counts(300, 40, type="advisor_message", model="sage-7"),
            ],
        ),
        Usage(310, 45, shares=(Usage(300, 40, model="sage-7"),)),
    ),
    (
        counts(
            12,
            6,
            iterations=[
                counts(10, 2, type="message"),
                counts(12, 6, type="fallback_message", model="sage-5"),
            ],
        ),
        Usage(22, 8, shares=(Usage(10, 2), Usage(12, 6, model="sage-5"))),
    ),
    (
        counts(
            1,
            1,
            iterations=[
                counts(4, 3, type="never_heard_of", model="sage-4", cache_read_input_tokens=5),
                counts(2, 2, type="message", output_tokens_details={"thinking_tokens": 1}),
            ],
        ),
        Usage(11, 5, 5, 0, 1, shares=(Usage(9, 3, 5, model="sage-4"),)),
    ),
    # what a list says less than the message itself lowers nothing
    (counts(10, 500, iterations=[counts(1, 1, type="message")]), Usage(10, 500)),
    (counts(10, 5, iterations=["nonsense", 3, {"type": []}]), Usage(10, 5)),
]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("report", "expected"), ITERATED)
@pytest.mark.sampled(1)
def test_every_iteration_is_counted_for_its_own_model(
    report: dict[str, Any], expected: Usage, streams: bool
) -> None:
    assert reply_of("anthropic", report, streams=streams).usage == expected


_AT_ONCE: Final = ("fallback", "tool_use")
"""The blocks whose announcement holds all of them."""


def block(index: int, kind: str, **members: Any) -> list[dict[str, Any]]:
    """Return the events of a block that comes in one piece."""
    begun = {"type": kind}
    if kind in _AT_ONCE:
        begun |= members
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": index, "content_block": begun}
    ]
    for name, value in members.items():
        if kind not in _AT_ONCE:
            delta = {"type": f"{name}_delta", name: value}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
    return [*events, {"type": "content_block_stop", "index": index}]


MODELS: Final = {"from": {"model": "sage-6"}, "to": {"model": "sage-5"}, "trigger": "refusal"}
FALLBACKS: Final[list[list[tuple[str, dict[str, Any]]]]] = [
    [("text", {"text": "I had "}), ("fallback", MODELS), ("text", {"text": TEXT})],
    [
        ("thinking", {"thinking": "Hm, "}),
        ("text", {"text": "One"}),
        ("fallback", MODELS),
        ("text", {"text": "Two"}),
        ("fallback", MODELS),
        ("thinking", {"thinking": "Reeds?"}),
        ("text", {"text": TEXT}),
    ],
    [("fallback", MODELS), ("text", {"text": TEXT})],
    [
        ("tool_use", {"id": "t", "name": "look", "input": {"lake": "Vomb"}}),
        ("fallback", MODELS),
        ("text", {"text": TEXT}),
    ],
]


@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize("blocks", FALLBACKS)
def test_the_text_of_a_model_that_declined_is_not_joined(
    blocks: list[tuple[str, dict[str, Any]]], size: int
) -> None:
    message = {
        "id": "m",
        "model": "sage-5",
        "content": [{"type": kind, **members} for kind, members in blocks],
        "stop_reason": "end_turn",
        "usage": counts(9, 9),
    }
    whole = decoded("anthropic", json.dumps(message).encode())
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": []}}
    ]
    for index, (kind, members) in enumerate(blocks):
        events += block(index, kind, **members)
    events.append(
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counts(9, 9)}
    )
    events.append({"type": "message_stop"})
    data = "".join([f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events])
    streamed = decoded("anthropic", data.encode(), size=size)
    reasoning = "Reeds?" if len(blocks) > 3 else ""
    for reply in (whole, streamed):
        assert (reply.text, reply.reasoning) == (TEXT, reasoning)
        assert (reply.tool_calls, reply.stop_reason) == ((), "stop")
    assert streamed.parts == whole.parts, "and the block goes back to its provider"


# nothing lowers what an earlier report has raised


amounts = st.integers(0, 1000)
reports = st.builds(
    lambda fresh, output, search, cost: {
        "prompt_tokens": fresh,
        "completion_tokens": output,
        "server_tool_use": {"web_search_requests": search},
        "cost": cost,
    },
    amounts,
    amounts,
    amounts,
    st.sampled_from([None, -1, 0.25, 0.5, "x", 3]),
)


@given(st.lists(reports, min_size=1, max_size=4))
def test_no_report_of_a_stream_lowers_what_another_has_raised(
    several: list[dict[str, Any]],
) -> None:
    events = [
        {"choices": [{"index": 0, "delta": {"content": TEXT}, "finish_reason": "stop"}]},
        *[{"choices": [], "usage": report} for report in several],
    ]
    data = "".join([f"data: {json.dumps(each)}\n\n" for each in events])
    usage = decoded("openai", f"{data}data: [DONE]\n\n".encode()).usage
    costs = [0.0]
    for report in several:
        assert usage.input_tokens >= report["prompt_tokens"]
        assert usage.output_tokens >= report["completion_tokens"]
        searches = report["server_tool_use"]["web_search_requests"]
        if report["prompt_tokens"] + report["completion_tokens"]:
            assert usage.units.get("web_search", 0) >= searches
            if isinstance(report["cost"], int | float):
                costs.append(report["cost"])
    assert (usage.cost or 0.0) >= max(costs)


@given(
    st.lists(
        st.builds(counts, amounts, amounts, cache_read_input_tokens=amounts),
        min_size=1,
        max_size=4,
    )
)
def test_no_stage_of_a_message_lowers_what_an_earlier_one_has_counted(
    several: list[dict[str, Any]],
) -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "usage": several[0]}},
        *block(0, "text", text=TEXT),
    ]
    for report in several[1:]:
        events.append({"type": "message_delta", "delta": {}, "usage": report})
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    events.append({"type": "message_stop"})
    data = "".join([f"data: {json.dumps(each)}\n\n" for each in events])
    usage = decoded("anthropic", data.encode()).usage
    for report in several:
        assert usage.output_tokens >= report["output_tokens"]
        assert usage.input_tokens >= report["input_tokens"] + report["cache_read_input_tokens"]


numbers = st.integers(0, 10)
usages = st.builds(
    Usage,
    numbers,
    numbers,
    numbers,
    numbers,
    numbers,
    cache_creation_long_tokens=numbers,
    units=st.dictionaries(st.sampled_from("ab"), numbers),
    cost=st.none() | st.floats(0, 9),
)


@given(usages, usages)
def test_of_two_reports_the_larger_counts_stand(one: Usage, other: Usage) -> None:
    both = more_of(one, other)
    assert both is not None
    for name in COUNTS:
        assert getattr(both, name) == max(getattr(one, name), getattr(other, name))
    costs = [each.cost for each in (one, other) if each.cost is not None]
    assert both.cost == max(costs, default=None)
    for name in "ab":
        assert both.units.get(name, 0) == max(one.units.get(name, 0), other.units.get(name, 0))


HOSTILE: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["ttl", "inputTokens", "cost", "iterations", "type", "model", "tool_usage", "1h"]
            )
            | st.text(max_size=9),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
MEMBERS: Final = (
    "cost",
    "cost_details",
    "is_byok",
    "iterations",
    "cache_creation",
    "cacheDetails",
    "server_tool_use",
    "tool_usage",
    "service_tier",
    "speed",
    "num_x",
)


@pytest.mark.parametrize("name", [*TOKENS])
@given(st.dictionaries(st.sampled_from(MEMBERS), HOSTILE, max_size=4), st.booleans())
def test_whatever_a_report_holds_the_usage_can_be_billed(
    name: str, report: dict[str, Any], streams: bool
) -> None:
    usage = reply_of(name, {**TOKENS[name], **report}, streams=streams).usage
    assert usage.output_tokens >= 20
    assert usage.cost is None or 0 <= usage.cost <= 2e12
    assert len(usage.units) <= 20
    for part in usage.by_model:
        assert all(getattr(part, each) >= 0 for each in COUNTS)


@pytest.mark.parametrize("name", ["anthropic", "openai", "responses"])
@pytest.mark.parametrize("streams", [False, True])
def test_what_the_gateway_writes_of_a_bill_is_read_back(name: str, streams: bool) -> None:
    module: Any = {"anthropic": anthropic, "openai": chat, "responses": responses}[name]
    usage = Usage(
        input_tokens=100,
        output_tokens=20,
        cache_creation_tokens=60,
        cache_creation_long_tokens=50,
        units={"web_search": 3, "telescope": 1},
        cost=0.0125,
    )
    read = reply_of(name, module.LANGUAGE.counts(usage), streams=streams).usage
    assert (read.units, read.cost, read.input_tokens) == (usage.units, usage.cost, 100)
    if name != "openai":  # whose form never said what was written to a cache
        assert read == usage
