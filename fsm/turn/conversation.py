"""The conversation of a turn: what the caller gave, and all that was said and done, valid at any moment."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, field

from rungwise.fsm.call.conversation.parts import Message, Part, ToolCall, ToolResult
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.text.blank import is_blank
from rungwise.fsm.turn.reading import read
from rungwise.fsm.turn.validity import as_name
from rungwise.fsm.values.records import define


@define(eq=False, repr=False)
class Conversation:
    """Gather what is said and done.

    Arguments:
        messages: all that is complete.
        gathered: the text of an answer that was cut, and is to be gone on from.
        asked: the message whose tool calls have no results yet.
        results: those that are known, by the place of the call.
        shown: the last text that the model has shown.
    """

    messages: tuple[PlainMessage | Message, ...]
    gathered: str = ""
    asked: Message | None = None
    results: dict[int, ToolResult] = field(factory=dict)
    shown: str = ""
    _taken: Result | None = field(default=None, init=False)
    _calls: tuple[ToolCall, ...] = field(default=(), init=False)  # those of the message that asks
    _ids: dict[str, int] | None = field(default=None, init=False)  # of all tool calls: some providers want no id twice

    def take(self, result: Result, event: str, *, is_summary: bool, ids: Sequence[str] | None = None) -> None:
        """Take what a call ended with, and what that was for the turn.

        Arguments:
            result: the end of the call.
            event: what it was.
            is_summary: whether the call asked for the summary.
            ids: what its tool calls are told apart by, where that is known already.
        """
        if result is self._taken:  # and whoever took it was interrupted
            return
        if event == "called_tools" and not is_summary:
            self.ask(result, ids)
        elif event in ("truncated", "overflowed"):
            self.hold(result)
        else:
            self.say(result)
        self._taken = result

    def say(self, result: Result) -> None:
        """Take what a call ended with; nothing goes on from it."""
        self.gathered = ""
        self._show(result.text)
        repeats_earlier = result.outcome == "salvaged" and result.journal.last.effect == "keep_prior_answer"
        if is_blank(result.text) or repeats_earlier:
            return
        if result.outcome == "done" and not result.tool_calls:
            self.messages += (result.message,)
        else:
            self.messages += (Message.saying("assistant", result.text),)

    def hold(self, result: Result) -> None:
        """Keep the text of a cut answer, to go on from it."""
        self.gathered = result.text
        self._show(result.text)

    def ask(self, result: Result, ids: Sequence[str] | None = None) -> Message:
        """Take a message that calls tools, and return it with names and ids that can be sent back."""
        self.gathered = ""
        self._show(result.text)
        if self._ids is None:
            self._ids = {call.key[1]: 1 for message in self.messages for call in read(message).calls}
        calls = result.message.tool_calls
        own = ids or [_unique(call.id, self._ids) for call in calls]
        self.asked, self.results = Message("assistant", _sound(result.message.parts, own)), {}
        self._calls = self.asked.tool_calls
        return self.asked

    def tell(self, place: int, text: str, *, is_fault: bool = False) -> ToolResult:
        """Take the result of a tool call; the place is that among the calls of its message."""
        assert self.asked is not None
        call = self._calls[place]
        self.results[place] = ToolResult(call.id, call.name, text, is_fault)
        return self.results[place]

    def close(self, otherwise: str) -> None:
        """End what is open: a tool call without a result gets this one, and a cut answer stands as it is."""
        self.messages, self.asked, self.results, self.gathered = self.whole(otherwise), None, {}, ""

    def whole(self, otherwise: str) -> tuple[PlainMessage | Message, ...]:
        """Return the conversation as it could be gone on from now."""
        if self.asked is not None:
            results = [
                self.results.get(at) or ToolResult(each.id, each.name, otherwise, True)
                for at, each in enumerate(self._calls)
            ]
            return (*self.messages, self.asked, Message("tool", results))
        if is_blank(self.gathered):
            return self.messages
        return (*self.messages, Message.saying("assistant", self.gathered))

    def _show(self, text: str) -> None:
        self.shown = self.shown if is_blank(text) else text


def _sound(parts: Sequence[Part], ids: Sequence[str]) -> tuple[Part, ...]:
    """Return the parts of a message, its tool calls with these ids, and with names and arguments that can be sent."""
    own = iter(ids)
    return tuple(_sendable(part, next(own)) if isinstance(part, ToolCall) else part for part in parts)


def _sendable(call: ToolCall, id: str) -> ToolCall:
    arguments = "{}" if is_blank(call.arguments) else call.arguments
    return evolve(call, id=id, name=as_name(call.name), arguments=arguments)


def _unique(id: str, known: dict[str, int]) -> str:
    """Return an id that no other tool call has; a number behind it tells it apart."""
    base, number = id or "call", known.get(id or "call", 1)
    while not id or id in known:
        number += 1
        id = f"{base}_{number}"
    known[base], known[id] = number, 1  # so that nothing is tried twice, however often the same id comes
    return id
