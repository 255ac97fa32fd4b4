"""A turn that its provider has paused goes on over HTTP with the provider's own blocks."""

import json
from typing import Any

import pytest

from rungwise import Anthropic, Client, OpenAIChat
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply
from support import modes

USER = {"role": "user", "content": "Where?"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "herons"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def reply(*content: dict[str, Any], stop: str = "pause_turn") -> ScriptedReply:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content}
    usage = {"input_tokens": 9, "output_tokens": 9}
    return ScriptedReply(body=json.dumps({**message, "stop_reason": stop, "stop_sequence": None, "usage": usage}))


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize("mode", ["call", "stream", "whole", "awhole"])
def test_the_blocks_go_back_as_they_came_over_several_pauses(mode: str) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    replies = [
        reply(thought, said("I look. "), SEARCH),
        reply(FOUND, SEARCH),
        reply(FOUND, said("There."), stop="end_turn"),
    ]
    with EmbeddedProvider(Script(replies)) as provider:
        backend = Anthropic("m", api_key="sk-9d2f6b1c44e07a35", base_url=provider.base_url)
        client = Client([backend], **modes.options_of(mode))
        result = modes.ask(client, mode, [USER])
        again = modes.ask(client, "call", [USER, result.message, USER])
        client.close()
    assert (result.outcome, result.text, again.outcome) == ("done", "I look. There.", "done")
    turns = [request.body["messages"][1:] for request in provider.requests]
    first = [thought, said("I look. "), SEARCH]
    assert turns[:2] == [[], [{"role": "assistant", "content": first}]]
    assert turns[2] == [{"role": "assistant", "content": [*first, FOUND, SEARCH]}]
    assert turns[3][0] == {"role": "assistant", "content": [*first, FOUND, SEARCH, FOUND, said("There.")]}


def test_another_provider_goes_on_from_the_text_alone() -> None:
    with (
        EmbeddedProvider(
            Script([reply(said("In the northern reeds "), SEARCH), ScriptedReply(status=401)])
        ) as provider,
        EmbeddedProvider(Script([ScriptedReply(text="by the lake.")])) as other,
    ):
        chain = [
            Anthropic("m", api_key="sk-9d2f6b1c44e07a35", base_url=provider.base_url),
            OpenAIChat("m", base_url=other.base_url),
        ]
        client = Client(chain)
        result = client.call([USER])
        client.close()
    assert (result.outcome, result.text) == ("done", "In the northern reeds by the lake.")
    assert other.requests[0].body["messages"][1] == {"role": "assistant", "content": "In the northern reeds "}
