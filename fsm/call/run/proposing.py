"""What a call is about to send: the messages with what the rungs add, and the cap that the budgets
allow.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from rungwise.fsm.call.budget.budget import NOTHING_RESERVED
from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.budget.reserve import (
    count_money,
    enter,
    shortfall_of_reserve,
    shortfall_of_shared_reserve,
)
from rungwise.fsm.call.budget.shared import Share
from rungwise.fsm.call.chain.for_backend import ForBackend, Proposal, with_json_instruction
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, Send
from rungwise.fsm.call.conversation.transcript import Composed
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.table import REATTACH, ROTATE


class Proposer:
    """Work out what the next attempt sends."""

    __slots__ = ("_for_backend", "context", "counter")

    def __init__(self, context: CallContext, counter: TokenCounter) -> None:
        self.context = context
        self.counter = counter
        self._for_backend: ForBackend | None = None

    def propose(self, wait: float, *, is_compacted: bool = False) -> Proposal:
        """Return what the current rung sends; `is_compacted` if its compactor has run, or will not
        run at all.
        """
        context = self.context
        resolved = self._for_backend
        transcript = context.transcript
        changes = transcript.changes
        chain = context.chain
        spending = context.spending
        rung = context.position.state
        if resolved is None or resolved.backend != chain.index:
            resolved = ForBackend.of(
                context.request, chain, context.policy.handful, context.judge.returns
            )
            self._for_backend = resolved
        dropped = resolved.dropped(changes.dropped)
        needs_compaction = rung == "compact" and not is_compacted
        prompt = cap = None
        # what it sends, and what that costs, is known when the compactor has run
        if needs_compaction:
            composed = Composed(transcript.messages)
        else:
            prefills = resolved.prefills and chain.index not in changes.without_prefill
            composed = transcript.compose(chain.shapes, prefills, chain.link.echoes)
            if resolved.expects_json:
                composed = with_json_instruction(composed, resolved, context.policy.hints, dropped)
            composed = evolve(composed, added_tokens=composed.added_tokens + resolved.schema_tokens)
            if spending.needs_prices:
                prompt = self.counter.prompt(composed.messages, composed.added_tokens)
            cap = self._cap(resolved.max_tokens, prompt or 0)
        parameters = resolved.request.parameters
        if changes.settings:
            parameters = changes.set_in(parameters)
        send = Send(
            rung=rung,
            backend=chain.index,
            wait=wait,
            messages=composed.messages,
            max_tokens=cap,
            request=context.request,
            prefill=composed.prefill,
            dropped=dropped,
            lower_reasoning=changes.lower_reasoning,
            portable=changes.portable,
            unsigned="reasoning_signature" in changes.repaired,
            deadline=spending.deadline(),
            needs_compaction=needs_compaction,
            added_tokens=composed.added_tokens,
            must_cut=spending.needs_cap,
            restore_reasoning=changes.restore_reasoning,
            headers=resolved.headers,
            parameters=parameters,
            tools=resolved.tools,
            continuation=changes.continuation,
        )
        return Proposal(send, composed.reading, resolved, prompt)

    def shortfall(self, proposal: Proposal, wait: float) -> str | None:
        """Name the part of a budget that does not allow an attempt, if any."""
        context = self.context
        cap = proposal.send.max_tokens
        spending = context.spending
        share = spending.share
        # first: what nobody has left is kept for nobody
        shortfall = spending.spent(context.position.attempts)
        is_same = context.position.state == REATTACH.name
        if is_same:  # what it may use is reserved already
            share = None
        if shortfall is None and context.reserved is not NOTHING_RESERVED:
            shortfall = shortfall_of_reserve(context, cap, wait, is_first=self.is_first())
        tokens = proposal.prompt_tokens
        prices = context.chain.link.prices
        shortfall = shortfall or spending.shortfall(wait, cap, tokens or 0, prices)
        # last, for a replay knows of it only what came of it
        if shortfall is None and share is not None and not self.is_first():
            shortfall = shortfall_of_shared_reserve(context)
        if shortfall is None and share is not None:
            shortfall = share.shortfall(spending.now, wait, tokens, prices)
        return shortfall

    def reserve(self, proposal: Proposal, wake: Callable[[], None]) -> bool:
        """Reserve an attempt under a shared budget; tell whether there is nothing to wait for. See
        `Call.reserve`.
        """
        share = self.context.spending.share
        if share is None or self.shortfall(proposal, 0.0) is not None:
            return True  # or the call ends when it is said to be sending
        return share.reserve(
            proposal.send.max_tokens, proposal.prompt_tokens, self.context.chain.link.prices, wake
        )

    def granted(self, proposal: Proposal, share: Share) -> Proposal | str:
        """Return what may go out of a proposal under a shared budget, or why nothing may."""
        cap = proposal.send.max_tokens
        shortfall = share.send(cap, proposal.prompt_tokens, self.context.chain.link.prices)
        if shortfall is not None:
            return shortfall
        if share.cap == cap or cap is None:
            return proposal
        return evolve(proposal, send=evolve(proposal.send, max_tokens=share.cap))

    def is_first(self) -> bool:
        """Tell whether it is the first attempt at a backend, which is made also of what is kept for
        others.
        """
        return self.context.position.state in (self.context.policy.table.start, "fallback")

    def arrives(self) -> bool:
        """Tell whether it is the first attempt at a backend, or with a key."""
        return self.is_first() or self.context.position.state == ROTATE.name

    def _cap(self, asked: int | None, prompt_tokens: int) -> int | None:
        """Return the output cap in tokens: what was asked for, raised by the rungs, and what can be
        paid for of it.
        """
        context = self.context
        changes = context.transcript.changes
        is_first = self.is_first()
        wanted = context.position.cap(context.policy, asked)
        if changes.keeps_cap:
            wanted = asked  # which counts all that came
        share = context.spending.share
        if share is not None and wanted is None and share.needs_cap:
            wanted = context.policy.base_cap  # or one call would reserve all that there is
        if is_first:
            enter(context, wanted or context.policy.base_cap, prompt_tokens)
        elif context.reserved is not NOTHING_RESERVED:
            count_money(context, wanted or context.policy.base_cap, prompt_tokens)
        cap = wanted
        if context.spending.needs_cap:
            cap = self._paid(wanted, prompt_tokens, is_first=is_first)
        if changes.largest_output is not None and cap is not None:
            cap = min(cap, changes.largest_output)
        available = changes.available_tokens
        if available is not None and (cap is None or available < cap):
            cap = available
        if changes.dropped and changes.dropped.issuperset(CAP_PARAMETERS):
            return None  # the backend takes a cap by no name
        return cap

    def _paid(self, wanted: int | None, prompt_tokens: int, *, is_first: bool) -> int | None:
        """Return what the budgets can pay for of an output cap.

        A first attempt gives up what is kept for other backends in a budget that could not pay for
        it otherwise.
        """
        share = self.context.spending.share
        cap = self._own_lowered(wanted, prompt_tokens, is_first=is_first)
        if share is None or cap is None:
            return cap
        if cap < 1:  # the call's own budget pays for no more, so nothing is kept in the shared ones
            self._give_up(shared_tokens=0, shared_money=0)
            return cap
        lowered = self._shared_lowered(share, cap, prompt_tokens)
        if is_first and lowered is not None and lowered < 1:
            self._give_up(shared_tokens=0, shared_money=0, shared_money_each=0)
            lowered = self._shared_lowered(share, cap, prompt_tokens)
        return lowered

    def _own_lowered(self, wanted: int | None, prompt_tokens: int, *, is_first: bool) -> int | None:
        """Lower a cap to what the call's own budget can pay for."""
        context = self.context
        spending = context.spending
        prices = context.chain.link.prices
        cap = spending.lowered(wanted, prompt_tokens, prices, context.reserved)
        if is_first and cap is not None and cap < 1:
            self._give_up(output_tokens=0, money=0, money_each=0)
            cap = spending.lowered(wanted, prompt_tokens, prices, context.reserved)
        if wanted is None and cap is not None:
            # An attempt that breaks off is charged its cap, and must not use up all that there is.
            cap = max(min(cap, context.policy.base_cap), cap // 2)
        return cap

    def _give_up(self, **amounts: int) -> None:
        """Lower what is kept for the backends to come."""
        self.context.reserved = evolve(self.context.reserved, **amounts)

    def _shared_lowered(self, share: Share, cap: int | None, prompt_tokens: int) -> int | None:
        """Lower a cap to what the shared budgets can pay for, besides what is reserved there."""
        reserved = self.context.reserved
        prices = self.context.chain.link.prices
        return share.lowered(
            cap, prompt_tokens, prices, (reserved.shared_tokens, reserved.shared_money)
        )
