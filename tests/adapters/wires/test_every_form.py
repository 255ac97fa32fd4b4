"""Any conversation, in any protocol's form, becomes a request that any other client could have
sent.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import MediaPart, Message, TextPart, ToolCall
from rungwise.adapters.wires.form import Form, Rules
from rungwise.adapters.wires.pairing import NO_RESULT
from rungwise.adapters.wires.plain.messages import read_messages
from rungwise.adapters.wires.portability import portable, written
from rungwise.core import OpaquePart, ReasoningPart, Request
from rungwise.fsm.values.frozen_map import thawed
from rungwise.testing import conversations
from support import official, protocols
from support.protocols import sending
from support.sampling import examples, sampled

pytestmark = pytest.mark.sampled(4)

APIS = protocols.PROTOCOLS
PAIRS = [(one, other) for one in APIS for other in APIS]
VALID = conversations(forms=("call", "message", "block"))
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {}}},
    }
    for name in ("look_up", "note", "read-file")
]

CAPS = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxTokens",
    "maxOutputTokens",
    "num_predict",
    "generationConfig",
    "inferenceConfig",
    "options",
]
"""What some server calls the output cap, or what it stands in."""


@cache
def backend(api: str) -> Any:
    return protocols.backend(api, "http://localhost:1/v1", model="m")


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_what_a_provider_alone_can_read_stays_in_its_protocol(one: str, other: str) -> None:
    """Also where the other one has the same model at the same host, as OpenRouter and others
    have.
    """
    thought = ReasoningPart("Herons like reeds.", "c2lnbmVk", backend(one).provider)
    own = OpaquePart(backend(one).provider, {"type": "secret", "data": "ZW5jcnlwdGVk"})
    messages = [
        Message.saying("user", "Where?"),
        Message("assistant", (thought, own, TextPart("There."))),
    ]
    for is_portable in (True, False):
        sent = json.dumps(body_of(other, [*messages, messages[0]], is_portable=is_portable))
        assert one == other or not ("c2lnbmVk" in sent or "ZW5jcnlwdGVk" in sent)


PRIVATE: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {
            "role": "assistant",
            "content": [
                {
                    "type": "thinking",
                    "thinking": "Reeds?",
                    "signature": "c2lnbmVk",
                },
                {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"},
                {
                    "type": "server_tool_use",
                    "id": "s",
                    "name": "web_search",
                    "input": {"query": "c2lnbmVk"},
                },
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "s",
                    "content": [{"encrypted_content": "c2lnbmVk"}],
                },
                {
                    "type": "text",
                    "text": "There.",
                    "citations": [{"encrypted_index": "ZW5jcnlwdGVk"}],
                },
            ],
        }
    ],
    "responses": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": "ZW5jcnlwdGVk",
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "There."}],
        },
    ],
    "gemini": [{"role": "model", "parts": [{"text": "There.", "thoughtSignature": "c2lnbmVk"}]}],
    "interactions": [
        {"type": "thought", "signature": "c2lnbmVk"},
        {
            "type": "google_search_call",
            "id": "s",
            "arguments": {"queries": ["herons"]},
            "signature": "c2lnbmVk",
        },
        {"type": "model_output", "content": [{"type": "text", "text": "There."}]},
    ],
    "ollama": [
        {
            "role": "assistant",
            "content": "There.",
            "thinking": "c2lnbmVk",
        }
    ],
    "bedrock": [
        {
            "role": "assistant",
            "content": [
                {
                    "reasoningContent": {
                        "reasoningText": {"text": "Reeds?", "signature": "c2lnbmVk"}
                    }
                },
                {"text": "There."},
            ],
        }
    ],
    "openai": [
        {
            "role": "assistant",
            "content": "There.",
            "reasoning_details": [{"data": "ZW5jcnlwdGVk"}],
        }
    ],
}
"""An answer as each protocol writes it, with what its provider alone can read."""


@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_what_a_provider_alone_can_read_stays_there_in_its_own_form_too(
    one: str, other: str, block: int
) -> None:
    asked: list[dict[str, Any]] = [{"role": "user", "content": "Where?"}]
    answer = PRIVATE[one]
    if one == "anthropic":  # each block by itself, so that none is found by its neighbours
        [whole] = answer
        answer = [
            {
                **whole,
                "content": [
                    *whole["content"][block : block + 1],
                    {"type": "text", "text": "There."},
                ],
            }
        ]
    sent = json.dumps(body_of(other, [*asked, *answer, *asked], is_portable=False))
    assert "There." in sent
    assert one == other or not any(secret in sent for secret in ("c2lnbmVk", "ZW5jcnlwdGVk"))


@pytest.mark.parametrize("name", CAPS)
@pytest.mark.parametrize("api", APIS)
def test_a_cap_that_a_budget_rests_on_goes_out_whatever_a_server_has_rejected(
    api: str, name: str
) -> None:
    request = Request("Where?", max_tokens=1000)
    send = sending(
        request,
        max_tokens=1000,
        dropped=frozenset({name}),
        must_cut=True,
    )
    assert b"1000" in backend(api).encode(send, stream=False).body


def form(api: str) -> Form:
    return backend(api).shapes  # type: ignore[no-any-return]


def body_of(
    api: str, messages: Sequence[Any], *, is_portable: bool, **asked: Any
) -> dict[str, Any]:
    """Return the body of a request, as JSON."""
    request = Request(messages, **asked)
    send = sending(request, max_tokens=1000, portable=is_portable)
    body: dict[str, Any] = json.loads(backend(api).encode(send, stream=True).body)
    return body


def told(messages: Sequence[Any]) -> list[Any]:
    """Return what is portable of a conversation: who says what, calls what, and what came of it;
    ids by their place.

    Turns of one side that stand in a row are one, for some protocols join them.
    """
    places: dict[str, int] = {}
    found: list[Any] = []
    # which gives ids to the calls of protocols without
    for message in portable(messages, Rules(), ""):
        if message.role == "system":
            continue
        for call in message.tool_calls:
            places[call.id] = len(places)
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        said: list[Any] = ["".join("".join(texts).split())]  # some protocols have one text alone
        said += [("picture", part.data) for part in message.parts if isinstance(part, MediaPart)]
        said += [
            ("call", places[call.id], call.name, json.loads(call.arguments))
            for call in message.tool_calls
        ]
        said += [("result", places.get(each.id), each.text) for each in message.tool_results]
        if found and found[-1][0] == message.role:
            found[-1][1][0] += said.pop(0)
            found[-1][1].extend(said)
        else:
            found.append((message.role, said))
    return found


def as_written(api: str, messages: Sequence[Any]) -> list[Any]:
    """Return a conversation in a protocol's own form, as JSON."""
    given = written(messages, form(api), "", is_portable=True)
    return json.loads(json.dumps(thawed(given)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("api", APIS)
def test_the_check_by_the_official_client_knows_what_is_wrong(api: str) -> None:
    body = body_of(api, IN_FORM[api], is_portable=False, tools=TOOLS)
    said = next(name for name in ("messages", "input", "contents") if name in body)
    for wrong in ({"gremlin": 1}, {said: [*body[said], {"role": "user", "gremlin": 1}]}, {said: 5}):
        with pytest.raises((official.Mismatch, KeyError)):
            official.check(api, {**body, **wrong})


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=examples(60))
@given(VALID, st.booleans())
def test_a_request_is_one_that_the_official_client_could_send(
    api: str, messages: Any, is_portable: bool
) -> None:
    official.check(api, body_of(api, messages, is_portable=is_portable, tools=TOOLS))


@pytest.mark.parametrize(("one", "other"), sampled(PAIRS, one_in=3))
@settings(max_examples=examples(40))
@given(VALID)
def test_a_conversation_survives_the_way_to_another_protocol_and_back(
    one: str, other: str, messages: Any
) -> None:
    here = as_written(one, messages)
    body = body_of(other, here, is_portable=True, tools=TOOLS)
    official.check(other, body)

    start = told(portable(here, form(other).rules, ""))
    there = as_written(other, here)
    assert told(there) == start, "the way there"
    back = as_written(one, there)
    assert told(portable(back, form(other).rules, "")) == start, "the way back"


RESULT = {"toolUseId": "tooluse_1", "content": [{"text": "4 herons"}]}
IN_FORM: dict[str, list[Any]] = {
    "openai": [{"role": "user", "content": [{"type": "text", "text": "Which bird?"}]}],
    "responses": [{"role": "user", "content": [{"type": "input_text", "text": "Which bird?"}]}],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": "Which bird?",
                }
            ],
        }
    ],
    "gemini": [{"role": "user", "parts": [{"text": "Which bird?"}]}],
    "interactions": [{"type": "user_input", "content": [{"type": "text", "text": "Which bird?"}]}],
    "ollama": [
        {
            "role": "user",
            "content": "Which bird?",
            "images": ["iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"],
        }
    ],
    "bedrock": [
        {"role": "user", "content": [{"text": "Which bird?"}, {"cachePoint": {"type": "default"}}]},
        {
            "role": "assistant",
            "content": [
                {
                    "toolUse": {
                        "toolUseId": "tooluse_1",
                        "name": "look_up",
                        "input": {},
                    }
                }
            ],
        },
        {"role": "user", "content": [{"toolResult": RESULT}]},
    ],
}
"""What a caller writes by hand, who knows one protocol."""


@pytest.mark.parametrize("is_portable", [False, True])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_what_is_written_by_hand_in_one_form_can_be_sent_in_another(
    one: str, other: str, is_portable: bool
) -> None:
    body = body_of(other, IN_FORM[one], is_portable=is_portable, tools=TOOLS)
    official.check(other, body)
    assert "Which bird?" in json.dumps(body)


SERVERS: dict[str, dict[str, Any]] = {
    "responses": {"type": "web_search"},
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
    "gemini": {"googleSearch": {}},
    "interactions": {"type": "google_search"},
    "bedrock": {"systemTool": {"name": "nova_grounding"}},
}
"""Tools that a provider runs by itself."""


@pytest.mark.parametrize("own", SERVERS)
@pytest.mark.parametrize("api", APIS)
def test_where_every_tool_is_left_out_no_choice_of_one_is_sent(api: str, own: str) -> None:
    asked = {
        "tools": [SERVERS[own]],
        "parameters": {"tool_choice": "auto", "parallel_tool_calls": False},
    }
    if form(api).lost_tools(asked["tools"]):
        body = body_of(
            api, [{"role": "user", "content": "Which bird?"}], is_portable=False, **asked
        )
        assert not {"tools", "tool_choice", "toolConfig", "parallel_tool_calls"} & body.keys()
        official.check(api, body)


@pytest.mark.parametrize("api", ["anthropic", "bedrock"])
def test_a_format_that_is_left_out_is_told_in_whatever_form_it_came(api: str) -> None:
    given = {"response_format": "json"}
    assert "response_format" not in body_of(
        api, [{"role": "user", "content": "Hi"}], is_portable=False, parameters=given
    )
    assert any(
        each.startswith("response_format")
        for each in backend(api).lost(Request("Hi", parameters=given))
    )


@pytest.mark.parametrize("api", APIS)
def test_what_was_written_in_a_form_is_its_own(api: str) -> None:
    messages = [
        Message.saying("user", "Where?"),
        Message.saying("assistant", "There."),
        Message.saying("user", "So?"),
    ]
    own = as_written(api, messages)
    assert all(map(form(api).is_own, own))
    assert as_written(api, own) == own


@pytest.mark.parametrize("is_hinted", [True, False])
@pytest.mark.parametrize("whose", ["caller", "reply", "neutral"])
@pytest.mark.parametrize("api", APIS)
def test_a_call_that_nobody_has_answered_gets_a_result_at_the_end_too(
    api: str, whose: str, is_hinted: bool
) -> None:
    call = ToolCall(
        "c1", "look_up", "{}", provider=backend(api).provider if whose == "reply" else ""
    )
    tail = protocols.OPEN[api] if whose == "caller" else [Message("assistant", (call,))]
    hint = [Message.saying("user", "Go on.")] if is_hinted else []
    asked = [*IN_FORM[api][:1], *tail, *hint]
    body = body_of(api, asked, is_portable=False, tools=TOOLS)
    official.check(api, body)
    said = next(body[name] for name in ("messages", "input", "contents") if name in body)
    read = read_messages(said)
    (place,) = [place for place, message in enumerate(read) if message.tool_calls]
    assert [result.text for result in read[place + 1].tool_results] == [NO_RESULT]
    assert json.dumps(body).count(NO_RESULT) == 1
    assert read[-1].text == ("Go on." if is_hinted else "")
    if whose == "caller" and api != "gemini":  # which has to be signed
        assert tail[0] in said
