"""What each rung proposes to send: the messages with what the rungs have added, and the cap that can be paid for."""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import define, evolve

from rungwise.fsm.call.budget import NOTHING_KEPT
from rungwise.fsm.call.clocks import Clocks
from rungwise.fsm.call.context import CallContext
from rungwise.fsm.call.counting import TokenCounter
from rungwise.fsm.call.facts import FactFinder
from rungwise.fsm.call.metering import most_counted
from rungwise.fsm.call.proposal import Proposal
from rungwise.fsm.call.request import CAP_PARAMETERS, Send, headers_for
from rungwise.fsm.call.reserve import kept_for
from rungwise.fsm.call.shared import Share
from rungwise.fsm.call.transcript import Composed
from rungwise.fsm.call.waiting import longest_wait

SILENCE = "fell_silent"


@define(eq=False, repr=False)
class Proposer:
    """Work out what the next attempt sends.

    Arguments:
        context: the rung, the backend, the messages, and what is left of the budget.
        counter: counts prompts for a budget of money.
    """

    context: CallContext
    counter: TokenCounter

    def propose(self, wait: float, *, is_compacted: bool = False) -> Proposal:
        """Return what the current rung sends.

        Arguments:
            wait: seconds until it goes out.
            is_compacted: whether the compactor that the rung waits for has run, or will not run at all.
        """
        context = self.context
        request, policy, transcript, chain = context.request, context.policy, context.transcript, context.chain
        link, rung = chain.link, context.position.state
        asked = request.max_tokens or link.max_tokens
        needs_compaction = rung == "compact" and not is_compacted
        is_new = rung in (policy.table.start, "fallback")
        prompt = cap = None
        if needs_compaction:  # what it sends, and what that costs, is known when the compactor has run
            composed = Composed(messages=transcript.messages)
        else:
            prefills = link.prefills and chain.index not in transcript.without_prefill
            composed = transcript.compose(prefills=prefills, echoes=link.echoes, shapes=chain.shapes)
            prompt = (
                self.counter.prompt(composed.messages, composed.added_tokens) if context.spending.needs_prices else None
            )
            if is_new:
                self._keep(prompt or 0)
            cap = self._cap(asked, prompt or 0)
            if is_new and cap is not None and cap < 1 and context.kept is not NOTHING_KEPT:
                context.kept = evolve(context.kept, output_tokens=0, money=0.0)  # who comes first is asked first
                cap = self._cap(asked, prompt or 0)
        send = Send(
            rung=rung,
            backend=chain.index,
            wait=wait,
            messages=composed.messages,
            max_tokens=cap,
            request=request,
            prefill=composed.prefill,
            dropped=transcript.dropped,
            lower_reasoning=transcript.lower_reasoning,
            portable=transcript.portable,
            unsigned="reasoning_signature" in transcript.repaired,
            deadline=context.spending.deadline,
            needs_compaction=needs_compaction,
            added_tokens=composed.added_tokens,
            must_cut=context.spending.needs_cap,
            restore_reasoning=transcript.restore_reasoning,
            headers=headers_for(request, chain.links[0], link),
        )
        asks_json = chain.shapes.asks_for_json(request.parameters) if request.parameters else None
        return Proposal(
            send=send,
            reading=composed.reading,
            prompt_tokens=prompt,
            expects_json=link.expects_json if asks_json is None else asks_json,
            asks_for_little=asked is not None and asked <= policy.handful,
            shapes=chain.shapes,
        )

    def _keep(self, prompt_tokens: int) -> None:
        """Work out what is kept for the backends behind the one that is entered."""
        context = self.context
        to_come = context.chain.to_come()
        if not to_come or not context.policy.reserve.is_on:
            context.kept = NOTHING_KEPT
            return
        context.kept = kept_for(
            to_come,
            context.policy,
            context.spending,
            attempts=context.position.attempts,
            asked=context.request.max_tokens,
            prompt_tokens=prompt_tokens,
        )

    def lacking(self, proposal: Proposal, wait: float) -> str | None:
        """Name the part of a budget that does not allow an attempt, if any.

        Arguments:
            proposal: what would be sent.
            wait: seconds until it goes out.
        """
        context, send = self.context, proposal.send
        lacking = context.spending.lacking(context.position.attempts, wait, send.max_tokens)
        if lacking is None and send.rung not in (context.policy.table.start, "fallback"):
            lacking = self._eats_reserve(wait)
        share = context.spending.share
        if lacking is None and share is not None:
            return share.lacking(context.spending.now, wait, proposal.prompt_tokens, context.chain.link.prices)
        return lacking

    def _eats_reserve(self, wait: float) -> str | None:
        """Say that one more attempt here would use what is kept for other backends, if it would."""
        context, kept = self.context, self.context.kept
        if kept.attempts and context.position.attempts + kept.attempts >= context.policy.budget.attempts:
            return f"the last {kept.attempts} attempts of the budget are kept for the backends to come"
        is_kept = kept.seconds > 0 and kept.ends_by is not None
        if is_kept and kept.ends_by is not None and context.spending.now + wait >= kept.ends_by:
            return f"{kept.seconds:g} s of the budget are kept for each backend to come"
        return None

    def has_reserve(self) -> bool:
        """Tell whether the budgets allow the next backend an attempt, at once, of what no attempt here may use."""
        context, spending, following = self.context, self.context.spending, self.context.chain.next_usable()
        if following is None:
            return False
        cap = spending.lowered(None, 0, context.chain.links[following].prices, NOTHING_KEPT)
        if spending.lacking(context.position.attempts, 0.0, cap) is not None:
            return False
        return spending.share is None or spending.share.has_left(spending.now)

    def clocks(self, proposal: Proposal, facts: FactFinder) -> Clocks:
        """Return the clocks of an attempt that goes out now.

        Arguments:
            proposal: what goes out.
            facts: tells what would hold if nothing came of it.
        """
        context = self.context
        timeouts, link = context.policy.timeouts, context.chain.link
        first_token = getattr(link, "first_token", None) or timeouts.first_token
        ends_by = context.kept.ends_by
        if ends_by is None:
            ends_by = context.spending.deadline
        before, after = (
            self._silent_until(proposal, facts.of_silence(proposal, has_text=has_text), first_token)
            for has_text in (False, True)
        )
        return Clocks(
            first_token=first_token,
            stall=getattr(link, "stall", None) or timeouts.stall,
            ends_by=ends_by,
            before_text=before,
            after_text=after,
        )

    def _silent_until(self, proposal: Proposal, facts: tuple[str, ...], first_token: float | None) -> float | None:
        """Return the latest moment at which silence may end an attempt; None for never.

        Where another backend would be asked, it may at any time: that one has its reserve. Where the same would be
        asked again, there must be time for another first token behind the longest wait.
        """
        context = self.context
        row = context.position.would_take(SILENCE, facts)
        rung = None if row is None else context.policy.table.rung(row.target)
        if rung is None:
            return None
        if context.chain.next_usable() is not None:
            return math.inf
        if context.position.attempts >= context.policy.budget.attempts or not self._pays_for_another(proposal):
            return None
        deadline = context.spending.deadline
        if deadline is None:
            return math.inf
        number = context.position.spent_of(rung.counter) + 1
        wait = longest_wait(context.policy.waits, rung, number, SILENCE)
        return deadline - wait - (first_token or 0.0)

    def _pays_for_another(self, proposal: Proposal) -> bool:
        """Tell whether the tokens and the money last for an attempt behind one that uses all of its cap."""
        spending, link, cap = self.context.spending, self.context.chain.link, proposal.send.max_tokens
        if cap is None or not spending.needs_cap:
            return True
        left = spending.lowered(None, 2 * (proposal.prompt_tokens or 0), link.prices, NOTHING_KEPT)
        return left is None or left > most_counted(cap)

    def reserve(self, proposal: Proposal, wake: Callable[[], None]) -> bool:
        """Reserve an attempt under a shared budget; tell whether there is nothing to wait for. See `Call.reserve`."""
        share = self.context.spending.share
        if share is None or self.lacking(proposal, 0.0) is not None:
            return True  # or the call ends when it is said to be sending
        return share.reserve(proposal.send.max_tokens, proposal.prompt_tokens, self.context.chain.link.prices, wake)

    def granted(self, proposal: Proposal, share: Share) -> Proposal | str:
        """Return what may go out of a proposal under a shared budget, or why nothing may.

        Arguments:
            proposal: what is to be sent.
            share: what the call has of that budget.
        """
        cap = proposal.send.max_tokens
        lacking = share.send(cap, proposal.prompt_tokens, self.context.chain.link.prices)
        if lacking is not None:
            return lacking
        if share.cap == cap or cap is None:
            return proposal
        return evolve(proposal, send=evolve(proposal.send, max_tokens=share.cap))

    def _cap(self, asked: int | None, prompt_tokens: int) -> int | None:
        """Return the output cap in tokens: what was asked for, raised by the rungs, and what can be paid for of it."""
        context, transcript = self.context, self.context.transcript
        cap = context.position.cap(context.policy, asked)
        spending, prices = context.spending, context.chain.link.prices
        share = spending.share
        if share is not None and cap is None and share.needs_cap:
            cap = context.policy.base_cap  # or one call would reserve all that there is
        cap = spending.lowered(cap, prompt_tokens, prices, context.kept)
        if share is not None and cap is not None and cap > 0:
            cap = share.lowered(cap, prompt_tokens, prices)
        available = transcript.available_tokens
        if available is not None:
            cap = available if cap is None else min(cap, available)
        # A backend that takes it by no name is sent none.
        return None if transcript.dropped.issuperset(CAP_PARAMETERS) else cap
