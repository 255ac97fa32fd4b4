"""What a call is about to send: the messages with what the rungs add, the cap, and whether the budgets allow it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attrs import evolve

from rungwise.fsm.call.budget.budget import NOTHING_RESERVED
from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.budget.reserve import (
    can_pay_another,
    count_money,
    enter,
    fallbacks_left,
    shortfall_of_reserve,
    shortfall_of_shared_reserve,
)
from rungwise.fsm.call.budget.shared import Share
from rungwise.fsm.call.conversation.for_backend import ForBackend, Proposal, with_json_instruction
from rungwise.fsm.call.conversation.link import others_of
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, Send
from rungwise.fsm.call.conversation.transcript import Composed
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.outcome import Outcome
from rungwise.fsm.call.run.recording import Recorder
from rungwise.fsm.call.table import ROTATE
from rungwise.fsm.errors import IllegalEvent
from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.text.contents import is_blank


class Proposer:
    """Work out what the next attempt sends."""

    __slots__ = ("_for_backend", "context", "counter")

    def __init__(self, context: CallContext, counter: TokenCounter) -> None:
        self.context, self.counter = context, counter
        self._for_backend: ForBackend | None = None

    def propose(self, wait: float, *, is_compacted: bool = False) -> Proposal:
        """Return what the current rung sends.

        Arguments:
            is_compacted: whether the compactor that the rung waits for has run, or will not run at all.
        """
        context, resolved = self.context, self._for_backend
        transcript, chain, spending, rung = context.transcript, context.chain, context.spending, context.position.state
        link = chain.link
        if resolved is None or resolved.backend != chain.index:
            resolved = ForBackend.of(context.request, chain, context.policy.handful, context.judge.returns)
            self._for_backend = resolved
        dropped = resolved.dropped(transcript.changes.dropped)
        needs_compaction = rung == "compact" and not is_compacted
        prompt = cap = None
        if needs_compaction:  # what it sends, and what that costs, is known when the compactor has run
            composed = Composed(transcript.messages)
        else:
            prefills = resolved.prefills and chain.index not in transcript.changes.without_prefill
            composed = transcript.compose(chain.shapes, prefills, link.echoes)
            if resolved.expects_json:
                hints = context.policy.hints
                composed = with_json_instruction(composed, resolved.request, link, hints, chain.shapes, dropped)
            composed = evolve(composed, added_tokens=composed.added_tokens + resolved.schema_tokens)
            if spending.needs_prices:
                prompt = self.counter.prompt(composed.messages, composed.added_tokens)
            cap = self._cap(resolved.max_tokens, prompt or 0)
        send = Send(
            rung=rung,
            backend=chain.index,
            wait=wait,
            messages=composed.messages,
            max_tokens=cap,
            request=context.request,
            prefill=composed.prefill,
            dropped=dropped,
            lower_reasoning=transcript.changes.lower_reasoning,
            portable=transcript.changes.portable,
            unsigned="reasoning_signature" in transcript.changes.repaired,
            deadline=spending.deadline(),
            needs_compaction=needs_compaction,
            added_tokens=composed.added_tokens,
            must_cut=spending.needs_cap,
            restore_reasoning=transcript.changes.restore_reasoning,
            headers=resolved.headers,
            parameters=resolved.request.parameters,
            tools=resolved.tools,
        )
        return Proposal(send, composed.reading, resolved, prompt)

    def shortfall(self, proposal: Proposal, wait: float) -> str | None:
        """Name the part of a budget that does not allow an attempt, if any."""
        context, cap = self.context, proposal.send.max_tokens
        spending, share = context.spending, context.spending.share
        shortfall = spending.spent(context.position.attempts)  # first: what nobody has left is kept for nobody
        if shortfall is None and context.reserved is not NOTHING_RESERVED:
            shortfall = shortfall_of_reserve(context, cap, wait, is_first=self.is_first())
        shortfall = shortfall or spending.shortfall(wait, cap)
        if shortfall is None and share is not None:  # last, for a replay knows of it only what came of it
            shortfall = None if self.is_first() else shortfall_of_shared_reserve(context)
            prices = context.chain.link.prices
            shortfall = shortfall or share.shortfall(spending.now, wait, proposal.prompt_tokens, prices)
        return shortfall

    def reserve(self, proposal: Proposal, wake: Callable[[], None]) -> bool:
        """Reserve an attempt under a shared budget; tell whether there is nothing to wait for. See `Call.reserve`."""
        share = self.context.spending.share
        if share is None or self.shortfall(proposal, 0.0) is not None:
            return True  # or the call ends when it is said to be sending
        return share.reserve(proposal.send.max_tokens, proposal.prompt_tokens, self.context.chain.link.prices, wake)

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
        """Tell whether it is the first attempt at a backend, which is made also of what is kept for others."""
        return self.context.position.state in (self.context.policy.table.start, "fallback")

    def arrives(self) -> bool:
        """Tell whether it is the first attempt at a backend, or with a key."""
        state = self.context.position.state
        return state in (self.context.policy.table.start, "fallback", ROTATE.name)

    def _cap(self, asked: int | None, prompt_tokens: int) -> int | None:
        """Return the output cap in tokens: what was asked for, raised by the rungs, and what can be paid for of it."""
        is_first = self.is_first()
        context, transcript = self.context, self.context.transcript
        wanted = context.position.cap(context.policy, asked)
        share = context.spending.share
        if share is not None and wanted is None and share.needs_cap:
            wanted = context.policy.base_cap  # or one call would reserve all that there is
        if is_first:
            enter(context, wanted or context.policy.base_cap, prompt_tokens)
        elif context.reserved is not NOTHING_RESERVED:
            count_money(context, wanted or context.policy.base_cap, prompt_tokens)
        cap = self._paid(wanted, prompt_tokens, is_first=is_first) if context.spending.needs_cap else wanted
        if transcript.changes.largest_output is not None and cap is not None:
            cap = min(cap, transcript.changes.largest_output)
        available = transcript.changes.available_tokens
        if available is not None:
            cap = available if cap is None else min(cap, available)
        # A backend that takes it by no name is sent none.
        return None if transcript.changes.dropped and transcript.changes.dropped.issuperset(CAP_PARAMETERS) else cap

    def _paid(self, wanted: int | None, prompt_tokens: int, *, is_first: bool) -> int | None:
        """Return what the budgets can pay for of an output cap, besides what is kept for the backends to come.

        Arguments:
            is_first: whether it is the first attempt at the backend: who comes first is asked first.
        """
        context, share = self.context, self.context.spending.share
        spending, prices = context.spending, context.chain.link.prices
        cap = spending.lowered(wanted, prompt_tokens, prices, context.reserved)
        if is_first and cap is not None and cap < 1:
            context.reserved = evolve(context.reserved, output_tokens=0, money=0, money_each=0)
            cap = spending.lowered(wanted, prompt_tokens, prices, context.reserved)
        if wanted is None and cap is not None:  # an attempt that breaks off must not keep all that there is
            cap = max(min(cap, context.policy.base_cap), cap // 2)
        if share is not None and cap is not None and cap < 1:  # it is the call's own budget that allows no more
            context.reserved = evolve(context.reserved, shared_tokens=0, shared_money=0)
        elif share is not None and cap is not None:
            own, cap = cap, self._shared_lowered(share, cap, prompt_tokens)
            if is_first and cap is not None and cap < 1:
                context.reserved = evolve(context.reserved, shared_tokens=0, shared_money=0, shared_money_each=0)
                cap = self._shared_lowered(share, own, prompt_tokens)
        return cap

    def _shared_lowered(self, share: Share, cap: int | None, prompt_tokens: int) -> int | None:
        """Lower a cap to what the shared budgets can pay for, besides what is reserved there."""
        reserved, prices = self.context.reserved, self.context.chain.link.prices
        tokens, money = reserved.shared_tokens, reserved.shared_money
        return share.lowered(cap, prompt_tokens, prices, reserved_tokens=tokens, reserved_money=money)


OPEN = "open until "
"""How the note of a backend begins that is not asked because of what is remembered of it."""

KEY = "with key number {}"
"""The note of the first attempt with a key that is not the first one of its backend."""

PROBE = "asked to see whether it is back"
"""The note of an attempt at a backend that was not asked for a while."""

NO_REPLY = Observation(evidence=Evidence(event="ran_out"))


class Sender:
    """Propose what each rung sends, and let it go out if the budgets allow it; otherwise ask another backend or end."""

    __slots__ = (
        *("_affordable_until", "_arrived_at", "_outcome", "_proposer", "_recorder"),
        *("context", "in_flight", "is_probe", "proposed"),
    )

    def __init__(self, context: CallContext, counter: TokenCounter, recorder: Recorder, outcome: Outcome) -> None:
        self.context, self._recorder, self._outcome = context, recorder, outcome
        self._proposer = Proposer(context, counter)
        self.proposed: Proposal | None = None  # what is to go out next
        self.in_flight: Proposal | None = None  # what went out last, until something comes back
        self.is_probe = False  # whether the proposal is the first at a backend that was not asked for a while
        self._arrived_at = -1  # the index of the backend that has been admitted
        self._affordable_until = -math.inf  # the call's own budget covers the proposal until then, in seconds elapsed

    def reserve(self, wake: Callable[[], None]) -> bool:
        """Reserve what the proposal may use of a shared budget; see `Call.reserve`."""
        self._skip_compaction()
        return self.proposed is None or self._proposer.reserve(self.proposed, wake)

    @property
    def waits_for_compaction(self) -> bool:
        """Tell whether the proposal waits for a compactor."""
        return self.proposed is not None and self.proposed.send.needs_compaction

    @property
    def arrivals(self) -> tuple[tuple[int, int], ...]:
        """Return where the proposal arrives, and those to which it can turn instead; see `Call`."""
        chain = self.context.chain
        if self.proposed is None or self._arrived_at == chain.index or not self._proposer.arrives():
            return ()
        here: tuple[tuple[int, int], ...] = ((chain.index, chain.key),)
        if chain.keys_left:
            here += tuple([(chain.index, key) for key in chain.keys_left])
        if chain.is_at_end or not (self.context.position.state == "fallback" or fallbacks_left(self.context) > 0):
            return here
        return (*here, *((index, key) for index, link in chain.to_come() for key in (0, *others_of(link))))

    def arrive(self, keys: Sequence[int], *, is_probe: bool) -> None:
        """Note that the backend at which the proposal arrives may be asked, with the first of these keys."""
        self._arrived_at, self.is_probe = self.context.chain.index, is_probe
        if self.context.chain.keys_left or keys[0]:
            self.context.chain.use_keys(keys)

    def turn(self, rung: str) -> None:
        """Turn to the next backend, or to the next key of this one, if the rung is to do so."""
        chain = self.context.chain
        if rung == "fallback":
            self._recorder.skip(rung, self.context.fall_back())
        elif rung == ROTATE.name:
            self._arrived_at = -1
            chain.use_keys(chain.keys_left or (chain.key,))  # a replay learns from the attempt which it was

    def found_open(self, why: str) -> Send | None:
        """Leave a backend that is not asked now, with nothing sent, and propose what another is sent."""
        context, position, proposal = self.context, self.context.position, self.proposed
        if proposal is None:
            raise IllegalEvent(f"nothing waits to be sent in state {position.state!r}")
        if position.state == "fallback":
            if context.chain.next_usable() is None:
                raise IllegalEvent("no backend follows to which the call can turn")
            self._recorder.skip(position.state, [(context.chain.link, why)], proposal)
        else:
            facts = self._facts_of_leaving()
            self.proposed = None
            row = position.fire("found_open", facts)
            if row.target in position.table.outcomes:
                self._outcome.end(row, facts, proposal=proposal, shortfall=why)
                return None
            self._recorder.record(row, proposal=proposal, facts=facts, note=why)
            context.transcript.prepare(position.rung, NO_REPLY)
        if context.spending.share is not None:
            context.spending.share.withdraw()
        self._recorder.skip(position.state, context.fall_back())
        return self.propose(0.0)

    def _facts_of_leaving(self) -> tuple[str, ...]:
        answer = self.context.transcript.answer
        facts = {
            "has_text": not is_blank(answer.gathered or answer.spare),
            "has_next_backend": self.context.chain.next_usable() is not None,
        }
        return tuple(name for name, holds in facts.items() if holds)

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
        if self.is_probe and self._arrived_at == self.context.chain.index:  # else the budget has led elsewhere
            granted = evolve(granted, is_probe=True)
        chain = self.context.chain
        self._arrived_at, self.is_probe = chain.index, False
        notes = [PROBE if granted.is_probe else None, self.context.send_note()]
        if chain.key:
            granted = evolve(granted, send=evolve(granted.send, key=chain.key))
            notes.insert(0, KEY.format(chain.key + 1) if self._proposer.arrives() else None)
        self.proposed, self.in_flight = None, granted
        note = "; ".join(filter(None, notes)) or None
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
