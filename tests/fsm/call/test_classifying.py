import pytest

import rungwise
from rungwise import Usage
from rungwise.core import Reply
from rungwise.fsm.call.conversation.reading import PLAIN, read_reply
from rungwise.fsm.call.run.causes import CAUSES
from rungwise.fsm.call.run.observe import event_of_reply
from rungwise.fsm.call.table import CALL
from rungwise.fsm.replies.failures.classify import classify_response
from rungwise.fsm.replies.failures.failure import event_of_failure

TOOLS = (
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
    {"name": "read", "parameters": {"type": "object", "required": ["path"]}},
)


def classified(cap=None, **fields):
    read = read_reply(Reply(**fields), PLAIN, "", may_unsay=False, tools=TOOLS)
    return event_of_reply(read, cap)


def call(arguments="{}", name="read"):
    return (rungwise.ToolCall("1", name, arguments),)


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("answered", {"text": "hi"}),
        ("came_empty", {"text": " \n", "stop_reason": "stop"}),
        ("came_empty", {"text": "<think></think>", "stop_reason": "stop"}),
        ("only_reasoned", {"text": "<reasoning>hm", "stop_reason": "stop"}),
        ("answered", {"text": "<think>hm</think>hi", "stop_reason": "stop"}),
        ("reasoning_truncated", {"stop_reason": "length"}),
        (
            "interrupted",
            {
                "tool_calls": call(),
                "interrupted": True,
                "stop_reason": "length",
            },
        ),
        ("refused", {"refusal": "no", "stop_reason": "stop"}),
        ("malformed", {"stop_reason": "unknown"}),
        ("malformed", {"stop_reason": "unknown", "reasoning": "hm"}),
        ("malformed", {"text": "<think>hm</think>\n", "stop_reason": "unknown"}),
        ("ended_unclearly", {"text": "hi", "stop_reason": "unknown"}),
        ("ended_unclearly", {"text": "hi", "tool_calls": call(), "stop_reason": "unknown"}),
        ("tools_truncated", {"text": "hi", "tool_calls": call("{"), "stop_reason": "unknown"}),
        ("interrupted", {"text": "hi", "stop_reason": "unknown", "interrupted": True}),
        ("refused", {"text": "hi", "refusal": "no", "stop_reason": "unknown"}),
        ("malformed", {"text": "hi", "stop_reason": "tool_calls"}),
        (
            "called_tools",
            {
                "tool_calls": call(),
                "stop_reason": "stop",
                "text": "",
            },
        ),
        ("called_tools", {"tool_calls": call('{"path": "a"}')}),
        ("called_tools", {"tool_calls": call("", name="now"), "stop_reason": "tool_calls"}),
        ("called_tools", {"tool_calls": call("", name="read"), "stop_reason": "tool_calls"}),
        ("called_tools", {"tool_calls": call("", name="unheard"), "stop_reason": "tool_calls"}),
        ("called_tools", {"tool_calls": call("{}", name=""), "stop_reason": "tool_calls"}),
        ("called_tools", {"tool_calls": call("{}", name=" \n"), "stop_reason": "tool_calls"}),
        (
            "called_tools",
            {"tool_calls": call("{}", name="\u200b\u3164"), "stop_reason": "tool_calls"},
        ),
        ("came_empty", {"text": "\u200b\ufeff\x00", "stop_reason": "stop"}),
        (
            "came_empty",
            {
                "text": "\u2800",
                "reasoning": "\u200b",
                "stop_reason": "stop",
            },
        ),
        ("came_empty", {"text": "<think>\u200b</think>\ufeff", "stop_reason": "stop"}),
        (
            "only_reasoned",
            {
                "text": "\u200b",
                "reasoning": "hm",
                "stop_reason": "stop",
            },
        ),
        ("only_reasoned", {"text": "hm\n</think>\n\n", "stop_reason": "stop"}),
        ("answered", {"text": "hm\n</think>\n\nhi", "stop_reason": "stop"}),
        ("answered", {"text": '{"tag": "<think>"}', "stop_reason": "stop"}),
        ("reasoning_truncated", {"text": "\u200b", "stop_reason": "length"}),
        ("tools_truncated", {"tool_calls": call() + call("{"), "stop_reason": "tool_calls"}),
        ("malformed", {"tool_calls": call(), "stop_reason": "unknown"}),
    ],
)
def test_the_event_of_a_reply_before_it_is_judged(event, fields):
    assert classified(**fields) == event


@pytest.mark.parametrize("stop", [None, "unknown", "tool_calls"])
@pytest.mark.parametrize(("tokens", "cut"), [(99, False), (100, True), (101, True)])
def test_tokens_at_the_cap_betray_a_cut_that_the_finish_hides(stop, tokens, cut):
    event = classified(
        100,
        tool_calls=call(),
        stop_reason=stop,
        usage=Usage(0, tokens),
    )
    assert (event == "tools_truncated") is cut


def test_a_clean_stop_at_the_cap_is_an_answer():
    assert (
        classified(
            100,
            text="hi",
            stop_reason="stop",
            usage=Usage(0, 100),
        )
        == "answered"
    )


def test_an_estimated_count_proves_no_cut():
    assert classified(100, text="hi", usage=Usage(0, 100, estimated=True)) == "answered"


# what causes an event, in the words of HTTP


def test_describes_every_event_of_a_call_in_terms_of_http() -> None:
    assert list(CAUSES) == [each.name for each in CALL.declared_events]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *(
            (status, {"error": {"message": "no"}})
            for status in (429, 408, 401, 402, 403, 400, 422, 413)
        ),
        (404, {"error": {"code": "model_not_found", "message": "no such model"}}),
    ],
)
def test_a_status_stands_at_the_event_that_it_brings_about(status: int, body: object) -> None:
    event = event_of_failure(classify_response(status, {}, body))
    assert str(status) in CAUSES[event]


@pytest.mark.parametrize("status", [500, 502, 503, 529, 599])
def test_a_failure_of_the_server_may_pass(status: int) -> None:
    assert event_of_failure(classify_response(status, {}, {})) == "failed_transiently"
    assert "500 to 599" in CAUSES["failed_transiently"]
