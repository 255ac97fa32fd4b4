"""An ended call as the checks see it, and the error that names the property it broke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import Link, any_background, most_keys
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.observation import Verdict
from rungwise.fsm.call.conversation.request import Request, TurnContext
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.call_journal import Journal
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.engine.journal.path import SKIPPED
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.engine.machine.table import Table
from rungwise.fsm.replies.schemas.returns import Returns
from rungwise.fsm.values.usage import Usage


class Dishonest(AssertionError):
    """A call broke a property.

    Arguments:
        property: what must hold, in words.
        detail: what is wrong.
        step: the step of the journal at which it shows; None where it shows in the result alone.
    """

    def __init__(
        self,
        property: str,
        detail: str,
        step: Step | None = None,
    ) -> None:
        message = f"{property}: {detail}"
        if step is not None:
            message += f", at step {step.number}: {step}"
        super().__init__(message)
        self.property = property
        self.step = step


@define(eq=False)
class EndedCall:
    """What the checks see of an ended call.

    Only the result must be there. A check that needs what is None passes.

    Arguments:
        result: the result, with its journal.
        call: the call itself.
        request: its request.
        turn: its turn context.
        events: the events of its stream, in order.
        certificate: what was proved before it began.
        secrets: texts that must not appear anywhere.
        is_fair: whether its providers kept to their caps and counted their input correctly.
        returns: what the answer had to be.
        verdicts: the caller's checks that had to let it pass.
        billed: usages and prices that a fair provider has billed, reported or not.
    """

    result: Result
    call: Call | None = None
    request: Request | None = None
    turn: TurnContext | None = None
    events: Sequence[object] | None = None
    certificate: Certificate | None = None
    secrets: tuple[str, ...] = ()
    is_fair: bool = False
    returns: Returns | None = None
    verdicts: tuple[Verdict, ...] = ()
    billed: Sequence[tuple[Usage, Prices]] = ()
    journal: Journal = field(init=False)
    steps: tuple[Step, ...] = field(init=False)
    path: tuple[Step, ...] = field(init=False)  # the steps that are rows
    sent: tuple[Step, ...] = field(init=False)  # a step for each request
    policy: Policy = field(init=False)
    table: Table = field(init=False)
    chain: tuple[Link, ...] = field(init=False)
    limits: Mapping[str, int] = field(init=False)  # of each counter, as far as the chain allows

    def __attrs_post_init__(self) -> None:
        self.journal = self.result.journal
        self.steps = self.journal.steps
        self.path = tuple(step for step in self.steps if step.event != SKIPPED)
        self.sent = tuple(step for step in self.path if step.event == "sent")
        self.policy = self.journal.setting.policy
        self.chain = self.journal.setting.chain
        self.table = self.policy.table
        keys = most_keys(self.chain)
        self.limits = self.policy.limits.bounded(
            self.table.limits,
            len(self.chain),
            keys,
            any_background(self.chain),
        )

    @classmethod
    def of(cls, ended: Call | Result | CallError, **others: Any) -> EndedCall:
        """Look at a call, at its result, or at the error that it raised."""
        if isinstance(ended, Call):
            others["request"] = ended.request
            others["turn"] = ended.turn
            others["returns"] = ended.returns
            others["verdicts"] = ended.verdicts
            return cls(ended.result, ended, **others)
        if isinstance(ended, CallError):
            return cls(ended.result, **others)
        return cls(ended, **others)

    def links(self, name: str) -> list[Link]:
        """Return the backends of a name."""
        return [link for link in self.chain if link.name == name]
