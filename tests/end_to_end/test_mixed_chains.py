"""A conversation goes from one protocol to another, in every order: what was said, called and seen
goes along.

Each backend in turn answers with signed reasoning and a tool call, and dies; the next one takes the
conversation over. At the end the first one is back, and gets what it alone can read of its own,
word for word.
"""

from itertools import permutations
from typing import Any, Final

import pytest

from rungwise import Client, Message, TextPart, ToolResult
from rungwise.fsm.replies.parts import MediaPart, ReasoningPart, ToolCall
from rungwise.testing import ReceivedRequest, ScriptedReply
from support import protocols
from support.plain import user
from support.runs import Stage, Stages
from support.sampling import sampled

pytestmark = pytest.mark.sampled(2)

PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9aw"
    "AAAABJRU5ErkJggg=="
)
QUESTION: Final = Message(
    "user", (TextPart("Which bird is this?"), MediaPart("image", PIXEL, "image/png"))
)
PLAIN_QUESTION: Final = user(
    [
        {"type": "text", "text": "Which bird is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
)
TOOL: Final = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look a bird up.",
        "parameters": {
            "type": "object",
            "properties": {"bird": {"type": "string"}},
            "required": ["bird"],
        },
    },
}
DEAD: Final = ScriptedReply(status=401)
ONE_OF_EACH: Final = tuple(
    api for api in ("anthropic", "openai", "gemini", "ollama") if api in protocols.PROTOCOLS
)
OTHERS: Final = tuple(api for api in protocols.PROTOCOLS if api not in ONE_OF_EACH)
ORDERS: Final = [*permutations(ONE_OF_EACH), *((other, *ONE_OF_EACH) for other in OTHERS)]


def asks(number: int) -> ScriptedReply:
    return ScriptedReply(
        f"I look at page {number}.",
        reasoning=f"Page {number} may tell.",
        signature=f"c2lnbmVkLWJ5LW51bWJlci0{number}",
        tool_calls=(ToolCall(f"call_{number}", "look", f'{{"bird": "number {number}"}}'),),
    )


def check(request: ReceivedRequest, history: list[Any], me: str) -> None:
    """Check that a request holds all of a conversation that is portable, and nothing that is
    another provider's.
    """
    messages = protocols.said(request)
    texts = [part.text for one in messages for part in one.parts if isinstance(part, TextPart)]
    told = [part.text for one in history for part in one.parts if isinstance(part, TextPart)]
    assert [text for text in texts if text] == told
    calls = [call for one in messages for call in one.tool_calls]
    made = [call for one in history for call in one.tool_calls]
    assert [(call.name, call.arguments.replace(" ", "")) for call in calls] == [
        (call.name, call.arguments.replace(" ", "")) for call in made
    ]
    results = [result for one in messages for result in one.tool_results]
    assert [result.text for result in results] == [
        result.text for one in history for result in one.tool_results
    ]
    assert len([part for one in messages for part in one.parts if isinstance(part, MediaPart)]) == 1
    if any(call.id for call in calls):
        assert [call.id for call in calls] == [result.id for result in results]
        assert len({call.id for call in calls}) == len(calls)
    body = str(request.body)
    for part in (part for one in history for part in one.parts if isinstance(part, ReasoningPart)):
        if part.signature is not None:
            assert (str(part.signature) in body) is (part.provider == me)


@pytest.mark.parametrize("order", sampled([(order,) for order in ORDERS], one_in=6), ids="-".join)
@pytest.mark.parametrize("mode", ["call", "stream"])
@pytest.mark.parametrize("question", [QUESTION, PLAIN_QUESTION], ids=["parts", "plain"])
def test_a_conversation_survives_every_switch(
    order: tuple[str, ...],
    mode: str,
    question: Any,
    stages: Stages,
) -> None:
    from rungwise.adapters.wires.plain.messages import read_messages
    from support.modes import ask

    servers = [Stage() for _ in order]
    try:
        chain = [
            protocols.backend(api, server.provider.base_url, model=f"m{number}", name=api)
            for number, (api, server) in enumerate(zip(order, servers, strict=True))
        ]
        history: list[Any] = [question]
        with Client(chain, health=None) as client:  # the dead ones live again
            for number, api in enumerate(order):
                for other, server in enumerate(servers):
                    server.play([DEAD if other < number else asks(number)])
                result = ask(client, mode, history, tools=[TOOL])
                assert (result.outcome, result.backend) == ("done", api)
                assert [call.arguments.replace(" ", "") for call in result.tool_calls] == [
                    f'{{"bird":"number{number}"}}'
                ]
                check(
                    servers[number].requests[-1], [*read_messages(history)], chain[number].provider
                )
                [call] = result.tool_calls
                history += [
                    result.message,
                    Message("tool", (ToolResult(call.id, call.name, f"Page {number}."),)),
                ]
            servers[0].play([ScriptedReply("A heron.")])
            result = ask(client, mode, history, tools=[TOOL])
            assert result.text == "A heron."
            check(servers[0].requests[-1], [*read_messages(history)], chain[0].provider)
    finally:
        for server in servers:
            server.provider.close()


def test_plain_messages_of_an_answer_go_to_any_backend(stages: Stages) -> None:
    """What a caller has stored as JSON is read, whichever protocol is asked next."""
    for api in protocols.PROTOCOLS:
        for other in protocols.PROTOCOLS:
            stages[0].play([asks(1)])
            with Client(protocols.backend(api, stages[0].provider.base_url)) as client:
                first = client.call("Which?", tools=[TOOL])
            stages[1].play([ScriptedReply("A heron.")])
            told = [user("Which?"), first.plain_message]
            told.append(
                {
                    "role": "tool",
                    "tool_call_id": first.tool_calls[0].id,
                    "content": "Page 1.",
                }
            )
            with Client(protocols.backend(other, stages[1].provider.base_url)) as client:
                assert client.call(told, tools=[TOOL]).text == "A heron."
            asked = stages[1].requests[-1]
            assert not any("type" in message for message in asked.body.get("messages", ()))
            sent = protocols.said(asked)
            assert [one.role for one in sent if one.role != "system"] == [
                "user",
                "assistant",
                "tool",
            ]
            assert [result.text for one in sent for result in one.tool_results] == ["Page 1."]
