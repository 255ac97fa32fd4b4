"""Replay the journal of a turn: its calls one by one, and its own steps through the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError, IllegalEvent, JournalMismatch
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.run import Run
from rungwise.fsm.replay.calls import replay_call
from rungwise.fsm.replay.comparing import check_alike
from rungwise.fsm.replay.retold import Retold
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.turn.observe import cause_of, counts_of, event_of, facts_of, facts_of_tools
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.recording import Tally, TurnRecorder
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.table import CALLS, OUTCOMES, TURN
from rungwise.fsm.values.label import short

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
