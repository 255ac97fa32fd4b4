"""Messages as plain mappings: to be stored as JSON, and sent to any provider later."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rungwise import ConfigurationError, MediaPart, Message, TextPart, ToolCall, ToolResult
from rungwise.core import CitationPart, OpaquePart, ReasoningPart, Request
from rungwise.fsm.call.conversation.plain import stored
from rungwise.fsm.call.conversation.request import ROLES
from support import protocols
from support.protocols import sending
from support.sampling import examples

PICTURE = MediaPart("image", "AAAA", "image/png", detail="low")
CALLING = Message(
    "assistant",
    (
        ReasoningPart("Reeds?", "c2lnbmVk", "one"),
        TextPart("Let me look.", cache={"type": "ephemeral"}),
        CitationPart(
            "There.", "https://lakes", "Lakes", ("characters", 0, 5), {"index": "x"}, "one"
        ),
        ToolCall("c0", "look", '{"lake": "Vomb"}', {"thoughtSignature": "c2lnbmVk"}, "one"),
        OpaquePart("one", {"type": "secret", "data": [1, {"x": None}]}, is_answer=True),
    ),
)
TOLD = Message(
    "tool",
    (
        ToolResult(
            "c0",
            "look",
            "three",
            is_fault=True,
            media=(PICTURE,),
            cache=True,
        ),
    ),
)
MESSAGES = (Message("user", (TextPart("Where?"), PICTURE)), CALLING, TOLD)
JUNK = st.sampled_from(
    (None, 5, -1.5, True, "", "x", "image", [], {}, ["a", 1, 2], {"type": "text"}, [[[]]])
)


def as_json(messages: Any) -> Any:
    return json.loads(json.dumps([stored(message) for message in messages]))


def test_a_message_comes_back_as_it_was() -> None:
    back = Request(as_json(MESSAGES)).messages
    assert back == MESSAGES
    assert [repr_of(message) for message in back] == [repr_of(message) for message in MESSAGES]


def repr_of(message: Any) -> Any:
    """Return all of a message, what does not count where two are compared included."""
    return [
        (type(part), {name: getattr(part, name) for name in part.__slots__ if name[0] != "_"})
        for part in message.parts
    ]


def test_what_a_caller_wrote_keeps_its_form() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "Where?"}]}
    assert stored(message) == message


@given(data=st.data(), junk=JUNK)
@settings(max_examples=examples(300))
def test_one_that_was_changed_is_refused_or_can_be_sent(data: st.DataObject, junk: Any) -> None:
    messages = as_json(MESSAGES)
    places = list(places_in(messages))
    *way, last = data.draw(st.sampled_from(places))
    holder = messages
    for step in way:
        holder = holder[step]
    if data.draw(st.booleans()):
        holder[last] = junk
    elif isinstance(holder, dict):
        holder[f"{last} "] = holder.pop(last)
    else:
        del holder[last]
    try:
        request = Request(messages)
    except ConfigurationError:
        return
    for api in protocols.PROTOCOLS:
        backend = protocols.backend(api, "http://localhost:1/v1", model="m")
        try:
            json.loads(backend.encode(sending(request), stream=False).body)
        except ConfigurationError:
            assert any(set(message) != {"rungwise", "role", "parts"} for message in messages)


def places_in(value: Any, *way: Any) -> Any:
    """Yield the way to each value within another."""
    if way:
        yield way
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in pairs:
        yield from places_in(each, *way, key)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused(version: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"messages\[0\] is not a stored message of version 1"
    ):
        Request([{"rungwise": version, "role": "user", "parts": []}])


@pytest.mark.parametrize("role", [*ROLES, "nobody", 5, None])
def test_its_role_is_checked(role: Any) -> None:
    message = {
        "rungwise": 1,
        "role": role,
        "parts": [{"type": "text", "text": "x"}],
    }
    if role in ("system", "user", "assistant"):
        assert Request([message]).messages[0].role == role  # type: ignore[union-attr]
    else:
        with pytest.raises(ConfigurationError):
            Request([message])


def test_deep_ones_end() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ConfigurationError):
        Request(
            [
                {
                    "rungwise": 1,
                    "role": "user",
                    "parts": [
                        {
                            "type": "opaque",
                            "provider": "x",
                            "block": deep,
                        }
                    ],
                }
            ]
        )
