"""The definitions of tools as they go out, and the call of one as it comes back."""

import rungwise
from rungwise import OpenAIChat, Tool
from rungwise.adapters.wires.chat.shapes import CHAT
from rungwise.fsm.turn.tools import Toolbox, ToolRun
from rungwise.testing import EmbeddedProvider, Script, ScriptedReply


def search(query: str, most: int = 3) -> list[str]:
    """Search the archive."""
    return [query] * most


def test_a_tool_read_from_a_function_is_sent_called_and_planned() -> None:
    box = Toolbox.of([Tool(search, strict=True)])
    calling = ScriptedReply(tool_calls=[{"id": "call_1", "name": "search", "arguments": '{"query": "x"}'}])
    with EmbeddedProvider(Script([calling])) as provider:
        with rungwise.Client(OpenAIChat("model", base_url=provider.base_url)) as client:
            result = client.call("Find x.", tools=box.definitions(CHAT))
        [sent] = [request.body["tools"] for request in provider.requests]
    assert sent == [
        {
            "type": "function",
            "function": {
                "name": "search",
                "description": "Search the archive.",
                "parameters": {
                    "type": "object",
                    "properties": {"query": {"type": "string"}, "most": {"type": "integer", "default": 3}},
                    "required": ["query"],
                    "additionalProperties": False,
                },
                "strict": True,
            },
        }
    ]
    run = box.plan(result.tool_calls[0], 5.0)
    assert isinstance(run, ToolRun)
    assert search(**run.arguments) == ["x", "x", "x"]
