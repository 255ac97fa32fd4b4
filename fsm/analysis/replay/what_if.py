"""What a past call would have done under another policy, as far as its journal shows.

The recorded replies are played to a call under the new policy, each after the same time. Where the
new call does something else, the rest is unknown: no journal has the reply to a request that was
never sent.

A recorded reply also counts as unknown if the new request would differ (`doubts.py`), or if a fact
decides that the journal does not hold. `what_if_turns.py` follows turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

from attrs import define, evolve, field, frozen

from rungwise.fsm.analysis.replay.calls import call_again, is_left, send_again
from rungwise.fsm.analysis.replay.doubts import doubts_of
from rungwise.fsm.analysis.replay.observed import observation_of
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.engine.journal.attempts import attempts_of
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError, IllegalEvent

Kind = Literal["same", "differs", "ends earlier", "unclear", "not replayed"]
MOST_UNKNOWN = 4
"""The most unknown facts of which every combination is tried; with more, the result is unclear."""


@frozen(kw_only=True)
class WhatIf:
    """Describe what a past call or turn would have done.

    Arguments:
        name: that of the call or turn.
        kind: whether its path stays the same, differs from a step on, ends at a step, or is unclear
            from a step on.
        where: that step, as in `step 7` or `call 3, step 7`; "" if the path stays the same.
        before, now: what the step did, and what it would do.
        why: why it would end there, or why it is unclear.
        steps: how many steps stay the same, from the first one.
        of: how many there are.
        attempts: those of these steps, then and now.
        waits: the seconds of their waits, then and now.
        outcome: how the call or turn ended; None if its journal stops before.
        notes: what else there is to know, such as a budget that is ignored.
    """

    name: str
    kind: Kind
    where: str = ""
    before: str = ""
    now: str = ""
    why: str = ""
    steps: int = 0
    of: int = 0
    attempts: tuple[int, int] = (0, 0)
    waits: tuple[float, float] = (0.0, 0.0)
    outcome: str | None = None
    notes: tuple[str, ...] = ()


OPEN_END = "the journal stops before it ended"


def what_if(
    journal: Journal,
    policy: Policy,
    *,
    name: str = "the call",
    old_table: Table | None = None,
) -> WhatIf:
    """Play the replies of a recorded call to one under another policy, up to the first difference.

    Arguments:
        journal: the recorded call.
        policy: the other policy.
        name: what the call is called.
        old_table: the table that the recorded call ran on; None for the policy's.
    """
    recorded = [step for step in journal.steps if step.event != "skipped"]
    blank = WhatIf(
        name=name,
        kind="not replayed",
        of=len(recorded),
        outcome=journal.outcome,
    )
    if not recorded:
        return evolve(blank, why="it holds no steps")
    policy, notes = _payable(journal, policy)
    try:
        play = _Play(journal, policy, old_table or policy.table, recorded)
        return play.run(evolve(blank, notes=notes))
    except (ConfigurationError, IllegalEvent) as error:
        return evolve(blank, why=str(error), notes=notes)


def _payable(journal: Journal, policy: Policy) -> tuple[Policy, tuple[str, ...]]:
    """Remove a budget of money if the journal does not record what was paid for."""
    if policy.budget.money is None:
        return policy, ()
    is_priced = all(link.prices is not None for link in journal.setting.chain)
    is_counted = any(step.input_tokens is not None for step in journal.steps)
    if is_priced and is_counted:
        return policy, ()
    missing = "prices of its backends" if not is_priced else "tokens of its prompts"
    note = f"the budget of money is ignored: the journal has no {missing}"
    return evolve(policy, budget=evolve(policy.budget, money=None)), (note,)


@define(eq=False)
class _Play:
    """Play the recorded replies to a call under the new policy.

    Arguments:
        journal: the recorded call.
        policy: the new policy.
        old_table: the table that the recorded call ran on.
        recorded: its steps without the skipped ones, which are no decisions.
        call: the new call.
        left_before: the steps at which the recorded call found a backend that was not to be asked,
            by the number of the step that follows them.
        draw: the random number of the step that is played.
    """

    journal: Journal
    policy: Policy
    old_table: Table
    recorded: Sequence[Step]
    call: Call = field(init=False)
    left_before: dict[int, list[Step]] = field(factory=dict, init=False)
    draw: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.call = call_again(self.journal, self.policy, jitter=lambda: self.draw)
        left: list[Step] = []
        for step in self.journal.steps:
            if step.event != "skipped":
                self.left_before[step.number] = left
                left = []
            elif is_left(step):
                left.append(step)

    @property
    def taken(self) -> list[Step]:
        """Return the steps of the new call, without the skipped ones."""
        return [step for step in self.call.journal.steps if step.event != "skipped"]

    def run(self, blank: WhatIf) -> WhatIf:
        """Play step by step, up to the first difference."""
        self.call.begin(0.0)
        for place, was in enumerate(self.recorded):
            before = step_text(self.recorded, place)
            so_far = evolve(self._so_far(blank, place), where=f"step {place + 1}", before=before)
            if len(self.taken) <= place:
                why = self._take(place, was)
                if why is not None:
                    return evolve(so_far, kind="unclear", why=why)
            now = self.taken[place]
            if _way_of(was) != _way_of(now):
                return self._difference(so_far, place, was, now)
        notes = blank.notes
        if self.journal.outcome is None:
            notes = (*notes, OPEN_END)
        return evolve(self._so_far(blank, len(self.recorded)), kind="same", notes=notes)

    def _difference(self, so_far: WhatIf, place: int, was: Step, now: Step) -> WhatIf:
        """Describe the first step that differs.

        Arguments:
            so_far: what is known up to it.
            place: that of the step.
            was, now: the step then and now.
        """
        if self.journal.setting.within and was.event == "ran_out":
            why = (
                "a budget that it shared with others ended it, and what is left of that "
                "is not known"
            )
            return evolve(so_far, kind="unclear", why=why)
        ended_then = was.target in self.old_table.outcomes
        ends_now = now.target in self.policy.table.outcomes
        return evolve(
            so_far,
            kind="ends earlier" if ends_now and not ended_then else "differs",
            now=step_text(self.taken, place),
            why=now.note or "" if now.event == "ran_out" else "",
        )

    def _so_far(self, blank: WhatIf, steps: int) -> WhatIf:
        """Count the attempts and waits of the first steps."""
        attempts_then, waits_then = _attempts_and_waits(self.recorded[:steps])
        attempts_now, waits_now = _attempts_and_waits(self.taken[:steps])
        return evolve(
            blank,
            steps=steps,
            attempts=(attempts_then, attempts_now),
            waits=(waits_then, waits_now),
        )

    def _take(self, place: int, was: Step) -> str | None:
        """Repeat a recorded step; return why its result is unclear, if it is."""
        call = self.call
        at = self._time(place, was)
        for step in self.left_before[was.number]:
            call.found_open(step.note or "", at, has_text="has_text" in step.facts)
        if is_left(was):
            call.found_open(was.note or "", at, has_text="has_text" in was.facts)
            return None
        if was.event in ("sent", "ran_out"):
            send_again(call, was, at)
            return None
        observation = observation_of(was, call.backend)
        if was.event == "cancelled":
            call.observed(observation, was.facts, at)
            return None
        was_sent = self.recorded[place - 1]
        sent = self.taken[place - 1]
        doubts = doubts_of(
            self.journal.setting,
            self.policy,
            self.old_table,
            was_sent=was_sent,
            sent=sent,
            reply=was,
        )
        why = next(doubts, None)
        if why is not None:
            return why
        call.spending.pass_time(at)
        self.draw = was.draw or 0.0
        facts = self._facts(was, observation)
        if isinstance(facts, str):
            return facts
        call.observed(observation, facts, at)
        return None

    def _time(self, place: int, was: Step) -> float:
        """Return when the step happens now, in seconds since the call began.

        It comes as long after the step before it as recorded, except for waits.
        """
        if place == 0:
            return was.at
        before = self.recorded[place - 1]
        now = self.taken[place - 1]
        took = was.at - before.at - before.wait
        return now.at + now.wait + max(took, 0.0)

    def _facts(self, was: Step, observation: Observation) -> tuple[str, ...] | str:
        """Return the facts that would hold, or say why they are unclear where they would decide."""
        event = was.event
        position = self.call.position
        table = self.policy.table
        if position.is_guarded(event) and event not in self.old_table.guarded_events:
            return f"no guard decided on {event} then, so the journal has no facts for it"
        settled = self.call.settled_facts(observation, adds_text="added_text" in was.facts)
        holding = {name for name, holds in settled.items() if holds}
        facts = {name for name in was.facts if name not in settled} | holding
        facts &= {fact.name for fact in table.facts}
        if self.policy.nudge_window == 0:
            facts.discard("follows_tool_result")
        unknown = sorted(self._unknown(facts))
        if len(unknown) > MOST_UNKNOWN:
            return f"the journal does not say whether these held: {', '.join(unknown)}"
        targets = set()
        for count in range(len(unknown) + 1):
            for some in combinations(unknown, count):
                row = position.would_take(event, facts.difference(unknown).union(some))
                targets.add(row.target if row else "")
        if len(targets) > 1:
            says = [f"{name} ({table.fact(name).says})" for name in unknown]
            return f"the journal does not say whether this held: {', '.join(says)}"
        return tuple(sorted(facts))

    def _unknown(self, facts: set[str]) -> Iterator[str]:
        """Yield the facts that would hold or not, where the journal does not say which."""
        old = self.journal.setting.policy.nudge_window
        new = self.policy.nudge_window
        holds = "follows_tool_result" in facts
        may_end = holds and new < old
        may_begin = not holds and new > old
        if may_end or may_begin:
            yield "follows_tool_result"
        for fact in self.policy.table.own_facts:
            if fact not in self.old_table.own_facts:
                yield fact.name


def _way_of(step: Step) -> tuple[str, ...]:
    """Return what must be the same for two calls to take the same path."""
    return step.event, step.source, step.target, step.backend


def step_text(steps: Sequence[Step], place: int) -> str:
    """Describe what a step did: `retry 3 after 8 s`, `ends as failed`."""
    step = steps[place]
    if step.event == "sent":
        return f"sends to {step.backend}"
    before = steps[place - 1].spent if place else {}
    wait = f" after {step.wait:.3g} s" if step.wait else ""
    for name, count in step.spent.items():
        if count > before.get(name, 0):
            return f"{step.target} {count}{wait} ({step.event})"
    return f"ends as {step.target} ({step.event})"


def _attempts_and_waits(steps: Sequence[Step]) -> tuple[int, float]:
    """Count the attempts of some steps, and add up the seconds of their waits."""
    attempts = tuple(attempts_of(steps))
    return len(attempts), sum(each.led.wait for each in attempts if each.led is not None)
