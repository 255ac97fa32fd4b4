"""What a past call would have done under another policy, as far as its journal can tell.

The recorded replies are played to a call under the new policy, each after as long as it took then. Where the new call
does something else, the rest is not known: no journal holds the reply to what was never asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Literal

from attrs import define, evolve, field, frozen

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.policy import Policy, Timeouts
from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.journal.record import Step
from rungwise.fsm.machine.table import Table
from rungwise.fsm.replay.calls import call_again, observation_of

CUT_AT_CAP = frozenset({"truncated", "tools_truncated", "json_truncated", "reasoning_truncated"})
"""The events of a reply that its cap has cut."""

HINTS = {"nudge": ("nudge", "placeholder"), "continuation": ("continuation",), "prefill": ("seed",)}
"""The hints that the requests of a rung hold."""


def unclear_reply(journal: Journal, policy: Policy, was_sent: Step, sent: Step, reply: Step) -> str | None:
    """Say why the reply to an attempt may be another one under a policy; None where nothing speaks for that.

    Arguments:
        journal: what was recorded, with the policy that the call had.
        policy: the other policy.
        was_sent, sent: the attempt then, and that of the other policy.
        reply: what came back then.
    """
    return next(_reasons(journal, policy, was_sent, sent, reply), None)


def _reasons(journal: Journal, policy: Policy, was_sent: Step, sent: Step, reply: Step) -> Iterator[str]:
    old = journal.setting.policy
    rung = was_sent.source
    for name in HINTS.get(rung, ()):
        if getattr(old.hints, name) != getattr(policy.hints, name):
            yield f"hints.{name} is worded otherwise, so the reply to {rung} is not known"
    if _own_hint(journal, rung) != policy.hints.rungs.get(rung) and rung in policy.table.rungs:
        yield f"the hint of {rung} is worded otherwise, so the reply to it is not known"
    used = reply.usage.output_tokens
    if was_sent.cap != sent.cap:
        before, now = ("none" if step.cap is None else f"{step.cap:,} tokens" for step in (was_sent, sent))
        if reply.event in CUT_AT_CAP:
            yield f"the reply was cut, and its cap was {before} then and is {now} now"
        elif sent.cap is not None and used > sent.cap:
            yield f"the reply had {used:,} output tokens, and the cap is {now} now"
    link = next((each for each in journal.setting.chain if each.name == reply.backend), None)
    own = {name for name in ("first_token", "stall") if getattr(link, name, None) is not None}
    yield from _clocks(old.timeouts, policy.timeouts, own, reply, reply.at - was_sent.at)


def _own_hint(journal: Journal, rung: str) -> str | None:
    """Return what a rung of one's own said then; a journal that was read has it beside its policy."""
    recorded = journal.setting.recorded
    rungs = journal.setting.policy.hints.rungs if recorded is None else recorded.get("hints", {}).get("rungs", {})
    hint: str | None = rungs.get(rung)
    return hint


def _clocks(old: Timeouts, new: Timeouts, own: set[str], reply: Step, lasted: float) -> Iterator[str]:
    """Yield what the clocks of one attempt would have made of it; those that a backend has of its own stay."""
    for name, what in (("total", "an attempt"), ("first_token", "the first content"), ("stall", "a silence")):
        if name in own:
            continue
        before, now = _endless(getattr(old, name)), _endless(getattr(new, name))
        is_silence = name != "total"
        ended = reply.event == "fell_silent" if is_silence else reply.reason == "timeout"
        if ended and now > before and lasted >= before:
            yield f"the attempt was given up after {lasted:.3g} s, and {what} may take longer now"
        elif not ended and now < before and lasted > now:
            sure = "" if not is_silence else "; when its pieces came is not in the journal"
            yield f"the attempt took {lasted:.3g} s, and {what} may take {now:g} s at most now{sure}"


def _endless(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


Kind = Literal["same", "differs", "ends earlier", "unclear", "not replayed"]
MOST_UNKNOWN = 4
"""Facts of which each combination is tried; with more of them, nothing is said."""


@frozen(kw_only=True)
class WhatIf:
    """Say what a past call or turn would have done.

    Arguments:
        name: of the journal.
        kind: whether its path is the same to the end, differs from a step on, ends there, or cannot be told from there.
        where: the step from which that is so, as in `step 7` or `call 3, step 7`; "" where nothing differs.
        before, now: what was done there, and what would be.
        why: why that is so, or cannot be told.
        steps, of: how many steps of its path are told, of how many.
        attempts: the attempts that it made up to there, and those that it would have made.
        waits: the seconds of waits up to there, likewise.
        outcome: how it ended.
        notes: what else there is to know.
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


def what_if(
    journal: Journal, policy: Policy, *, name: str = "the call", old_table: Table | None = None, gathered: str = ""
) -> WhatIf:
    """Play the replies of a recorded call to one under another policy, up to the first difference.

    Arguments:
        journal: what was recorded, complete or not.
        policy: the other policy.
        name: what the journal is called.
        old_table: the machine that the recorded call ran on, where it was not that of the policy.
        gathered: the text that the call went on from, where its journal came to hold no step that tells.
    """
    recorded = [step for step in journal.steps if step.event != "skipped"]
    blank = WhatIf(name=name, kind="not replayed", of=len(recorded), outcome=journal.outcome)
    if not recorded:
        return evolve(blank, why="it holds no steps")
    policy, notes = _payable(journal, policy)
    try:
        play = _Play(journal, policy, old_table or policy.table, recorded, gathered)
        found = play.run(evolve(blank, notes=notes))
    except (ConfigurationError, IllegalEvent) as error:
        return evolve(blank, why=str(error), notes=notes)
    return found


def _payable(journal: Journal, policy: Policy) -> tuple[Policy, tuple[str, ...]]:
    """Leave a budget of money out of account where the journal does not know what was paid for."""
    if policy.budget.money is None:
        return policy, ()
    is_priced = all(link.prices is not None for link in journal.setting.chain)
    is_counted = any(step.input_tokens is not None for step in journal.steps)
    if is_priced and is_counted:
        return policy, ()
    lacks = "prices of its backends" if not is_priced else "tokens of its prompts"
    told = f"the budget of money is left out of account: the journal holds no {lacks}"
    return evolve(policy, budget=evolve(policy.budget, money=None)), (told,)


@define(eq=False)
class _Play:
    journal: Journal
    policy: Policy
    old_table: Table
    recorded: Sequence[Step]
    gathered: str
    call: Call = field(init=False)
    draw: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.call = call_again(self.journal, self.policy, jitter=lambda: self.draw, gathered=self.gathered)

    @property
    def taken(self) -> list[Step]:
        """List what the new call has done."""
        return [step for step in self.call.journal.steps if step.event != "skipped"]

    def run(self, blank: WhatIf) -> WhatIf:
        """Play one step after another, until one differs."""
        call, recorded = self.call, self.recorded
        call.begin(0.0)
        for place, was in enumerate(recorded):
            found = self._found(blank, place)
            if len(self.taken) <= place:
                why = self._take(place, was)
                if why is not None:
                    return evolve(found, kind="unclear", why=why, before=step_text(recorded, place))
            now = self.taken[place]
            if (was.event, was.source, was.target, was.backend) == (now.event, now.source, now.target, now.backend):
                continue
            if self.journal.setting.within and was.event == "ran_out":
                why = "a budget that it shared with others ended it, and what is left of that is not known"
                return evolve(found, kind="unclear", why=why, before=step_text(recorded, place))
            ends = now.target in self.policy.table.outcomes and was.target not in self.old_table.outcomes
            return evolve(
                found,
                kind="ends earlier" if ends else "differs",
                before=step_text(recorded, place),
                now=step_text(self.taken, place),
                why=now.note or "" if now.event == "ran_out" else "",
            )
        found = self._found(blank, len(recorded))
        return evolve(found, kind="same", where="", notes=(*found.notes, *self._left_open()))

    def _left_open(self) -> Iterator[str]:
        if self.journal.outcome is None:
            yield "it had not ended where the journal does"

    def _found(self, blank: WhatIf, place: int) -> WhatIf:
        now = self.taken[: place + 1]
        attempts = (_attempts(self.recorded[:place]), _attempts(now[:place]))
        waits = (_waits(self.recorded[:place]), _waits(now[:place]))
        return evolve(blank, where=f"step {place + 1}", steps=place, attempts=attempts, waits=waits)

    def _take(self, place: int, was: Step) -> str | None:
        """Do what the recorded step did; return why that cannot be told, if it cannot."""
        call, at = self.call, self._time(place, was)
        if was.event in ("sent", "ran_out"):
            call.sending(at)
            return None
        observation = observation_of(was, call.backend)
        if was.event == "cancelled":
            call.observed(observation, was.facts, at)
            return None
        why = unclear_reply(self.journal, self.policy, self.recorded[place - 1], self.taken[place - 1], was)
        why = why or self._asked_otherwise(self.recorded[place - 1].source)
        if why is not None:
            return why
        call.spending.pass_time(at)
        self.draw = was.draw or 0.0
        facts = self._facts(was, observation)
        if isinstance(facts, str):
            return facts
        call.observed(observation, facts, at)
        return None

    def _asked_otherwise(self, rung: str) -> str | None:
        was, now = self.old_table.rung(rung), self.policy.table.rung(rung)
        if was is None or now is None or was.change == now.change:
            return None
        return f"{rung} changes the request otherwise, so the reply to it is not known"

    def _time(self, place: int, was: Step) -> float:
        """Return when the step would have been taken: as long after the one before as then, but for its wait."""
        if place == 0:
            return was.at
        before, now = self.recorded[place - 1], self.taken[place - 1]
        passed = max(was.at - before.at - before.wait, 0.0)
        return now.at + now.wait + passed

    def _facts(self, was: Step, observation: Observation) -> tuple[str, ...] | str:
        """Return the facts that would hold, or why they are not known where they would decide."""
        position = self.call.position
        if position.is_guarded(was.event) and was.event not in self.old_table.guarded_events:
            return f"nothing decided on {was.event} then, so no fact of it is in the journal"
        settled = self.call.settled_facts(observation)
        known = {fact.name for fact in self.policy.table.facts}
        held = {name for name in was.facts if name in known} - settled.keys()
        held |= {name for name, holds in settled.items() if holds and name in known}
        unknown = sorted(self._unknown(was, held))
        if len(unknown) > MOST_UNKNOWN:
            return f"the journal does not say whether these held: {', '.join(unknown)}"
        ways = [
            held - set(unknown) | set(some)
            for count in range(len(unknown) + 1)
            for some in combinations(unknown, count)
        ]
        taken = {row.target if row is not None else "" for row in (position.would_take(was.event, way) for way in ways)}
        if len(taken) > 1:
            says = [f"{name} ({self.policy.table.fact(name).says})" for name in unknown]
            return f"the journal does not say whether this held: {', '.join(says)}"
        return tuple(sorted(held))

    def _unknown(self, was: Step, held: set[str]) -> Iterator[str]:
        """Yield the facts of which the journal does not tell whether they would hold."""
        old, new = self.journal.setting.policy.nudge_window, self.policy.nudge_window
        if "follows_tool_result" in held and new == 0:
            held.discard("follows_tool_result")
        elif ("follows_tool_result" in held and new < old) or ("follows_tool_result" not in held and new > old):
            yield "follows_tool_result"
        looked_at = self.old_table.own_facts
        yield from (fact.name for fact in self.policy.table.own_facts if fact not in looked_at)


def step_text(steps: Sequence[Step], place: int) -> str:
    """Write a step as what was done: `retry 3 after 8 s`, `ends as failed`."""
    step = steps[place]
    if step.event == "sent":
        return f"sends to {step.backend}"
    counts = {name: count for name, count in step.spent.items() if count}
    before = {name: count for name, count in (steps[place - 1].spent if place else {}).items() if count}
    number = next((count for name, count in counts.items() if count > before.get(name, 0)), None)
    if number is None:
        return f"ends as {step.target} ({step.event})"
    wait = f" after {step.wait:.3g} s" if step.wait else ""
    return f"{step.target} {number}{wait} ({step.event})"


def _attempts(steps: Sequence[Step]) -> int:
    return sum(step.event == "sent" for step in steps)


def _waits(steps: Sequence[Step]) -> float:
    return sum(step.wait for step, after in pairwise(steps) if after.event == "sent")
