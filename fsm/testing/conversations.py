"""Hypothesis strategy for conversations that a turn may start from, in every form.

Each is valid for any provider: calls have results, ids are distinct within a reply, and no two
messages of the user stand in a row. Rounds of tools are drawn first in neutral terms, and then
written in one of the forms, so that all forms see the same calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from attrs import frozen
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import (
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)

Conversation = tuple[PlainMessage | Message, ...]

FORMS: Final = ("call", "message", "function", "block")
"""In which form tools are called.

In order: `tool_calls`, a `Message`, the older `function_call`, and blocks within the content.
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
MOST: Final = 3
"""The most questions of a conversation, and the most replies to one that call tools."""


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
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    for _ in range(pictures):
        content.append(deepcopy(PICTURE))
    return {"role": "user", "content": content}


def _answer(text: str) -> Message:
    return Message("assistant", (_THOUGHT, TextPart(text), OpaquePart("one", {"x": 1})))


# Built once: a strategy that is built for each draw takes longer to build than to draw from.
_THOUGHT: Final = ReasoningPart("hm", "signed", "one")
_TEXTS: Final = st.sampled_from([sentence * times for times in LENGTHS for sentence in SENTENCES])
_SYSTEMS: Final = st.builds(_plain, st.sampled_from(("system", "developer")), _TEXTS)
_PLAIN_QUESTIONS: Final = st.builds(_plain, st.just("user"), _TEXTS)
_NEUTRAL_QUESTIONS: Final = st.builds(Message.saying, st.just("user"), _TEXTS)
_ILLUSTRATED: Final = st.builds(_illustrated, _TEXTS, st.integers(0, 2))
_QUESTIONS: Final[SearchStrategy[PlainMessage | Message]] = st.one_of(
    _PLAIN_QUESTIONS, _NEUTRAL_QUESTIONS, _ILLUSTRATED
)
_PLAIN_ANSWERS: Final = st.builds(_plain, st.just("assistant"), _TEXTS)
_ANSWERS: Final[SearchStrategy[PlainMessage | Message]] = st.one_of(
    _PLAIN_ANSWERS, _TEXTS.map(_answer)
)
_CALL: Final = st.tuples(st.sampled_from(NAMES), st.sampled_from(ARGUMENTS), _TEXTS, st.booleans())
"""The name and arguments of a tool call, its result, and whether that is a fault."""
_CALLED: Final = st.lists(_CALL, min_size=1, max_size=3)
_STARTS: Final = st.sampled_from((0, 0, 7))
_ANY_TEXT: Final = st.one_of(st.just(""), _TEXTS)
_FLAGS: Final = st.booleans()
_COUNTS: Final = st.integers(0, MOST)


@st.composite
def _conversations(draw: DrawFn, forms: SearchStrategy[str], scattered: bool) -> Conversation:
    messages: list[PlainMessage | Message] = []
    for _ in range(draw(st.integers(0, 2))):
        messages.append(draw(_SYSTEMS))
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
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for number, (name, arguments, text, is_fault) in enumerate(draw(_CALLED), start):
        id = f"call_{number}"
        calls.append(ToolCall(id, name, arguments))
        results.append(ToolResult(id, name, text, is_fault))
    round = _Round(calls, results, draw(_ANY_TEXT), draw(_FLAGS))
    return _WRITERS[form](round)


@frozen
class _Round:
    """A reply that calls tools, and their results, before it is written in a form."""

    calls: list[ToolCall]
    results: list[ToolResult]
    text: str  # what the reply says beside its calls
    is_joined: bool  # whether results share a message, or stand as blocks, where the form allows


Written = list[PlainMessage | Message]


def _as_messages(round: _Round) -> Written:
    parts: list[Part] = []
    if round.text:
        parts.append(TextPart(round.text))
    parts += round.calls
    calling = Message("assistant", parts)
    if round.is_joined:
        return [calling, Message("tool", round.results)]
    return [calling, *[Message("tool", (each,)) for each in round.results]]


def _as_calls(round: _Round) -> Written:
    calling = list[PlainMessage]()
    answers = list[PlainMessage]()
    for call, result in zip(round.calls, round.results, strict=True):
        function = {"name": call.name, "arguments": call.arguments}
        calling.append(
            {
                "id": call.id,
                "type": "function",
                "function": function,
            }
        )
        content: Any = result.text
        if round.is_joined:
            content = [{"type": "text", "text": result.text}]
        answers.append(
            {
                "role": "tool",
                "tool_call_id": result.id,
                "content": content,
            }
        )
    return [
        {
            "role": "assistant",
            "content": round.text or None,
            "tool_calls": calling,
        },
        *answers,
    ]


def _as_functions(round: _Round) -> Written:
    """Write the first call only: this form has no more than one in a reply."""
    call = round.calls[0]
    result = round.results[0]
    calling: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    return [
        {
            "role": "assistant",
            "content": round.text or None,
            "function_call": calling,
        },
        {
            "role": "function",
            "name": call.name,
            "content": result.text,
        },
    ]


def _as_blocks(round: _Round) -> Written:
    calling: list[Mapping[str, Any]] = []
    if round.text:
        calling.append({"type": "text", "text": round.text})
    for call in round.calls:
        input = json.loads(call.arguments)
        calling.append(
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": input,
            }
        )
    answers: list[Mapping[str, Any]] = []
    for each in round.results:
        result = {
            "type": "tool_result",
            "tool_use_id": each.id,
            "content": each.text,
        }
        answers.append({**result, "is_error": each.is_fault})
    if round.is_joined:
        answers.append({"type": "text", "text": "And where do they sleep?"})
    return [{"role": "assistant", "content": calling}, {"role": "user", "content": answers}]


_WRITERS: Final = {
    "call": _as_calls,
    "message": _as_messages,
    "function": _as_functions,
    "block": _as_blocks,
}
