"""Over HTTP, what a call costs has all dimensions of its bill, and what is reserved is the dearest
of them.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import httpx
import pytest

import rungwise
from rungwise import Budget, Discard, Policy, Prices, Text, Waits
from rungwise.testing import ScriptedReply

KEY: Final = "sk-ant-9d2f6b1c44"
MODEL: Final = "sage-6"
TEXT: Final = "In the reeds, mostly."
PRICES: Final = Prices(
    input=2.0,
    output=8.0,
    cache_creation_long=4.0,
    models={"sage-5": Prices(1.0, 4.0), "sage-7": Prices(20.0, 80.0)},
    tiers={"priority": Prices(4.0, 16.0)},
    units={"web_search": 0.01},
)
FALLBACK: Final = {
    "type": "fallback",
    "from": {"model": MODEL},
    "to": {"model": "sage-5"},
    "trigger": "refusal",
}
USAGE: Final = {
    "input_tokens": 30,
    "output_tokens": 9,
    "server_tool_use": {"web_search_requests": 2},
    "iterations": [
        {"type": "message", "input_tokens": 20, "output_tokens": 4},
        {"type": "fallback_message", "model": "sage-5", "input_tokens": 30, "output_tokens": 9},
        {"type": "advisor_message", "model": "sage-7", "input_tokens": 5, "output_tokens": 1},
    ],
}
COST: Final = round(
    (20 * 2 + 4 * 8 + 30 * 1 + 9 * 4 + 5 * 20 + 1 * 80) / 1e6 + 0.02,
    12,
)


def sse(events: Sequence[dict[str, Any]]) -> ScriptedReply:
    body = "".join([f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events])
    return ScriptedReply(body=body, headers={"content-type": "text/event-stream"})


def declined(*, streams: bool) -> ScriptedReply:
    """Return the reply of a server that has asked another model itself, behind a few words."""
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "I had rather "},
        FALLBACK,
        {"type": "text", "text": TEXT},
    ]
    message = {"id": "m", "type": "message", "role": "assistant", "model": "sage-5"}
    end = {"stop_reason": "end_turn"}
    if not streams:
        whole = {**message, "content": blocks, **end, "usage": USAGE}
        return ScriptedReply(body=json.dumps(whole))
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "usage": {}}}
    ]
    for index, block in enumerate(blocks):
        begun = {**block, "text": ""} if "text" in block else block
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        if "text" in block:
            delta = {"type": "text_delta", "text": block["text"]}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": end, "usage": USAGE})
    return sse([*events, {"type": "message_stop"}])


def client_of(provider: Any, **options: Any) -> rungwise.Client:
    options.setdefault("prices", PRICES)
    backend = rungwise.Anthropic(MODEL, base_url=provider.base_url, api_key=KEY, **options)
    return rungwise.Client(backend)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("streams", [False, True])
def test_the_answer_of_a_servers_own_fallback_is_priced_by_every_model(
    serve: Any, streams: bool
) -> None:
    with client_of(serve(declined(streams=streams))) as client:
        result = client.call("Where?")
    assert (result.text, result.outcome, result.cost) == (TEXT, "done", COST)
    assert (result.cost_reported, result.unpriced) == (False, ())
    assert result.usage.units == {"web_search": 2}
    again = rungwise.replay(rungwise.Journal.from_json(result.journal.to_json()))
    assert (again.cost, again.usage) == (result.cost, result.usage)


def test_a_consumer_holds_only_the_answer_in_the_end(serve: Any) -> None:
    with client_of(serve(declined(streams=True))) as client:
        events = list(client.stream("Where?"))
    shown = ""
    for event in events:
        if isinstance(event, Text):
            shown += event.text
        elif isinstance(event, Discard):
            shown = shown.removesuffix(event.text)
    assert shown == events[-1].text == TEXT


@pytest.mark.sampled(1)
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("asks", ["program", "backend"])
def test_a_program_on_the_transport_reads_only_the_answer(
    serve: Any, streams: bool, asks: str
) -> None:
    fallbacks = {"fallbacks": [{"model": "sage-5"}]}
    own = {"parameters": fallbacks} if asks == "backend" else {}
    provider = serve(declined(streams=streams))
    body: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "Where?"}],
        "stream": streams,
    }
    if asks == "program":
        body |= fallbacks
    with (
        client_of(provider, **own) as client,
        httpx.Client(transport=rungwise.Transport(client)) as program,
    ):
        answer = program.post("https://api.anthropic.com/v1/messages", json=body)
    assert answer.status_code == 200, answer.text
    [sent] = provider.requests
    assert sent.body["fallbacks"] == fallbacks["fallbacks"]
    texts: list[str] = []
    events = [{"type": "message_start", **answer.json()}] if not streams else []
    for line in answer.text.splitlines() if streams else ():
        if line.startswith("data:"):
            events.append(json.loads(line.removeprefix("data:")))
    for event in events:
        for block in (*event.get("content", ()), event.get("content_block", {})):
            if block.get("type") == "fallback":
                texts.clear()  # a program that asked for fallbacks knows the block
            texts.append(block.get("text", ""))
        texts.append(event.get("delta", {}).get("text", ""))
    assert "".join(texts) == TEXT
    units = [(event.get("usage") or {}).get("server_tool_use") for event in events]
    assert 2 in [each["web_search_requests"] for each in units if each]


def chat_of(provider: Any, prices: Prices | None, **budget: Any) -> rungwise.Client:
    backend = rungwise.OpenAIChat(
        MODEL, base_url=provider.base_url, api_key="sk-9d2f6b1c44aa", prices=prices
    )
    return rungwise.Client(
        backend, policy=Policy(budget=Budget(**budget), waits=Waits(reask_base=0))
    )


def chat_reply(usage: dict[str, Any], **members: Any) -> ScriptedReply:
    choice = {"index": 0, "message": {"content": TEXT}, "finish_reason": "stop"}
    whole = {"model": MODEL, "choices": [choice], "usage": usage, **members}
    return ScriptedReply(body=json.dumps(whole))


TOKENS: Final = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("usage", "members", "cost", "unpriced"),
    [
        ({}, {}, 280e-6, ()),
        ({}, {"service_tier": "default"}, 280e-6, ()),
        ({}, {"service_tier": "priority"}, 560e-6, ()),
        ({}, {"service_tier": "flex"}, 280e-6, ("tier flex",)),
        ({}, {"model": "sage-7-2026-11-30"}, 2800e-6, ()),
        ({}, {"model": "oak-1"}, 280e-6, ("model oak-1",)),
        ({"server_tool_use": {"web_search_requests": 3}}, {}, 0.03028, ()),
        ({"server_tool_use": {"dives_requests": 3}}, {}, 280e-6, ("unit dives",)),
        (
            {"prompt_tokens_details": {"cache_write_tokens_details": {"ttl_12h_tokens": 50}}},
            {},
            380e-6,
            (),
        ),
    ],
)
def test_what_a_reply_states_is_priced_or_named(
    serve: Any,
    usage: dict[str, Any],
    members: dict[str, Any],
    cost: float,
    unpriced: tuple[str, ...],
) -> None:
    with chat_of(serve(chat_reply({**TOKENS, **usage}, **members)), PRICES) as client:
        result = client.call("Where?")
    assert (result.cost, result.unpriced) == (pytest.approx(cost), unpriced)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("prices", [None, PRICES])
def test_a_reported_cost_is_taken(serve: Any, prices: Prices | None) -> None:
    with chat_of(serve(chat_reply({**TOKENS, "cost": 0.125})), prices) as client:
        result = client.call("Where?")
    assert (result.cost, result.cost_reported) == (0.125, True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cost", [-5, float("nan"), float("inf"), 1e200, "0.1", True, [1]])
def test_a_cost_that_cannot_be_one_is_none(serve: Any, cost: Any) -> None:
    with chat_of(serve(chat_reply({**TOKENS, "cost": cost})), PRICES) as client:
        result = client.call("Where?")
    if result.usage.input_tokens == 100:  # NaN is no JSON, and the body is none then
        assert (result.cost, result.cost_reported) == (pytest.approx(280e-6), False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("cost", "sent"), [(0.0, 3), (1.0, 1)])
def test_a_report_buys_no_attempt_beyond_the_budget(serve: Any, cost: float, sent: int) -> None:
    """The prices count where a provider says less, and what it says where that is more."""
    empty = {"index": 0, "message": {"content": ""}, "finish_reason": "stop"}
    usage = {**TOKENS, "cost": cost}
    provider = serve(chat_reply(usage, choices=[empty]))
    prices = Prices(2.0, 8.0)
    with (
        chat_of(provider, prices, money=0.0012, attempts=20) as client,
        pytest.raises(rungwise.CallError) as raised,
    ):
        client.call("Where?", max_tokens=10, input_tokens=100)
    assert len(provider.requests) <= sent + 1
    assert raised.value.result.cost_reported


def test_the_cap_that_is_sent_allows_for_the_dearest_model_and_tier(serve: Any) -> None:
    caps = []
    for prices in (Prices(2.0, 8.0), Prices(2.0, 8.0, models={"sage-7": Prices(2.0, 80.0)})):
        provider = serve(chat_reply(TOKENS))
        with chat_of(provider, prices, money=0.01) as client:
            client.call("Where?", max_tokens=9_000, input_tokens=100)
        [request] = provider.requests
        body = request.body
        caps.append(body.get("max_completion_tokens") or body["max_tokens"])
    assert caps[1] * 9 < caps[0]
    assert caps[1] * 80e-6 <= 0.01
