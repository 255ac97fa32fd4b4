"""One turn of an agent, without I/O: a driver asks it what to do next.

    turn = Turn(request, policy, chain, tools=tools)
    action = turn.begin()
    while action is not None:
        match action:
            case MakeCall(call):
                action = turn.called(run_somehow(call))
            case RunTools(runs):
                action = turn.tools_ran([run(each) for each in runs])
            case Compact(messages, room):
                action = turn.compacted(shorten(messages, room))
    turn.result

Like a call, a turn never sleeps, sends, reads a clock or runs a tool. The driver does, and passes
the time in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import evolve

from rungwise.fsm.call.budget.budget import check_deadline
from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.observation import Verdict
from rungwise.fsm.call.conversation.plain import plain_messages, with_originals
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.call.run.context import NO_CHAIN
from rungwise.fsm.call.run.recording import Observer, observer_of
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.engine.machine.run import Run
from rungwise.fsm.engine.machine.table import Row
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.turn.actions import Action, Compact, MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.caller import Caller
from rungwise.fsm.turn.compaction import NoHelp, accepted, room_for
from rungwise.fsm.turn.conversation import Conversation
from rungwise.fsm.turn.observe import (
    OF_TOOLS,
    cause_of,
    counts_of,
    event_of,
    facts_of,
    facts_of_call,
)
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnPolicy
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.table import CALLS, OUTCOMES, TURN
from rungwise.fsm.turn.tool_round import Approvals, Repeats, Resumed, ToolRound
from rungwise.fsm.turn.tools import Toolbox, Tools
from rungwise.fsm.turn.turn_journal import (
    Tally,
    TurnJournal,
    TurnRecorder,
    TurnSetting,
    TurnStep,
    results_content,
)


class Turn:
    """Run one turn through the machine: its calls, the tools between them, and when to stop.

    Arguments:
        request: what the caller asks; the turn adds the definitions of the tools.
        policy: how often the turn may go on, the policy of its calls, and the budget of the whole
        turn. chain: the backends in order, as for a call.
        tools: the caller's tools.
        within: a budget that the turn shares with others.
        has_compactor: whether the driver can shorten a conversation that does not fit.
        count: counts the input tokens of messages, for compactions.
        observer: called with each step, those of the calls included; an exception that it raises is
        logged. contents: whether journals may hold texts, tool calls and results.
        is_streaming: whether the driver hands on the text of the calls as it arrives.
        jitter: returns a number from 0 to 1 for each wait of a call.
        deadline: when the turn must end, in seconds on the driver's clock; the budget's seconds
        count too. approvals: for each tool call that waits at the end of the messages, by its id,
        True or why it is refused. returns, verdict: what the final answer must be, and what judges
        it; see `rungwise.core.Call`.

    Raises:
        ConfigurationError: an argument is invalid, no backend can be used, or prices are missing
            for a budget.
    """

    _new_call: Callable[..., Call] = Call

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
        for name, value, kind in (("request", request, Request), ("policy", policy, TurnPolicy)):
            if not isinstance(value, kind):
                raise ConfigurationError(
                    f"{name} must be a {kind.__name__}, not {type(value).__name__}"
                )
        check_deadline(deadline)
        self.policy, self.tools = policy, Toolbox.of(tools)
        if self.tools and "tools" in request.parameters:
            raise ConfigurationError(
                "Request.parameters cannot set 'tools' beside the tools of the turn"
            )
        self.budget = SharedBudget(policy.budget, within, label="the turn's budget")
        self.position = Run.at_start(TURN, policy.limits)
        setting = TurnSetting(policy, has_compactor)
        self.journal = TurnJournal(
            table=TURN.name, counters=TURN.counters, contents=contents, setting=setting
        )
        self._count = count
        self._caller_deadline = deadline
        observer = observer and observer_of(observer, self)
        options: dict[str, Any] = {
            "observer": observer,
            "contents": contents,
            "is_streaming": is_streaming,
        }
        options |= {"within": self.budget, "deadline": deadline} | (
            {} if jitter is None else {"jitter": jitter}
        )
        wants = {"returns": returns, "verdict": verdict}
        self._caller = Caller(policy, tuple(chain), self.tools, options, wants, self._new_call)
        self._conversation = Conversation(request.messages)
        self._resumed = (
            None
            if approvals is None
            else Resumed.of(request.messages, approvals, policy.hints, self.tools)
        )
        if (at := self._resumed) is not None:
            self._conversation = Conversation(
                at.before, pending=at.calling, results=dict(at.results)
            )
            self.position.state = TURN.resumes or TURN.start
        self._paused_at: ToolRound | None = None
        self._repeats = Repeats()
        self._tally = Tally()
        self._drained = 0
        self._recorder = TurnRecorder(self.journal, self.position, self._tally, observer)
        self._round: ToolRound | None = None
        self._call: Call | None = None
        self._cause: str | None = None
        self._error: Exception | None = None
        self._result: TurnResult | None = None
        # refuses an invalid request before anything is sent
        link = self._caller.first(request).link
        definitions = self.tools.definitions(link.shapes)
        self.request = (
            evolve(request, tools=(*request.tools, *definitions)) if definitions else request
        )

    def __repr__(self) -> str:
        position = getattr(self, "position", None)  # tracebacks show half-built objects too
        return f"Turn(state={position.state!r})" if position is not None else "Turn()"

    @property
    def is_over(self) -> bool:
        """Tell whether the turn has ended."""
        return self._result is not None

    @property
    def result(self) -> TurnResult:
        """Return the end of the turn.

        Raises:
            IllegalEvent: the turn has not ended.
        """
        if self._result is None:
            raise IllegalEvent(f"the turn has not ended; it is in state {self.position.state!r}")
        return self._result

    @property
    def deadline(self) -> float | None:
        """Return when the turn must end, in seconds on the driver's clock; None for no limit."""
        return min(
            (each for each in (self._caller_deadline, self.budget.deadline) if each is not None),
            default=None,
        )

    @property
    def messages(self) -> tuple[PlainMessage | Message, ...]:
        """Return the conversation so far, which is valid at any moment, whatever is still in
        flight.
        """
        return self._conversation.completed(self.policy.hints.not_run)

    def begin(self, now: float = 0.0) -> Action | None:
        """Start the turn and return the first thing to do.

        Arguments:
            now: seconds on any monotonic clock.

        Raises:
            IllegalEvent: the turn has already begun.
        """
        self._tally.begin(now)
        self.budget.begin(now)
        if self._caller_deadline is not None:
            self.journal.setting.deadline = self._caller_deadline - now
        return self._act()

    def called(self, result: Result, now: float | None = None) -> Action | None:
        """Take the result of the call and return the next thing to do; None at the end.

        Arguments:
            result: the result of the call, whatever its outcome.
            now: the time; by default the call's own seconds have passed.

        Raises:
            IllegalEvent: no call is in flight.
            ConfigurationError: `result` is not the result of that call. The turn does not change.
        """
        if not isinstance(result, Result):
            raise ConfigurationError(f"result must be a Result, not {type(result).__name__}")
        if self._call is None or self.position.state != TURN.hub:
            raise IllegalEvent(f"no call is being made in state {self.position.state!r}")
        if result.journal is not self._call.journal:
            raise ConfigurationError("result must be that of the call that was to be made")
        self._tally.pass_time(now, result.seconds)
        event = event_of(result)
        self._conversation.add_result(result, event, is_summary=self._is_summary)
        self._settle_call(result)
        has_compactor = self.journal.setting.has_compactor
        has_text = not is_blank(self._conversation.shown)
        facts = facts_of_call(result, self.position, has_compactor=has_compactor, has_text=has_text)
        return self._advance(event, facts, result=result, content=self._conversation.ids)

    def tools_ran(self, outcomes: Sequence[ToolOutcome], now: float | None = None) -> Action | None:
        """Take the outcomes of the tools and return the next thing to do; None at the end.

        Arguments:
            outcomes: one for each run, in their order.
            now: the time; by default none has passed.

        Raises:
            IllegalEvent: no tools are running.
            ConfigurationError: `outcomes` does not match the runs. The turn does not change.
        """
        if self._round is None:
            raise IllegalEvent(f"no tools are being run in state {self.position.state!r}")
        round = self._round
        conversation = self._conversation
        entries = round.entries(outcomes, self.policy)
        self._tally.pass_time(now)
        results = conversation.add_tool_results(entries)
        worked = sum(not each.is_fault for each in results)
        called = [round.calls[entry.place] for entry in entries]
        counts = [self._repeats.count(*pair) for pair in zip(called, results, strict=True)]
        handed_off = round.handed_off(self.tools, conversation)
        self._caller.remember_answer(round)
        self._round = None
        conversation.close("")
        self._paused_at = round if round.awaiting else None
        repeats = max(counts) >= self.policy.same_calls
        found = (worked > 0, repeats, round.is_too_long, bool(handed_off), bool(round.awaiting))
        facts = facts_of(self.position, dict(zip(OF_TOOLS, found, strict=True)))
        note = f"{worked} of {len(results)} calls worked"
        content = {**results_content(results), "handed_off": [call.id for call in handed_off]}
        return self._advance("tools_ran", facts, note=note, content=content, handed_off=handed_off)

    def compacted(
        self, messages: Sequence[PlainMessage | Message] | Exception, now: float | None = None
    ) -> Action | None:
        """Take what the compactor returned and return the next thing to do; None at the end.

        A conversation that is invalid or hardly shorter does not replace the old one.

        Arguments:
            messages: the shorter conversation, or the exception that the compactor raised.
            now: the time; by default none has passed.

        Raises:
            IllegalEvent: the turn is not waiting for a compaction.
        """
        if self.position.state != TURN.hub or self._call is not None or self._round is not None:
            raise IllegalEvent(f"no compaction was asked for in state {self.position.state!r}")
        self._tally.pass_time(now)
        if (late := self._late()) is not None:
            return self._advance("ran_out", (), note=late)
        if isinstance(messages, Exception):
            self._error = messages
        try:
            own = self._conversation.messages
            shorter = accepted(
                messages, plain_messages(own), plain_messages(self.request.messages), self._count
            )
            self._conversation.messages = with_originals(shorter, own)
        except NoHelp as reason:
            return self._advance("stayed_long", (), note=str(reason))
        return self._advance("compacted", ())

    def cancel(
        self, now: float | None = None, outcomes: Sequence[ToolOutcome | None] = ()
    ) -> TurnResult:
        """End the turn and return its result, with everything that arrived. A turn that has ended
        does not change.

        Arguments:
            now: the time; by default none has passed.
            outcomes: the outcomes of the tools that were running, in their order; None for an
                unknown one.
        """
        if self._result is None and self.position.state in OUTCOMES:
            # a signal interrupted the turn while it ended
            row = self.position.row
            steps = self.journal.steps
            assert row is not None
            if not steps or steps[-1].target != row.target:
                self._recorder.record(row)
            self._end(row, "it was interrupted as it ended")
        elif self._result is None:
            if self._tally.began is None:
                self._tally.begin(now or 0.0)
            self._tally.pass_time(now)
            if self._call is not None:
                ended = self._call.cancel(now)
                self._conversation.add_result(ended, "cancelled", is_summary=False)
                self._settle_call(ended)
            content = None
            if self._round is not None and self._conversation.pending is not None:
                entries = self._round.entries(
                    outcomes or [None] * len(self._round.runs), self.policy, may_lack=True
                )
                content = results_content(self._conversation.add_tool_results(entries))
            self._advance("cancelled", (), content=content)
        return self.result

    def drain(self) -> tuple[TurnStep, ...]:
        """Return the steps taken since the last call of this method."""
        steps = self.journal.steps_from(self._drained + 1)
        self._drained = self.journal.size
        return steps  # type: ignore[return-value] # a turn's journal holds only these

    def _act(self) -> Action | None:
        state = self.position.state
        conversation = self._conversation
        policy = self.policy
        remaining = None if self.deadline is None else self.deadline - self._tally.now
        if state not in CALLS and (late := self._late()) is not None:  # a call checks its own time
            row = self.position.fire("ran_out")
            try:
                self._recorder.record(row, note=late)
            finally:
                self._end(row, late)
            return None
        action: Action
        if state in CALLS:
            call = self._caller.next(
                state, self.request, conversation, self._tally.usage.output_tokens
            )
            self._call = call
            self.journal.calls.append(call.journal)
            action = MakeCall(call)
        elif state == "use_tools":
            assert conversation.pending is not None
            decided = None if self._resumed is None else self._resumed.decided
            self._resumed = None
            self._round = ToolRound.of(
                conversation.pending.tool_calls, self.tools, policy, remaining, decided
            )
            runs = tuple(run for _, run in self._round.runs)
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

    def _late(self) -> str | None:
        """Say which limit of time has passed; None if none has."""
        now = self._tally.now
        of_budget = self.budget.deadline
        of_caller = self._caller_deadline
        if of_budget is not None and now >= of_budget:
            return self.budget.shortfall(now)
        return "the deadline has passed" if of_caller is not None and now >= of_caller else None

    def _settle_call(self, result: Result) -> None:
        self._call, self._caller.last = None, result
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
        row = self.position.fire(event, facts)
        cause = cause_of(row, facts, self.policy, result, note)
        if row.target in OUTCOMES:
            try:
                self._recorder.record(row, facts, result=result, note=note, content=content)
            finally:  # also if the observer of the last step is interrupted
                is_summed_up = self._is_summary and row.target == "limit_reached"
                self._end(row, self._cause if is_summed_up else cause, handed_off)
            return None
        notes = filter(None, (counts_of(row.target, self.position.spent_of, self.policy), note))
        self._recorder.record(
            row, facts, result=result, note="; ".join(notes) or None, content=content
        )
        self._cause = cause
        return self._act()

    def _end(self, row: Row, cause: str | None, handed_off: tuple[Any, ...] = ()) -> None:
        self._conversation.close(self.policy.hints.not_run)
        if self._resumed is not None:  # nothing has run: what was approved still waits
            self._conversation.messages = self.request.messages
        self.journal.outcome = row.target
        del self.journal.calls[self.journal.made :]  # a call that was interrupted before its step
        self._call = self._round = None
        paused = self._resumed or self._paused_at
        last = self._caller.last
        self._result = TurnResult(
            outcome=row.target,
            text=self._conversation.shown,
            messages=self._conversation.messages,
            handed_off=handed_off,
            awaiting=() if paused is None else paused.waiting,
            already_run=() if paused is None else paused.already_run,
            usage=self._tally.usage,
            cost=self._tally.money,
            seconds=self._tally.elapsed,
            calls=len(self.journal.calls),
            attempts=self._tally.attempts,
            cause=cause,
            last=last,
            journal=self.journal,
            error=self._error or (last.raised if last is not None else None),
            shapes=self._caller.shapes,
            value=last.value if row.target == "finished" and last is not None else None,
        )
