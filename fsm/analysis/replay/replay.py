"""Run a journal again: that of a call, or that of a turn.

Each call of a turn is replayed by itself (`calls.py`), and its result leads the machine of turns on
as it did. The results of tools stand in the turn's own steps, if the journal has contents; what a
compactor left of a conversation stands in none.
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
    """Rebuild the conversation of a recorded turn since it began, or since its last compaction.

    Arguments:
        policy: that of the turn.
        contents: whether the journal has any; without them the conversation stays empty.
        handed_off: the tool calls that were handed off.
    """

    policy: TurnPolicy = field(kw_only=True)
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
        """Add the result of a call.

        Arguments:
            result: that of the call.
            event: the one that it caused in the turn.
            step: the step that records it; None if the turn was cancelled.
            is_summary: whether the call asked for a summary.
        """
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
        """Add the results of a round of tools, and return the facts of the round.

        Without contents, the facts are the recorded ones.
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
        repeats = 0
        for call, result in zip(calls, results, strict=True):
            repeats = max(repeats, self._repeats.count(call, result))
        awaiting = self.policy.hints.awaiting
        handed = (step.content or {}).get("handed_off", ())
        self.handed_off = tuple(call for call in calls if call.id in handed)
        self.close("")
        return {
            "tool_worked": not all(result.is_fault for result in results),
            "repeats_calls": repeats >= self.policy.same_calls,
            "over_tool_limit": len(calls) > self.policy.calls_per_reply,
            "was_handed_off": bool(self.handed_off),
            "awaits_approval": any(result.text == awaiting for result in results),
        }

    def add_results(self, step: Step) -> list[ToolResult]:
        """Add the results that a step records."""
        return self.add_tool_results(self._entries(step)) if self.contents else []

    def _entries(self, step: Step) -> Iterator[ResultEntry]:
        """Yield the results that a step records, each with the place of its call."""
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
    """Run a recorded turn again.

    With contents, its result has the messages since the start or the last compaction.
    """
    if journal.table != TURN.name or journal.counters != TURN.counters:
        raise JournalMismatch(
            f"the journal is of the table {short(journal.table)}, or counts what no turn does"
        )
    if journal.made != len(journal.calls):
        raise JournalMismatch(
            f"the journal holds {len(journal.calls)} calls, but its steps made {journal.made}"
        )
    of_calls = None if policy is None else policy.call
    again = _TurnReplay(journal, policy or journal.setting.policy, of_calls)
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
    """Replay a call of a turn; errors name its number.

    Arguments:
        call: its journal.
        number: counted from 1.
        policy: that of the call; None for the recorded one.
        gathered: the text that it resumes.
    """
    try:
        return replay_call(call, policy, gathered=gathered)
    except JournalMismatch as error:
        where = ", " if str(error).startswith("step ") else ": "
        raise JournalMismatch(f"call {number}{where}{error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"call {number}: {error}") from None


@define(eq=False, repr=False)
class _TurnReplay:
    """Take the steps of a recorded turn again.

    Arguments:
        recorded: the journal to replay.
        policy: that of the turn.
        of_calls: that of its calls; None for the recorded one of each.
        doing: the rung at work; empty in between.
        last: the result of the last call.
        last_cause, cause: why the last step was taken, and why the turn ended as it did.
    """

    recorded: TurnJournal
    policy: TurnPolicy
    of_calls: Policy | None
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
        """Take a recorded step; one that cannot be taken raises an `IllegalEvent`."""
        self.tally.pass_time(step.at)
        source = self.position.state
        if step.event == "sent":
            self._send(source)
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

    def _send(self, rung: str) -> None:
        """Begin what a rung does; a call is replayed as a whole."""
        row = self.position.fire("sent")
        self.doing = rung
        calls = self.journal.calls
        # If there are too few calls, the steps differ, which `check_alike` reports.
        if rung in CALLS and len(calls) < len(self.recorded.calls):
            journal = self.recorded.calls[len(calls)]
            number = len(calls) + 1
            self.last = _replay(journal, number, self.of_calls, self.conversation.gathered)
            calls.append(self.last.journal)
        self.recorder.record(row)

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
            **tally.stated,
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
        """Count what the last call used, and return its result."""
        result = self.last
        assert result is not None  # `_replay_turn` checks that each such step has a call
        self.doing = ""
        self.tally.add(result)
        return result

    def _call_ended(self, step: Step) -> None:
        """Take the event that the result of the last call is for the turn."""
        recorded = self.recorded
        result = self._settle()
        event = event_of(result)
        self.conversation.call_ended(result, event, step, is_summary=self._is_summary)
        has_text = "has_no_text" not in step.facts
        if recorded.contents:
            has_text = not is_blank(self.conversation.shown)
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
        content = None
        if step.event == "tools_ran":
            facts = facts_of(self.position, self.conversation.tools_ran(step))
            content = step.content
        elif step.event == "compacted":
            self.conversation.messages = ()  # a journal does not record what the compactor left
        self._advance(step.event, facts, step=step, content=content)

    def _cancel(self, step: Step | None) -> None:
        """Cancel the turn at a recorded step, or where its journal ends."""
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
        """Take the row of an event, and record it as the turn did.

        Arguments:
            event, facts: what happened.
            result: that of a call.
            step: the recorded step, for its note.
            content: what is recorded of texts and results.
        """
        row = self.position.fire(event, facts)
        # the recorded note begins with the counts of then
        counts = counts_of(row.target, self.position.spent_of, self.policy)
        note = None if step is None else step.note
        if counts and note is not None:
            note = note.removeprefix(counts).removeprefix("; ") or None
        cause = cause_of(row, facts, self.policy, result, note)
        if row.target in OUTCOMES:
            is_summed_up = self._is_summary and row.target == "limit_reached"
            self.cause = self.last_cause if is_summed_up else cause
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
    """Run a recorded call or turn again and return its result.

    The result has texts only if the journal has contents.

    Arguments:
        journal: the journal, complete or not; a run that had not ended is cancelled where the
            journal ends.
        policy: the policy to replay under; None for the recorded one. A journal does not contain a
            table of your own, so pass a policy with that table; for the calls of a turn, as
            `TurnPolicy.call`.

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
            f"journal must be a Journal or a TurnJournal, not {type(journal).__name__}; see "
            "Journal.from_json"
        )
    if policy is not None and not isinstance(policy, Policy):
        raise ConfigurationError(f"policy must be a Policy, not {type(policy).__name__}")
    return replay_call(journal, policy)
