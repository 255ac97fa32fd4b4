"""The steps of a turn: what came back becomes a row of the table, and the row the next thing to do,
or the end.

Here stand the parts of a turn and its one step. What a driver says to a turn is in `turn.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import evolve

from rungwise.fsm.call.budget.budget import check_deadline
from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.call.budget.shared import OF_A_TURN, SharedBudget
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.observation import Verdict
from rungwise.fsm.call.conversation.plain import plain_messages
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.call.run.context import NO_CHAIN
from rungwise.fsm.call.run.recording import Observer, observer_of
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.turn.actions import Action, Compact, MakeCall, RunTools
from rungwise.fsm.turn.caller import TurnCaller
from rungwise.fsm.turn.compaction import room_for
from rungwise.fsm.turn.conversation import Conversation
from rungwise.fsm.turn.observe import cause_of, counts_of
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.resumed import Approvals, Resumed
from rungwise.fsm.turn.table import CALLS, OUTCOMES, TURN
from rungwise.fsm.turn.tool_round import Repeats, ToolRound
from rungwise.fsm.turn.tools import Toolbox, Tools
from rungwise.fsm.turn.turn_journal import Tally, TurnJournal, TurnRecorder, TurnSetting


class TurnSteps:
    """Hold the parts of a turn, and take its steps; see `Turn` for the arguments."""

    _new_call: Callable[..., Call] = Call

    # how the turn ended, or is about to
    _cause: str | None = None
    _error: Exception | None = None
    _result: TurnResult | None = None

    def __init__(
        self,
        request: Request,
        policy: TurnPolicy = DEFAULT_TURN_POLICY,
        chain: Sequence[Link] = NO_CHAIN,
        *,
        tools: Tools | Toolbox = None,
        within: SharedBudget | None = None,
        has_compactor: bool = False,
        count: Callable[[Any], int] = estimate_tokens,
        observer: Observer | None = None,
        contents: bool = False,
        is_streaming: bool = False,
        jitter: Callable[[], float] | None = None,
        deadline: float | None = None,
        returns: Any = None,
        verdict: Verdict | Iterable[Verdict] | None = None,
        approvals: Approvals | None = None,
    ) -> None:
        self.policy = policy
        self.tools = Toolbox.of(tools)
        self._check(request, deadline)
        self.budget = SharedBudget(policy.budget, within, label=OF_A_TURN)
        self.position = Run.at_start(TURN, policy.limits)
        setting = TurnSetting(policy, has_compactor)
        self.journal = TurnJournal(
            table=TURN.name, counters=TURN.counters, contents=contents, setting=setting
        )
        self._count = count
        self._caller_deadline = deadline
        if observer is not None:
            observer = observer_of(observer, self)
        # what every call of the turn gets, and what only those that may answer get
        options: dict[str, Any] = {
            "observer": observer,
            "contents": contents,
            "is_streaming": is_streaming,
            "within": self.budget,
            "deadline": deadline,
        }
        if jitter is not None:
            options["jitter"] = jitter
        wants = {"returns": returns, "verdict": verdict}
        self._caller = TurnCaller(policy, tuple(chain), self.tools, options, wants, self._new_call)
        self._conversation = Conversation(request.messages)
        # a turn that awaited approval goes on at the reply whose calls wait
        self._resumed: Resumed | None = None
        if approvals is not None:
            self._resume(Resumed.of(request.messages, approvals, policy.hints, self.tools))
        self._tally = Tally()
        self._recorder = TurnRecorder(self.journal, self.position, self._tally, observer)
        self._repeats = Repeats()
        self._drained = 0  # how many steps `drain` has returned
        # what is in flight: a call, or a round of tools
        self._call: Call | None = None
        self._round: ToolRound | None = None
        self._paused_at: ToolRound | None = None  # the last round, if a call of it awaits approval
        self.request = self._with_tools(request)

    def _check(self, request: Any, deadline: float | None) -> None:
        """Refuse what no turn can run with.

        Arguments:
            request: should be a `Request`.
            deadline: the caller's, as a time of the clock in seconds.
        """
        if not isinstance(request, Request):
            raise ConfigurationError(f"request must be a Request, not {type(request).__name__}")
        if not isinstance(self.policy, TurnPolicy):
            kind = type(self.policy).__name__
            raise ConfigurationError(f"policy must be a TurnPolicy, not {kind}")
        check_deadline(deadline)
        if self.tools and "tools" in request.parameters:
            raise ConfigurationError(
                "Request.parameters cannot set 'tools' beside the tools of the turn"
            )

    def _resume(self, resumed: Resumed) -> None:
        self._resumed = resumed
        self._conversation = Conversation(
            resumed.before, pending=resumed.calling, results=dict(resumed.results)
        )
        self.position.state = TURN.resumes or TURN.start

    def _with_tools(self, request: Request) -> Request:
        """Return the request with the definitions of the tools, in the form of the first backend.

        The first call is built for that, so an invalid request is refused before anything is sent.
        """
        link = self._caller.first(request).link
        definitions = self.tools.definitions(link.shapes)
        if not definitions:
            return request
        return evolve(request, tools=(*request.tools, *definitions))

    def __repr__(self) -> str:
        position = getattr(self, "position", None)  # tracebacks show half-built objects too
        if position is None:
            return "Turn()"
        return f"Turn(state={position.state!r})"

    def _act(self) -> Action | None:
        """Do what the state asks for; return None if that ended the turn."""
        state = self.position.state
        conversation = self._conversation
        policy = self.policy
        deadline = self._ends_by()
        remaining = None if deadline is None else deadline - self._tally.now
        late = None if state in CALLS else self._late()  # a call checks its own time
        if late is not None:
            row = self.position.fire("ran_out")
            try:
                self._recorder.record(row, note=late)
            finally:
                self._end(row, late)
            return None
        action: Action
        if state in CALLS:
            written = self._tally.usage.output_tokens
            call = self._caller.next(state, self.request, conversation, written)
            self._call = call
            self.journal.calls.append(call.journal)
            action = MakeCall(call)
        elif state == "use_tools":
            assert conversation.pending is not None
            decided = None if self._resumed is None else self._resumed.decided
            self._resumed = None
            calls = conversation.pending.tool_calls
            self._round = ToolRound.of(calls, self.tools, policy, remaining, decided)
            runs = tuple([run for _, run in self._round.runs])
            action = RunTools(runs, policy.calls_at_once, remaining, self._recorder.observer)
        else:
            cap = self.request.max_tokens or policy.of_calls.base_cap
            plain = tuple(plain_messages(conversation.messages))
            action = Compact(plain, room_for(plain, policy.window, cap, self._count))
        self._recorder.record(self.position.fire("sent"))
        return action

    @property
    def _is_summary(self) -> bool:
        return self.position.spent_of("summaries") > 0

    def _ends_by(self) -> float | None:
        """Return when the turn must end, in seconds on the driver's clock; None for no limit."""
        deadlines = [self._caller_deadline, self.budget.deadline]
        return min([each for each in deadlines if each is not None], default=None)

    def _late(self) -> str | None:
        """Say which limit of time has passed; None if none has."""
        now = self._tally.now
        of_budget = self.budget.deadline
        of_caller = self._caller_deadline
        if of_budget is not None and now >= of_budget:
            return self.budget.shortfall(now)
        if of_caller is not None and now >= of_caller:
            return "the deadline has passed"
        return None

    def _settle_call(self, result: Result) -> None:
        self._call = None
        self._caller.last = result
        self._tally.add(result)

    def _advance(
        self,
        event: str,
        facts: tuple[str, ...],
        *,
        result: Result | None = None,
        note: str | None = None,
        content: dict[str, Any] | None = None,
        handed_off: tuple[Any, ...] = (),
    ) -> Action | None:
        """Fire an event, record the step, and do what follows; None at the end.

        Arguments:
            event, facts: what came back, and the facts that hold.
            result: the result of the call that came back.
            note: what the journal says of the step.
            content: its texts, if the journal may hold them.
            handed_off: the terminating calls that end the turn.
        """
        row = self.position.fire(event, facts)
        cause = cause_of(row, facts, self.policy, result, note)
        if row.target in OUTCOMES:
            try:
                self._recorder.record(row, facts, result=result, note=note, content=content)
            finally:  # also if the observer of the last step is interrupted
                if self._is_summary and row.target == "limit_reached":
                    cause = self._cause  # why it had to be summed up
                self._end(row, cause, handed_off)
            return None
        counts = counts_of(row.target, self.position.spent_of, self.policy)
        note = "; ".join(filter(None, (counts, note))) or None
        self._recorder.record(row, facts, result=result, note=note, content=content)
        self._cause = cause
        return self._act()

    def _end(
        self,
        row: Row,
        cause: str | None,
        handed_off: tuple[Any, ...] = (),
    ) -> None:
        self._conversation.close(self.policy.hints.not_run)
        if self._resumed is not None:  # nothing has run: what was approved still waits
            self._conversation.messages = self.request.messages
        self.journal.outcome = row.target
        del self.journal.calls[self.journal.made :]  # a call that was interrupted before its step
        self._call = None
        self._round = None
        awaiting: tuple[ToolCall, ...] = ()
        already_run: tuple[ToolCall, ...] = ()
        paused = self._resumed or self._paused_at
        if paused is not None:
            awaiting = paused.waiting
            already_run = paused.already_run
        error = self._error
        value = None
        last = self._caller.last
        if last is not None:
            error = error or last.raised
            if row.target == "finished":
                value = last.value
        tally = self._tally
        self._result = TurnResult(
            outcome=row.target,
            text=self._conversation.shown,
            messages=self._conversation.messages,
            handed_off=handed_off,
            awaiting=awaiting,
            already_run=already_run,
            usage=tally.usage,
            cost=tally.money,
            **tally.stated,
            seconds=tally.elapsed,
            calls=len(self.journal.calls),
            attempts=tally.attempts,
            cause=cause,
            last=last,
            journal=self.journal,
            error=error,
            shapes=self._caller.shapes,
            value=value,
        )
