"""What a past turn would have done under another policy, as far as its journal shows."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, evolve, field

from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.run import Run
from rungwise.fsm.machine.table import Table
from rungwise.fsm.replay.what_if import WhatIf, step_text, what_if
from rungwise.fsm.turn.journal import TurnJournal
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS, TURN


def what_if_recorded(
    journal: Journal | TurnJournal,
    policy: Policy | TurnPolicy,
    *,
    name: str = "the journal",
    old_table: Table | None = None,
) -> WhatIf:
    """Describe what a past call or turn would have done under another policy, up to the first difference."""
    if isinstance(journal, Journal):
        of_calls = policy.of_calls if isinstance(policy, TurnPolicy) else policy
        return what_if(journal, of_calls, name=name, old_table=old_table)
    if not isinstance(policy, TurnPolicy):
        raise ConfigurationError(f"{name} is the journal of a turn, but the policies are for calls")
    blank = WhatIf(name=name, kind="not replayed", of=len(journal.steps), outcome=journal.outcome)
    if not journal.steps:
        return evolve(blank, why="it holds no steps")
    try:
        return _Follow(journal, policy, old_table).run(blank)
    except (ConfigurationError, IllegalEvent) as error:
        return evolve(blank, why=str(error))


@define(eq=False)
class _Follow:
    journal: TurnJournal
    policy: TurnPolicy
    old_table: Table | None
    position: Run = field(init=False)
    made: int = field(default=0, init=False)
    attempts: int = field(default=0, init=False)
    waits: tuple[float, float] = field(default=(0.0, 0.0), init=False)
    doing: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self.position, steps = Run.at_start(TURN, self.policy.limits), self.journal.steps
        if steps and steps[0].source == TURN.resumes:
            self.position.state = TURN.resumes

    def run(self, blank: WhatIf) -> WhatIf:
        steps = self.journal.steps
        for place, step in enumerate(steps):
            so_far = evolve(self._amounts(blank, place), where=f"step {step.number}", before=step_text(steps, place))
            result = self._taken(so_far, step)
            if result is not None:
                return result
        open_end = () if self.journal.outcome else ("the journal stops before it ended",)
        return evolve(self._amounts(blank, len(steps)), kind="same", notes=open_end)

    def _amounts(self, blank: WhatIf, steps: int) -> WhatIf:
        return evolve(blank, steps=steps, attempts=(self.attempts, self.attempts), waits=self.waits)

    def _taken(self, so_far: WhatIf, step: Step) -> WhatIf | None:
        if step.event == "sent":
            self.doing = step.source
            if step.source in CALLS:
                return self._call(so_far, step)
            self.position.fire("sent")
            return None
        if self.doing == "summarize" and self.journal.setting.policy.hints.summary != self.policy.hints.summary:
            return evolve(so_far, kind="unclear", why="hints.summary has changed, so the summary is unknown")
        facts = self._facts(step)
        unknown = set(self._unknown(step))
        targets = {self._target(step, way) for way in ({*facts} - unknown, {*facts} | unknown)}
        if len(targets) > 1:
            why = f"the journal does not say whether this held: {', '.join(sorted(unknown))}"
            return evolve(so_far, kind="unclear", why=why)
        row = self.position.fire(step.event, facts)
        if row.target == step.target:
            return None
        is_end = row.target in TURN.outcomes
        ends_earlier = is_end and step.target not in TURN.outcomes
        now = f"{'ends as ' if is_end else ''}{row.target} ({row.event})"
        return evolve(so_far, kind="ends earlier" if ends_earlier else "differs", now=now)

    def _target(self, step: Step, facts: set[str]) -> str:
        row = self.position.would_take(step.event, facts) if self.position.state == TURN.hub else None
        return step.target if row is None else row.target

    def _call(self, so_far: WhatIf, step: Step) -> WhatIf | None:
        budget = self.policy.budget
        spent = [f"all {budget.attempts} attempts of the turn are used"] if self.attempts >= budget.attempts else []
        if budget.seconds is not None and step.at >= budget.seconds:
            spent.append(f"the {budget.seconds:g} s of the turn are over")
        if spent:
            return evolve(so_far, kind="ends earlier", now="ends as over_budget (ran_out)", why="; ".join(spent))
        self.position.fire("sent")
        self.made += 1
        if self.made > len(self.journal.calls):
            return None
        call = self.journal.calls[self.made - 1]
        result = what_if(call, self.policy.of_calls, name=so_far.name, old_table=self.old_table)
        attempts = (self.attempts + result.attempts[0], self.attempts + result.attempts[1])
        self.waits = (self.waits[0] + result.waits[0], self.waits[1] + result.waits[1])
        self.attempts += result.attempts[0]
        if result.kind in ("same", "not replayed"):
            return None
        where = f"call {self.made}, {result.where}"
        amounts = {"of": so_far.of, "steps": so_far.steps, "outcome": so_far.outcome}
        return evolve(result, where=where, attempts=attempts, waits=self.waits, **amounts)  # type: ignore[arg-type]

    def _facts(self, step: Step) -> tuple[str, ...]:
        """Return the recorded facts, with those that follow from counters as they would be."""
        lasting = {fact.name: fact.lasts for fact in TURN.facts if fact.lasts is not None}
        recorded = [name for name in step.facts if name not in lasting and name in {fact.name for fact in TURN.facts}]
        return (*recorded, *(name for name, counter in lasting.items() if self.position.has_left(counter)))

    def _unknown(self, step: Step) -> Iterator[str]:
        """Yield the facts that would hold or not, where the journal does not say which."""
        if step.event != "tools_ran":
            return
        old, new = self.journal.setting.policy, self.policy
        for name, field_name in (("repeats_calls", "same_calls"), ("over_tool_limit", "calls_per_reply")):
            before, now = getattr(old, field_name), getattr(new, field_name)
            if (name in step.facts and now > before) or (name not in step.facts and now < before):
                yield name
