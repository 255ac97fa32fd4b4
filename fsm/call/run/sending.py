"""What a call is about to send: whether the budgets allow it, and what goes out."""

from __future__ import annotations

import math
from collections.abc import Callable

from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.budget.reserve import can_pay_another
from rungwise.fsm.call.conversation.for_backend import Proposal
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.outcome import Outcome
from rungwise.fsm.call.run.proposer import Proposer
from rungwise.fsm.call.run.recording import Recorder
from rungwise.fsm.errors import IllegalEvent
from rungwise.fsm.journal.record import Evidence

NO_REPLY = Observation(evidence=Evidence(event="ran_out"))


class Sender:
    """Propose what each rung sends, and let it go out if the budgets allow it; otherwise ask another backend or end."""

    __slots__ = ("_affordable_until", "_outcome", "_proposer", "_recorder", "context", "in_flight", "proposed")

    def __init__(self, context: CallContext, counter: TokenCounter, recorder: Recorder, outcome: Outcome) -> None:
        self.context, self._recorder, self._outcome = context, recorder, outcome
        self._proposer = Proposer(context, counter)
        self.proposed: Proposal | None = None  # what is to go out next
        self.in_flight: Proposal | None = None  # what went out last, until something comes back
        self._affordable_until = -math.inf  # the call's own budget covers the proposal until then, in seconds elapsed

    def reserve(self, wake: Callable[[], None]) -> bool:
        """Reserve what the proposal may use of a shared budget; see `Call.reserve`."""
        self._skip_compaction()
        return self.proposed is None or self._proposer.reserve(self.proposed, wake)

    @property
    def waits_for_compaction(self) -> bool:
        """Tell whether the proposal waits for a compactor."""
        return self.proposed is not None and self.proposed.send.needs_compaction

    def compacted(self) -> Send | None:
        """Return what goes out of a conversation that was shortened; None if nothing can be afforded."""
        assert self.proposed is not None
        self.proposed = self._proposer.propose(self.proposed.send.wait, is_compacted=True)
        return self._affordable(0.0)

    def ensure_sent(self) -> Proposal:
        """Return what is in flight. What waits to be sent is taken to have gone out when its wait was over."""
        if self.proposed is not None:
            share = self.context.spending.share
            if share is not None and share.needs_cap:  # which may lower the cap
                raise IllegalEvent("under a shared budget nothing goes out before `sending` has returned it")
            self.context.spending.elapsed += self.proposed.send.wait
            self.send_out()
        if self.in_flight is None:
            raise IllegalEvent(f"nothing is in flight in state {self.context.position.state!r}")
        return self.in_flight

    def propose(self, wait: float) -> Send | None:
        """Propose what the current rung sends after a wait, if the budgets allow it."""
        self.proposed = self._proposer.propose(wait)
        return self._affordable(wait)

    def send_out(self) -> Send | None:
        """Let the proposal go out, if it can still be afforded, and return what is sent."""
        self._skip_compaction()
        share = self.context.spending.share
        if share is not None or self.context.spending.elapsed > self._affordable_until:
            self._affordable(0.0)
        proposal = self.proposed
        if proposal is None:
            return None
        granted = proposal if share is None else self._proposer.granted(proposal, share)
        if isinstance(granted, str):
            self._run_out(proposal, granted)
            return None
        self.proposed, self.in_flight = None, granted
        note = self.context.send_note()
        self._recorder.record(self.context.position.fire("sent"), proposal=granted, note=note)
        return granted.send

    def _skip_compaction(self) -> None:
        """Go on with the messages as they are if they wait for a compactor that nobody has run."""
        if self.proposed is not None and self.waits_for_compaction:
            self.proposed = self._proposer.propose(self.proposed.send.wait, is_compacted=True)
            self._affordable_until = -math.inf

    def _affordable(self, wait: float) -> Send | None:
        """Return what is proposed if the budgets allow it after a wait; else ask another backend, or end the call."""
        context, position = self.context, self.context.position
        while (proposal := self.proposed) is not None:
            shortfall = self._proposer.shortfall(proposal, wait)
            if shortfall is None:
                self._affordable_until = context.spending.elapsed + wait
                return proposal.send
            wait, facts = 0.0, ("has_next_backend", "reserve_left") if can_pay_another(context) else ()
            if facts and position.state == "fallback":  # skip this backend before asking it anything
                self._recorder.skip(position.state, [(context.chain.link, shortfall)], proposal, facts)
            else:
                self._run_out(proposal, shortfall, facts)
                if self._outcome.result is not None:
                    break
                if context.spending.share is not None:
                    context.spending.share.withdraw()
                context.transcript.prepare(position.rung, NO_REPLY)
            self._recorder.skip(position.state, context.fall_back())
            self.proposed = self._proposer.propose(0.0)
        return None

    def _run_out(self, proposal: Proposal, shortfall: str, facts: tuple[str, ...] = ()) -> None:
        """Fire that the budgets do not allow a proposal, and end the call if the table does."""
        self.proposed = None
        row = self.context.position.fire("ran_out", facts)
        if row.target in self.context.position.table.outcomes:
            self._outcome.end(row, facts, proposal=proposal, shortfall=shortfall)
        else:
            self._recorder.record(row, proposal=proposal, facts=facts, note=shortfall)
