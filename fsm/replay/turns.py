"""Replay the journal of a turn: its calls one by one, and its own steps through the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field

from rungwise.fsm.call.conversation.parts import Message, ToolCall, ToolResult
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError, IllegalEvent, JournalMismatch
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.run import Run
from rungwise.fsm.replay.calls import replay_call
from rungwise.fsm.replay.recorded import check_alike
from rungwise.fsm.turn.conversation import Conversation, ResultEntry
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.turn.observe import cause_of, counts_of, event_of, facts_of, facts_of_tools
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.recording import Tally, TurnRecorder
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.table import CALLS, OUTCOMES, TURN
from rungwise.fsm.turn.tool_round import Repeats
from rungwise.fsm.values.label import short


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


_ANSWERS = {"use_tools": ("tools_ran",), "compact": ("compacted", "stayed_long", "ran_out")}
"""What can come back from what is no call."""


def replay_turn(journal: TurnJournal, policy: TurnPolicy | None = None) -> TurnResult:
    """Run a recorded turn again and return its result.

    The messages and the tools are not recorded. With contents, what was said and done since then is there; without,
    nothing is. What the compactor left is not recorded either: there, the messages begin anew.

    Arguments:
        journal: what was recorded, complete or not; a turn that had not ended is cancelled where the journal ends.
        policy: the policy to replay under; the recorded one where None.

    Raises:
        JournalMismatch: a step differs; the message names the first one, as in `call 3, step 7`.
        ConfigurationError: no call can have this policy with the recorded chain.
    """
    if journal.table != TURN.name or journal.counters != TURN.counters:
        raise JournalMismatch(f"the journal is of the table {short(journal.table)}, or counts what no turn does")
    recorded = journal.steps
    if journal.made != len(journal.calls):
        raise JournalMismatch(f"the journal holds {len(journal.calls)} calls, but its steps made {journal.made}")
    again = _Again(journal, policy or journal.setting.policy, None if policy is None else policy.call)
    for step in recorded:
        try:
            again.take(step)
        except IllegalEvent as error:
            raise JournalMismatch(f"step {step.number}: {error}") from None
        check_alike(step, again.journal.last)
    return again.end()


def _replay(call: Journal, number: int, policy: Policy | None, gathered: str) -> Result:
    try:
        return replay_call(call, policy, gathered=gathered)
    except JournalMismatch as error:
        where = ", " if str(error).startswith("step ") else ": "
        raise JournalMismatch(f"call {number}{where}{error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"call {number}: {error}") from None


@define(eq=False, repr=False)
class _Again:
    """Take the recorded steps of a turn once more.

    Arguments:
        recorded: the journal.
        policy: how often what may be done.
        of_calls: the policy of its calls; the recorded one of each where None.
    """

    recorded: TurnJournal
    policy: TurnPolicy
    of_calls: Policy | None
    journal: TurnJournal = field(init=False)
    position: Run = field(init=False)
    retold: Retold = field(init=False)
    doing: str = field(default="", init=False)
    last: Result | None = field(default=None, init=False)
    tally: Tally = field(factory=lambda: Tally(began=0.0), init=False)
    recorder: TurnRecorder = field(init=False)
    why: str | None = field(default=None, init=False)
    cause: str | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        known = self.recorded
        self.position = Run.at_start(TURN, self.policy.limits)
        self.journal = TurnJournal(
            table=TURN.name, counters=TURN.counters, contents=known.contents, setting=known.setting
        )
        self.recorder = TurnRecorder(self.journal, self.position, self.tally, None)
        self.retold = Retold(self.policy, contents=known.contents)

    def take(self, step: Step) -> None:
        """Do what the recorded step did."""
        self.tally.pass_time(step.at)
        source = self.position.state
        if step.event == "sent":
            row = self.position.fire("sent")
            self.doing = source
            if source in CALLS:
                self._make_call()
            self.recorder.record(row)
        elif step.event == "cancelled" and not (step.facts or step.backend):  # the turn was, and not its call alone
            self._cancel(step)
        elif source != TURN.hub:
            row = self.position.fire(step.event)
            self.cause = step.note
            self.recorder.record(row, note=step.note)
        elif self.doing in CALLS:
            self._call_ended(step)
        else:
            self._answered(step)

    def end(self) -> TurnResult:
        """Settle; what has not ended is cancelled."""
        recorded, retold = self.recorded, self.retold
        if self.position.state not in OUTCOMES:
            self._cancel(None)
        outcome = self.journal.outcome = self.position.state
        if recorded.outcome is not None and recorded.outcome != outcome:
            raise JournalMismatch(f"the journal ends in {short(recorded.outcome)}, the replay in {outcome!r}")
        retold.end()
        tally = self.tally
        return TurnResult(
            outcome=outcome,
            text=retold.text,
            messages=retold.messages,
            handed_off=retold.handed_off,
            usage=tally.usage,
            cost=tally.cost,
            seconds=tally.elapsed,
            calls=len(self.journal.calls),
            attempts=tally.attempts,
            cause=self.cause,
            last=self.last,
            journal=self.journal,
        )

    def _make_call(self) -> None:
        calls = self.journal.calls
        if len(calls) < len(self.recorded.calls):  # or this step will be found to be another than the recorded one
            made = self.recorded.calls[len(calls)]
            self.last = _replay(made, len(calls) + 1, self.of_calls, self.retold.gathered)
            calls.append(self.last.journal)

    @property
    def _is_summary(self) -> bool:
        return self.position.spent_of("summaries") > 0

    def _settle(self) -> Result:
        result = self.last
        assert result is not None  # there are as many calls as steps that made one
        self.doing = ""
        self.tally.add(result)
        return result

    def _call_ended(self, step: Step) -> None:
        is_summary = self._is_summary
        result = self._settle()
        event = event_of(result)
        self.retold.call_ended(result, event, step, is_summary=is_summary)
        has_compactor = self.recorded.setting.has_compactor
        facts = facts_of(result, self.position, has_compactor=has_compactor, is_summary=is_summary)
        self._advance(event, facts, result=result, content=self.retold.ids)

    def _answered(self, step: Step) -> None:
        """Take what came back from the tools or the compactor; it is known from the step alone."""
        if step.event not in _ANSWERS.get(self.doing, ()):
            raise JournalMismatch(f"step {step.number}: {short(step.event)} cannot come back from {self.doing!r}")
        self.doing = ""
        facts: tuple[str, ...] = ()
        if step.event == "tools_ran":
            facts = facts_of_tools(self.position, **self.retold.tools_ran(step))
        elif step.event == "compacted":
            self.retold.compacted()
        self._advance(step.event, facts, step=step, content=step.content if step.event == "tools_ran" else None)

    def _cancel(self, step: Step | None) -> None:
        if self.doing in CALLS:
            self.retold.call_ended(self._settle(), "cancelled", None, is_summary=False)
        if step is not None and self.doing == "use_tools":
            self.retold.add_results(step)
        self._advance("cancelled", (), step=step, content=None if step is None else step.content)

    def _advance(
        self,
        event: str,
        facts: tuple[str, ...],
        *,
        result: Result | None = None,
        step: Step | None = None,
        content: Mapping[str, Any] | None = None,
    ) -> None:
        row = self.position.fire(event, facts)
        is_last = row.target in OUTCOMES
        told = "" if is_last else counts_of(self.position, row, self.policy)
        note = None if step is None else _besides(step, told)
        why = cause_of(row, facts, self.policy, result, note)
        if is_last:
            self.cause = self.why if self._is_summary and row.target == "limit_reached" else why
        self.why = why
        noted = "; ".join(filter(None, (told, note))) or None
        self.recorder.record(row, facts, result=result, note=noted, content=content)


def _besides(step: Step, told: str) -> str | None:
    """Return what the note of a step says besides what follows from the counters."""
    if not told or step.note is None:
        return step.note
    return step.note.removeprefix(told).removeprefix("; ") or None
