"""What was said and done in a recorded turn, as far as its journal holds contents."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from rungwise.fsm.call.conversation.parts import Message, ToolCall, ToolResult
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import JournalMismatch
from rungwise.fsm.journal.record import Step
from rungwise.fsm.turn.conversation import Conversation, ResultEntry
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tool_round import Repeats


@define(eq=False, repr=False)
class Retold:
    """Gather a conversation once more.

    Arguments:
        policy: how many calls of a reply are run, and what is said of the others.
        contents: whether there is anything to gather.
        handed_off: the terminating tool calls that ended the turn.
    """

    policy: TurnPolicy
    contents: bool
    handed_off: tuple[ToolCall, ...] = field(default=(), init=False)
    _conversation: Conversation = field(factory=lambda: Conversation(()), init=False)
    _repeats: Repeats = field(factory=Repeats, init=False)

    @property
    def text(self) -> str:
        """Return the last text that the model showed."""
        return self._conversation.shown

    @property
    def messages(self) -> tuple[PlainMessage | Message, ...]:
        """Return what was said since the turn began, or since its last compaction."""
        return self._conversation.messages

    @property
    def ids(self) -> dict[str, list[str]] | None:
        """Return what a journal tells of the tool calls that wait for results; None where there are none."""
        return {"ids": [call.id for call in self._calls]} if self._calls else None

    @property
    def gathered(self) -> str:
        """Return the text that the next call goes on from."""
        return self._conversation.gathered

    def call_ended(self, result: Result, event: str, step: Step | None, *, is_summary: bool) -> None:
        """Take what a call ended with, what that was for the turn, and the step that it was taken for."""
        if not self.contents:
            return
        ids, calls = None, result.tool_calls
        if event == "called_tools" and step is not None:
            ids = (step.content or {}).get("ids")
            if ids is not None and not len({*ids}) == len(ids) == len(calls):
                raise JournalMismatch(f"step {step.number}: its ids are not those of {len(calls)} tool calls")
        self._conversation.add_result(result, event, is_summary=is_summary, ids=ids)

    def tools_ran(self, step: Step) -> dict[str, bool]:
        """Take the results of a round of tools, and return what that says of the turn.

        Without contents that is what the journal says.
        """
        if not self.contents:
            names = ("tool_worked", "repeats_calls", "over_tool_limit", "was_handed_off")
            return {name: name in step.facts for name in names}
        calls, results = self._calls, self.add_results(step)
        if len(results) != len(calls):
            raise JournalMismatch(f"step {step.number}: it holds {len(results)} results of {len(calls)} calls")
        counts = [self._repeats.count(call, result) for call, result in zip(calls, results, strict=True)]
        handed = (step.content or {}).get("handed_off", ())
        self.handed_off = tuple(call for call in calls if call.id in handed)
        self._conversation.close("")
        return {
            "tool_worked": not all(result.is_fault for result in results),
            "repeats_calls": max(counts, default=0) >= self.policy.same_calls,
            "over_tool_limit": len(calls) > self.policy.calls_per_reply,
            "was_handed_off": bool(self.handed_off),
        }

    def add_results(self, step: Step) -> list[ToolResult]:
        """Add the results that a step holds, each for its call."""
        return self._conversation.add_tool_results(self._entries(step)) if self.contents else []

    def compacted(self) -> None:
        """Forget what was said: what the compactor left of it is not recorded."""
        self._conversation.messages = ()

    def end(self) -> None:
        """Close what is open."""
        self._conversation.close(self.policy.hints.not_run)

    @property
    def _calls(self) -> tuple[ToolCall, ...]:
        return self._conversation.pending.tool_calls if self._conversation.pending is not None else ()

    def _entries(self, step: Step) -> Iterator[ResultEntry]:
        places = {(call.id, call.name): place for place, call in enumerate(self._calls)}
        for id, name, text, is_fault in (step.content or {}).get("results", ()):
            place = places.pop((id, name), None)
            if place is None:
                raise JournalMismatch(f"step {step.number}: a result in it is of no call that waits for one")
            yield place, text, is_fault
