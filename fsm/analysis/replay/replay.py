"""Run a journal again: that of a call, or that of a turn with its calls one by one and its own
steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, overload

from attrs import define, field

from rungwise.fsm.analysis.replay.calls import check_alike, replay_call
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.errors import ConfigurationError, IllegalEvent, JournalMismatch
from rungwise.fsm.replies.parts import ToolCall, ToolResult
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.turn.conversation import Conversation, ResultEntry
from rungwise.fsm.turn.observe import (
    OF_TOOLS,
    cause_of,
    counts_of,
    event_of,
    facts_of,
    facts_of_call,
)
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.table import CALLS, OUTCOMES, TURN
from rungwise.fsm.turn.tool_round import Repeats
from rungwise.fsm.turn.turn_journal import Tally, TurnJournal, TurnRecorder
from rungwise.fsm.values.label import short


@define(eq=False, repr=False)
class RebuiltConversation(Conversation):
    """Rebuild the conversation of a recorded turn since it began, or since its last compaction."""

    policy: TurnPolicy = field(kw_only=True)
    # whether the journal has any; without them the conversation stays empty
    contents: bool = field(kw_only=True)
    handed_off: tuple[ToolCall, ...] = field(default=(), init=False)
    _repeats: Repeats = field(factory=Repeats, init=False)

    def call_ended(
        self,
        result: Result,
        event: str,
        step: Step | None,
        *,
        is_summary: bool,
    ) -> None:
        """Add the result of a call; no step records it if the turn was cancelled."""
        if not self.contents:
            return
        ids = None
        calls = result.tool_calls
        if event == "called_tools" and step is not None:
            ids = (step.content or {}).get("ids")
            if ids is not None and not len({*ids}) == len(ids) == len(calls):
                raise JournalMismatch(
                    f"step {step.number}: its ids are not those of {len(calls)} tool calls"
                )
        self.add_result(result, event, is_summary=is_summary, ids=ids)

    def tools_ran(self, step: Step) -> dict[str, bool]:
        """Add the results of a round of tools, and return the facts of the round, recorded ones
        without contents.
        """
        # a resumed turn does not record the calls that waited
        if not self.contents or not self.calls:
            return {name: name in step.facts for name in OF_TOOLS}
        calls = self.calls
        results = self.add_results(step)
        if len(results) != len(calls):
            raise JournalMismatch(
                f"step {step.number}: it holds {len(results)} results of {len(calls)} calls"
            )
        counts = [
            self._repeats.count(call, result) for call, result in zip(calls, results, strict=True)
        ]
        handed = (step.content or {}).get("handed_off", ())
        self.handed_off = tuple(call for call in calls if call.id in handed)
        self.close("")
        return {
            "tool_worked": not all(result.is_fault for result in results),
            "repeats_calls": max(counts, default=0) >= self.policy.same_calls,
            "over_tool_limit": len(calls) > self.policy.calls_per_reply,
            "was_handed_off": bool(self.handed_off),
            "awaits_approval": any(result.text == self.policy.hints.awaiting for result in results),
        }

    def add_results(self, step: Step) -> list[ToolResult]:
        """Add the results that a step records."""
        return self.add_tool_results(self._entries(step)) if self.contents else []

    def _entries(self, step: Step) -> Iterator[ResultEntry]:
        places = {(call.id, call.name): place for place, call in enumerate(self.calls)}
        for id, name, text, is_fault in (step.content or {}).get("results", ()):
            place = places.pop((id, name), None)
            if place is None:
                raise JournalMismatch(
                    f"step {step.number}: a result in it is of no call that waits for one"
                )
            yield ResultEntry(place, text, is_fault)


_ANSWERS = {"use_tools": ("tools_ran",), "compact": ("compacted", "stayed_long", "ran_out")}
"""The events that can follow the rungs that make no call."""


def _replay_turn(journal: TurnJournal, policy: TurnPolicy | None) -> TurnResult:
    """Run a recorded turn again; with contents, its result has the messages since the start or the
    last compaction.
    """
    if journal.table != TURN.name or journal.counters != TURN.counters:
        raise JournalMismatch(
            f"the journal is of the table {short(journal.table)}, or counts what no turn does"
        )
    if journal.made != len(journal.calls):
        raise JournalMismatch(
            f"the journal holds {len(journal.calls)} calls, but its steps made {journal.made}"
        )
    again = _TurnReplay(
        journal, policy or journal.setting.policy, None if policy is None else policy.call
    )
    for step in journal.steps:
        try:
            again.take(step)
        except IllegalEvent as error:
            raise JournalMismatch(f"step {step.number}: {error}") from None
        check_alike(step, again.journal.last)
    return again.end()


def _replay(
    call: Journal,
    number: int,
    policy: Policy | None,
    gathered: str,
) -> Result:
    try:
        return replay_call(call, policy, gathered=gathered)
    except JournalMismatch as error:
        where = ", " if str(error).startswith("step ") else ": "
        raise JournalMismatch(f"call {number}{where}{error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"call {number}: {error}") from None


@define(eq=False, repr=False)
class _TurnReplay:
    recorded: TurnJournal
    policy: TurnPolicy
    of_calls: Policy | None  # None for the recorded one of each
    journal: TurnJournal = field(init=False)
    position: Run = field(init=False)
    conversation: RebuiltConversation = field(init=False)
    doing: str = field(default="", init=False)
    last: Result | None = field(default=None, init=False)
    tally: Tally = field(factory=lambda: Tally(began=0.0), init=False)
    recorder: TurnRecorder = field(init=False)
    last_cause: str | None = field(default=None, init=False)
    cause: str | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.position = Run.at_start(TURN, self.policy.limits)
        was = self.recorded
        if was.steps and was.steps[0].source == TURN.resumes:
            self.position.state = TURN.resumes
        self.journal = TurnJournal(
            table=TURN.name,
            counters=TURN.counters,
            contents=was.contents,
            setting=was.setting,
        )
        self.recorder = TurnRecorder(self.journal, self.position, self.tally, silent)
        self.journal.started = was.started
        self.conversation = RebuiltConversation((), policy=self.policy, contents=was.contents)

    def take(self, step: Step) -> None:
        self.tally.pass_time(step.at)
        source = self.position.state
        if step.event == "sent":
            row = self.position.fire("sent")
            self.doing = source
            calls = self.journal.calls
            # If there are too few calls, the steps differ, which `check_alike` reports.
            if source in CALLS and len(calls) < len(self.recorded.calls):
                journal = self.recorded.calls[len(calls)]
                self.last = _replay(
                    journal, len(calls) + 1, self.of_calls, self.conversation.gathered
                )
                calls.append(self.last.journal)
            self.recorder.record(row)
        elif step.event == "cancelled" and not (step.facts or step.backend):
            # the turn was cancelled, not just a call
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
        """Return the result; a turn that has not ended is cancelled."""
        recorded = self.recorded
        conversation = self.conversation
        if self.position.state not in OUTCOMES:
            self._cancel(None)
        outcome = self.journal.outcome = self.position.state
        if recorded.outcome is not None and recorded.outcome != outcome:
            raise JournalMismatch(
                f"the journal ends in {short(recorded.outcome)}, the replay in {outcome!r}"
            )
        conversation.close(self.policy.hints.not_run)
        tally = self.tally
        return TurnResult(
            outcome=outcome,
            text=conversation.shown,
            messages=conversation.messages,
            handed_off=conversation.handed_off,
            usage=tally.usage,
            cost=tally.money,
            seconds=tally.elapsed,
            calls=len(self.journal.calls),
            attempts=tally.attempts,
            cause=self.cause,
            last=self.last,
            journal=self.journal,
        )

    @property
    def _is_summary(self) -> bool:
        return self.position.spent_of("summaries") > 0

    def _settle(self) -> Result:
        result = self.last
        assert result is not None  # `_replay_turn` checks that each such step has a call
        self.doing = ""
        self.tally.add(result)
        return result

    def _call_ended(self, step: Step) -> None:
        recorded = self.recorded
        result = self._settle()
        event = event_of(result)
        self.conversation.call_ended(result, event, step, is_summary=self._is_summary)
        has_text = (
            not is_blank(self.conversation.shown)
            if recorded.contents
            else "has_no_text" not in step.facts
        )
        facts = facts_of_call(
            result, self.position, has_compactor=recorded.setting.has_compactor, has_text=has_text
        )
        self._advance(event, facts, result=result, content=self.conversation.ids)

    def _answered(self, step: Step) -> None:
        """Repeat the outcome of the tools or the compactor, which the step alone describes."""
        if step.event not in _ANSWERS.get(self.doing, ()):
            raise JournalMismatch(
                f"step {step.number}: {short(step.event)} cannot come back from {self.doing!r}"
            )
        self.doing = ""
        facts: tuple[str, ...] = ()
        if step.event == "tools_ran":
            facts = facts_of(self.position, self.conversation.tools_ran(step))
        elif step.event == "compacted":
            self.conversation.messages = ()  # a journal does not record what the compactor left
        self._advance(
            step.event,
            facts,
            step=step,
            content=step.content if step.event == "tools_ran" else None,
        )

    def _cancel(self, step: Step | None) -> None:
        if self.doing in CALLS:
            self.conversation.call_ended(self._settle(), "cancelled", None, is_summary=False)
        if step is not None and self.doing == "use_tools":
            self.conversation.add_results(step)
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
        counts = counts_of(row.target, self.position.spent_of, self.policy)
        note = None if step is None else step.note
        if counts and note is not None:
            note = note.removeprefix(counts).removeprefix("; ") or None
        cause = cause_of(row, facts, self.policy, result, note)
        if row.target in OUTCOMES:
            self.cause = (
                self.last_cause if self._is_summary and row.target == "limit_reached" else cause
            )
        self.last_cause = cause
        notes = "; ".join(filter(None, (counts, note))) or None
        self.recorder.record(row, facts, result=result, note=notes, content=content)


@overload
def replay(journal: Journal, policy: Policy | None = None) -> Result: ...
@overload
def replay(journal: TurnJournal, policy: TurnPolicy | None = None) -> TurnResult: ...
def replay(
    journal: Journal | TurnJournal, policy: Policy | TurnPolicy | None = None
) -> Result | TurnResult:
    """Run a recorded call or turn again and return its result, which has texts only if the journal
    has contents.

    Arguments:
        journal: the journal, complete or not; a run that had not ended is cancelled where the
        journal ends. policy: the policy to replay under; None for the recorded one. A journal does
        not contain a table of your own,
            so pass a policy with that table; for the calls of a turn, as `TurnPolicy.call`.

    Raises:
        JournalMismatch: a step differs; the message names the first one and what differs in it.
        ConfigurationError: an argument is of another type, or no call can have this policy with the
        recorded chain.
    """
    if isinstance(journal, TurnJournal):
        if policy is not None and not isinstance(policy, TurnPolicy):
            raise ConfigurationError(f"policy must be a TurnPolicy, not {type(policy).__name__}")
        return _replay_turn(journal, policy)
    if not isinstance(journal, Journal):
        raise ConfigurationError(
            f"journal must be a Journal or a TurnJournal, not {type(journal).__name__}"
        )
    if policy is not None and not isinstance(policy, Policy):
        raise ConfigurationError(f"policy must be a Policy, not {type(policy).__name__}")
    return replay_call(journal, policy)
