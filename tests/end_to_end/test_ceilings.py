"""What is counted, reserved and sent is the same thing, so that no budget is passed, whoever
tries.
"""

import json
from typing import Any

import pytest

from rungwise import Budget, Limits, Policy, Prices
from rungwise.core import Call, Failure, Request
from rungwise.fsm.call.budget.metering import COUNTED_BESIDE
from rungwise.testing import ReceivedRequest, ScriptedReply
from support.modes import MODES

PRICES = Prices(2.0, 10.0)
TOO_LONG = ScriptedReply(
    status=400, error={"code": "context_length_exceeded", "message": "too long"}
)
LONG = [{"role": "user", "content": "Where do herons nest? " * 400}]
BOTH_CAPS = [
    ScriptedReply(
        status=400,
        error={
            "code": "unsupported_parameter",
            "param": name,
            "message": f"Unsupported parameter: '{name}'",
        },
    )
    for name in ("max_tokens", "max_completion_tokens")
]


def prompt_of(request: ReceivedRequest) -> int:
    """Count a prompt as a provider might: 4 characters a token, and 4 tokens for each message."""
    messages = request.body["messages"]
    return sum(len(str(message["content"])) // 4 + 4 for message in messages)


def fair(text: str = "", finish: str = "stop", share: float = 1.0) -> Any:
    """Answer as a provider that keeps to the cap, uses all of it, and reports what it counted."""

    def answer(request: ReceivedRequest) -> ScriptedReply:
        cap = request.body.get("max_tokens") or request.body.get("max_completion_tokens") or 4096
        usage = {"prompt_tokens": prompt_of(request), "completion_tokens": max(1, int(cap * share))}
        return ScriptedReply(text=text, finish=finish, usage=usage)

    return answer


def lengthen(messages: Any) -> Any:
    return [*messages, {"role": "user", "content": "And where do the others nest? " * 2000}]


def shorten(messages: Any) -> Any:
    return [{"role": "user", "content": "Where do herons nest?"}]


def leave_alone(messages: Any) -> Any:
    return [*messages]


@pytest.mark.parametrize("compactor", [lengthen, shorten, leave_alone])
def test_money_holds_after_a_compaction(run: Any, compactor: Any) -> None:
    policy = Policy(budget=Budget(money=0.05))
    ended = run(
        [TOO_LONG, fair("Herons nest in reeds.", "length"), fair("So they do.")],
        backends=[{"prices": PRICES}],
        messages=LONG,
        policy=policy,
        compactor=compactor,
    )
    assert ended.result.cost <= 0.05
    sent = [step for step in ended.steps if step.event == "sent"]
    for step, request in zip(sent, ended.requests, strict=True):
        # What was reserved is for what went out.
        assert step.input_tokens >= prompt_of(request)
    assert [step.cap for step in sent] == ended.caps


def test_a_compactor_gets_the_callers_messages_and_the_partial_answer_once(run: Any) -> None:
    handed: list[Any] = []

    def compactor(messages: Any) -> Any:
        handed.append([dict(message) for message in messages])
        return shorten(messages)

    part = "Herons of the northern lake nest in "
    ended = run(
        [
            ScriptedReply(text=part, finish="length"),
            TOO_LONG,
            ScriptedReply(text="tall dead trees."),
        ],
        messages=LONG,
        compactor=compactor,
    )
    ended.was(text=part + "tall dead trees.", path="continuation compact done")
    assert handed[0] == LONG
    last = ended.bodies[-1]["messages"]
    assert last[0]["content"] == "Where do herons nest?"
    assert [message["content"] for message in last].count(part) == 1


@pytest.mark.parametrize(
    "budget", [Budget(output_tokens=200), Budget(money=0.3)], ids=["tokens", "money"]
)
def test_a_provider_that_ignores_the_cap_is_cut_or_asked_no_more(run: Any, budget: Budget) -> None:
    ended = run(
        [
            ScriptedReply(
                text="word " * 100_000,
                finish="stop",
                chunk_size=50,
                usage={},
            )
        ],
        backends=[{"prices": Prices(2.0, 1000.0)}],
        policy=Policy(budget=budget),
    )
    ended.was(counts=[1], overran=True)
    if ended.bodies[0]["stream"]:
        ended.was("partial")
        assert ended.result.usage.output_tokens <= ended.bodies[0]["max_tokens"]
        assert ended.result.cost <= 0.3
        assert len(ended.text.split()) < 1000
    else:
        assert ended.outcome == "done"  # it is all there, and paid for


@pytest.mark.parametrize("kind", ["empty", "reasoned"])
def test_no_attempt_follows_one_that_passed_its_cap(run: Any, kind: str) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5000}
    reply = ScriptedReply(
        reasoning="Hm. " * 30 if kind == "reasoned" else "", finish="stop", usage=usage
    )
    ended = run([reply], policy=Policy(budget=Budget(output_tokens=100_000)), max_tokens=100)
    ended.was("over_budget", counts=[1], overran=True)
    assert "100 tokens" in str(ended.error)


def test_gathered_text_is_counted_beside_the_callers_own_count(run: Any) -> None:
    policy = Policy(budget=Budget(money=0.31, attempts=8), limits=Limits(continuations=5))
    parts = [fair(f"Part {number}. " + f"word{number} " * 900, "length") for number in range(6)]
    ended = run(
        parts,
        backends=[{"prices": Prices(10.0, 30.0)}],
        policy=policy,
        max_tokens=2000,
        input_tokens=20,
    )
    assert ended.result.cost <= 0.31
    sent = [step for step in ended.steps if step.event == "sent"]
    assert all(
        step.input_tokens >= prompt_of(request)
        for step, request in zip(sent, ended.requests, strict=True)
    )


def test_the_dearest_input_is_reserved(run: Any) -> None:
    def cached(request: ReceivedRequest) -> ScriptedReply:
        prompt = prompt_of(request)
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": request.body["max_tokens"],
            "prompt_tokens_details": {"cache_write_tokens": prompt},
        }
        return ScriptedReply(text="Yes.", usage=usage)

    prices = Prices(2.0, 10.0, cache_creation=40.0)
    policy = Policy(budget=Budget(money=0.2))
    ended = run(
        [cached],
        backends=[{"prices": prices}],
        messages=LONG,
        policy=policy,
    )
    ended.was("done")
    assert 0 < ended.result.cost <= 0.2


def test_a_200_without_a_shape_is_charged(run: Any) -> None:
    shapeless = ScriptedReply(body=json.dumps({"hello": "world"}))
    policy = Policy(budget=Budget(output_tokens=3000))
    ended = run([shapeless], policy=policy, max_tokens=1000)
    ended.was("over_budget", counts=[3])
    # a server may count so much beside each cap
    assert ended.result.usage.output_tokens == 3000 - 8 - 2 * 8
    assert ended.result.usage.estimated


def test_what_an_error_inside_a_200_reports_is_paid_for(run: Any) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 700}
    gave_up = ScriptedReply(finish="error", usage=usage)
    ended = run([gave_up], policy=Policy(budget=Budget(output_tokens=2000)), max_tokens=1000)
    ended.was("over_budget")
    assert ended.result.usage.output_tokens == 700 * len(ended.requests) == 2100


@pytest.mark.parametrize("run", MODES, indirect=True)
def test_tool_arguments_without_end_are_cut_as_well(run: Any) -> None:
    call = {
        "id": "1",
        "name": "look_up",
        "arguments": json.dumps({"q": "herons " * 20_000}),
    }
    ended = run(
        [ScriptedReply(tool_calls=(call,), usage={})],
        policy=Policy(budget=Budget(output_tokens=300)),
    )
    assert ended.outcome in ("over_budget", "exhausted")
    ended.was(overran=True, counts=[1], tool_calls=())


def stream_of(*choices: Any) -> ScriptedReply:
    """Stream chunks with these choices."""
    ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
    events = [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in (*choices, ended)]
    return ScriptedReply(
        body="".join(events) + "data: [DONE]\n\n", headers={"content-type": "text/event-stream"}
    )


HUNDRED = "word " * 100
UNSEEN = {
    "messages": lambda number: {"index": 0, "message": {"content": f"{number} {HUNDRED}"}},
    "calls in messages": lambda number: {
        "message": {"tool_calls": [{"function": {"name": "f", "arguments": f"{number} {HUNDRED}"}}]}
    },
    "another choice": lambda number: {"index": 1, "delta": {"content": HUNDRED}},
    "text": lambda number: {"index": 0, "text": HUNDRED},
    "thinking": lambda number: {
        "delta": {"thinking_blocks": [{"type": "thinking", "thinking": f"{number} {HUNDRED}"}]}
    },
    "sound": lambda number: {"delta": {"audio": {"transcript": HUNDRED}}},
    "encrypted": lambda number: {
        "delta": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "QUJD" * 80}]}
    },
}


@pytest.mark.parametrize("run", MODES, indirect=True)
@pytest.mark.parametrize("kind", UNSEEN)
def test_what_no_delta_shows_is_within_the_cap_as_well(run: Any, kind: str) -> None:
    flood = stream_of(*map(UNSEEN[kind], range(1000)))
    ended = run([flood], policy=Policy(budget=Budget(output_tokens=200)))
    outcome = "partial" if kind in ("messages", "sound", "text") else "over_budget"
    ended.was(outcome, overran=True, counts=[1])
    assert 200 - COUNTED_BESIDE <= ended.result.usage.output_tokens < 500


@pytest.mark.parametrize("run", MODES, indirect=True)
@pytest.mark.parametrize("line", ["word word word\n", 'data: "word word word"\n\n'])
def test_stray_lines_without_end_are_paid_for(run: Any, line: str) -> None:
    flood = ScriptedReply(body=line * 30_000, headers={"content-type": "text/event-stream"})
    ended = run([flood], policy=Policy(budget=Budget(output_tokens=200)))
    ended.was("over_budget", counts=[1])
    assert 200 - COUNTED_BESIDE <= ended.result.usage.output_tokens < 500


WORDS = [f"extraordinarily{number} " for number in range(60)]
HONEST = {
    "a message at the end": [{"delta": {"content": word}} for word in WORDS]
    + [{"delta": {}, "message": {"content": "".join(WORDS)}}],
    "messages that grow, without the margin of their deltas": [
        {
            "delta": {"content": ("\n\n" if number == 0 else "") + word},
            "message": {"content": "".join(WORDS[: number + 1])},
        }
        for number, word in enumerate(WORDS)
    ],
    "messages that grow": [
        {"message": {"content": "".join(WORDS[: number + 1])}} for number in range(60)
    ],
    "the same in several fields": [
        {
            "delta": {
                "reasoning": word,
                "reasoning_content": word,
                "reasoning_details": [
                    {
                        "type": "reasoning.text",
                        "text": word,
                        "format": "some-format-v1",
                    }
                ],
                "thinking_blocks": [{"type": "thinking", "thinking": word}],
            }
        }
        for word in WORDS
    ]
    + [
        {
            "delta": {
                "content": "".join(WORDS),
                "thinking_blocks": [{"type": "thinking", "signature": "QUJD" * 2000}],
            }
        }
    ],
    "sources and probabilities": [
        {
            "delta": {
                "content": word,
                "annotations": [{"url_citation": {"title": "Herons", "content": HUNDRED}}],
            },
            "logprobs": {"content": [{"token": word, "top_logprobs": [{"token": word}] * 20}]},
        }
        for word in WORDS
    ],
}


@pytest.mark.parametrize("run", MODES, indirect=True)
@pytest.mark.parametrize("kind", HONEST)
def test_what_is_said_twice_or_not_written_is_not_counted_against_the_cap(
    run: Any, kind: str
) -> None:
    ended = run([stream_of(*HONEST[kind])], policy=Policy(budget=Budget(output_tokens=245)))
    assert (ended.outcome, ended.text.lstrip("\n"), ended.result.overran) == (
        "done",
        "".join(WORDS),
        False,
    )


def test_a_stale_connection_and_an_error_status_are_free() -> None:
    call = Call(Request("hi", max_tokens=100), Policy(budget=Budget(output_tokens=1000)))
    call.begin()
    call.receive(Failure("connection", is_stale=True))
    call.receive(Failure("server_error", status=500))
    assert call.spending.usage.output_tokens == 0
    call.receive(Failure("connection"))
    assert call.spending.usage.output_tokens == 100


TYPES = ["string", ["string", "null"], {"type": "string"}]


@pytest.mark.parametrize("kind", TYPES, ids=["a word", "a list", "a property of that name"])
def test_a_schema_may_hold_anything_under_type(run: Any, kind: Any) -> None:
    schema = {"type": "object", "properties": {"type": kind, "note": {"type": kind}}}
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    ended = run(
        [ScriptedReply(text="In reeds.")],
        backends=[{"prices": PRICES}],
        tools=[tool],
        parameters={"response_format": {"type": "text", "schema": schema}},
        policy=Policy(budget=Budget(money=1.0)),
    )
    ended.was("done")
    assert ended.bodies[0]["tools"] == [tool]


MANY_KEYS = {"properties": {f"the_customer_reference_number_of_line_{n}": {} for n in range(1000)}}
TOO_DEAR: dict[str, tuple[Prices, float, dict[str, Any]]] = {
    "anything": (Prices(1000, 1000), 0.001, {}),
    "a prompt that begins as a data URL": (
        PRICES,
        0.02,
        {"messages": [{"role": "user", "content": "data: " + "the herons of the lake " * 2000}]},
    ),
    "the keys of a schema": (
        Prices(1, 1),
        0.005,
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": MANY_KEYS}}]},
    ),
}


@pytest.mark.parametrize("kind", TOO_DEAR)
def test_a_call_that_cannot_afford_its_first_request_sends_none(run: Any, kind: str) -> None:
    prices, money, options = TOO_DEAR[kind]
    policy = Policy(budget=Budget(money=money))
    ended = run([fair("Yes.")], backends=[{"prices": prices}], policy=policy, **options)
    ended.was("over_budget", counts=[0], attempts=0, cost=0)


def test_a_compactor_that_hands_the_same_messages_back_leaves_their_count(run: Any) -> None:
    ended = run(
        [TOO_LONG, fair("In reeds.", "length")],
        backends=[{"prices": PRICES}],
        messages=[{"role": "user", "content": "hi"}],
        input_tokens=1000,
        policy=Policy(budget=Budget(money=0.05)),
        compactor=lambda messages: messages[-1:],
    )
    assert [step.input_tokens >= 1000 for step in ended.steps if step.event == "sent"] == [
        True
    ] * len(ended.requests)


def test_a_cap_that_was_not_sent_is_not_left_out(run: Any) -> None:
    ended = run([*BOTH_CAPS, ScriptedReply(finish="length")])
    assert ended.path == "failed"
    sent = [step.cap for step in ended.steps if step.event == "sent"]
    assert sent == ended.caps == [None]
