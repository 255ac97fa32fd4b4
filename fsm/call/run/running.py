"""What a call does: everything behind the public face of `Call`, loaded with the first call that is made.

Each round is the same: what came back is observed (`observe.py`), the event is fired with its facts (`facts.py`,
`position.py`), the step is recorded (`recording.py`), and the next send is proposed (`proposer.py`), or the call is
settled (`outcome.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rungwise.fsm.call.budget.budget import Spending, check_deadline
from rungwise.fsm.call.budget.counting import TokenCounter
from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.call.budget.reserve import has_left
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.clocks.silence import Clocks, clocks_of
from rungwise.fsm.call.conversation.link import NO_LESSONS, Lessons, Link
from rungwise.fsm.call.conversation.observation import ANSWERS, Observation
from rungwise.fsm.call.conversation.reading import TextWatch
from rungwise.fsm.call.conversation.reply import Reasoning, Reply, Text
from rungwise.fsm.call.conversation.request import Request, Send, TurnContext
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.causes import cause_of
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.defaults import DEFAULT_POLICY, NO_CHAIN, NO_TURN
from rungwise.fsm.call.run.delivery import Delivery, StreamEvent
from rungwise.fsm.call.run.facts import FactFinder
from rungwise.fsm.call.run.journal import Journal
from rungwise.fsm.call.run.observe import observe, observe_cancel
from rungwise.fsm.call.run.outcome import Outcome
from rungwise.fsm.call.run.own_facts import own_facts_of
from rungwise.fsm.call.run.position import Position
from rungwise.fsm.call.run.proposal import Proposal
from rungwise.fsm.call.run.proposer import Proposer
from rungwise.fsm.call.run.recording import Observer, Recorder
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.call.table import KEEP_PRIOR
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.journal.record import Evidence
from rungwise.fsm.machine.table import Row

NO_REPLY = Observation(evidence=Evidence(event="ran_out"))
LAST_RESORTS = frozenset({"partial", "refused", "exhausted", "failed"})
"""The outcomes that a usable backend further down the chain might have prevented."""


class RunningCall:
    """Run one call; the arguments and methods are those of `Call`, which hands them on."""

    __slots__ = (
        *("_affordable_until", "_context", "_counter", "_delivery", "_facts", "_in_flight", "_jitter"),
        *("_outcome", "_proposed", "_proposer", "_recorder", "_result"),
        *("is_streaming", "journal", "position", "request", "spending", "turn"),
    )

    request: Request
    turn: TurnContext
    is_streaming: bool
    journal: Journal
    position: Position
    spending: Spending
    _context: CallContext
    _jitter: Callable[[], float]
    _delivery: Delivery
    _recorder: Recorder
    _counter: TokenCounter
    _proposer: Proposer
    _facts: FactFinder
    _outcome: Outcome
    _proposed: Proposal | None
    _affordable_until: float  # the call's own budget can pay for it until then, in seconds from its beginning
    _in_flight: Proposal | None
    _result: Result | None

    def __init__(
        self,
        request: Request,
        policy: Policy | None,
        chain: Sequence[Link] | None,
        turn: TurnContext | None,
        jitter: Callable[[], float],
        observer: Observer | None,
        contents: bool,
        has_compactor: bool,
        is_streaming: bool,
        estimate: Callable[[Any], int] | None,
        prompts: Iterator[int] | None,
        within: SharedBudget | None,
        deadline: float | None,
        lessons: Sequence[Lessons] | None,
    ) -> None:
        turn = NO_TURN if turn is None else turn
        context = CallContext.of(
            request,
            DEFAULT_POLICY if policy is None else policy,
            NO_CHAIN if chain is None else chain,
            turn,
            contents=contents,
            has_compactor=has_compactor,
            within=within,
            lessons=lessons,
        )
        if deadline is not None:
            check_deadline(deadline)
            context.spending.given_deadline = deadline
        self._context, self._jitter = context, jitter
        self.request, self.turn, self.is_streaming = request, turn, is_streaming
        self.journal, self.position, self.spending = context.journal, context.position, context.spending
        self._delivery = Delivery(is_streaming, turn.gathered)
        self._recorder = Recorder(context, self._delivery, observer)
        self._counter = TokenCounter(context, estimate_tokens if estimate is None else estimate, prompts)
        self._proposer = Proposer(context, self._counter)
        self._facts = FactFinder(context)
        self._outcome = Outcome(context)
        self._proposed = self._in_flight = self._result = None
        self._affordable_until = -math.inf

    @property
    def link(self) -> Link:
        """Return the current backend."""
        return self._context.chain.link

    @property
    def policy(self) -> Policy:
        """Return how the call may recover, and its budget."""
        return self._context.policy

    @property
    def backend(self) -> int:
        """Return the index of the current backend in the chain."""
        return self._context.chain.index

    @property
    def is_over(self) -> bool:
        """Tell whether the call has ended."""
        return self._result is not None

    @property
    def result(self) -> Result:
        """Return the end of the call."""
        if self._result is None:
            raise IllegalEvent(f"the call has not ended; it is in state {self.position.state!r}")
        return self._result

    def begin(self, now: float = 0.0) -> Send | None:
        """Start the call and return the first thing to send; None if the budget allows nothing."""
        spending, chain = self.spending, self._context.chain
        spending.begin(now)
        if spending.share is not None:
            spending.share.shared.begin(now)
        if spending.given_deadline is not None or spending.share is not None:
            self.journal.setting.note_deadline(spending)
        if chain.link.problem is not None:
            self._recorder.skip(self.position.state, chain.leave_unusable())
        if self._context.lessons is not NO_LESSONS:
            self._heed()
        self._proposed = self._proposer.propose(0.0)
        return self._affordable(0.0)

    @property
    def is_shared(self) -> bool:
        """Tell whether the call shares a budget with others."""
        return self.spending.share is not None

    def reserve(self, wake: Callable[[], None], now: float | None = None) -> bool:
        """Reserve what the proposed send may use of a shared budget; tell whether there is nothing to wait for."""
        self.spending.pass_time(now)
        self._shorten_nothing()
        return self._proposed is None or self._proposer.reserve(self._proposed, wake)

    def sending(self, now: float | None = None) -> Send | None:
        """Say that the wait is over, and return what goes out now; None if it can no longer be afforded."""
        self.spending.pass_time(now)
        return self._send_out()

    def clocks(self) -> Clocks:
        """Return the clocks of the attempt in flight, for a driver that keeps them."""
        return clocks_of(self._context, self._ensure_sent(), self._facts)

    def text_watch(self) -> TextWatch:
        """Return what tells when the attempt in flight has brought visible text; see `Clocks`."""
        return TextWatch(self._ensure_sent().reading, self._context.transcript.answer.gathered)

    def hear(self, delta: Text | Reasoning) -> tuple[StreamEvent, ...]:
        """Take a piece of the reply in flight and return what the consumer may be shown."""
        if not isinstance(delta, (Text, Reasoning)):
            raise ConfigurationError(f"delta must be Text or Reasoning, not {type(delta).__name__}")
        opened = self._delivery.filter
        if opened is None:
            opened = self._delivery.open(self._ensure_sent().reading, self._context.transcript.answer.gathered)
        return opened.feed(delta)

    def receive(self, reply: Reply | Failure, now: float | None = None) -> Send | None:
        """Take what came back and return the next thing to send; None when the call has ended."""
        if not isinstance(reply, (Reply, Failure)):
            raise ConfigurationError(f"reply must be a Reply or a Failure, not {type(reply).__name__}")
        proposal = self._ensure_sent()
        self.spending.pass_time(now)
        observation = observe(
            reply,
            proposal=proposal,
            transcript=self._context.transcript,
            counter=self._counter,
            delivered=self._delivery.close(),
        )
        position = self.position
        own: tuple[str, ...] = ()
        if position.table.own_facts:
            own = own_facts_of(position.table, observation, self._context.transcript.answer.gathered)
        self._gather(observation)
        facts: tuple[str, ...] = ("overran",) if observation.overran else ()
        if position.is_guarded(observation.event):
            facts = self._facts.find(
                observation, self._outcome.last, asks_for_little=proposal.for_backend.asks_for_little
            )
        return self._advance(observation, facts + own)

    def observed(self, observation: Observation, facts: tuple[str, ...], now: float) -> Send | None:
        """Take what was observed before, with the facts that held, as a replay does; return the next thing to send."""
        if observation.event != "cancelled":
            self._ensure_sent()
        self.spending.pass_time(now)
        self._gather(observation)
        return self._advance(observation, facts)

    def settled_facts(self, observation: Observation) -> Mapping[str, bool]:
        """Return the facts that follow from the policy and from what was counted, for a replay under another policy."""
        proposal, has_next = self._ensure_sent(), self._context.chain.next_usable() is not None
        found = self._facts.settled(observation, self._outcome.last)
        return {**found, "has_next_backend": has_next, "asks_for_little": proposal.for_backend.asks_for_little}

    def compacted(self, messages: Sequence[Any]) -> Send | None:
        """Take what the compactor made of the messages and return the send that was waiting for it."""
        waiting = self._proposed
        if waiting is None or not waiting.send.needs_compaction:
            raise IllegalEvent("no send waits for a compaction")
        self._context.transcript.messages = Request(messages).messages
        self._proposed = self._proposer.propose(waiting.send.wait, is_compacted=True)
        return self._affordable(0.0)

    def cancel(self, now: float | None = None, partial: Reply | None = None) -> Result:
        """End the call; what was delivered stays in the result. A call that has ended is left as it is."""
        if self._result is None:
            if self.spending.began is None:
                self.spending.begin(now or 0.0)
            self.spending.pass_time(now)
            observation = observe_cancel(
                partial,
                proposal=self._in_flight or self._proposed,
                is_sent=self._in_flight is not None,
                counter=self._counter,
                delivered=self._delivery.delivered if partial is None or self.is_streaming else None,
            )
            self._gather(observation)
            self._advance(observation, ())
        return self.result

    def drain(self) -> list[StreamEvent]:
        """Return what a consumer of the stream must be given now, and forget it."""
        return self._delivery.drain()

    def _ensure_sent(self) -> Proposal:
        """Return what is in flight; what waits to be sent is taken to have gone out when its wait was over."""
        if self._proposed is not None:
            if self.spending.share is not None and self.spending.share.needs_cap:  # which may lower the cap
                raise IllegalEvent("under a shared budget nothing goes out before `sending` has returned it")
            self.spending.elapsed += self._proposed.send.wait
            self._send_out()
        if self._in_flight is None:
            raise IllegalEvent(f"nothing is in flight in state {self.position.state!r}")
        return self._in_flight

    def _gather(self, observation: Observation) -> None:
        transcript = self._context.transcript
        if observation.unsays:
            self._delivery.show(Reasoning(transcript.answer.gathered))
        transcript.gather(observation)

    def _advance(self, observation: Observation, facts: tuple[str, ...]) -> Send | None:
        """Fire the event and go where the table leads."""
        context, position, event = self._context, self.position, observation.event
        if "overran" in facts and self._in_flight is not None:
            self.spending.overran = self._in_flight.send.max_tokens
        self.spending.pay(observation.evidence.usage, context.chain.link.prices)
        self._outcome.note(observation)
        row = position.fire(event, facts)
        self._proposed = self._in_flight = None
        if row.target in position.machine.outcomes:
            self._end(row, observation=observation, facts=facts)
            return None
        rung = position.rung
        wait = position.wait(rung, context.policy, event, facts, observation.failure, self._jitter)
        self._recorder.record(row, observation=observation, facts=facts, wait=wait)
        if event in ANSWERS:
            context.transcript.discard()
        context.transcript.prepare(rung, observation)
        if row.target == "fallback":
            self._fall_back()
        self._delivery.correct(context.transcript.answer.gathered)
        self._proposed = self._proposer.propose(wait.seconds)
        return self._affordable(wait.seconds)

    def _send_out(self) -> Send | None:
        self._shorten_nothing()
        if self.spending.share is not None or self.spending.elapsed > self._affordable_until:
            self._affordable(0.0)
        proposal = self._proposed
        if proposal is None:
            return None
        if self.spending.share is not None:
            granted = self._proposer.granted(proposal, self.spending.share)
            if isinstance(granted, str):
                self._end_unsent(proposal, granted)
                return None
            proposal = granted
        self._proposed, self._in_flight = None, proposal
        note = self._context.newly_told()
        self._recorder.record(self.position.fire("sent"), proposal=proposal, note=note)
        return proposal.send

    def _shorten_nothing(self) -> None:
        """Go on with the messages as they are where they wait for a compactor that nobody has run."""
        proposal = self._proposed
        if proposal is not None and proposal.send.needs_compaction:
            self._proposed = self._proposer.propose(proposal.send.wait, is_compacted=True)
            self._affordable_until = -math.inf  # nobody has looked whether that is

    def _affordable(self, wait: float) -> Send | None:
        """Return what is proposed if the budgets allow it; else ask another backend, or end the call.

        Arguments:
            wait: seconds until it goes out.
        """
        while (proposal := self._proposed) is not None:
            lacking = self._proposer.lacking(proposal, wait)
            if lacking is None:
                self._affordable_until = self.spending.elapsed + wait
                return proposal.send
            if self.position.state == "fallback" and has_left(self._context):
                self._pass_over(proposal, lacking)
            else:
                self._run_out(proposal, lacking)
            wait = 0.0
        return None

    def _pass_over(self, proposal: Proposal, lacking: str) -> None:
        """Turn to the backend behind one that cannot be paid for, before that was asked anything."""
        self._recorder.skip(self.position.state, [(self.link, lacking)], proposal)
        self._fall_back()
        self._proposed = self._proposer.propose(0.0)

    def _run_out(self, proposal: Proposal, lacking: str) -> None:
        """Ask another backend, for which something was kept, or end the call.

        Arguments:
            proposal: what cannot be afforded.
            lacking: why.
        """
        facts: tuple[str, ...] = ()
        if has_left(self._context):
            facts = ("has_next_backend", "reserve_left")
        self._end_unsent(proposal, lacking, facts)
        if self._result is None:
            if self.spending.share is not None:
                self.spending.share.withdraw()
            self._context.transcript.prepare(self.position.rung, NO_REPLY)
            self._fall_back()
            self._proposed = self._proposer.propose(0.0)

    def _end_unsent(self, proposal: Proposal, lacking: str, facts: tuple[str, ...] = ()) -> None:
        """Fire that the budgets allow nothing more here, and end the call where that leads to an end."""
        self._proposed = None
        row = self.position.fire("ran_out", facts)
        if row.target in self._context.policy.table.outcomes:
            self._end(row, proposal=proposal, facts=facts, lacking=lacking)
        else:
            self._recorder.record(row, proposal=proposal, facts=facts, note=lacking)

    def _fall_back(self) -> None:
        """Turn to the next backend."""
        chain = self._context.chain
        following = chain.next_usable()
        assert following is not None  # or its guard would not have held
        self._recorder.skip(self.position.state, chain.passed_over(following))
        chain.move_to(following)
        self._heed()

    def _heed(self) -> None:
        """Shape what is sent to the current backend by what is remembered of it."""
        self._context.transcript.changes.apply(self._context.lessons, self._context.chain.index)

    def _end(
        self,
        row: Row,
        *,
        observation: Observation | None = None,
        facts: tuple[str, ...] = (),
        proposal: Proposal | None = None,
        lacking: str | None = None,
    ) -> None:
        """Record the last step and settle, also where the observer of that step is interrupted."""
        chain = self._context.chain
        try:
            if self.spending.share is not None:
                self.spending.share.withdraw()
            if row.target in LAST_RESORTS and chain.next_usable() is None:
                self._recorder.skip(row.source, chain.passed_over())
            self._recorder.record(row, proposal=proposal, observation=observation, facts=facts, note=lacking)
        finally:
            cause = (
                lacking
                if observation is None
                else cause_of(self._context.policy.table, row, observation.evidence, facts, observation.found)
            )
            self._result = self._outcome.settle(row, cause)
            is_shown = row.effect == KEEP_PRIOR.effect and self.turn.is_shown
            self._delivery.correct(self._context.transcript.answer.gathered if is_shown else self._result.text)
