"""A reply that holds only an action for the caller, or a picture, is an answer: it is asked for and
paid for once.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from rungwise import Client, EmptyResponse, Result
from rungwise.core import OpaquePart
from rungwise.testing import ReceivedRequest, ScriptedReply
from support import modes
from support.modes import EVERY
from support.protocols import backend

USER = {"role": "user", "content": "Draw a heron."}
SENT = {"type": "message", **USER}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [],
    "encrypted_content": "gAAA",
}
ANSWERS: dict[str, dict[str, Any]] = {
    "computer": {
        "id": "cu_1",
        "type": "computer_call",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "click"},
    },
    "shell": {
        "id": "sh_1",
        "type": "shell_call",
        "call_id": "c1",
        "status": "completed",
        "action": {"commands": ["ls"]},
    },
    "local shell": {
        "id": "ls_1",
        "type": "local_shell_call",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"]},
    },
    "patch": {
        "id": "ap_1",
        "type": "apply_patch_call",
        "call_id": "c1",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "herons.txt"},
    },
    "approval": {
        "id": "mcpr_1",
        "type": "mcp_approval_request",
        "server_label": "birds",
        "name": "look",
        "arguments": "{}",
    },
    "search": {
        "id": "ts_1",
        "type": "tool_search_call",
        "call_id": "c1",
        "status": "completed",
        "execution": "client",
        "arguments": {"query": "herons"},
    },
    "unheard of": {
        "id": "br_1",
        "type": "browser_call",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "open"},
    },
    "picture": {
        "id": "ig_1",
        "type": "image_generation_call",
        "status": "completed",
        "result": PICTURE,
    },
}
NOT_FOR_THE_CALLER: dict[str, list[dict[str, Any]]] = {
    "a search of the server": [{**ANSWERS["search"], "execution": "server"}],
    "a web search": [
        {
            "id": "ws_1",
            "type": "web_search_call",
            "status": "completed",
        }
    ],
    "a shell of the server": [
        ANSWERS["shell"],
        {"type": "shell_call_output", "call_id": "c1", "output": []},
    ],
    "half an action": [{**ANSWERS["computer"], "status": "incomplete"}],
    "no picture": [
        {
            **ANSWERS["picture"],
            "status": "failed",
            "result": None,
        }
    ],
}


def replies(*items: dict[str, Any]) -> Callable[[ReceivedRequest], ScriptedReply]:
    """Answer with these items, streamed if that is asked for."""

    def reply(request: ReceivedRequest) -> ScriptedReply:
        about = {
            "id": "resp_1",
            "model": "m",
            "usage": {"input_tokens": 9, "output_tokens": 5},
        }
        whole = {**about, "status": "completed", "output": [*items]}
        if not request.body["stream"]:
            return ScriptedReply(body=json.dumps(whole))
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {"id": "resp_1", "output": []}}
        ]
        for at, item in enumerate(items):
            for kind in ("added", "done"):
                about_item = {"output_index": at, "item": item}
                events.append({"type": f"response.output_item.{kind}", **about_item})
        events.append({"type": "response.completed", "response": whole})
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        return ScriptedReply(body=body, headers={"content-type": "text/event-stream"})

    return reply


def ask(client: Client, mode: str, messages: list[Any], **options: Any) -> Result:
    return modes.ask(client, mode, messages, **options)


@pytest.mark.parametrize("mode", EVERY)
@pytest.mark.parametrize("kind", ANSWERS)
def test_it_is_done_with_the_item_in_the_message(kind: str, mode: str, serve: Any) -> None:
    item = ANSWERS[kind]
    provider = serve(replies(THOUGHT, item), ScriptedReply(text="There."))
    with Client(backend("responses", provider.base_url), **modes.options_of(mode)) as client:
        result = ask(client, mode, [USER])
        assert (result.outcome, result.text, result.attempts) == ("done", "", 1)
        assert result.usage.output_tokens == 5
        own = [part.block for part in result.message.parts if isinstance(part, OpaquePart)]
        assert own == [item]
        outcome = {
            "type": f"{item['type']}_output",
            "call_id": "c1",
            "output": "Ardea.",
        }
        if kind == "approval":
            outcome = {
                "type": "mcp_approval_response",
                "approval_request_id": "mcpr_1",
                "approve": True,
            }
        assert ask(client, mode, [USER, result.message, outcome]).text == "There."
    assert [each.body["input"] for each in provider.requests] == [
        [SENT],
        [SENT, THOUGHT, item, outcome],
    ]


@pytest.mark.parametrize("mode", ["call", "whole"])
def test_it_is_done_where_json_is_asked_for_too_and_beside_words(mode: str, serve: Any) -> None:
    said = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I click."}],
    }
    for items, text in (([ANSWERS["computer"]], ""), ([said, ANSWERS["computer"]], "I click.")):
        provider = serve(replies(*items))
        with Client(backend("responses", provider.base_url), **modes.options_of(mode)) as client:
            result = ask(client, mode, [USER], response_format={"type": "json_object"})
        assert (result.outcome, result.text, len(provider.requests)) == ("done", text, 1)


@pytest.mark.parametrize("mode", ["call", "whole"])
@pytest.mark.parametrize("kind", NOT_FOR_THE_CALLER)
def test_what_the_server_has_done_by_itself_is_no_answer(kind: str, mode: str, serve: Any) -> None:
    provider = serve(replies(*NOT_FOR_THE_CALLER[kind]))
    options = {**modes.waits_into([]), **modes.options_of(mode)}
    with (
        Client(backend("responses", provider.base_url), **options) as client,
        pytest.raises(EmptyResponse),
    ):
        ask(client, mode, [USER])
    assert len(provider.requests) == 4


@pytest.mark.parametrize("mode", ["call", "whole"])
def test_pictures_alone_are_an_answer_of_openrouters_too(mode: str, serve: Any) -> None:
    images = [
        {
            "type": "image_url",
            "index": 0,
            "image_url": {"url": f"data:image/png;base64,{PICTURE}"},
        }
    ]
    message = {"role": "assistant", "content": "", "images": images}

    def reply(request: ReceivedRequest) -> ScriptedReply:
        choice = {"index": 0, "finish_reason": "stop"}
        if not request.body["stream"]:
            return ScriptedReply(body=json.dumps({"choices": [{**choice, "message": message}]}))
        body = (
            f"data: {json.dumps({'choices': [{**choice, 'delta': message}]})}\n\ndata: [DONE]\n\n"
        )
        return ScriptedReply(body=body, headers={"content-type": "text/event-stream"})

    provider = serve(reply, ScriptedReply(text="There."))
    with Client(backend("openai", provider.base_url), **modes.options_of(mode)) as client:
        result = ask(client, mode, [USER])
        assert (result.outcome, result.attempts) == ("done", 1)
        ask(client, mode, [USER, result.message, USER])
    assert provider.requests[1].body["messages"][1]["images"] == images
