"""What the parts of one call share: what was asked, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import field

from rungwise.fsm.call.budget import Spending
from rungwise.fsm.call.chain import Chain
from rungwise.fsm.call.journal import Journal, Links, Setting
from rungwise.fsm.call.kept import NOTHING_KEPT, Kept
from rungwise.fsm.call.lessons import NO_LESSONS, Lessons, lessons_of
from rungwise.fsm.call.link import Link, losses_of
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.position import Position
from rungwise.fsm.call.request import Request, TurnContext
from rungwise.fsm.call.shared import SharedBudget, check_within
from rungwise.fsm.call.transcript import Transcript
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.failures.body import FORMAT_PARAMETER
from rungwise.fsm.values.records import define

_FORMAT_REPAIR: Final = f"parameter_unsupported:{FORMAT_PARAMETER}"


@define(eq=False, repr=False)
class CallContext:
    """Hold what the parts of one call share.

    Arguments:
        request: what the caller asks.
        policy: how the call may recover, and its budget.
        turn: what the call cannot see of the turn around it.
        has_compactor: whether messages can be shortened.
        chain: the backends, and which of them is asked.
        position: where the call stands in its machine.
        transcript: the text so far, and what the rungs have added to the messages.
        spending: what is used of the budget.
        journal: every step.
        kept: what no attempt at the current backend may use of the budget.
        told: the places in the chain of the backends of which the journal says what is remembered of them.
        worded: the places of those that rejected the parameter for JSON, of which the journal says what was done.
    """

    request: Request
    policy: Policy
    turn: TurnContext
    has_compactor: bool
    chain: Chain
    position: Position
    transcript: Transcript
    spending: Spending
    journal: Journal
    kept: Kept = NOTHING_KEPT
    told: set[int] = field(factory=set)
    worded: set[int] = field(factory=set)

    @classmethod
    def of(
        cls,
        request: Request,
        policy: Policy,
        chain: Sequence[Link],
        turn: TurnContext,
        *,
        contents: bool,
        has_compactor: bool,
        within: SharedBudget | None,
        lessons: Sequence[Lessons] | None,
    ) -> CallContext:
        """Begin with what a call was given.

        Raises:
            ConfigurationError: something is not of its form, no backend can be used, or one lacks prices.
        """
        _check(request, policy, turn)
        check_within(within)
        spending = Spending(policy.budget, None if within is None else within.share())
        backends = Chain.of(chain, needs_prices=spending.needs_prices)
        links = backends.links
        position = Position.of(policy, len(links))
        setting = Setting(
            policy=policy,
            links=Links(links),
            max_tokens=request.max_tokens,
            input_tokens=request.input_tokens,
            has_compactor=has_compactor,
            within=() if within is None else within.budgets,
            lessons=tuple(map(lessons_of, links) if lessons is None else lessons),
        )
        return cls(
            request=request,
            policy=policy,
            turn=turn,
            has_compactor=has_compactor,
            chain=backends,
            position=position,
            transcript=Transcript.going_on_from(turn.gathered, request.messages, policy.hints),
            spending=spending,
            journal=Journal(
                table=policy.table.name, counters=policy.table.counters, contents=contents, setting=setting
            ),
        )

    def newly_lost(self) -> str | None:
        """Say what of the request the current backend is never told; None where it was said, or there is nothing."""
        chain, told = self.chain, self.journal.setting.links.losses
        if chain.index in told:
            return None
        losses = told[chain.index] = losses_of(self.request, chain.links[0], chain.link)
        return f"left out: {'; '.join(losses)}" if losses else None

    def newly_worded(self) -> str | None:
        """Say that JSON is asked for in words from now on, for its parameter was rejected; None where it was said."""
        if _FORMAT_REPAIR not in self.transcript.repaired or self.chain.index in self.worded:
            return None
        self.worded.add(self.chain.index)
        return f"{FORMAT_PARAMETER}: asked for in words (it was rejected)"

    @property
    def lessons(self) -> Lessons:
        """Return what was remembered of the current backend when the call began."""
        known, index = self.journal.setting.lessons, self.chain.index
        return known[index] if index < len(known) else NO_LESSONS

    def newly_heeded(self) -> str | None:
        """Say what is remembered of the current backend; None where it was said, or there is nothing."""
        if self.chain.index in self.told or self.lessons == NO_LESSONS:
            return None
        self.told.add(self.chain.index)
        return str(self.lessons)


def _check(request: object, policy: object, turn: object) -> None:
    if isinstance(request, Request) and isinstance(policy, Policy) and isinstance(turn, TurnContext):
        return
    for name, value, kind in (("request", request, Request), ("policy", policy, Policy), ("turn", turn, TurnContext)):
        if not isinstance(value, kind):
            raise ConfigurationError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
