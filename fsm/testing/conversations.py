"""Hypothesis strategy for conversations that a turn may start from, valid for any provider, in
every form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import (
    Message,
    OpaquePart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)

Conversation = tuple[PlainMessage | Message, ...]

FORMS: Final = ("call", "message", "function", "block")
"""In which form tools are called: `tool_calls`, a `Message`, the older `function_call`, blocks
within the content.
"""

SENTENCES: Final = (
    "Where do they nest?",
    "In the steep bank. ",
    "Grüße 🪜 e\u0301 ",
    "<think>hm</think>So it is. ",
)
LENGTHS: Final = (1, 1, 3, 40, 400)
"""How often a sentence is said: results of tools may be long."""
NAMES: Final = ("look_up", "note", "read-file")
ARGUMENTS: Final = ("{}", '{"path": "x", "n": 1}', json.dumps({"path": "y" * 300}))
PICTURE: Final = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
# the most rounds of a conversation, and the most replies of a round that call tools
MOST: Final = 3


def conversations(
    *, forms: Sequence[str] = FORMS, scattered: bool = False
) -> SearchStrategy[Conversation]:
    """Generate valid conversations that end as they do before a call or after a turn.

    Ids are distinct within a reply; some repeat in the next one, as the ids of some servers do. No
    two messages of the user stand in a row.

    Arguments:
        forms: in which forms tools are called, of `FORMS`; several may stand in one conversation.
        scattered: whether system messages may stand in the middle, too.
    """
    return _conversations(st.sampled_from(tuple(forms)), scattered)


def _plain(role: str, text: str) -> PlainMessage:
    return {"role": role, "content": text}


def _illustrated(text: str, pictures: int) -> PlainMessage:
    return {
        "role": "user",
        "content": [{"type": "text", "text": text}, *[deepcopy(PICTURE) for _ in range(pictures)]],
    }


# Built once: a strategy that is built for each draw takes longer to build than to draw from.
_THOUGHT: Final = ReasoningPart("hm", "signed", "one")
_TEXTS: Final = st.sampled_from([sentence * times for times in LENGTHS for sentence in SENTENCES])
_SYSTEMS: Final = st.builds(_plain, st.sampled_from(("system", "developer")), _TEXTS)
_QUESTIONS: Final[SearchStrategy[PlainMessage | Message]] = st.one_of(
    st.builds(_plain, st.just("user"), _TEXTS),
    st.builds(Message.saying, st.just("user"), _TEXTS),
    st.builds(_illustrated, _TEXTS, st.integers(0, 2)),
)
_ANSWERS: Final[SearchStrategy[PlainMessage | Message]] = st.one_of(
    st.builds(_plain, st.just("assistant"), _TEXTS),
    _TEXTS.map(
        lambda text: Message("assistant", (_THOUGHT, TextPart(text), OpaquePart("one", {"x": 1})))
    ),
)
_CALLED: Final = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(ARGUMENTS), _TEXTS, st.booleans()),
    min_size=1,
    max_size=3,
)
_STARTS: Final = st.sampled_from((0, 0, 7))
_ANY_TEXT: Final = st.one_of(st.just(""), _TEXTS)
_FLAGS: Final = st.booleans()
_COUNTS: Final = st.integers(0, MOST)


@st.composite
def _conversations(draw: DrawFn, forms: SearchStrategy[str], scattered: bool) -> Conversation:
    messages: list[PlainMessage | Message] = [
        draw(_SYSTEMS) for _ in range(draw(st.integers(0, 2)))
    ]
    if draw(_COUNTS) == MOST:
        messages.append(draw(_ANSWERS))  # a greeting
    for _ in range(draw(_COUNTS)):
        messages.append(draw(_QUESTIONS))
        replies = draw(_COUNTS)
        for _ in range(replies):
            messages += _tool_round(draw, forms)
        if not replies or draw(_COUNTS):  # otherwise the turn broke off
            messages.append(draw(_ANSWERS))
        if scattered and draw(_FLAGS):
            messages.append(draw(_SYSTEMS))
    messages.append(draw(_QUESTIONS))
    for _ in range(draw(_COUNTS)):
        messages += _tool_round(draw, forms)
    if draw(_FLAGS):
        messages.append(draw(_ANSWERS))
    return tuple(messages)


def _tool_round(draw: DrawFn, forms: SearchStrategy[str]) -> list[PlainMessage | Message]:
    """Draw a reply that calls tools, with their results."""
    form = draw(forms)
    start = draw(_STARTS)
    called = draw(_CALLED)
    calls = [
        ToolCall(f"call_{start + number}", name, arguments)
        for number, (name, arguments, _, _) in enumerate(called)
    ]
    results = [
        ToolResult(call.id, call.name, text, fault)
        for call, (_, _, text, fault) in zip(calls, called, strict=True)
    ]
    return _WRITERS[form](calls, results, draw(_ANY_TEXT), draw(_FLAGS))


Written = list[PlainMessage | Message]


def _as_messages(
    calls: list[ToolCall], results: list[ToolResult], text: str, joined: bool
) -> Written:
    behind = (
        [Message("tool", results)] if joined else [Message("tool", (each,)) for each in results]
    )
    return [Message("assistant", [*([TextPart(text)] if text else []), *calls]), *behind]


def _as_calls(calls: list[ToolCall], results: list[ToolResult], text: str, joined: bool) -> Written:
    calling = list[PlainMessage]()
    behind = list[PlainMessage]()
    for call, result in zip(calls, results, strict=True):
        function = {"name": call.name, "arguments": call.arguments}
        calling.append({"id": call.id, "type": "function", "function": function})
        content = [{"type": "text", "text": result.text}] if joined else result.text
        behind.append({"role": "tool", "tool_call_id": result.id, "content": content})
    return [{"role": "assistant", "content": text or None, "tool_calls": calling}, *behind]


def _as_functions(
    calls: list[ToolCall], results: list[ToolResult], text: str, joined: bool
) -> Written:
    call = calls[0]
    result = results[0]
    calling: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    return [
        {"role": "assistant", "content": text or None, "function_call": calling},
        {"role": "function", "name": call.name, "content": result.text},
    ]


def _as_blocks(
    calls: list[ToolCall], results: list[ToolResult], text: str, joined: bool
) -> Written:
    sentence = [{"type": "text", "text": text}] if text else []
    calling = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in calls
    ]
    behind: list[Mapping[str, Any]] = [
        {
            "type": "tool_result",
            "tool_use_id": each.id,
            "content": each.text,
            "is_error": each.is_fault,
        }
        for each in results
    ]
    more = [{"type": "text", "text": "And where do they sleep?"}] if joined else []
    return [
        {"role": "assistant", "content": [*sentence, *calling]},
        {"role": "user", "content": [*behind, *more]},
    ]


_WRITERS: Final = {
    "call": _as_calls,
    "message": _as_messages,
    "function": _as_functions,
    "block": _as_blocks,
}
