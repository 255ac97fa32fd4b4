"""What a past call or turn would have done under another policy, as far as its journal shows.

The recorded replies are played to a call under the new policy, each after the same time. Where the
new call does something else, the rest is unknown: no journal has the reply to a request that was
never sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal

from attrs import define, evolve, field, frozen

from rungwise.fsm.analysis.replay.calls import call_again, is_left, observation_of, send_again
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.policy import FIRST_TOKEN, Policy, Timeouts
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.engine.journal.attempts import attempts_of
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.table import CALLS, TURN
from rungwise.fsm.turn.turn_journal import TurnJournal

CUT_AT_CAP = frozenset({"truncated", "tools_truncated", "json_truncated", "reasoning_truncated"})
"""The events of a reply that was cut at its cap."""

HINTS = {"nudge": ("nudge", "placeholder"), "continuation": ("continuation",), "prefill": ("seed",)}
"""The hints in the requests of each rung."""


def _with_thinking(timeouts: Timeouts, thinks_for: float | None) -> Timeouts:
    """Return the longest clocks of a backend: a recorded policy does not say whether its value was
    the default.
    """
    if thinks_for is None or timeouts.first_token != FIRST_TOKEN:
        return timeouts
    return evolve(timeouts, first_token=max(FIRST_TOKEN, thinks_for))


def _clocks(
    old: Timeouts,
    new: Timeouts,
    own: set[str],
    reply: Step,
    lasted: float,
) -> Iterator[str]:
    """Yield how the time limits of an attempt would change it; a backend's own limits stay."""
    for name, what in (
        ("total", "an attempt"),
        ("first_token", "the first content"),
        ("stall", "a silence"),
    ):
        if name in own:
            continue
        before = _endless(getattr(old, name))
        now = _endless(getattr(new, name))
        is_silence = name != "total"
        ended = reply.event == "fell_silent" if is_silence else reply.reason == "timeout"
        if ended and now > before and lasted >= before:
            yield f"the attempt was given up after {lasted:.3g} s, and {what} may take longer now"
        elif not ended and now < before and lasted > now:
            sure = "" if not is_silence else "; the journal does not say when its pieces arrived"
            yield (
                f"the attempt took {lasted:.3g} s, and {what} may take {now:g} s at most now{sure}"
            )


def _endless(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


Kind = Literal["same", "differs", "ends earlier", "unclear", "not replayed"]
MOST_UNKNOWN = 4
"""The most unknown facts of which every combination is tried; with more, the result is unclear."""


@frozen(kw_only=True)
class WhatIf:
    """Describe what a past call or turn would have done."""

    name: str
    # whether its path stays the same, differs from a step on, ends at a step, or is unclear from a
    # step on
    kind: Kind
    where: str = ""  # that step, as in `step 7` or `call 3, step 7`; "" if the path stays the same
    before: str = ""
    now: str = ""
    why: str = ""
    steps: int = 0
    of: int = 0
    attempts: tuple[int, int] = (0, 0)
    waits: tuple[float, float] = (0.0, 0.0)
    outcome: str | None = None
    notes: tuple[str, ...] = ()


def what_if(
    journal: Journal,
    policy: Policy,
    *,
    name: str = "the call",
    old_table: Table | None = None,
) -> WhatIf:
    """Play the replies of a recorded call to one under another policy, up to the first difference.

    The recorded call ran on the `old_table`, if that was not the policy's.
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
    journal: Journal
    policy: Policy
    old_table: Table
    recorded: Sequence[Step]
    call: Call = field(init=False)
    # the backends passed over before a step
    left: dict[int, list[Step]] = field(factory=dict, init=False)
    draw: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.call = call_again(self.journal, self.policy, jitter=lambda: self.draw)
        passed_over: list[Step] = []
        for step in self.journal.steps:
            if step.event == "skipped":
                passed_over += [step] if is_left(step) else []
            else:
                self.left[step.number], passed_over = passed_over, []

    @property
    def taken(self) -> list[Step]:
        return [step for step in self.call.journal.steps if step.event != "skipped"]

    def run(self, blank: WhatIf) -> WhatIf:
        self.call.begin(0.0)
        for place, was in enumerate(self.recorded):
            before = step_text(self.recorded, place)
            result = evolve(self._so_far(blank, place), where=f"step {place + 1}", before=before)
            if len(self.taken) <= place:
                why = self._take(place, was)
                if why is not None:
                    return evolve(result, kind="unclear", why=why)
            now = self.taken[place]
            if (was.event, was.source, was.target, was.backend) == (
                now.event,
                now.source,
                now.target,
                now.backend,
            ):
                continue
            if self.journal.setting.within and was.event == "ran_out":
                why = (
                    "a budget that it shared with others ended it, and what is left of that "
                    "is not known"
                )
                return evolve(result, kind="unclear", why=why)
            ends = (
                now.target in self.policy.table.outcomes
                and was.target not in self.old_table.outcomes
            )
            why = now.note or "" if now.event == "ran_out" else ""
            now_text = step_text(self.taken, place)
            return evolve(result, kind="ends earlier" if ends else "differs", now=now_text, why=why)
        open_end = (
            () if self.journal.outcome is not None else ("the journal stops before it ended",)
        )
        return evolve(
            self._so_far(blank, len(self.recorded)), kind="same", notes=(*blank.notes, *open_end)
        )

    def _so_far(self, blank: WhatIf, steps: int) -> WhatIf:
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
        for step in (*self.left[was.number], *([was] if is_left(was) else ())):
            call.found_open(step.note or "", at)
        if is_left(was):
            return None
        if was.event in ("sent", "ran_out"):
            send_again(call, was, at)
            return None
        observation = observation_of(was, call.backend)
        if was.event == "cancelled":
            call.observed(observation, was.facts, at)
            return None
        why = next(self._unclear(self.recorded[place - 1], self.taken[place - 1], was), None)
        if why is not None:
            return why
        call.spending.pass_time(at)
        self.draw = was.draw or 0.0
        facts = self._facts(was, observation)
        if isinstance(facts, str):
            return facts
        call.observed(observation, facts, at)
        return None

    def _unclear(self, was_sent: Step, sent: Step, reply: Step) -> Iterator[str]:
        setting = self.journal.setting
        policy = self.policy
        rung = was_sent.source
        old = setting.policy
        for name in HINTS.get(rung, ()):
            if getattr(old.hints, name) != getattr(policy.hints, name):
                yield f"hints.{name} has changed, so the reply to {rung} is unknown"
        # A journal that was read has the hints of rungs of your own beside its policy.
        hints = (
            old.hints.rungs
            if setting.recorded is None
            else setting.recorded.get("hints", {}).get("rungs", {})
        )
        if hints.get(rung) != policy.hints.rungs.get(rung) and rung in policy.table.rungs:
            yield f"the hint of {rung} has changed, so the reply to it is unknown"
        used = reply.usage.output_tokens
        if was_sent.cap != sent.cap:
            before, now = (
                "none" if step.cap is None else f"{step.cap:,} tokens" for step in (was_sent, sent)
            )
            if reply.event in CUT_AT_CAP:
                yield f"the reply was cut, and its cap was {before} then and is {now} now"
            elif sent.cap is not None and used > sent.cap:
                yield f"the reply had {used:,} output tokens, and the cap is {now} now"
        link = next((each for each in setting.chain if each.name == reply.backend), None)
        own = {name for name in ("first_token", "stall") if getattr(link, name, None) is not None}
        thinks_for = None if link is None else link.thinks_for
        clocks = [_with_thinking(each.timeouts, thinks_for) for each in (old, policy)]
        yield from _clocks(clocks[0], clocks[1], own, reply, reply.at - was_sent.at)
        declared = self.old_table.rung(rung)
        redeclared = policy.table.rung(rung)
        if declared and redeclared and declared.change != redeclared.change:
            yield f"{rung} changes the request in another way, so the reply to it is unknown"

    def _time(self, place: int, was: Step) -> float:
        """Return the time of the step: as long after the step before it as recorded, except for
        waits.
        """
        if place == 0:
            return was.at
        before = self.recorded[place - 1]
        now = self.taken[place - 1]
        return now.at + now.wait + max(was.at - before.at - before.wait, 0.0)

    def _facts(self, was: Step, observation: Observation) -> tuple[str, ...] | str:
        """Return the facts that would hold, or say why they are unclear where they would decide."""
        position = self.call.position
        if position.is_guarded(was.event) and was.event not in self.old_table.guarded_events:
            return f"no guard decided on {was.event} then, so the journal has no facts for it"
        settled = self.call.settled_facts(observation, adds_text="added_text" in was.facts)
        declared = {fact.name for fact in self.policy.table.facts}
        facts = {name for name in was.facts if name in declared} - settled.keys()
        facts |= {name for name, holds in settled.items() if holds and name in declared}
        unknown = sorted(self._unknown(was, facts))
        if len(unknown) > MOST_UNKNOWN:
            return f"the journal does not say whether these held: {', '.join(unknown)}"
        sets = (some for count in range(len(unknown) + 1) for some in combinations(unknown, count))
        ways = [facts - set(unknown) | set(some) for some in sets]
        targets = {
            row.target if row else ""
            for row in (position.would_take(was.event, way) for way in ways)
        }
        if len(targets) > 1:
            says = [f"{name} ({self.policy.table.fact(name).says})" for name in unknown]
            return f"the journal does not say whether this held: {', '.join(says)}"
        return tuple(sorted(facts))

    def _unknown(self, was: Step, facts: set[str]) -> Iterator[str]:
        """Yield the facts that would hold or not, where the journal does not say which."""
        old = self.journal.setting.policy.nudge_window
        new = self.policy.nudge_window
        if "follows_tool_result" in facts and new == 0:
            facts.discard("follows_tool_result")
        elif ("follows_tool_result" in facts and new < old) or (
            "follows_tool_result" not in facts and new > old
        ):
            yield "follows_tool_result"
        looked_at = self.old_table.own_facts
        yield from (fact.name for fact in self.policy.table.own_facts if fact not in looked_at)


def step_text(steps: Sequence[Step], place: int) -> str:
    """Describe what a step did: `retry 3 after 8 s`, `ends as failed`."""
    step = steps[place]
    if step.event == "sent":
        return f"sends to {step.backend}"
    counts = {name: count for name, count in step.spent.items() if count}
    before = {
        name: count for name, count in (steps[place - 1].spent if place else {}).items() if count
    }
    number = next((count for name, count in counts.items() if count > before.get(name, 0)), None)
    if number is None:
        return f"ends as {step.target} ({step.event})"
    wait = f" after {step.wait:.3g} s" if step.wait else ""
    return f"{step.target} {number}{wait} ({step.event})"


def _attempts_and_waits(steps: Sequence[Step]) -> tuple[int, float]:
    """Count the attempts of some steps, and add up the seconds of their waits."""
    attempts = tuple(attempts_of(steps))
    return len(attempts), sum(each.led.wait for each in attempts if each.led is not None)


def what_if_recorded(
    journal: Journal | TurnJournal,
    policy: Policy | TurnPolicy,
    *,
    name: str = "the journal",
    old_table: Table | None = None,
) -> WhatIf:
    """Describe what a past call or turn would have done under another policy, up to the first
    difference.
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
        if (
            self.doing == "summarize"
            and self.journal.setting.policy.hints.summary != self.policy.hints.summary
        ):
            return evolve(
                so_far, kind="unclear", why="hints.summary has changed, so the summary is unknown"
            )
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
        row = (
            self.position.would_take(step.event, facts) if self.position.state == TURN.hub else None
        )
        return step.target if row is None else row.target

    def _call(self, so_far: WhatIf, step: Step) -> WhatIf | None:
        budget = self.policy.budget
        spent = (
            [f"all {budget.attempts} attempts of the turn are used"]
            if self.attempts >= budget.attempts
            else []
        )
        if budget.seconds is not None and step.at >= budget.seconds:
            spent.append(f"the {budget.seconds:g} s of the turn are over")
        if spent:
            return evolve(
                so_far,
                kind="ends earlier",
                now="ends as over_budget (ran_out)",
                why="; ".join(spent),
            )
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
        recorded = [
            name
            for name in step.facts
            if name not in lasting and name in {fact.name for fact in TURN.facts}
        ]
        return (
            *recorded,
            *(name for name, counter in lasting.items() if self.position.has_left(counter)),
        )

    def _unknown(self, step: Step) -> Iterator[str]:
        """Yield the facts that would hold or not, where the journal does not say which."""
        if step.event != "tools_ran":
            return
        old = self.journal.setting.policy
        new = self.policy
        for name, field_name in (
            ("repeats_calls", "same_calls"),
            ("over_tool_limit", "calls_per_reply"),
        ):
            before = getattr(old, field_name)
            now = getattr(new, field_name)
            if (name in step.facts and now > before) or (name not in step.facts and now < before):
                yield name
