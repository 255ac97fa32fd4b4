"""The conversation of a turn: the caller's messages and everything since, valid at any moment."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from attrs import define, evolve, field

from rungwise.fsm.call.budget.estimate import estimate_tokens, tokens_compacted
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.replies.parts import MediaPart, Message, Part, ToolCall, ToolResult
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.turn.policy import TurnHints
from rungwise.fsm.turn.validity import Messages, as_name, read


class ResultEntry(NamedTuple):
    """Hold the result of a tool call, by the place of the call in its message."""

    place: int
    text: str
    is_fault: bool
    media: tuple[MediaPart, ...] = ()


@define(eq=False, repr=False)
class Conversation:
    """Collect the messages of a turn."""

    messages: tuple[PlainMessage | Message, ...]
    gathered: str = ""  # the text of an answer that was cut; the next call resumes it
    pending: Message | None = None
    # The results that have arrived, by the place of the call.
    results: dict[int, ToolResult] = field(factory=dict)
    shown: str = ""  # the last text that the model showed
    _added: Result | None = field(default=None, init=False)
    # The ids of all tool calls: some providers refuse duplicates.
    _ids: dict[str, int] | None = field(default=None, init=False)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the pending message."""
        if self.pending is None:
            return ()
        return self.pending.tool_calls

    @property
    def ids(self) -> dict[str, list[str]] | None:
        """Return the ids of the pending tool calls, as a journal records them; None without any."""
        if not self.calls:
            return None
        return {"ids": [call.id for call in self.calls]}

    def add_result(
        self, result: Result, event: str, *, is_summary: bool, ids: Sequence[str] | None = None
    ) -> None:
        """Add what a call returned.

        Arguments:
            result: the result of the call.
            event: what it means for the turn.
            is_summary: whether the call asked for a summary, which calls no tools.
            ids: those of its tool calls, if they were recorded.
        """
        if result is self._added:  # a signal interrupted the turn after it was added
            return
        if event == "called_tools" and not is_summary:
            self._add_tool_calls(result, ids)
        elif event in ("truncated", "overflowed"):
            self.gathered = result.text
            self._show(result.text)
        else:
            self._add_answer(result)
        self._added = result

    def _add_answer(self, result: Result) -> None:
        self.gathered = ""
        self._show(result.text)
        is_prior = result.journal.last.effect == "keep_prior_answer"
        repeats_earlier = result.outcome == "salvaged" and is_prior
        if is_blank(result.text) or repeats_earlier:
            return
        message = Message.saying("assistant", result.text)
        if result.outcome == "done" and not result.tool_calls:
            message = result.message
        self.messages += (message,)

    def _add_tool_calls(self, result: Result, ids: Sequence[str] | None) -> None:
        """Make the message pending, with names and ids that every provider accepts."""
        self.gathered = ""
        self._show(result.text)
        if self._ids is None:
            self._ids = {}
            for message in self.messages:
                for call in read(message).calls:
                    _, id = call.key
                    self._ids[id] = 1
        own = ids or [_unique(call.id, self._ids) for call in result.message.tool_calls]
        self.pending = Message("assistant", _sendable_parts(result.message.parts, own))
        self.results = {}

    def add_tool_results(self, entries: Iterable[ResultEntry]) -> list[ToolResult]:
        """Add results of the pending tool calls, and return them."""
        calls = self.calls
        added = dict[int, ToolResult]()
        for place, text, is_fault, media in entries:
            added[place] = ToolResult(calls[place].id, calls[place].name, text, is_fault, media)
        self.results |= added
        return list(added.values())

    def close(self, placeholder: str) -> None:
        """Complete the conversation, as `completed` does."""
        self.messages = self.completed(placeholder)
        self.pending = None
        self.results = {}
        self.gathered = ""

    def completed(self, placeholder: str) -> tuple[PlainMessage | Message, ...]:
        """Return the conversation in a form that can be sent; a cut answer becomes a message."""
        if self.pending is not None:
            missing = [ToolResult(call.id, call.name, placeholder, True) for call in self.calls]
            results = [self.results.get(place) or each for place, each in enumerate(missing)]
            return (*self.messages, self.pending, Message("tool", results))
        if is_blank(self.gathered):
            return self.messages
        return (*self.messages, Message.saying("assistant", self.gathered))

    def _show(self, text: str) -> None:
        if not is_blank(text):
            self.shown = text


def _sendable_parts(parts: Sequence[Part], ids: Sequence[str]) -> tuple[Part, ...]:
    own = iter(ids)
    sendable = list[Part]()
    for part in parts:
        if isinstance(part, ToolCall):
            arguments = "{}" if is_blank(part.arguments) else part.arguments
            part = evolve(part, id=next(own), name=as_name(part.name), arguments=arguments)
        sendable.append(part)
    return tuple(sendable)


def _unique(id: str, numbers: dict[str, int]) -> str:
    """Return an id that no other tool call has: the id itself, or with a number after the last one
    tried.
    """
    base = id or "call"
    number = numbers.get(base, 1)
    while not id or id in numbers:
        number += 1
        id = f"{base}_{number}"
    numbers[base] = number
    numbers[id] = 1
    return id


def prompt_tokens(request: Request, messages: Messages, gathered: str, reported: int) -> int | None:
    """Return the tokens of the next prompt: the caller's count plus an estimate of what came since.

    What the model wrote counts as reported if that is more. The text that the next call resumes is
    left to that call.

    Arguments:
        request: the request of the turn.
        messages: the conversation so far, with its messages first.
        gathered: the text that the next call resumes.
        reported: the output tokens of the calls so far.
    """
    first = len(request.messages)
    if request.input_tokens is None:
        return None
    if tuple(messages[:first]) != request.messages:  # a compactor has changed the caller's messages
        beside = estimate_tokens(request.tools) + estimate_tokens(request.parameters)
        before = estimate_tokens(request.messages) + beside
        after = estimate_tokens(tuple(messages)) + beside
        return tokens_compacted(request.input_tokens, before, after)
    later = messages[first:]
    separate = estimate_tokens(gathered)
    answers = []
    others = []
    for message in later:
        if isinstance(message, Message) and message.role == "assistant":
            answers.append(message)
        else:
            others.append(message)
    counted = max(estimate_tokens(answers) + separate, reported)
    return max(1, request.input_tokens + counted + estimate_tokens(others) - separate)


def forces_tool(choice: Any) -> bool:
    """Tell whether a tool choice, in the form of any protocol, makes the model call a tool."""
    if not isinstance(choice, Mapping):
        return str(choice).lower() in ("required", "any")
    kind = choice.get("type") or choice.get("mode") or next(iter(choice), "auto")
    inner = choice.get(kind) if isinstance(kind, str) else None
    if not isinstance(inner, Mapping):
        inner = choice if kind == "allowed_tools" else {}
    if kind == "allowed_tools" or "mode" in inner:
        return forces_tool(inner.get("mode"))
    return str(kind).lower() not in ("auto", "none", "validated")


def request_of(
    state: str,
    first: Request,
    conversation: Conversation,
    hints: TurnHints,
    shapes: Shapes,
    *,
    written: int,
    keeps_choice: bool = False,
) -> Request:
    """Return the request of a state's call.

    Arguments:
        state: the state of the machine.
        first: the request of the turn.
        conversation: everything since.
        hints: the texts that the turn sends to the model.
        shapes: the form of the last backend.
        written: the output tokens of the calls so far.
        keeps_choice: whether a choice that forces a tool is for every call, and not for the first
            one alone.
    """
    if state == "ask":
        return first
    request = first
    messages = conversation.messages
    of_tools = shapes.tool_parameters
    forced = []
    for name in of_tools & first.parameters.keys():
        if forces_tool(first.parameters[name]):
            forced.append(name)
    if forced and not keeps_choice:
        request = evolve(first, parameters=_without(first.parameters, forced))
    if state == "summarize":
        messages = (*messages, Message.saying("user", hints.summary))
        request = evolve(first, tools=(), parameters=_without(first.parameters, of_tools))
    tokens = prompt_tokens(first, messages, conversation.gathered, written)
    return evolve(request, messages=messages, input_tokens=tokens)


def _without(parameters: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    return {name: each for name, each in parameters.items() if name not in names}
