"""The rounds of a call: what came back becomes a row of the table, and the row the next thing to
send, or the end.

Here stand the parts of a call and its one step. What a driver says to a call is in `call.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from rungwise.fsm.call.budget.counting import TokenCounter, charge_of
from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.chain.lessons import Lessons
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.observation import ANSWERS, Observation, Verdict
from rungwise.fsm.call.conversation.request import Request, Send, TurnContext
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.context import CallContext
from rungwise.fsm.call.run.delivery import Delivery
from rungwise.fsm.call.run.facts import FactFinder
from rungwise.fsm.call.run.judging import Judge
from rungwise.fsm.call.run.observe import ReplyReader
from rungwise.fsm.call.run.outcome import Outcome
from rungwise.fsm.call.run.recording import Later, Observer, Recorder, observer_of
from rungwise.fsm.call.run.sending import Sender
from rungwise.fsm.call.table import REATTACH
from rungwise.fsm.replies.reply import Reasoning
from rungwise.fsm.values.usage import NO_USAGE


class CallRounds:
    """Hold the parts of a call, and take its steps; see `Call` for the arguments."""

    __slots__ = (
        "__weakref__",
        "_context",
        "_counter",
        "_delivery",
        "_facts",
        "_jitter",
        "_outcome",
        "_reader",
        "_recorder",
        "_sender",
        "is_streaming",
        "journal",
        "observers",
        "policy",
        "position",
        "request",
        "spending",
        "turn",
    )

    def __init__(
        self,
        request: Request,
        policy: Policy | None = None,
        chain: Sequence[Link] | None = None,
        turn: TurnContext | None = None,
        *,
        jitter: Callable[[], float] = float,  # which returns 0.0
        observer: Observer | None = None,
        contents: bool = False,
        has_compactor: bool = False,
        is_streaming: bool = False,
        estimate: Callable[[Any], int] | None = None,
        prompts: Iterator[int] | None = None,
        within: SharedBudget | None = None,
        deadline: float | None = None,
        lessons: Sequence[Lessons] | None = None,
        returns: Any = None,
        verdict: Verdict | Iterable[Verdict] | None = None,
    ) -> None:
        context = CallContext.of(
            request,
            policy,
            chain,
            turn,
            contents=contents,
            has_compactor=has_compactor,
            within=within,
            deadline=deadline,
            lessons=lessons,
            judge=Judge.of(request, turn, returns, verdict),
        )
        self._context = context
        self.request = request
        self.policy = context.policy
        self.turn = context.turn
        self.is_streaming = is_streaming
        self.journal = context.journal
        self.position = context.position
        self.spending = context.spending
        self._jitter = jitter
        self._delivery = Delivery(is_streaming, self.turn.gathered)
        self.observers: tuple[Later, ...] = ()  # those of the caller's
        self._recorder = Recorder(context, self._delivery, observer and observer_of(observer, self))
        if estimate is None:
            estimate = estimate_tokens
        self._counter = TokenCounter(context, estimate, prompts)
        self._facts = FactFinder(context)
        self._outcome = Outcome(context, self._recorder)
        self._sender = Sender(context, self._counter, self._recorder, self._outcome)
        self._reader = ReplyReader(context, self._counter, self._delivery)

    def __repr__(self) -> str:
        # a debugger may show a call that is not yet built
        position = getattr(self, "position", None)
        if position is None:
            return "Call()"
        return f"Call(state={position.state!r}, attempts={position.attempts})"

    def hold(self) -> None:
        """Let observers of the caller's wait, because the call holds what other calls may need."""
        for observer in self.observers:
            observer.waits = True

    def let_go(self) -> None:
        """Call them with the steps since `hold`."""
        for observer in self.observers:
            observer.catch_up()

    def _gather(self, observation: Observation) -> None:
        transcript = self._context.transcript
        if observation.unsays:
            self._delivery.show(Reasoning(transcript.answer.gathered))
        transcript.gather(observation)
        if observation.finding is not None:
            self._context.keep_decided(observation.finding.value)
        if observation.event == "rejected_fixably":
            self._context.note_misplaced(observation.evidence)

    def _settle(self, observation: Observation) -> None:
        """Pay the shared budgets for the attempt in flight; one that is paid already stays so."""
        share = self.spending.share
        if share is None:
            return
        in_flight = self._sender.in_flight
        evidence = observation.evidence
        overran = None
        if observation.overran and in_flight is not None:
            overran = in_flight.send.max_tokens
        charge = charge_of(evidence, in_flight)
        share.settle(evidence.usage, charge, self._context.chain.link.prices, overran)

    def _pay(self, observation: Observation, sent: Proposal | None) -> None:
        """Pay for an attempt: the shared budgets, and the call's own."""
        self._settle(observation)
        evidence = observation.evidence
        charge = charge_of(evidence, sent)
        self.spending.add(evidence.usage, charge, self._context.chain.link.prices)

    def _advance(self, observation: Observation, facts: tuple[str, ...]) -> Send | None:
        """Pay for what came back, fire its event, and propose what the rung sends that follows.

        Here a call takes each of its steps: what came back becomes a row of the table, and the row
        the next thing to send, or the end.
        """
        context = self._context
        position = self.position
        evidence = observation.evidence
        in_flight = self._sender.in_flight
        if "overran" in facts and in_flight is not None:
            self.spending.overran = in_flight.send.max_tokens
        row = position.fire(evidence.event, facts)
        is_reattached = row.target == REATTACH.name
        if is_reattached:
            # It is paid when it ends, or when it turns out that nobody fetches it.
            self._sender.unpaid = partial(self._pay, observation, in_flight)
            observation = evolve(observation, evidence=evolve(evidence, usage=NO_USAGE))
        else:
            if self._sender.unpaid is not None:
                self._sender.pay()
            self._settle(observation)
            charge = charge_of(evidence, in_flight)
            self.spending.add(evidence.usage, charge, context.chain.link.prices)
        self._outcome.note(observation)
        if context.retries is not None:
            context.retries.settle(row.target)
        self._sender.proposed = None
        self._sender.in_flight = None
        if row.target in position.table.outcomes:
            self._outcome.end(row, facts, observation=observation)
            return None
        rung = position.rung
        wait = position.wait(
            rung, context.policy, evidence.event, observation.failure, self._jitter
        )
        self._recorder.record(row, observation=observation, facts=facts, wait=wait)
        if evidence.event in ANSWERS:
            context.transcript.discard()
        context.transcript.prepare(rung, observation)
        self._sender.turn(row.target)
        if is_reattached:
            assert in_flight is not None
            return self._sender.propose_again(in_flight, wait.seconds)
        self._delivery.correct(context.transcript.answer.gathered)
        return self._sender.propose(wait.seconds)
