"""What a past turn would have done under another policy, as far as its journal shows.

The machine of turns takes the recorded events under the new policy, and each call is compared by
itself (`what_if.py`). Where a call or a step differs, the rest is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, evolve, field

from rungwise.fsm.analysis.replay.what_if import OPEN_END, WhatIf, step_text, what_if
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS, TURN
from rungwise.fsm.turn.turn_journal import TurnJournal


def what_if_recorded(
    journal: Journal | TurnJournal,
    policy: Policy | TurnPolicy,
    *,
    name: str = "the journal",
    old_table: Table | None = None,
) -> WhatIf:
    """Describe what a past call or turn would have done under another policy.

    Arguments:
        journal: the recorded call or turn.
        policy: the other policy; of one for turns, calls take the part for calls.
        name: what the call or turn is called.
        old_table: the table that the recorded calls ran on; None for the policy's.
    """
    if isinstance(journal, Journal):
        of_calls = policy.of_calls if isinstance(policy, TurnPolicy) else policy
        return what_if(journal, of_calls, name=name, old_table=old_table)
    if not isinstance(policy, TurnPolicy):
        raise ConfigurationError(f"{name} is the journal of a turn, but the policies are for calls")
    blank = WhatIf(
        name=name,
        kind="not replayed",
        of=len(journal.steps),
        outcome=journal.outcome,
    )
    if not journal.steps:
        return evolve(blank, why="it holds no steps")
    try:
        return _Follow(journal, policy, old_table).run(blank)
    except (ConfigurationError, IllegalEvent) as error:
        return evolve(blank, why=str(error))


@define(eq=False)
class _Follow:
    """Follow a recorded turn under the new policy.

    Arguments:
        journal: the recorded turn.
        policy: the new policy.
        old_table: the table that its calls ran on; None for that of the new policy.
        position: where the turn is under the new policy.
        made: how many calls it has made.
        attempts: those of the calls that stay the same.
        waits: the seconds of their waits, then and now.
        doing: the rung at work.
    """

    journal: TurnJournal
    policy: TurnPolicy
    old_table: Table | None
    position: Run = field(init=False)
    made: int = field(default=0, init=False)
    attempts: int = field(default=0, init=False)
    waits: tuple[float, float] = field(default=(0.0, 0.0), init=False)
    doing: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self.position = Run.at_start(TURN, self.policy.limits)
        steps = self.journal.steps
        if steps and steps[0].source == TURN.resumes:
            self.position.state = TURN.resumes

    def run(self, blank: WhatIf) -> WhatIf:
        """Follow step by step, up to the first difference."""
        steps = self.journal.steps
        for place, step in enumerate(steps):
            so_far = evolve(
                self._amounts(blank, place),
                where=f"step {step.number}",
                before=step_text(steps, place),
            )
            result = self._taken(so_far, step)
            if result is not None:
                return result
        notes = () if self.journal.outcome else (OPEN_END,)
        return evolve(self._amounts(blank, len(steps)), kind="same", notes=notes)

    def _amounts(self, blank: WhatIf, steps: int) -> WhatIf:
        return evolve(blank, steps=steps, attempts=(self.attempts, self.attempts), waits=self.waits)

    def _taken(self, so_far: WhatIf, step: Step) -> WhatIf | None:
        """Take a recorded step; return the difference, if it is one."""
        if step.event == "sent":
            self.doing = step.source
            if step.source in CALLS:
                return self._call(so_far, step)
            self.position.fire("sent")
            return None
        old_summary = self.journal.setting.policy.hints.summary
        if self.doing == "summarize" and old_summary != self.policy.hints.summary:
            why = "hints.summary has changed, so the summary is unknown"
            return evolve(so_far, kind="unclear", why=why)
        facts = self._facts(step)
        unknown = set(self._unknown(step))
        target_without = self._target(step, {*facts} - unknown)
        target_with = self._target(step, {*facts} | unknown)
        if target_without != target_with:
            why = f"the journal does not say whether this held: {', '.join(sorted(unknown))}"
            return evolve(so_far, kind="unclear", why=why)
        row = self.position.fire(step.event, facts)
        if row.target == step.target:
            return None
        now = f"{row.target} ({row.event})"
        if row.target not in TURN.outcomes:
            return evolve(so_far, kind="differs", now=now)
        ended_then = step.target in TURN.outcomes
        return evolve(
            so_far,
            kind="differs" if ended_then else "ends earlier",
            now=f"ends as {now}",
        )

    def _target(self, step: Step, facts: set[str]) -> str:
        """Return where an event would lead; in a rung it leads where it led."""
        if self.position.state != TURN.hub:
            return step.target
        row = self.position.would_take(step.event, facts)
        return step.target if row is None else row.target

    def _call(self, so_far: WhatIf, step: Step) -> WhatIf | None:
        """Follow a call; return the difference, if it or the budget of the turn makes one."""
        spent = "; ".join(self._over_budget(step.at))
        if spent:
            now = "ends as over_budget (ran_out)"
            return evolve(so_far, kind="ends earlier", now=now, why=spent)
        self.position.fire("sent")
        self.made += 1
        if self.made > len(self.journal.calls):
            return None
        call = self.journal.calls[self.made - 1]
        result = what_if(call, self.policy.of_calls, name=so_far.name, old_table=self.old_table)
        attempts_then, attempts_now = result.attempts
        waits_then, waits_now = result.waits
        attempts = (self.attempts + attempts_then, self.attempts + attempts_now)
        self.attempts += attempts_then
        self.waits = (self.waits[0] + waits_then, self.waits[1] + waits_now)
        if result.kind in ("same", "not replayed"):
            return None
        where = f"call {self.made}, {result.where}"
        return evolve(
            result,
            where=where,
            of=so_far.of,
            steps=so_far.steps,
            outcome=so_far.outcome,
            attempts=attempts,
            waits=self.waits,
        )

    def _over_budget(self, at: float) -> Iterator[str]:
        """Yield why the budget of the turn allows no call at a time, in seconds."""
        budget = self.policy.budget
        if self.attempts >= budget.attempts:
            yield f"all {budget.attempts} attempts of the turn are used"
        if budget.seconds is not None and at >= budget.seconds:
            yield f"the {budget.seconds:g} s of the turn are over"

    def _facts(self, step: Step) -> tuple[str, ...]:
        """Return the recorded facts, with those that follow from counters as they would be."""
        facts = []
        for fact in TURN.facts:
            if fact.lasts is None and fact.name in step.facts:
                facts.append(fact.name)
            if fact.lasts is not None and self.position.has_left(fact.lasts):
                facts.append(fact.name)
        return tuple(facts)

    def _unknown(self, step: Step) -> Iterator[str]:
        """Yield the facts that would hold or not, where the journal does not say which."""
        if step.event != "tools_ran":
            return
        old = self.journal.setting.policy
        new = self.policy
        if _is_unknown("repeats_calls" in step.facts, old.same_calls, new.same_calls):
            yield "repeats_calls"
        if _is_unknown("over_tool_limit" in step.facts, old.calls_per_reply, new.calls_per_reply):
            yield "over_tool_limit"


def _is_unknown(has_reached: bool, old_limit: int, new_limit: int) -> bool:
    """Tell whether a count that did or did not reach a limit is unknown beside another one."""
    return new_limit > old_limit if has_reached else new_limit < old_limit
