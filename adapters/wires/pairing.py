"""Pair tool calls with their results, and answer calls without one: every provider requires a
result.

A tool that the provider ran is not a call here: it is read as a provider's own part, and needs no
result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Self

from attrs import define, field

from rungwise.adapters.wires.form import Form
from rungwise.adapters.wires.plain.messages import ids_in, read_together
from rungwise.adapters.wires.registry import declared
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import Message, ToolCall, ToolResult

NO_RESULT: Final = "(the result of this call was not kept)"
"""The stand-in for a missing tool result: every provider requires one."""

AnyMessage = PlainMessage | Message
"""A message in any form."""


def stand_in(call: ToolCall) -> ToolResult:
    """Return the stand-in for a missing result."""
    return ToolResult(call.id, call.name, NO_RESULT, is_fault=True)


@define(eq=False)
class Results:
    """Hold the tool results that no call has taken yet, by their ids, each with the place of its
    message.

    A result without an id is matched by its tool's name and its place: it belongs to the last calls
    before it.
    """

    waiting: dict[tuple[str, str], deque[tuple[int, ToolResult]]]
    uses: dict[str, deque[int]]
    _unmatched: dict[int, list[ToolResult]] = field(factory=dict, init=False)

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """Begin with a conversation."""
        waiting: dict[tuple[str, str], deque[tuple[int, ToolResult]]] = {}
        uses: dict[str, deque[int]] = {}
        for place, message in enumerate(messages):
            for result in message.tool_results:
                key = (result.id, "") if result.id else ("", result.name)
                waiting.setdefault(key, deque()).append((place, result))
            for call in message.tool_calls:
                uses.setdefault(call.id, deque()).append(place)
        return cls(waiting, uses)

    def take(self, call: ToolCall, place: int) -> ToolResult | None:
        """Return the first result behind a call; one without an id goes by its place and its name.

        A result after the next call with the same id belongs to that call: some servers restart ids
        in each reply.
        """
        used = self.uses[call.id]
        used.popleft()
        for key in dict.fromkeys(((call.id, ""), ("", call.name), ("", ""))):
            waiting = self.waiting.get(key, deque())
            while waiting and waiting[0][0] < place:
                self._pass_over(waiting)
            if waiting and (not used or used[0] >= waiting[0][0] or used[0] == place):
                return waiting.popleft()[1]
        return None

    def _pass_over(self, waiting: deque[tuple[int, ToolResult]]) -> None:
        place, result = waiting.popleft()
        self._unmatched.setdefault(place, []).append(result)

    def unmatched_at(self, place: int) -> list[ToolResult]:
        """Return the results in a message that no call has taken."""
        for waiting in self.waiting.values():
            while waiting:
                self._pass_over(waiting)
        self.waiting.clear()
        return self._unmatched.get(place, [])


@define
class _Gap:
    """Hold what is missing after some calls; `is_begun` if the message before it holds results of
    the same turn.
    """

    calling: AnyMessage
    calls: tuple[ToolCall, ...]
    missing: list[ToolResult]
    is_begun: bool


def answered(messages: Sequence[AnyMessage], form: Form) -> Sequence[AnyMessage]:
    """Return a conversation in which each call has a result; if none is missing, it is `messages`
    itself.
    """
    if _all_have_results(messages):
        return messages
    gaps = _gaps([*read_together(messages)])
    if not gaps:
        return messages
    whole: list[AnyMessage] = []
    for place, message in enumerate((*messages, None)):
        gap = gaps.get(place)
        if gap is not None and gap.is_begun:
            whole[-1:] = _among(whole[-1], gap, form)
        elif gap is not None:
            is_users = (
                message is not None
                and not isinstance(message, Message)
                and form.role_of(message) == "user"
            )
            joined = form.with_results(message, gap.missing) if is_users else None  # type: ignore[arg-type]
            if joined is None:
                whole.append(form.results_of(gap.calling, gap.missing))
            message = joined or message
        if message is not None:
            whole.append(message)
    return whole


def _gaps(rows: Sequence[tuple[list[AnyMessage], tuple[Message, ...]]]) -> dict[int, _Gap]:
    """Return what is missing, by the place of the message before which it belongs."""
    results = Results.of([message for _, read in rows for message in read])
    gaps: dict[int, _Gap] = {}
    count = begin = 0
    for at, (originals, read) in enumerate(rows):
        calls = tuple([call for message in read for call in message.tool_calls])
        missing: list[ToolResult] = []
        for message in read:
            missing += [
                stand_in(call) for call in message.tool_calls if results.take(call, count) is None
            ]
            count += 1
        if missing:
            behind = _results_behind(rows, at)
            next_one = rows[at + 1 + behind][0][:1] if at + 1 + behind < len(rows) else []
            plain = [each for each in (*originals, *next_one) if not isinstance(each, Message)]
            if not any(str(each.get("type")) in declared("references") for each in plain):
                last = max(place for place, each in enumerate(originals) if ids_in(each)[0])
                place = begin + (len(originals) + behind if behind else last + 1)
                gaps[place] = _Gap(originals[last], calls, missing, is_begun=bool(behind))
        begin += len(originals)
    return gaps


def _results_behind(rows: Sequence[tuple[list[AnyMessage], tuple[Message, ...]]], at: int) -> int:
    """Count the messages with results right after a turn."""
    count = 0
    for _, read in rows[at + 1 :]:
        if read[0].role != "tool":
            break
        count += 1
        if len(read) > 1:  # the user has said something besides
            break
    return count


def _among(message: AnyMessage, gap: _Gap, form: Form) -> list[AnyMessage]:
    """Add the missing results of a turn to the message with its last results, or put them after
    it.
    """
    if isinstance(message, Message):
        places = {call.id: place for place, call in enumerate(gap.calls)}
        parts = sorted(
            (*message.tool_results, *gap.missing), key=lambda each: places.get(each.id, -1)
        )
        return [Message("tool", parts)]
    joined = form.with_results(message, gap.missing)
    return [message, form.results_of(gap.calling, gap.missing)] if joined is None else [joined]


def _all_have_results(messages: Sequence[AnyMessage]) -> bool:
    """Tell whether each call has its result, as far as their ids show."""
    waiting: set[str] = set()
    for message in messages:
        calls, results = ids_in(message)
        waiting.difference_update(results)
        for id in calls:
            if not id or id in waiting:
                return False
            waiting.add(id)
    return not waiting


def is_own_call(call: ToolCall, provider: str) -> bool:
    """Tell whether a call came from this very provider, which takes its own ids back whatever they
    are.
    """
    return bool(provider) and call.provider == provider
