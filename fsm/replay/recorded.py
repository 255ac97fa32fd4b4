"""Comparing recorded steps, and the shared budget of a recorded call as its journal describes it."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from attrs import define, field

from rungwise.fsm.call.budget.shared import Share, SharedBudget
from rungwise.fsm.call.conversation.link import Prices
from rungwise.fsm.call.policy import MOST_ATTEMPTS, Budget
from rungwise.fsm.errors import JournalMismatch
from rungwise.fsm.journal.record import Step
from rungwise.fsm.values.label import short
from rungwise.fsm.values.usage import Usage


def check_alike(was: Step, now: Step) -> None:
    """Check that a step of the replay equals the recorded one."""
    if was == now:
        return
    for attribute in attrs.fields(Step):
        before, after = getattr(was, attribute.name), getattr(now, attribute.name)
        if before != after and attribute.name != "content":
            difference = f"{attribute.name} is {short(before)} in the journal and {short(after)} in the replay"
            raise JournalMismatch(f"step {was.number}: {difference}")
    raise JournalMismatch(f"step {was.number}: the contents differ")


def recorded_budget(
    budgets: tuple[Budget, ...], steps: tuple[Step, ...], deadline: float | None
) -> SharedBudget | None:
    """Return the budget that a recorded call shared; None if it shared none.

    Arguments:
        deadline: the earliest deadline among them, in seconds from the start of the call; None for no limit.
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
    _recorded_deadline: float | None = field(kw_only=True)

    @property
    def deadline(self) -> float | None:
        """Return the deadline of the call."""
        return self._recorded_deadline

    def begin(self, now: float) -> None:
        """Do nothing: the journal does not record when the budget began."""

    def share(self) -> Share:
        """Return the share of the call."""
        verdicts = [step for step in self._steps if step.event in ("sent", "ran_out") or "reserve_left" in step.facts]
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
        self, cap: int | None, input_tokens: int, prices: Prices | None, *, reserved_tokens: int, reserved_money: int
    ) -> int | None:
        """Return the cap unchanged: the recorded step has the one that was sent."""
        return cap

    def shortfall(self, now: float, wait: float, input_tokens: int | None, prices: Prices | None) -> str | None:
        """Return why no attempt was possible, if the call ended at this very moment for that."""
        following = self._verdicts[0] if self._verdicts else None
        if following is None or following.event == "sent":
            return None
        return following.note if (following.at, following.input_tokens) == (now, input_tokens) else None

    def has_left(self, now: float) -> bool:
        """Tell whether another backend was asked then, for which something was left."""
        if not self._verdicts or "reserve_left" not in self._verdicts[0].facts:
            return False
        del self._verdicts[0]
        return True

    def reserve(
        self, cap: int | None, input_tokens: int | None, prices: Prices | None, wake: Callable[[], None] | None = None
    ) -> bool:
        """Wait for nobody."""
        return True

    def send(self, cap: int | None, input_tokens: int | None, prices: Prices | None) -> str | None:
        """Let the attempt go out with the cap that it had, which was no larger than what was wanted."""
        then = self._verdicts.pop(0).cap if self._verdicts else None
        self._granted = cap if cap is None or then is None else min(cap, then)
        return None

    def settle(self, usage: Usage, charged: Usage, prices: Prices | None, overran: int | None) -> None:
        """Pay nobody."""
