"""Replay a journal through a new call: the same steps and the same result, or an error that names
the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import attrs
from attrs import define, field

from rungwise.fsm.call.budget.shared import Share, SharedBudget
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import MOST_KEYS
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.observation import RAISED, WRONG, Finding, Observation
from rungwise.fsm.call.conversation.request import Request, TurnContext
from rungwise.fsm.call.policy import MOST_ATTEMPTS, Budget, Policy
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.run.sending import FULL, KEY, OPEN, PROBE, QUOTA
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import OF_EVIDENCE, Evidence, Step
from rungwise.fsm.errors import IllegalEvent, JournalMismatch
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.label import short
from rungwise.fsm.values.usage import Usage

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
    """Return the budget that a recorded call shared, which ends at the earliest `deadline`; None if
    it shared none.
    """
    if not budgets:
        return None
    within: SharedBudget | None = None
    for budget in reversed(budgets[1:]):
        within = SharedBudget(budget, within)
    return RecordedBudget(budgets[0], within, steps=steps, recorded_deadline=deadline)


@define(eq=False, repr=False)
class RecordedBudget(SharedBudget):
    """Grant a call what it was granted when it was recorded."""

    _steps: tuple[Step, ...] = field(kw_only=True)
    # in seconds from the start of the call; None for no limit
    _recorded_deadline: float | None = field(kw_only=True)

    @property
    def deadline(self) -> float | None:
        """Return the deadline of the call."""
        return self._recorded_deadline

    def begin(self, now: float) -> None:
        """Do nothing: the journal does not record when the budget began."""

    def share(self) -> Share:
        """Return the share of the call."""
        verdicts = [
            step
            for step in self._steps
            if step.event in ("sent", "ran_out") or "reserve_left" in step.facts
        ]
        plain = SharedBudget.share(self)
        return RecordedShare(self, plain._queue, plain._reservation, verdicts)


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

    def lowered(
        self,
        cap: int | None,
        input_tokens: int,
        prices: Prices | None,
        reserved: tuple[int, int],
    ) -> int | None:
        """Return the cap unchanged: the recorded step has the one that was sent."""
        return cap

    def shortfall(
        self,
        now: float,
        wait: float,
        input_tokens: int | None,
        prices: Prices | None,
    ) -> str | None:
        """Return why no attempt was possible, if the call ended at this very moment for that."""
        following = self._verdicts[0] if self._verdicts else None
        if following is None or following.event == "sent":
            return None
        return (
            following.note
            if (following.at, following.input_tokens) == (now, input_tokens)
            else None
        )

    def has_left(self, now: float) -> bool:
        """Tell whether another backend was asked then, for which something was left."""
        if not self._verdicts or "reserve_left" not in self._verdicts[0].facts:
            return False
        del self._verdicts[0]
        return True

    def reserve(
        self,
        cap: int | None,
        input_tokens: int | None,
        prices: Prices | None,
        wake: Callable[[], None] | None = None,
    ) -> bool:
        """Wait for nobody."""
        return True

    def send(self, cap: int | None, input_tokens: int | None, prices: Prices | None) -> str | None:
        """Let the attempt go out with the cap that it had, which was no larger than what was
        wanted.
        """
        then = self._verdicts.pop(0).cap if self._verdicts else None
        self._granted = cap if cap is None or then is None else min(cap, then)
        return None

    def settle(
        self,
        usage: Usage,
        charged: Usage,
        prices: Prices | None,
        overran: int | None,
    ) -> None:
        """Pay nobody."""


def replay_call(journal: Journal, policy: Policy | None = None, *, gathered: str = "") -> Result:
    """Run a recorded call again, as `replay` does, and return its result.

    The call resumes the `gathered` text if no step of its journal records it.
    """
    recorded = journal.steps
    setting = journal.setting
    policy = policy or setting.policy
    if journal.table != policy.table.name:
        actual = short(journal.table)
        expected = policy.table.name
        raise JournalMismatch(
            f"the journal is of the table {actual}, the policy holds {expected!r}"
        )
    if journal.counters != policy.table.counters:
        raise JournalMismatch(
            "the journal counts what its table does not: replay it under the policy that it ran "
            "with"
        )
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


def call_again(
    journal: Journal,
    policy: Policy,
    *,
    jitter: Callable[[], float],
    gathered: str = "",
) -> Call:
    """Return a new call with the setting of a recorded one."""
    recorded = journal.steps
    setting = journal.setting
    contents = [step.content for step in recorded if step.content]
    prior = next((each["prior_answer"] for each in contents if "prior_answer" in each), None)
    gathered = next((each["gathered"] for each in contents if "gathered" in each), gathered)
    return Call(
        Request("(not recorded)", max_tokens=setting.max_tokens, input_tokens=setting.input_tokens),
        policy,
        setting.chain,
        turn=TurnContext(prior, only_housekeeping=prior is not None, gathered=gathered),
        jitter=jitter,
        observer=silent,
        contents=journal.contents,
        has_compactor=setting.has_compactor,
        prompts=iter([step.input_tokens for step in recorded if step.input_tokens is not None]),
        within=recorded_budget(setting.within, recorded, setting.within_deadline),
        deadline=setting.deadline,
        lessons=setting.lessons,
    )


def _repeat(call: Call, step: Step) -> None:
    """Repeat a recorded step; steps that the call takes by itself are only compared."""
    if call.journal.size >= step.number or (step.event == SKIPPED and not is_left(step)):
        return
    if is_left(step):
        call.found_open(step.note or "", step.at)
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
    """Send as a recorded call did: with the same key, as a probe or not, after the same wait for a
    quota.
    """
    notes = (step.note or "").split("; ")
    if call.arrivals:
        key = next((number for number in range(1, MOST_KEYS) if KEY.format(number + 1) in notes), 0)
        call.arrive((key,), is_probe=PROBE in notes)
    waited = next(filter(None, map(WAITED.fullmatch, notes)), None)
    call.sending(at, float(waited[1]) if waited else 0.0)


def observation_of(step: Step, backend: int) -> Observation:
    """Return what the call observed at a step; texts are there only if the journal has contents."""
    content = step.content or {}
    delivered = content.get("delivered", "")
    remaining = delivered if step.event == "cancelled" else ""
    failure = reply = finding = None
    repair = step.note if "repair_known" in step.facts else None
    if step.event in (RAISED, *WRONG.values()):
        finding = Finding(note=step.note or "wrong", reasons=tuple(content.get("reasons", ())))
    if step.reason is not None:
        failure = Failure(
            step.reason,  # type: ignore[arg-type] # the journal holds what a Failure held
            status=step.status,
            code=step.code,
            asked_wait=step.asked_wait,
            is_stale="connection_was_stale" in step.facts,
            found=step.note if step.event == "malformed" else None,
        )
    if "tool_calls" in content:
        reply = Reply(
            content["part"] or delivered,
            final_text=content.get("final_text"),
            tool_calls=tuple(ToolCall(*call) for call in content["tool_calls"]),
            usage=step.usage,
            reasoning=content.get("reasoning", ""),
            stop_raw=step.stop_raw,
        )
    return Observation(
        evidence=Evidence(
            **{name: getattr(step, name) for name in ("event", *OF_EVIDENCE)}, repair=repair
        ),
        part=content.get("part", remaining),
        new=content.get("new", remaining),
        spare=content.get("spare", ""),
        unsays=content.get("unsays", False),
        reasoning=content.get("reasoning", ""),
        thinks_inline="thinks_inline" in step.facts,
        backend=backend,
        delivered=delivered,
        reply=reply,
        failure=failure,
        found=step.note if step.event == "malformed" else None,
        finding=finding,
    )


def _compare(
    replayed: Journal,
    recorded: tuple[Step, ...],
    alike: int,
    number: int,
) -> int:
    """Compare the replay with the journal up to a step, from the first step not yet compared;
    return that step.
    """
    if replayed.size < number:
        raise JournalMismatch(
            f"step {number}: the journal has {recorded[number - 1]}, the replay took no step"
        )
    for was, now in zip(recorded[alike:number], replayed.steps_from(alike + 1), strict=False):
        check_alike(was, now)
    return number
