"""The state that the parts of one call share: the request, and its position in its machine.

Nothing else in a call touches the machine or its counters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from attrs import define, evolve, frozen

from rungwise.fsm.call.budget.budget import NOTHING_RESERVED, Reserved, Spending, check_deadline
from rungwise.fsm.call.budget.shared import SharedBudget, check_within
from rungwise.fsm.call.budget.throttle import RetryShare
from rungwise.fsm.call.chain.chain import Chain
from rungwise.fsm.call.chain.for_backend import losses_of
from rungwise.fsm.call.chain.lessons import NO_LESSONS, Lessons
from rungwise.fsm.call.chain.link import Link, PlainLink, lessons_of
from rungwise.fsm.call.clocks.waiting import RAISING, cap_of, drawn_wait
from rungwise.fsm.call.conversation.answer import AnswerSoFar
from rungwise.fsm.call.conversation.request import Request, TurnContext
from rungwise.fsm.call.conversation.transcript import Transcript
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.run.call_journal import Journal, Links, Setting
from rungwise.fsm.call.run.judging import Judge
from rungwise.fsm.call.table import keeps_asked_wait
from rungwise.fsm.engine.journal.record import Evidence
from rungwise.fsm.engine.machine.declare import Rung
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import FORMAT_PARAMETER, Failure


@frozen
class RungWait:
    """Hold the seconds of a wait, and the random number drawn for it, if any."""

    seconds: float
    draw: float | None


NO_WAIT = RungWait(0.0, None)


class Position(Run):
    """Move a call through its table, and compute the waits and output caps of its rungs."""

    __slots__ = ()

    @classmethod
    def of(cls, policy: Policy, chain: Chain) -> Position:
        """Return the position of a call that has not begun."""
        # in the table's order
        limits = policy.limits.bounded(
            policy.table.limits,
            len(chain.links),
            chain.most_keys,
            chain.background,
        )
        return cls(policy.table, tuple(limits.values()), policy.table.start, [0] * len(limits))

    @property
    def rung(self) -> Rung:
        """Return the declaration of the rung that the last row led to."""
        rung = self.table.rung(self.state)
        assert rung is not None
        return rung

    def wait(
        self,
        rung: Rung,
        policy: Policy,
        event: str,
        failure: Failure | None,
        jitter: Callable[[], float],
    ) -> RungWait:
        """Return how long a rung waits after an event.

        Arguments:
            rung: the rung.
            policy: the waits.
            event: what it follows.
            failure: the failure that it follows, if any.
            jitter: returns a random number from 0 to 1, and is called only if one is needed.
        """
        asked_wait = None if failure is None else failure.asked_wait
        if asked_wait is not None and keeps_asked_wait(event, rung.name):
            return RungWait(asked_wait, None)
        if rung.wait is None:
            return NO_WAIT
        draw = jitter() + 0.0  # a float, and no negative zero
        if not 0.0 <= draw <= 1.0:
            draw = min(1.0, max(0.0, draw))
        number = self.spent_of(rung.counter)
        seconds = drawn_wait(policy.waits, rung, number, event, failure, draw)
        return RungWait(seconds, draw)

    def cap(self, policy: Policy, base: int | None) -> int | None:
        """Return an output cap in tokens, raised by the rungs taken so far; None sends none."""
        raises = 0
        places = self.table.places
        spent = self.spent
        if any(spent):
            for counter in RAISING:
                if counter in places:
                    raises += spent[places[counter]]
        if raises == 0:
            return base
        return cap_of(policy, raises, base)


NO_CHAIN = (PlainLink(),)
NO_TURN = TurnContext()

_FORMAT_REPAIR: Final = f"parameter_unsupported:{FORMAT_PARAMETER}"


def _not_of_its_kind(name: str, value: object, kind: type) -> ConfigurationError:
    return ConfigurationError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")


@define(eq=False, repr=False)
class CallContext:
    """Hold the state that the parts of one call share."""

    request: Request
    policy: Policy
    turn: TurnContext  # what the call cannot see of the turn around it
    has_compactor: bool
    chain: Chain
    position: Position
    transcript: Transcript  # the text so far, and what the rungs have added to the messages
    spending: Spending
    journal: Journal
    judge: Judge
    # what no attempt at the current backend may use of the budget
    reserved: Reserved = NOTHING_RESERVED
    # the backends whose rejection of the parameter for JSON is in the journal
    noted_json: frozenset[int] = frozenset()
    retries: RetryShare | None = None  # if the call shares them with others

    @classmethod
    def of(
        cls,
        request: Request,
        policy: Policy | None,
        chain: Sequence[Link] | None,
        turn: TurnContext | None,
        *,
        contents: bool,
        has_compactor: bool,
        within: SharedBudget | None,
        deadline: float | None,
        lessons: Sequence[Lessons] | None,
        judge: Judge,
    ) -> CallContext:
        """Begin with the arguments of a call, or raise a ConfigurationError as it does.

        Arguments:
            judge: checks what the model answers; see `Call` for the others.
        """
        policy = DEFAULT_POLICY if policy is None else policy
        turn = NO_TURN if turn is None else turn
        if not isinstance(request, Request):
            raise _not_of_its_kind("request", request, Request)
        if not isinstance(policy, Policy):
            raise _not_of_its_kind("policy", policy, Policy)
        if not isinstance(turn, TurnContext):
            raise _not_of_its_kind("turn", turn, TurnContext)
        share = None
        if within is not None:
            check_within(within)
            share = within.share()
        spending = Spending(policy.budget, share)
        check_deadline(deadline)
        spending.given_deadline = deadline
        chain = NO_CHAIN if chain is None else chain
        backends = Chain.of(chain, needs_prices=spending.needs_prices)
        if lessons is None:
            lessons = [lessons_of(link) for link in backends.links]
        setting = Setting(policy, Links(backends.links), request.max_tokens, request.input_tokens)
        setting.has_compactor = has_compactor
        setting.lessons = tuple(lessons)
        if within is not None:
            setting.within = within.budgets
        table = policy.table
        journal = Journal(
            table=table.name, counters=table.counters, contents=contents, setting=setting
        )
        answer = AnswerSoFar.continuing(turn.gathered)
        return cls(
            request,
            policy,
            turn,
            has_compactor,
            backends,
            position=Position.of(policy, backends),
            transcript=Transcript(request.messages, policy.hints, answer),
            spending=spending,
            journal=journal,
            judge=judge,
        )

    def fall_back(self) -> list[tuple[Link, str]]:
        """Turn to the next usable backend, and return those passed over on the way, each with the
        reason.
        """
        following = self.chain.next_usable()
        assert following is not None  # or the guard would not have held
        passed_over = list(self.chain.passed_over(following))
        self.chain.move_to(following)
        self.apply_lessons()
        return passed_over

    def note_misplaced(self, evidence: Evidence) -> None:
        """Note that the server does not take the request in this protocol, if a rejection says so
        and nothing can be set right.
        """
        is_said = evidence.reason == "wrong_endpoint" or bool(self.transcript.changes.settings)
        if is_said and evidence.repair is None:
            self.chain.misplaced |= {self.chain.index}

    def keep_decided(self, value: Any) -> None:
        """Keep the answers of a decision, if that is what a reply brought: the next backend is
        asked the rest.
        """
        returns = self.judge.returns
        if returns is not None and returns.is_decision and value is not None:
            self.judge = evolve(self.judge, returns=value)

    def apply_lessons(self) -> None:
        """Shape what is sent to the current backend by what is remembered of it."""
        self.transcript.changes.apply(self.lessons, self.chain.index)

    def send_note(self) -> str | None:
        """Return what the journal has not yet said about the requests to the current backend; None
        for nothing.
        """
        index = self.chain.index
        losses = self.journal.setting.links.losses
        if losses[index] is not None and _FORMAT_REPAIR not in self.transcript.changes.repaired:
            return None
        notes = []
        if losses[index] is None:  # the first request to this backend
            lost = losses_of(self.request, self.chain.links[0], self.chain.link)
            losses[index] = lost
            if lost:
                notes.append(f"left out: {'; '.join(lost)}")
            lessons = self.lessons
            if lessons is not NO_LESSONS and lessons != NO_LESSONS:
                notes.append(str(lessons))
        if _FORMAT_REPAIR in self.transcript.changes.repaired and index not in self.noted_json:
            self.noted_json |= {index}
            notes.append(f"{FORMAT_PARAMETER}: asked for in words (it was rejected)")
        return "; ".join(notes) or None

    @property
    def lessons(self) -> Lessons:
        """Return what was remembered of the current backend when the call began."""
        lessons = self.journal.setting.lessons
        index = self.chain.index
        return lessons[index] if index < len(lessons) else NO_LESSONS
