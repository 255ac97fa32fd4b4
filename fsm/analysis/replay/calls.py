"""Replay the journal of a call through a new call.

It takes the same steps and has the same result, or an error names the first difference. Whatever
came from outside is read from the journal: replies, times, random numbers, prompts that were
counted, backends that were not to be asked, and what a shared budget granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
from attrs import define, field

from rungwise.fsm.analysis.replay.observed import observation_of
from rungwise.fsm.call.budget.shared import Share, SharedBudget
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import MOST_KEYS
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Request, TurnContext
from rungwise.fsm.call.policy import MOST_ATTEMPTS, Budget, Policy
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.run.sending import FULL, KEY, OPEN, PROBE, QUOTA
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.errors import IllegalEvent, JournalMismatch
from rungwise.fsm.values.label import short

# the note of a step that waited for a quota
WAITED = re.compile(QUOTA.replace("{:.4g}", r"([\d.e+-]{1,10})"))


def check_alike(was: Step, now: Step) -> None:
    """Check that a step of the replay equals the recorded one."""
    if was == now:
        return
    for attribute in attrs.fields(Step):
        before = getattr(was, attribute.name)
        after = getattr(now, attribute.name)
        if before != after and attribute.name != "content":
            difference = (
                f"{attribute.name} is {short(before)} in the journal and "
                f"{short(after)} in the replay"
            )
            raise JournalMismatch(f"step {was.number}: {difference}")
    raise JournalMismatch(f"step {was.number}: the contents differ")


def recorded_budget(
    budgets: tuple[Budget, ...],
    steps: tuple[Step, ...],
    deadline: float | None,
) -> SharedBudget | None:
    """Return the budget that a recorded call shared; None if it shared none.

    Arguments:
        budgets: the budgets around the call, the innermost first.
        steps: those of the call.
        deadline: the earliest one, in seconds from the start of the call.
    """
    if not budgets:
        return None
    within: SharedBudget | None = None
    for budget in reversed(budgets[1:]):
        within = SharedBudget(budget, within)
    return RecordedBudget(budgets[0], within, steps=steps, recorded_deadline=deadline)


@define(eq=False, repr=False)
class RecordedBudget(SharedBudget):
    """Grant a call what it was granted when it was recorded.

    The recorded deadline is in seconds from the start of the call; None for no limit.
    """

    _steps: tuple[Step, ...] = field(kw_only=True)
    _recorded_deadline: float | None = field(kw_only=True)

    @property
    def deadline(self) -> float | None:
        """Return the deadline of the call."""
        return self._recorded_deadline

    def begin(self, now: float) -> None:
        """Do nothing: the journal does not record when the budget began."""

    def share(self) -> Share:
        """Return the share of the call, with the steps that tell what the budget allowed."""
        verdicts = []
        for step in self._steps:
            if is_left(step):  # health or a quota has decided that
                continue
            if step.event in ("sent", "ran_out") or "reserve_left" in step.facts:
                verdicts.append(step)
        return self.share_by(partial(RecordedShare, verdicts=verdicts))


@define(eq=False, repr=False)
class RecordedShare(Share):
    """Grant each attempt its recorded cap, or end the call where it ended."""

    _verdicts: list[Step]
    _granted: int | None = field(default=None, init=False)

    @property
    def cap(self) -> int | None:
        """Return the recorded output cap, in tokens."""
        return self._granted

    @property
    def attempts_left(self) -> int:
        """Return more than any call makes: the recorded steps decide where attempts ended."""
        return MOST_ATTEMPTS

    def remaining(self) -> list[tuple[Budget, int, int]]:
        """Return nothing: what was kept of it shows in the caps."""
        return []

    def lowered(self, cap: int | None, *_: Any, **__: Any) -> int | None:
        """Return the cap unchanged: the recorded step has the one that was sent."""
        return cap

    def shortfall(
        self,
        now: float,
        wait: float,
        input_tokens: int | None,
        prices: Prices | None,
    ) -> str | None:
        """Return why no attempt was possible, if the call ended at this very moment for that.

        Arguments:
            now, wait, input_tokens, prices: as in `Share`.
        """
        if not self._verdicts or self._verdicts[0].event == "sent":
            return None
        following = self._verdicts[0]
        is_now = (following.at, following.input_tokens) == (now, input_tokens)
        return following.note if is_now else None

    def has_left(self, now: float) -> bool:
        """Tell whether another backend was asked then, for which something was left."""
        if not self._verdicts or "reserve_left" not in self._verdicts[0].facts:
            return False
        del self._verdicts[0]
        return True

    def reserve(self, *_: Any, **__: Any) -> bool:
        """Wait for nobody."""
        return True

    def send(self, cap: int | None, *_: Any, **__: Any) -> str | None:
        """Let the attempt go out with its recorded cap, or the given one if that is lower."""
        self._granted = cap
        if self._verdicts:
            then = self._verdicts.pop(0).cap
            if cap is not None and then is not None:
                self._granted = min(cap, then)
        return None

    def settle(self, *_: Any, **__: Any) -> None:
        """Pay nobody."""


def replay_call(journal: Journal, policy: Policy | None = None, *, gathered: str = "") -> Result:
    """Run a recorded call again, as `replay` does, and return its result.

    The call resumes the `gathered` text if no step of its journal records it.

    Raises:
        JournalMismatch: a step differs, or the journal is of another table than the policy's.
    """
    recorded = journal.steps
    policy = policy or journal.setting.policy
    _check_table(journal, policy)
    draws: Iterator[float] = iter([step.draw for step in recorded if step.draw is not None])
    call = call_again(journal, policy, jitter=lambda: next(draws, 0.0), gathered=gathered)
    call.journal.started = journal.started
    call.begin(0.0)
    alike = 0  # steps compared so far
    for step in recorded:
        try:
            _repeat(call, step)
        except IllegalEvent as error:
            raise JournalMismatch(f"step {step.number}: {error}") from None
        except Exception as error:
            # A forged step can be well formed and still impossible, such as a fallback after the
            # last backend. Whatever it does to the call, the call did not take it.
            raise JournalMismatch(
                f"step {step.number}: no call can have taken it ({type(error).__name__})"
            ) from error
        if step.event != SKIPPED:  # it is recorded together with the row that follows
            alike = _compare(call.journal, recorded, alike, step.number)
    if not call.is_over:
        call.cancel()
    _compare(call.journal, recorded, alike, len(recorded))
    if journal.outcome is not None and call.result.outcome != journal.outcome:
        raise JournalMismatch(
            f"the journal ends in {short(journal.outcome)}, the replay in {call.result.outcome!r}"
        )
    return call.result


def _check_table(journal: Journal, policy: Policy) -> None:
    """Refuse a journal of another table than the policy's."""
    table = policy.table
    if journal.table != table.name:
        actual = short(journal.table)
        raise JournalMismatch(
            f"the journal is of the table {actual}, the policy holds {table.name!r}"
        )
    if journal.counters != table.counters:
        raise JournalMismatch(
            "the journal counts what its table does not: replay it under the policy that it ran "
            "with"
        )


def call_again(
    journal: Journal,
    policy: Policy,
    *,
    jitter: Callable[[], float],
    gathered: str = "",
) -> Call:
    """Return a new call with the setting of a recorded one.

    Arguments:
        journal: the recorded call.
        policy: that of the new one.
        jitter: draws the random numbers of waits.
        gathered: the text that it resumes, if no step records it.
    """
    recorded = journal.steps
    setting = journal.setting
    contents = [step.content for step in recorded if step.content]
    prior = next((each["prior_answer"] for each in contents if "prior_answer" in each), None)
    gathered = next((each["gathered"] for each in contents if "gathered" in each), gathered)
    request = Request(
        "(not recorded)", max_tokens=setting.max_tokens, input_tokens=setting.input_tokens
    )
    turn = TurnContext(prior, only_housekeeping=prior is not None, gathered=gathered)
    prompts = [step.input_tokens for step in recorded if step.input_tokens is not None]
    return Call(
        request,
        policy,
        setting.chain,
        turn=turn,
        jitter=jitter,
        observer=silent,
        contents=journal.contents,
        has_compactor=setting.has_compactor,
        prompts=iter(prompts),
        within=recorded_budget(setting.within, recorded, setting.within_deadline),
        deadline=setting.deadline,
        lessons=setting.lessons,
    )


def _repeat(call: Call, step: Step) -> None:
    """Repeat a recorded step; steps that the call takes by itself are only compared."""
    if call.journal.size >= step.number or (step.event == SKIPPED and not is_left(step)):
        return
    if is_left(step):
        call.found_open(step.note or "", step.at, has_text="has_text" in step.facts)
    elif step.event in ("sent", "ran_out"):
        send_again(call, step, step.at)
    else:
        call.journal.first_token = step.first_token
        call.observed(observation_of(step, call.backend), step.facts, step.at)


def is_left(step: Step) -> bool:
    """Tell whether a call left a backend at a step because it was not asked then."""
    is_open = (step.note or "").startswith((OPEN, FULL))
    return step.event == "found_open" or (step.event in (SKIPPED, "ran_out") and is_open)


def send_again(call: Call, step: Step, at: float) -> None:
    """Send as a recorded call did.

    It has the same key, is a probe or not, and has waited as long for a quota.
    """
    notes = (step.note or "").split("; ")
    if call.arrivals:
        key = 0
        for number in range(1, MOST_KEYS):
            if KEY.format(number + 1) in notes:
                key = number
                break
        call.arrive((key,), is_probe=PROBE in notes)
    waited = next(filter(None, map(WAITED.fullmatch, notes)), None)
    call.sending(at, float(waited[1]) if waited else 0.0)


def _compare(
    replayed: Journal,
    recorded: tuple[Step, ...],
    alike: int,
    number: int,
) -> int:
    """Compare the replay with the journal up to a step, and return how many steps are alike now.

    Arguments:
        replayed: the journal of the new call.
        recorded: the recorded steps.
        alike: how many of them were compared before.
        number: the step to compare up to.
    """
    if replayed.size < number:
        raise JournalMismatch(
            f"step {number}: the journal has {recorded[number - 1]}, the replay took no step"
        )
    for was, now in zip(recorded[alike:number], replayed.steps_from(alike + 1), strict=False):
        check_alike(was, now)
    return number
