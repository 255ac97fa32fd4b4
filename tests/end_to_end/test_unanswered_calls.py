"""Each call of a tool that nobody has answered gets its result, anywhere in a history; all else is
sent as it is.
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

import rungwise
from rungwise import (
    Budget,
    Capabilities,
    Client,
    Hints,
    Message,
    Policy,
    Prices,
    ToolCall,
    ToolResult,
)
from rungwise.adapters.wires.pairing import NO_RESULT
from rungwise.core import Request
from rungwise.fsm.call.budget.estimate import MESSAGE_TOKENS, MISSING_RESULT_TOKENS
from rungwise.testing import ScriptedReply
from support import protocols
from support.modes import waits_into
from support.plain import assistant, user

HINT = "Go on."
ANSWER = ScriptedReply("In the reeds.")
CUT = ScriptedReply("In the reeds of", finish="length")
USER = Message.saying("user", "Where?")
SAID = Message.saying("assistant", "In the")
NEXT = Message.saying("user", "And now?")
CALLED = Message("assistant", (ToolCall("c1", "look_up", "{}"),))
ONE = Message("assistant", (ToolCall("c1", "look_up", '{"a":1}'),))
TWO = Message(
    "assistant", (ToolCall("c1", "look_up", '{"a":1}'), ToolCall("c2", "note", '{"b":2}'))
)
ALIKE = Message(
    "assistant", (ToolCall("c1", "look_up", '{"a":1}'), ToolCall("c2", "look_up", '{"a":2}'))
)
FIRST = Message("tool", (ToolResult("c1", "look_up", "R"),))
SECOND = Message("tool", (ToolResult("c2", "note", "S"),))
BOTH = Message("tool", (*SECOND.tool_results, *FIRST.tool_results))

HISTORIES: dict[str, tuple[list[Message], list[str]]] = {
    "the first is answered": ([USER, TWO, FIRST], ["R", NO_RESULT]),
    "the second is answered": ([USER, TWO, SECOND], [NO_RESULT, "S"]),
    "the first of two calls of one tool": ([USER, ALIKE, FIRST], ["R", NO_RESULT]),
    "the user speaks behind the result": ([USER, TWO, FIRST, NEXT], ["R", NO_RESULT]),
    "the user speaks behind the call": ([USER, ONE, NEXT], [NO_RESULT]),
    "the assistant speaks behind the call": ([USER, ONE, SAID], [NO_RESULT]),
    "the assistant speaks behind the result": ([USER, TWO, FIRST, SAID, NEXT], ["R", NO_RESULT]),
    "in the middle": (
        [USER, TWO, FIRST, SAID, NEXT, ONE, FIRST, SAID, NEXT],
        ["R", NO_RESULT, "R"],
    ),
    "a later call has the same id": ([USER, ONE, NEXT, ONE, FIRST], [NO_RESULT, "R"]),
    "nothing lacks": ([USER, TWO, BOTH, SAID, NEXT], ["R", "S"]),
}


def own(api: str, messages: list[Message]) -> list[Any]:
    """Return messages as a caller writes them in the form of a protocol."""
    form = getattr(rungwise, protocols.BACKENDS[api]).FORM
    return [plain for message in messages for plain in form.sent_to("", message)]


def sent(api: str, provider: Any, messages: list[Any], **call: Any) -> list[Any]:
    """Return what each request of a call holds of the conversation."""
    with Client(
        protocols.backend(api, provider.base_url), policy=Policy(), **waits_into([])
    ) as client:
        client.call(messages, **call)
    return [
        next(
            request.body[name] for name in ("messages", "input", "contents") if name in request.body
        )
        for request in provider.requests
    ]


def blocks(messages: list[Any]) -> Iterator[Any]:
    for message in messages:
        inner = message.get("parts", message.get("content"))
        if isinstance(inner, list) and message.get("role") != "tool":
            yield from inner
        elif (
            "tool_calls" not in message
            and message.get("role") in ("user", "assistant")
            and isinstance(inner, str)
        ):
            yield inner
        else:
            yield message


def is_made_up(block: Any) -> bool:
    return NO_RESULT in str(block)


def bare(block: Any) -> Any:
    """Return a text by itself, and a call without the stand-in for its signature."""
    if not isinstance(block, dict):
        return block
    if block.keys() == {"type", "text"}:
        return block["text"]
    return {name: value for name, value in block.items() if name != "thoughtSignature"}


def check(
    api: str,
    conversation: list[Any],
    messages: list[Message],
    results: list[str],
    *,
    word_for_word: bool = True,
) -> None:
    read = protocols.read_messages(conversation)
    told = [each for message in read for each in message.tool_results]
    calls = [each for message in read for each in message.tool_calls]
    # A result that names no call is its tool's next.
    by_call = [
        next((each for each in told if (each.id or call.id) == call.id), None) for call in calls
    ]
    assert sorted(each.text for each in told) == sorted(results)
    assert None not in by_call
    ids = [(each.id, each.name) for each in calls]
    for place, message in enumerate(read):
        if message.tool_calls and api != "responses":
            behind = [
                one
                for one in read[place + 1 : place + 1 + len(message.tool_calls)]
                if one.role == "tool"
            ]
            assert sum(len(one.tool_results) for one in behind) >= len(message.tool_calls), ids
    kept = [bare(block) for block in blocks(conversation) if not is_made_up(block)]
    given = [bare(block) for block in blocks(own(api, messages))]
    # what is written anew has ids of its own where one is used twice, and its results in order
    if word_for_word:
        assert [each for each in kept if each in given] == given
        assert NO_RESULT in results or kept == given


of_both = pytest.mark.parametrize("whose", ["caller", "neutral"])


@pytest.mark.parametrize("history", HISTORIES)
@of_both
def test_each_call_is_followed_by_its_result(
    api: str,
    whose: str,
    history: str,
    serve: Any,
) -> None:
    messages, results = HISTORIES[history]
    [conversation] = sent(api, serve(ANSWER), own(api, messages) if whose == "caller" else messages)
    check(api, conversation, messages, results, word_for_word=whose == "caller")
    if api == "bedrock" or (api == "anthropic" and "behind the result" not in history):
        roles = [message["role"] for message in conversation]
        assert all(one != other for one, other in pairwise(roles)), roles


def test_the_results_of_a_turn_are_in_the_order_of_its_calls(api: str, serve: Any) -> None:
    [conversation] = sent(api, serve(ANSWER), own(api, [USER, ALIKE, FIRST, NEXT]))
    read = protocols.read_messages(conversation)
    assert [each.text for message in read for each in message.tool_results] == ["R", NO_RESULT]


def test_what_the_caller_said_besides_goes_along_to_anthropic(serve: Any) -> None:
    marked = {"cache_control": {"type": "ephemeral"}}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s=="}
    calls = [
        {
            "type": "tool_use",
            "id": id,
            "name": "look_up",
            "input": {"b": 1, "a": 2},
        }
        for id in ("c1", "c2")
    ]
    told = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": "R",
        **marked,
    }
    said = {"type": "text", "text": "And?", **marked}
    given = [
        user("Where?"),
        assistant([thought, *calls]),
        user([told, said]),
    ]
    [conversation] = sent("anthropic", serve(ANSWER), given)
    assert conversation[:2] == given[:2]
    first, made, last = conversation[2]["content"]
    assert (first, last) == (told, said)
    assert made == {
        "type": "tool_result",
        "tool_use_id": "c2",
        "content": NO_RESULT,
        "is_error": True,
    }


OWN_CALLS: dict[str, list[Any]] = {
    "anthropic": [
        assistant(
            [
                {
                    "type": "server_tool_use",
                    "id": "srvtoolu_1",
                    "name": "web_search",
                    "input": {"query": "nests"},
                },
                {
                    "type": "mcp_tool_use",
                    "id": "mcptoolu_1",
                    "name": "find",
                    "server_name": "s",
                    "input": {},
                },
                {"type": "text", "text": "In the reeds."},
            ]
        )
    ],
    "responses": [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "n"},
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "name": "find",
            "server_label": "s",
            "arguments": "{}",
            "output": "R",
        },
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "code": "1",
            "container_id": "c",
            "status": "completed",
        },
        {"type": "item_reference", "id": "fc_1"},
    ],
    "gemini": [
        {
            "role": "model",
            "parts": [
                {"executableCode": {"language": "PYTHON", "code": "1"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                {"text": "One."},
            ],
        }
    ],
    "bedrock": [
        assistant(
            [
                {
                    "toolUse": {
                        "toolUseId": "t1",
                        "name": "nova_grounding",
                        "input": {},
                        "type": "server_tool_use",
                    }
                },
                {"text": "In the reeds."},
            ]
        )
    ],
}


MADE = {"type": "function_call_output", "call_id": "c1", "output": NO_RESULT}
CALL = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": "{}"}
FREE = {"type": "custom_tool_call", "call_id": "c1", "name": "write", "input": "Reeds."}
OLDER = {
    "role": "assistant",
    "content": None,
    "function_call": {"name": "look_up", "arguments": "{}"},
}


@pytest.mark.parametrize(
    ("api", "calls", "made"),
    [
        *[pytest.param(api, calls, [], id=f"run by {api}") for api, calls in OWN_CALLS.items()],
        pytest.param(
            "responses", [CALL, {"type": "item_reference", "id": "fco_1"}], [], id="by reference"
        ),
        pytest.param("responses", [CALL], [MADE], id="right behind it"),
        pytest.param(
            "responses", [FREE], [{**MADE, "type": "custom_tool_call_output"}], id="free text"
        ),
        pytest.param(
            "openai",
            [OLDER],
            [{"role": "function", "name": "look_up", "content": NO_RESULT}],
            id="older form",
        ),
    ],
)
def test_a_call_of_any_kind_gets_a_result_of_its_kind_unless_it_needs_none(
    api: str, calls: Any, made: Any, serve: Any
) -> None:
    before = [*own(api, [USER]), *calls]
    behind = own(api, [SAID, NEXT] if made else [NEXT])
    [conversation] = sent(api, serve(ANSWER), [*before, *behind])
    assert conversation == [*before, *made, *behind]


def test_what_goes_on_from_a_stored_response_may_answer_its_calls(serve: Any) -> None:
    told = own("responses", [FIRST, NEXT])
    provider = serve(ANSWER)
    [conversation] = sent(
        "responses", provider, told, parameters={"previous_response_id": "resp_1"}
    )
    assert conversation == told
    asked = own("responses", [FIRST, TWO, SECOND])
    *_, conversation = sent(
        "responses", provider, asked, parameters={"previous_response_id": "resp_1"}
    )
    assert conversation == [*asked, MADE]


@pytest.mark.parametrize("api", ["gemini", "ollama"])
def test_results_without_ids_belong_to_the_call_of_their_tool(api: str, serve: Any) -> None:
    """The results of calls at once may come in another order."""
    calls = Message("assistant", (ToolCall("", "look_up", "{}"), ToolCall("", "note", "{}")))
    told = Message("tool", (ToolResult("", "note", "S"), ToolResult("", "look_up", "R")))
    given = own(api, [USER, calls, told, NEXT])
    [conversation] = sent(api, serve(ANSWER), given)
    assert [*map(bare, blocks(conversation))] == [*map(bare, blocks(given))]


# a history that ends on a call


def messages_sent(
    api: str, provider: Any, messages: list[Any], **known: Any
) -> list[tuple[Message, ...]]:
    """Return the messages in each request of a call to a model of which this is known."""
    backend = protocols.backend(
        api, provider.base_url, **({"capabilities": Capabilities(**known)} if known else {})
    )
    with Client(backend, policy=Policy(hints=Hints(continuation=HINT)), **waits_into([])) as client:
        client.call(messages)
    return [protocols.said(request) for request in provider.requests]


prefilled_or_not = pytest.mark.parametrize("prefill", [False, True])


@prefilled_or_not
@of_both
def test_nobody_is_told_that_a_reply_broke_off_which_ended_on_a_call(
    api: str,
    whose: str,
    prefill: bool,
    serve: Any,
) -> None:
    provider = serve(ANSWER)
    tail = protocols.OPEN[api] if whose == "caller" else [CALLED]
    [said] = messages_sent(api, provider, [USER, *tail], prefill=prefill)
    assert [result.text for result in said[-1].tool_results] == [NO_RESULT]
    body = json.dumps(provider.requests[0].body)
    assert HINT not in body
    assert not any(mark in body for mark in ('"prefix"', '"partial"', "continue_final_message"))


@prefilled_or_not
@of_both
def test_the_call_has_its_result_in_each_later_attempt_too(
    api: str,
    whose: str,
    prefill: bool,
    serve: Any,
) -> None:
    provider = serve(CUT, ANSWER)
    tail = protocols.OPEN[api] if whose == "caller" else [CALLED]
    _, said = messages_sent(api, provider, [USER, *tail], prefill=prefill)
    [place] = [place for place, message in enumerate(said) if message.tool_calls]
    assert [result.text for result in said[place + 1].tool_results] == [NO_RESULT]
    assert said[place + 2].text == CUT.text
    bodies = [json.dumps(request.body) for request in provider.requests]
    assert [body.count(HINT) for body in bodies] == [0, 0 if said[-1].role == "assistant" else 1]


@of_both
def test_the_results_that_stand_in_count_beside_given_tokens(
    api: str, whose: str, serve: Any
) -> None:
    """Under a budget of money too, which is what they would pass."""
    provider = serve(ScriptedReply("In the reeds.", usage={}))
    tail = protocols.OPEN[api] if whose == "caller" else [CALLED]
    used = []
    for messages, money in (
        ([USER, *tail], 1000.0),
        ([USER, SAID, USER], 1000.0),
        ([USER, *tail], 20.0),
    ):
        backend = protocols.backend(
            api, provider.base_url, prices=Prices(input=1_000_000.0, output=0.0)
        )
        with Client(backend, policy=Policy(budget=Budget(money=money))) as client:
            try:
                used.append(client.call(Request(messages, input_tokens=10)).usage.input_tokens)
            except rungwise.OverBudget:
                assert money == 20.0
    assert len(provider.requests) == len(used) == 2
    assert used == [10 + MISSING_RESULT_TOKENS, 10]
    assert json.dumps(provider.requests[0].body).count(NO_RESULT) == 1
    assert len(NO_RESULT) // 3 + MESSAGE_TOKENS < MISSING_RESULT_TOKENS
