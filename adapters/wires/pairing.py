"""Pair tool calls with their results, and answer calls without one.

Every provider requires a result for each call. A tool that the provider ran is not a call here: it
is read as a provider's own part, and needs no result.

Which result belongs to a call is not as clear as it seems. Some servers write no ids, so the name
of the tool and the place must do. Some count ids from 0 in each reply, so the same id comes again.
And callers may have dropped results, or whole turns, to save tokens.
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
    """Hold the tool results that no call has taken yet.

    A result without an id is matched by its tool's name and its place: it belongs to the last calls
    before it.
    """

    # the place of its message and the result, by its id and "", or by "" and the name of its tool
    waiting: dict[tuple[str, str], deque[tuple[int, ToolResult]]]
    uses: dict[str, deque[int]]  # the places of the calls that have an id, by the id
    # the results that no call can take any more, by the place of their message
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
        """Return the first result behind a call, or None if there is none.

        A result without an id goes by its place and the name of its tool. A result after the next
        call with the same id belongs to that call.

        Arguments:
            call: the call; each must be asked for once, in order.
            place: the place of its message in the conversation.
        """
        later_uses = self.uses[call.id]
        later_uses.popleft()
        keys = [(call.id, ""), ("", call.name), ("", "")]
        for key in dict.fromkeys(keys):
            waiting = self.waiting.get(key, deque())
            while waiting and waiting[0][0] < place:
                self._pass_over(waiting)
            if not waiting:
                continue
            is_last_use = not later_uses or later_uses[0] == place
            if is_last_use or later_uses[0] >= waiting[0][0]:
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
    """Hold what is missing after some calls."""

    calling: AnyMessage  # the message with the calls
    calls: tuple[ToolCall, ...]  # all calls of the turn, in order
    missing: list[ToolResult]  # the stand-ins
    is_begun: bool  # whether the message before the gap holds results of the same turn


def answered(messages: Sequence[AnyMessage], form: Form) -> Sequence[AnyMessage]:
    """Return a conversation in which each call has a result.

    If none is missing, it is `messages` itself.
    """
    if _all_have_results(messages):
        return messages
    gaps = _gaps([*read_together(messages)])
    if not gaps:
        return messages
    whole: list[AnyMessage] = []
    for place, message in enumerate((*messages, None)):
        gap = gaps.get(place)
        if gap is None:
            if message is not None:
                whole.append(message)
        elif gap.is_begun:
            whole[-1:] = _among(whole[-1], gap, form)
            if message is not None:
                whole.append(message)
        else:
            whole += _filled(gap, message, form)
    return whole


def _filled(gap: _Gap, following: AnyMessage | None, form: Form) -> list[AnyMessage]:
    """Return the missing results and the message that follows them.

    Where results are blocks of the user's, they join a user turn that follows.
    """
    if following is None:
        return [form.results_of(gap.calling, gap.missing)]
    if not isinstance(following, Message) and form.role_of(following) == "user":
        joined = form.with_results(following, gap.missing)
        if joined is not None:
            return [joined]
    return [form.results_of(gap.calling, gap.missing), following]


_Row = tuple[list[AnyMessage], tuple[Message, ...]]
"""Messages that are one turn, and the same in neutral parts."""


def _gaps(rows: Sequence[_Row]) -> dict[int, _Gap]:
    """Return what is missing, by the place of the message before which it belongs."""
    results = Results.of([message for _, read in rows for message in read])
    gaps: dict[int, _Gap] = {}
    count = 0  # of neutral messages so far
    begin = 0  # the place of the first message of the row
    for at, (originals, read) in enumerate(rows):
        calls: list[ToolCall] = []
        missing: list[ToolResult] = []
        for message in read:
            for call in message.tool_calls:
                calls.append(call)
                if results.take(call, count) is None:
                    missing.append(stand_in(call))
            count += 1
        behind = _results_behind(rows, at) if missing else 0
        if missing and not _holds_reference(rows, at, behind):
            last = max(place for place, each in enumerate(originals) if ids_in(each)[0])
            place = begin + last + 1
            if behind:
                place = begin + len(originals) + behind
            gaps[place] = _Gap(originals[last], tuple(calls), missing, is_begun=behind > 0)
        begin += len(originals)
    return gaps


def _holds_reference(rows: Sequence[_Row], at: int, behind: int) -> bool:
    """Tell whether a turn, or what follows its results, stands for something the server stored.

    The results may be there.
    """
    nearby = [*rows[at][0]]
    for originals, _ in rows[at + 1 + behind : at + 2 + behind]:
        nearby += originals[:1]
    for message in nearby:
        if not isinstance(message, Message) and str(message.get("type")) in declared("references"):
            return True
    return False


def _results_behind(rows: Sequence[_Row], at: int) -> int:
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
    """Add the missing results of a turn to the message with its last results.

    Where that is impossible, they follow it.
    """
    if isinstance(message, Message):
        places = {call.id: place for place, call in enumerate(gap.calls)}
        results = [*message.tool_results, *gap.missing]
        results.sort(key=lambda each: places.get(each.id, -1))
        return [Message("tool", results)]
    joined = form.with_results(message, gap.missing)
    if joined is None:
        return [message, form.results_of(gap.calling, gap.missing)]
    return [joined]


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
    """Tell whether a call came from this very provider.

    It takes its own ids back, whatever they are.
    """
    return bool(provider) and call.provider == provider
