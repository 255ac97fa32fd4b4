"""What Anthropic's Messages and Bedrock's Converse alone have: signatures, counters, pauses,
prefill, own errors.
"""

from typing import Any

import orjson
import pytest

import rungwise
from rungwise import Message, ToolResult
from rungwise.adapters.gateway.languages.language import SIGNATURE
from rungwise.fsm.replies.parts import ToolCall
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support.modes import EVERY
from support.runs import Stage, asking

OLD = "claude-sonnet-4-5"
NEW = "claude-opus-5-5"
ON_BEDROCK = {OLD: "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", NEW: "anthropic.claude-opus-5-5"}
USER = {"role": "user", "content": "Where?"}
TOOL = {
    "name": "look",
    "input_schema": {"type": "object", "properties": {}},
}
KEYS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalrXUtnFEMI"}
TOOL_SPEC = {
    "toolSpec": {
        "name": "look",
        "inputSchema": {"json": {"type": "object"}},
    }
}
THINK = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
CUT = ScriptedReply(text="In the reeds, ", finish="length")
HINTS = rungwise.Hints(continuation="Go on.", nudge="Answer now.", seed="You thought: {reasoning}")


@pytest.fixture(
    params=[
        pytest.param(mode, marks=[pytest.mark.full] * (mode in ("acall", "awhole")))
        for mode in EVERY
    ]
)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def asks(mode: str) -> Any:
    """Return what asks a provider that plays a script, in one mode, and the bodies that it was
    sent.
    """

    def begin(*script: Any, model: str = NEW, others: tuple[Any, ...] = (), **options: Any) -> Any:
        def chain(url: str) -> list[Any]:
            return [
                rungwise.Anthropic(
                    model, base_url=url, api_key="sk-ant-9d2f6b1c44e07a35", **options
                ),
                *others,
            ]

        return asking(mode, script, chain, policy=rungwise.Policy(hints=HINTS))

    return begin


@pytest.fixture
def converses(mode: str) -> Any:
    """Return what asks in the same way over Bedrock."""

    def begin(*script: Any, model: str = ON_BEDROCK[NEW]) -> Any:
        return asking(
            mode,
            script,
            lambda url: rungwise.Bedrock(
                model,
                region="eu-north-1",
                base_url=url,
                **KEYS,
            ),
        )

    return begin


def bodies(stage: Stage) -> list[dict[str, Any]]:
    return [dict(request.body) for request in stage.requests]


def path(result: rungwise.Result) -> list[str]:
    return [step.target for step in result.journal.steps if step.target != "await"]


def test_signed_reasoning_goes_back_word_for_word_in_a_tool_loop(asks: Any) -> None:
    call = ToolCall("toolu_1", "look", '{"bird": "heron"}')
    first = ScriptedReply(text="I look.", reasoning="Grey. A heron.", tool_calls=(call,))
    with asks(first, ScriptedReply(text="In the reeds."), model=OLD, parameters=THINK) as (
        one,
        stage,
        _,
    ):
        result = one(tools=[TOOL])
        assert result.tool_calls[0].id == "toolu_1"
        told = Message("tool", (ToolResult("toolu_1", "look", "Ardea."),))
        assert one([USER, result.message, told], tools=[TOOL]).text == "In the reeds."
        sent = bodies(stage)[1]
    assert sent["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "thinking",
                    "thinking": "Grey. A heron.",
                    "signature": SIGNATURE,
                },
                {"type": "text", "text": "I look."},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "look",
                    "input": {"bird": "heron"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": "Ardea.",
                }
            ],
        },
    ]
    assert sent["thinking"] == THINK["thinking"]
    assert sent["max_tokens"] == 2000 + 4096


def test_a_signature_that_is_refused_is_left_out(asks: Any) -> None:
    wrong = ScriptedReply(
        status=400,
        error={"message": "messages.1.content.0: Invalid `signature` in `thinking` block"},
    )
    first = ScriptedReply(text="One.", reasoning="Hm.")
    with asks(first, wrong, ScriptedReply(text="Two.")) as (one, stage, _):
        result = one()
        history = [USER, result.message, {"role": "user", "content": "And?"}]
        assert one(history).text == "Two."
        sent = bodies(stage)
    assert "signature" in orjson.dumps(sent[1]).decode()
    assert "signature" not in orjson.dumps(sent[2]).decode()
    assert sent[2]["messages"][1] == {"role": "assistant", "content": "One."}


def test_cut_text_goes_on_behind_itself_where_the_model_takes_that(asks: Any) -> None:
    with asks(CUT, ScriptedReply(text="mostly."), model=OLD) as (one, stage, _):
        assert one().text == "In the reeds, mostly."
        sent = bodies(stage)
    assert [body["max_tokens"] for body in sent] == [4096, 8192]
    assert sent[1]["messages"][-1] == {"role": "assistant", "content": "In the reeds,"}


@pytest.mark.parametrize(
    ("model", "given"),
    [(NEW, {}), (OLD, {"parameters": {"reasoning_effort": "low"}}), (OLD, {"parameters": THINK})],
)
def test_and_behind_a_hint_where_it_does_not(asks: Any, model: str, given: Any) -> None:
    with asks(CUT, ScriptedReply(text="mostly."), model=model) as (one, stage, _):
        assert one(max_tokens=5000, **given).text == "In the reeds, mostly."
        sent = bodies(stage)
    assert [body["max_tokens"] for body in sent] == [5000, 10_000]
    assert [message["content"] for message in sent[1]["messages"]] == [
        "Where?",
        "In the reeds, ",
        "Go on.",
    ]


SEARCH = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "herons"},
}


def paused(*blocks: Any, stop: str = "pause_turn") -> ScriptedReply:
    usage = {"input_tokens": 5, "output_tokens": 5}
    message = {"id": "msg_1", "content": blocks, "stop_reason": stop, "usage": usage}
    return ScriptedReply(body=orjson.dumps(message).decode())


def test_a_paused_turn_goes_on_with_the_blocks_of_the_provider(asks: Any) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [],
    }
    first = [thought, {"type": "text", "text": "I search. "}, SEARCH]
    second = [found, {**SEARCH, "id": "srvtoolu_2"}]
    last = [found, {"type": "text", "text": "In the reeds."}]
    with asks(paused(*first), paused(*second), paused(*last, stop="end_turn")) as (one, stage, _):
        result = one()
        one([USER, result.message, USER])
        sent = [body["messages"][1:] for body in bodies(stage)]
    assert (result.text, path(result)) == (
        "I search. In the reeds.",
        ["continuation", "continuation", "done"],
    )
    assert sent[1] == [{"role": "assistant", "content": first}]
    assert sent[2] == [{"role": "assistant", "content": [*first, *second]}]
    assert sent[3] == [{"role": "assistant", "content": [*first, *second, *last]}, USER]


def test_what_was_said_before_a_pause_stands_before_it(asks: Any) -> None:
    cut = ScriptedReply(text="First of all, ", finish="length")
    script = (
        cut,
        paused({"type": "text", "text": "I search. "}, SEARCH),
        ScriptedReply(text="Reeds."),
    )
    with asks(*script) as (one, stage, _):
        result = one()
        sent = bodies(stage)
    assert result.text == "First of all, I search. Reeds."
    assert [block.get("text") for block in sent[2]["messages"][1]["content"]] == [
        "First of all, ",
        "I search. ",
        None,
    ]


def test_a_paused_turn_falls_back_as_text(asks: Any) -> None:
    with EmbeddedProvider(Script([ScriptedReply(text="In the reeds.")])) as second:
        other = rungwise.OpenAIChat("m", base_url=second.base_url)
        script = (paused({"type": "text", "text": "I search. "}, SEARCH), ScriptedReply(status=401))
        with asks(*script, others=(other,)) as (one, _, _):
            assert one().text == "I search. In the reeds."
        assert [each["content"] for each in second.requests[0].body["messages"]] == [
            "Where?",
            "I search. ",
            "Go on.",
        ]


def test_all_tokens_are_counted_in_one_meaning(asks: Any) -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1000,
        "output_tokens": 70,
        "output_tokens_details": {"thinking_tokens": 30},
    }
    with asks(
        ScriptedReply(text="Reeds.", usage=usage), prices=rungwise.Prices(1.0, 10.0, 0.1, 1.25)
    ) as (one, _, _):
        result = one()
    assert result.usage == rungwise.Usage(1110, 70, 100, 1000, 30)
    assert result.cost == pytest.approx((10 + 0.1 * 100 + 1.25 * 1000 + 10 * 70) / 1e6)


@pytest.mark.parametrize(
    ("error", "changed"),
    [
        ("`temperature` is deprecated for this model.", "temperature"),
        (
            "`temperature` and `top_p` cannot both be specified for this model. Please use only "
            "one.",
            "top_p",
        ),
        ("This model does not support the effort parameter.", "output_config"),
    ],
)
def test_what_the_model_refuses_is_left_out_once(asks: Any, error: str, changed: str) -> None:
    refused = ScriptedReply(status=400, error={"message": error})
    given = {
        "temperature": 0.5,
        "top_p": 0.5,
        "output_config": {"effort": "low"},
    }
    with asks(refused, ScriptedReply(text="Reeds."), model=OLD) as (one, stage, _):
        result = one(parameters=given)
        first, second = bodies(stage)
    assert (result.text, path(result)) == ("Reeds.", ["repair", "done"])
    assert changed in first
    assert changed not in second


def test_a_prefill_that_is_refused_is_never_sent_again(asks: Any) -> None:
    said = (
        "This model does not support assistant message prefill. The conversation must end "
        "with a user message."
    )
    refused = ScriptedReply(
        status=400, error={"message": said}, headers={"x-should-retry": "false"}
    )
    with asks(CUT, refused, ScriptedReply(text="mostly."), model=OLD) as (one, stage, _):
        assert one().text == "In the reeds, mostly."
        assert [body["messages"][-1]["role"] for body in bodies(stage)] == [
            "user",
            "assistant",
            "user",
        ]


# Bedrock


def test_each_attempt_is_signed(converses: Any) -> None:
    with converses(ScriptedReply(status=503), ScriptedReply(text="Reeds.")) as (one, stage, waits):
        result = one()
        assert (result.text, result.attempts, len(waits)) == ("Reeds.", 2, 1)
        for request in stage.requests:
            assert request.headers["authorization"].startswith(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"
            )
            assert request.headers["x-amz-date"].endswith("Z")
        assert "AKIDEXAMPLE" not in result.journal.to_json()


COMPACTED = {
    "alone": (
        {"input_tokens": 54_453, "output_tokens": 0},
        {
            "input_tokens": 0,
            "output_tokens": 0,
            "iterations": [
                {
                    "type": "compaction",
                    "input_tokens": 54_453,
                    "output_tokens": 883,
                }
            ],
        },
        rungwise.Usage(54_453, 883),
    ),
    "and what was written to the cache": (
        {
            "input_tokens": 106_576,
            "output_tokens": 5,
            "cache_creation_input_tokens": 3146,
        },
        {
            "output_tokens": 74,
            "cache_creation_input_tokens": 445,
            "cache_read_input_tokens": 3146,
            "iterations": [
                {
                    "type": "compaction",
                    "input_tokens": 106_576,
                    "output_tokens": 312,
                    "cache_creation_input_tokens": 3146,
                },
                {
                    "type": "message",
                    "input_tokens": 2,
                    "output_tokens": 74,
                    "cache_creation_input_tokens": 445,
                    "cache_read_input_tokens": 3146,
                },
            ],
        },
        rungwise.Usage(113_315, 386, 3146, 3591),
    ),
    "nothing, by a server that says so": (
        {"input_tokens": 10, "output_tokens": 1},
        {
            "output_tokens": 7,
            "iterations": [
                {
                    "type": "message",
                    "input_tokens": 10,
                    "output_tokens": 7,
                }
            ],
        },
        rungwise.Usage(10, 7),
    ),
}


@pytest.mark.parametrize("kind", COMPACTED)
@pytest.mark.parametrize("is_whole", [False, True])
def test_what_a_compaction_read_is_counted_once(kind: str, is_whole: bool, serve: Any) -> None:
    begun, ended, usage = COMPACTED[kind]
    message = {"id": "m", "content": []}
    events = [
        {"type": "message_start", "message": {**message, "usage": begun}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Reeds."},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": ended,
        },
        {"type": "message_stop"},
    ]
    body = "".join(
        f"event: {each['type']}\ndata: {orjson.dumps(each).decode()}\n\n" for each in events
    )
    reply = ScriptedReply(body=body, headers={"content-type": "text/event-stream"})
    if is_whole:
        whole = {
            **message,
            "content": [{"type": "text", "text": "Reeds."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 0, **ended},
        }
        reply = ScriptedReply(body=orjson.dumps(whole).decode())
    provider = serve(reply)
    with rungwise.Client(
        rungwise.Anthropic(NEW, base_url=provider.base_url, api_key="sk-ant-9d2f6b1c44")
    ) as client:
        result = client.call("Where?")
    assert (result.text, result.usage) == ("Reeds.", usage)


def test_a_throttle_inside_a_reply_keeps_its_text(converses: Any) -> None:
    broken = ScriptedReply(
        text="In the reeds, ", error_event={"type": "ThrottlingException", "message": "Slow down"}
    )
    with converses(broken, ScriptedReply(text="mostly.")) as (one, _, _):
        result = one()
    assert result.outcome == "done"
    # a whole body with an error in it has no text
    assert result.text in ("In the reeds, mostly.", "mostly.")
    assert [step.reason for step in result.journal.steps if step.reason] == ["rate_limit"]


def test_a_call_that_the_server_could_not_read_is_asked_for_again(converses: Any) -> None:
    call = ToolCall("tooluse_1", "look", "{}")
    with converses(
        ScriptedReply(finish="malformed_tool_use"), ScriptedReply(tool_calls=(call,))
    ) as (one, _, _):
        result = one(tools=[TOOL_SPEC])
    assert [each.name for each in result.tool_calls] == ["look"]
    assert [step.code for step in result.journal.steps if step.code] == ["malformed_tool_use"]


def test_all_tokens_are_counted_in_one_meaning_on_bedrock(converses: Any) -> None:
    usage = {
        "inputTokens": 10,
        "outputTokens": 70,
        "totalTokens": 1180,
        "cacheReadInputTokens": 100,
        "cacheWriteInputTokens": 1000,
    }
    with converses(ScriptedReply(text="Reeds.", usage=usage)) as (one, _, _):
        assert one().usage == rungwise.Usage(1110, 70, 100, 1000)
