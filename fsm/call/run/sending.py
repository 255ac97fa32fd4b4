"""What goes out, and to whom: a call asks, waits for its turn, and goes elsewhere where a budget or
a store says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from attrs import evolve

from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.budget.reserve import can_pay_another, fallbacks_left
from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.chain.link import others_of
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.outcome import Outcome
from rungwise.fsm.call.run.proposing import Proposer
from rungwise.fsm.call.run.recording import Recorder
from rungwise.fsm.call.table import REATTACH, ROTATE
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.errors import IllegalEvent

# What the journal notes of a backend that gets no attempt.

# It is not asked because of what is remembered of it; a moment or a reason follows.
OPEN = "open until "
# It has no room for another request; what is used up may follow.
FULL = "its quota is used up"
# It would say the same again.
UNSHORTENED = "the compactor left nothing out"

# What the journal notes of an attempt.

# It is the first one with a key that is not the first one of its backend.
KEY = "with key number {}"
# Other calls had to leave room for it.
QUOTA = "waited {:.4g} s for the quota"
# It is the first one at a backend that was not asked for a while.
PROBE = "asked to see whether it is back"

LEFT_OVER = 1e-3
"""Seconds that must be left after a wait, or the attempt would not go out."""


class Needs(NamedTuple):
    """Hold what an attempt needs of a quota.

    Arguments:
        backend: whom it would go to, by index.
        keys: the key that it would use, and those that it could use instead.
        tokens: of its prompt and of a reply as long as its cap.
        longest: the seconds that it can wait.
    """

    backend: int
    keys: tuple[int, ...]
    tokens: int
    longest: float


NO_REPLY = Observation(evidence=Evidence(event="ran_out"))


class Sender:
    """Propose what each rung sends, and let it go out if the budgets allow it; otherwise ask
    another backend or end.
    """

    __slots__ = (
        "_affordable_until",
        "_arrived_at",
        "_outcome",
        "_proposer",
        "_recorder",
        "context",
        "in_flight",
        "is_probe",
        "proposed",
        "unpaid",
    )

    def __init__(
        self, context: CallContext, counter: TokenCounter, recorder: Recorder, outcome: Outcome
    ) -> None:
        self.context = context
        self._recorder = recorder
        self._outcome = outcome
        self._proposer = Proposer(context, counter)
        self.proposed: Proposal | None = None  # what is to go out next
        self.in_flight: Proposal | None = None  # what went out last, until something comes back
        # pays for the last attempt, if its provider goes on with it
        self.unpaid: Callable[[], None] | None = None
        # whether the proposal is the first at a backend that was not asked for a while
        self.is_probe = False
        self._arrived_at = -1  # the index of the backend that has been admitted
        # the call's own budget covers the proposal until then, in seconds elapsed
        self._affordable_until = -math.inf

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
        if chain.is_at_end:
            return here
        # a fallback that finds its backend open passes over it, which takes no unit more
        if self.context.position.state != "fallback" and fallbacks_left(self.context) <= 0:
            return here
        elsewhere = []
        for index, link in chain.to_come():
            elsewhere += [(index, key) for key in (0, *others_of(link))]
        return (*here, *elsewhere)

    def arrive(self, keys: Sequence[int], *, is_probe: bool) -> None:
        """Note that the backend at which the proposal arrives may be asked, with the first of these
        keys.
        """
        self._arrived_at = self.context.chain.index
        self.is_probe = is_probe
        if self.context.chain.keys_left or keys[0]:
            self.context.chain.use_keys(keys)

    def turn(self, rung: str) -> None:
        """Turn to the next backend, or to the next key of this one, if the rung is to do so."""
        chain = self.context.chain
        if rung == "fallback":
            self._recorder.skip(rung, self.context.fall_back())
        elif rung == ROTATE.name:
            self._arrived_at = -1
            # a replay learns from the attempt which it was
            chain.use_keys(chain.keys_left or (chain.key,))

    def needs(self) -> Needs:
        """Return what the proposal needs of the quota of its backend; see `Call`."""
        context = self.context
        send = self._waiting.send
        spending = context.spending
        waits = context.policy.waits
        longest = waits.longest_asked
        for end in (context.reserved.ends_after, spending.limit):
            if end is not None:
                longest = min(longest, end - spending.elapsed - LEFT_OVER)
        tokens = 0  # to fetch the rest of a reply: it has taken its own
        if send.rung != REATTACH.name:
            cap = send.max_tokens
            if cap is None:
                cap = context.policy.base_cap
            tokens = self._proposer.counter.prompt(send.messages, send.added_tokens) + cap
        chain = context.chain
        keys: tuple[int, ...] = (chain.key,)
        if self._proposer.arrives():
            keys += chain.keys_left
        return Needs(backend=chain.index, keys=keys, tokens=tokens, longest=max(longest, 0.0))

    @property
    def _waiting(self) -> Proposal:
        if self.proposed is None:
            raise IllegalEvent(f"nothing waits to be sent in state {self.context.position.state!r}")
        return self.proposed

    def found_open(self, why: str, *, has_text: bool | None = None) -> Send | None:
        """Leave a backend that is not asked now, with nothing sent, and propose what another is
        sent; see `Call.found_open`.
        """
        context = self.context
        position = context.position
        proposal = self._waiting
        has_next = context.chain.next_usable() is not None
        if position.state == "fallback" and not has_next:
            self._leave(proposal, why)
            return None
        if position.state == "fallback":
            self._recorder.skip(position.state, [(context.chain.link, why)], proposal)
        else:
            facts = []
            if has_text is None:
                has_text = context.transcript.answer.has_text
            if has_text:
                facts.append("has_text")
            if has_next:
                facts.append("has_next_backend")
            self._leave(proposal, why, tuple(facts), "found_open")
            if self._outcome.result is not None:
                return None
            context.transcript.prepare(position.rung, NO_REPLY)
        if context.spending.share is not None:
            context.spending.share.withdraw()
        self._recorder.skip(position.state, context.fall_back())
        return self.propose(0.0)

    def compacted(self) -> Send | None:
        """Return what goes out of a conversation that was shortened; None if nothing can be
        afforded.
        """
        assert self.proposed is not None
        self.proposed = self._proposer.propose(self.proposed.send.wait, is_compacted=True)
        return self._affordable(0.0)

    def ensure_sent(self) -> Proposal:
        """Return what is in flight. What waits to be sent is taken to have gone out when its wait
        was over.
        """
        if self.proposed is not None:
            share = self.context.spending.share
            if share is not None and share.needs_cap:  # which may lower the cap
                raise IllegalEvent(
                    "under a shared budget nothing goes out before `sending` has returned it"
                )
            self.context.spending.elapsed += self.proposed.send.wait
            self.send_out()
        if self.in_flight is None:
            raise IllegalEvent(f"nothing is in flight in state {self.context.position.state!r}")
        return self.in_flight

    def propose(self, wait: float) -> Send | None:
        """Propose what the current rung sends after a wait, if the budgets allow it."""
        self.proposed = self._proposer.propose(wait)
        return self._affordable(wait)

    def propose_again(self, last: Proposal, wait: float) -> Send | None:
        """Propose to fetch the rest of what was sent last: what it reserves stays reserved."""
        deadline = self.context.spending.deadline()
        rung = self.context.position.state
        send = evolve(last.send, rung=rung, wait=wait, deadline=deadline)
        self.proposed = evolve(last, send=send)
        return self._affordable(wait)

    def pay(self) -> None:
        """Pay for an attempt that is not fetched any more, though its provider went on with it."""
        if self.unpaid is not None:
            pay = self.unpaid
            self.unpaid = None
            pay()
            self._recorder.delivery.correct(self.context.transcript.answer.gathered)

    def _take_up(self) -> None:
        """Go on with the last attempt, which is paid when it ends."""
        self.unpaid = None
        self.context.transcript.take_back()
        self._recorder.delivery.reopen()

    def send_out(self, waited: float = 0.0) -> Send | None:
        """Let the proposal go out, if it can still be afforded, and return what is sent; see
        `Call.sending`.
        """
        waited_at = self.context.chain.index
        self._skip_compaction()
        share = self.context.spending.share
        if share is not None or self.context.spending.elapsed > self._affordable_until:
            self._affordable(0.0)
        proposal = self.proposed
        if proposal is None:
            return None
        granted: Proposal | str = proposal
        is_same = self.context.position.state == REATTACH.name
        if is_same:
            self._take_up()
        elif share is not None:
            granted = self._proposer.granted(proposal, share)
        if isinstance(granted, str):
            self._leave(proposal, granted)
            return None
        # The probe is for this backend, if the budget has not led elsewhere since.
        if self.is_probe and self._arrived_at == self.context.chain.index:
            granted = evolve(granted, is_probe=True)
        chain = self.context.chain
        self._arrived_at = chain.index
        self.is_probe = False
        notes = []
        if chain.key:
            granted = evolve(granted, send=evolve(granted.send, key=chain.key))
            if self._proposer.arrives():
                notes.append(KEY.format(chain.key + 1))
        if waited and chain.index == waited_at:
            notes.append(QUOTA.format(waited))
        if granted.is_probe:
            notes.append(PROBE)
        of_backend = self.context.send_note()
        if of_backend is not None:
            notes.append(of_backend)
        self.proposed = None
        self.in_flight = granted
        note = "; ".join(notes) or None
        self._recorder.record(self.context.position.fire("sent"), proposal=granted, note=note)
        return granted.send

    def _skip_compaction(self) -> None:
        """Go on with the messages as they are if they wait for a compactor that nobody has run."""
        if self.proposed is not None and self.waits_for_compaction:
            self.proposed = self._proposer.propose(self.proposed.send.wait, is_compacted=True)
            self._affordable_until = -math.inf

    def _affordable(self, wait: float) -> Send | None:
        """Return what is proposed if the budgets allow it after a wait; else ask another backend,
        or end the call.
        """
        context = self.context
        position = context.position
        while (proposal := self.proposed) is not None:
            shortfall = self._proposer.shortfall(proposal, wait)
            if shortfall is None:
                self._affordable_until = context.spending.elapsed + wait
                return proposal.send
            wait = 0.0
            facts = ("has_next_backend", "reserve_left") if can_pay_another(context) else ()
            # skip this backend before asking it anything
            if facts and position.state == "fallback":
                self._recorder.skip(
                    position.state, [(context.chain.link, shortfall)], proposal, facts
                )
            else:
                self._leave(proposal, shortfall, facts)
                if self._outcome.result is not None:
                    break
                if context.spending.share is not None:
                    context.spending.share.withdraw()
                context.transcript.prepare(position.rung, NO_REPLY)
            self._recorder.skip(position.state, context.fall_back())
            self.proposed = self._proposer.propose(0.0)
        return None

    def _leave(
        self, proposal: Proposal, why: str, facts: tuple[str, ...] = (), event: str = "ran_out"
    ) -> None:
        """Fire that a proposal does not go out, and end the call if the table does.

        Arguments:
            proposal: what does not go out.
            why: the reason, for the journal.
            facts: the facts that hold.
            event: the event of the machine.
        """
        self.proposed = None
        self.pay()
        row = self.context.position.fire(event, facts)
        if row.target in self.context.position.table.outcomes:
            self._outcome.end(row, facts, proposal=proposal, shortfall=why)
        else:
            self._recorder.record(row, proposal=proposal, facts=facts, note=why)
