"""Record each step of a call in its journal, and pass it to the stream, the observer and the
log.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rungwise.fsm.call.chain.for_backend import Proposal
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.observation import Observation
from rungwise.fsm.call.run.context import NO_WAIT, CallContext, RungWait
from rungwise.fsm.call.run.delivery import Delivery
from rungwise.fsm.engine.journal.record import Record, RecordedStep, Step
from rungwise.fsm.engine.machine.table import Row

Observer = Callable[[Step], None]

logger = logging.getLogger("rungwise")
logger.addHandler(logging.NullHandler())  # a library is silent until its user asks


def silent(step: Step) -> None:
    """Tell nobody, not even the log: the observer of what has happened before, or never happens."""


class Follower:
    """An observer that knows which call or turn a step is of, and follows it into tools and to the
    provider.
    """

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers by which the attempt in flight is followed."""
        return {}

    def __call__(self, step: Step) -> None:
        """Take a step."""

    def watch(self, run: Any) -> Observer | None:
        """Return the observer of a call or turn that is made; None for none."""
        return self

    def tool_began(self, run: Any) -> None:
        """Note that a tool begins in the context that is current."""

    def tool_ended(self, run: Any, outcome: Any) -> None:
        """Note that a tool has ended."""


class Later:
    """Call an observer of the caller's only while its call holds nothing that other calls wait for:
    the observer may make calls itself. What happens meanwhile is passed on afterwards.
    """

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.waits = False  # whether the call holds something
        self._steps: deque[Step] = deque()

    def __call__(self, step: Step) -> None:
        """Take a step of a call."""
        self._steps.append(step)
        if not self.waits:
            self.catch_up()

    def catch_up(self) -> None:
        """Pass on the steps that have waited."""
        self.waits = False
        while self._steps:
            pass_on(self._steps.popleft(), self.observer, "call")


def observer_of(observer: Observer, run: Any) -> Observer | None:
    """Return the observer of a call or a turn."""
    if isinstance(observer, Follower):
        return observer.watch(run)
    observers = getattr(run, "observers", None)
    if observers is None or observer is silent:  # a turn holds nothing
        return observer
    later = Later(observer)
    run.observers += (later,)
    return later


def pass_on(step: Step, observer: Observer, machine: str) -> None:
    """Pass a step to the observer. What that raises is logged and goes no further."""
    try:
        observer(step)
    except Exception as error:
        logger.warning("the observer raised %s; the %s goes on", type(error).__name__, machine)


def announce(journal: Record, observer: Observer | None) -> None:
    """Pass the newest step to the observer and the log."""
    if observer is silent:
        return
    step = journal.last
    if observer is not None:
        pass_on(step, observer, journal.table)
    level = logging.DEBUG
    ended = ""
    if step.target == "fallback" and step.event not in ("sent", "skipped"):
        level = logging.WARNING
    elif step.target == journal.outcome and step.attempts > 1:
        level = logging.INFO
        ended = f"; {step.attempts} attempts, {step.at:.1f} s"
    if logger.isEnabledFor(level):
        parts = {f"rungwise_{name}": getattr(step, name) for name in _LOGGED}
        logger.log(level, "%s%s", step, ended, extra={**parts, "rungwise_machine": journal.table})


_LOGGED = (
    "event",
    "source",
    "target",
    "guard",
    "backend",
    "wait",
    "status",
    "reason",
    "code",
    "attempts",
    "at",
)


class Recorder:
    """Record each step, and pass it to the stream, the observer and the log."""

    __slots__ = ("context", "delivery", "observer")

    def __init__(self, context: CallContext, delivery: Delivery, observer: Observer | None) -> None:
        self.context = context
        self.delivery = delivery
        self.observer = observer

    def record(
        self,
        row: Row,
        *,
        proposal: Proposal | None = None,
        observation: Observation | None = None,
        facts: tuple[str, ...] = (),
        wait: RungWait = NO_WAIT,
        note: str | None = None,
        link: Link | None = None,
    ) -> None:
        """Record that a row was taken.

        Arguments:
            row, facts: the row, and the facts that held.
            proposal: what was proposed for it.
            observation: what came back.
            wait: what the rung waits.
            note: what the journal says of it; None says what is wrong with what came back.
            link: the backend; None for the current one.
        """
        context = self.context
        position = context.position
        journal = context.journal
        if link is None:
            link = context.chain.link
        cap = input_tokens = evidence = content = None
        if proposal is not None:
            input_tokens = proposal.prompt_tokens
            if row.event == "sent":
                cap = proposal.send.max_tokens
        if observation is not None:
            evidence = observation.evidence
            note = note or observation.note
        if journal.contents:
            content = self._content(row, observation, facts)
        journal.record(
            RecordedStep(
                row=row,
                at=context.spending.elapsed,
                spent=tuple(position.spent),
                attempts=position.attempts,
                backend=link.name,
                evidence=evidence,
                facts=facts,
                wait=wait.seconds,
                draw=wait.draw,
                cap=cap,
                input_tokens=input_tokens,
                first_token=journal.first_token,
                note=note or None,
                content=content,
            )
        )
        journal.first_token = None
        if self.delivery.is_streaming:
            self.delivery.show(journal.last)
        is_logged = row.target == "fallback" or logger.isEnabledFor(logging.INFO)
        if self.observer is not None or is_logged:
            announce(journal, self.observer)

    def skip(
        self,
        state: str,
        passed_over: Iterable[tuple[Link, str]],
        proposal: Proposal | None = None,
        facts: tuple[str, ...] = (),
    ) -> None:
        """Record the backends that are skipped.

        Arguments:
            state: the state of the machine, which stays.
            passed_over: the backends, each with the reason.
            proposal: what could not be afforded, if so.
            facts: the facts that held.
        """
        for link, why in passed_over:
            row = Row("skipped", state, None, state)
            self.record(row, proposal=proposal, facts=facts, note=why, link=link)

    def _content(
        self, row: Row, observation: Observation | None, facts: tuple[str, ...]
    ) -> dict[str, Any] | None:
        """Return the texts and tool calls of a step; None for none."""
        gathered = {}
        if self.context.turn.gathered:
            gathered["gathered"] = self.context.turn.gathered
        if observation is None:
            if row.event == "ran_out":  # it may be the only step that holds it
                return gathered or None
            return None
        if observation.event == "cancelled":
            return {"delivered": observation.part, **gathered}
        reply = observation.reply
        content: dict[str, Any] = {
            "part": observation.part,
            "new": observation.new,
            "delivered": observation.delivered,
        }
        if observation.unsays:
            content["unsays"] = True
        if observation.spare:
            content["spare"] = observation.spare
        if reply is not None:
            content["reasoning"] = observation.reasoning
            content["final_text"] = reply.final_text
            content["tool_calls"] = [
                [call.id, call.name, call.arguments] for call in reply.tool_calls
            ]
        if observation.failure is not None and observation.failure.quote:
            content["provider"] = observation.failure.quote
        if observation.finding is not None and observation.finding.reasons:
            content["reasons"] = list(observation.finding.reasons)
        if "has_prior_answer" in facts:
            content["prior_answer"] = self.context.turn.prior_answer
        return {**content, **gathered}
