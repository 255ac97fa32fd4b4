"""Calls to OpenAI's Responses over HTTP: what of a reply goes back, and what is asked of the
server.
"""

import json
from typing import Any

import pytest

import rungwise
from rungwise import Client, OpenAIResponses
from rungwise.fsm.replies.parts import Message, OpaquePart, ToolCall, ToolResult
from rungwise.testing import EmbeddedProvider, ReceivedRequest, Script, ScriptedReply
from support import modes
from support.modes import EVERY
from support.plain import user
from support.tables import of_known_rungs

USER = {"type": "message", "role": "user", "content": "Where?"}
CALL = ToolCall("call_1", "look", '{"city": "Reykjavik"}')
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}


def backend(provider: EmbeddedProvider, **options: Any) -> OpenAIResponses:
    return OpenAIResponses(
        base_url=provider.base_url,
        **{
            "model": "gpt-5",
            "name": "primary",
            **options,
        },
    )


def serve(*replies: ScriptedReply) -> EmbeddedProvider:
    return EmbeddedProvider(Script(replies))


def ask(mode: str, chain: Any, messages: Any = (USER,), **options: Any) -> rungwise.Result:
    waits: list[float] = []
    client = Client(
        chain, policy=of_known_rungs(), **modes.waits_into(waits), **modes.options_of(mode)
    )
    try:
        return modes.ask(client, mode, [*messages], **options)
    finally:
        client.close()


in_every_mode = pytest.mark.parametrize("mode", EVERY)


@in_every_mode
def test_signed_reasoning_goes_back_word_for_word_in_a_tool_round_and_to_no_other_model(
    mode: str,
) -> None:
    with serve(
        ScriptedReply(reasoning="I look.", tool_calls=[CALL]), ScriptedReply("There.")
    ) as provider:
        first = ask(mode, backend(provider), tools=[TOOL])
        assert first.tool_calls == (CALL,)
        told = Message("tool", (ToolResult("call_1", "look", "rain"),))
        history = [USER, first.message, told]
        assert ask(mode, backend(provider), history, tools=[TOOL]).text == "There."
        ask(mode, backend(provider, model="gpt-6"), history, tools=[TOOL])
    asked, again, other = [request.body for request in provider.requests]
    assert (asked["store"], asked["include"]) == (False, ["reasoning.encrypted_content"])
    thought, called, output = again["input"][1:]
    assert thought["type"] == "reasoning"
    assert thought["summary"] == [{"type": "summary_text", "text": "I look."}]
    assert thought["encrypted_content"]
    call = {
        "type": "function_call",
        "call_id": "call_1",
        "name": "look",
        "arguments": CALL.arguments,
    }
    assert called.items() >= {**call, "id": "fc_000000010000"}.items()
    assert output == {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": "rain",
    }
    assert other["input"][1:] == [call, output]


@pytest.mark.parametrize("mode", ["stream", "whole"])
def test_rejected_reasoning_is_sent_no_more(mode: str) -> None:
    error = {
        "message": "Item 'rs_1' of type 'reasoning' was provided without its required following "
        "item."
    }
    with serve(
        ScriptedReply(reasoning="I look.", text="I look."),
        ScriptedReply(status=400, error=error),
        ScriptedReply("So."),
    ) as provider:
        first = ask(mode, backend(provider))
        result = ask(mode, backend(provider), [USER, first.message, USER])
    assert (
        result.text,
        [step.target for step in result.journal.steps if step.event != "sent"],
    ) == (
        "So.",
        ["repair", "done"],
    )
    kinds = [[item.get("type") for item in request.body["input"]] for request in provider.requests]
    assert kinds[1:] == [["message", "reasoning", "message", "message"], ["message"] * 3]
    assert provider.requests[2].body["input"][1] == {
        "type": "message",
        "role": "assistant",
        "content": "I look.",
    }


def test_a_model_that_gives_no_encrypted_reasoning_is_asked_without() -> None:
    error = {"message": "Encrypted content is not supported with this model.", "param": "include"}
    with serve(ScriptedReply(status=400, error=error), ScriptedReply("There.")) as provider:
        assert ask("call", backend(provider)).text == "There."
    assert ["include" in request.body for request in provider.requests] == [True, False]


@pytest.mark.parametrize("mode", ["call", "stream", "astream"])
@pytest.mark.parametrize("index", [10**9, -1])
def test_an_item_where_no_reply_has_one_is_malformed_and_asked_for_again(
    index: int, mode: str
) -> None:
    text = {
        "type": "response.output_text.delta",
        "item_id": "m",
        "content_index": 0,
        "delta": "Reeds.",
    }
    ended = {
        "type": "response.completed",
        "response": {"id": "r", "status": "completed", "output": []},
    }
    events = [
        {"type": "response.created", "response": {"id": "r"}},
        {**text, "output_index": index},
        ended,
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    broken = ScriptedReply(body=body, headers={"content-type": "text/event-stream"})
    with serve(broken, ScriptedReply("There.")) as provider:
        result = ask(mode, backend(provider))
    assert (result.outcome, result.text, len(provider.requests)) == ("done", "There.", 2)
    assert [step.event for step in result.journal.steps if step.event != "sent"] == [
        "malformed",
        "answered",
    ]


def test_a_cap_below_what_openai_takes_is_not_raised() -> None:
    with serve(ScriptedReply("There.")) as provider:
        ask("call", backend(provider), max_tokens=5)
    assert provider.requests[0].body["max_output_tokens"] == 5


def test_a_call_goes_on_from_a_stored_response_with_what_is_new() -> None:
    new = {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": "rain",
    }
    with serve(
        ScriptedReply("In the ", finish="length"), ScriptedReply("reeds, mostly.")
    ) as provider:
        result = ask(
            "call",
            backend(provider),
            [new],
            parameters={"previous_response_id": "resp_1"},
            max_tokens=100,
        )
    assert result.text == "In the reeds, mostly."
    for request in provider.requests:
        assert request.body["previous_response_id"] == "resp_1"
        assert "store" not in request.body
        assert request.body["input"][0] == new


@pytest.mark.parametrize("mode", ["call", "whole"])
def test_what_the_providers_own_tools_did_goes_back_to_it(mode: str) -> None:
    said = {"type": "output_text", "text": "There.", "annotations": []}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [said],
    }
    body = json.dumps(
        {
            "id": "resp_1",
            "status": "completed",
            "output": [SEARCH, message],
            "model": "gpt-5",
        }
    )
    with serve(ScriptedReply(body=body), ScriptedReply("So.")) as provider:
        first = ask(mode, backend(provider))
        assert OpaquePart(backend(provider).provider, SEARCH) in first.message.parts
        ask(mode, backend(provider), [USER, first.message, USER])
    assert provider.requests[1].body["input"] == [USER, SEARCH, message, USER]


def test_json_is_asked_for_in_the_words_of_responses() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    with serve(ScriptedReply('{"a": '), ScriptedReply('{"a": 1}')) as provider:
        result = ask("call", backend(provider), parameters={"response_format": schema})
    assert (result.outcome, result.text) == ("done", '{"a": 1}')
    assert provider.requests[0].body["text"]["format"]["name"] == "a"
    assert "response_format" not in provider.requests[0].body


def test_the_journal_has_the_providers_own_words() -> None:
    with serve(
        ScriptedReply("In the reeds, ", finish="length"), ScriptedReply("mostly.")
    ) as provider:
        result = ask("call", backend(provider))
    assert [step.stop_raw for step in result.journal.steps if step.stop_raw] == [
        "max_output_tokens",
        "completed",
    ]


# the type of each item


def strict(*replies: ScriptedReply) -> EmbeddedProvider:
    """Refuse items without a type, as the server of llama.cpp does."""
    left = list(replies)

    def answer(request: ReceivedRequest) -> ScriptedReply:
        if any("type" not in item for item in request.body.get("input", ())):
            return ScriptedReply(status=400, error={"message": "Cannot determine type of 'item'"})
        return left.pop(0) if len(left) > 1 else left[0]

    return EmbeddedProvider(answer)


OWN = [
    {"role": "developer", "content": "Be short."},
    user([{"type": "input_text", "text": "Where?"}]),
    {"role": "assistant", "content": "In the"},
    {
        "role": "assistant",
        "id": "msg_1",
        "content": [
            {
                "type": "output_text",
                "text": " reeds.",
                "annotations": [],
            }
        ],
    },
    Message.saying("user", "And when?"),
    user([{"type": "text", "text": "At night?"}]),
]


@in_every_mode
@pytest.mark.parametrize("prefills", [True, False])
def test_every_item_has_a_type_also_those_of_a_continuation(mode: str, prefills: bool) -> None:
    cut = ScriptedReply("Herons nest in the tall reeds at the northern", finish="length")
    with strict(cut, ScriptedReply(" lake.")) as provider:
        knows = rungwise.Capabilities(prefill=prefills)
        result = ask(mode, backend(provider, model="m", capabilities=knows), OWN)
    assert (result.outcome, result.attempts) == ("done", 2)
    first, again = [request.body["input"] for request in provider.requests]
    assert [item["type"] for item in first] == ["message"] * len(OWN)
    assert {item["type"] for item in again} == {"message"}
    assert again[len(OWN)]["content"].strip() == cut.text


@in_every_mode
def test_a_plain_message_has_a_type(mode: str) -> None:
    with strict(ScriptedReply("In the reeds.")) as provider:
        plain = ask(mode, backend(provider)).plain_message
        assert plain == {
            "type": "message",
            "role": "assistant",
            "content": "In the reeds.",
        }
        assert ask(mode, backend(provider), [USER, plain, USER]).outcome == "done"
        assert provider.requests[-1].body["input"][1] == plain


@in_every_mode
def test_a_stored_response_is_continued_with_typed_items(mode: str) -> None:
    with strict(ScriptedReply("In the reeds.")) as provider:
        stored = backend(provider, parameters={"previous_response_id": "resp_1"})
        assert ask(mode, stored, OWN).outcome == "done"
    assert {item["type"] for item in provider.requests[0].body["input"]} == {"message"}
