"""One turn of an agent: the sans-IO core that a driver asks what to do next.

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

Like a call it never sleeps, sends, reads a clock or runs a tool: the driver does, and passes the time in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve

from rungwise.fsm.call.budget.budget import check_deadline
from rungwise.fsm.call.budget.estimate import estimate_tokens
from rungwise.fsm.call.budget.shared import SharedBudget
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.link import Link
from rungwise.fsm.call.conversation.parts import Message, ToolResult
from rungwise.fsm.call.conversation.request import PlainMessage, Request, TurnContext
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.run.chain import shapes_of
from rungwise.fsm.call.run.defaults import NO_CHAIN
from rungwise.fsm.call.run.recording import Observer
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.machine.run import Run
from rungwise.fsm.machine.table import Row
from rungwise.fsm.text.blank import is_blank
from rungwise.fsm.tracebacks import built_without_locals, without_locals
from rungwise.fsm.turn.actions import Action, Compact, MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.compaction import helps, room_for
from rungwise.fsm.turn.conversation import Conversation
from rungwise.fsm.turn.journal import TurnJournal, TurnSetting, TurnStep
from rungwise.fsm.turn.observe import cause_of, counts_of, event_of, facts_of, facts_of_tools
from rungwise.fsm.turn.policy import DEFAULT_TURN_POLICY, TurnPolicy
from rungwise.fsm.turn.recording import Tally, TurnRecorder
from rungwise.fsm.turn.requests import request_of
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.table import CALLS, OUTCOMES, TURN
from rungwise.fsm.turn.tool_round import Repeats, ToolRound
from rungwise.fsm.turn.tools import Toolbox, Tools
from rungwise.fsm.turn.validity import problems_of
from rungwise.fsm.values.records import define


@built_without_locals
@define(init=False, eq=False, repr=False)
class Turn:
    """Run one turn through the machine: calls, the tools between them, and when to stop.

    Arguments:
        request: what the caller asks; the definitions of the tools are added to it.
        policy: how the turn may go on, the policy of its calls, and the budget above all of them.
        chain: the backends in order, as for a call.
        tools: the caller's tools.
        within: a budget that the turn shares with others.
        has_compactor: whether the driver can shorten conversations that do not fit.
        count: counts the input tokens of messages, for compactions.
        observer: is given each step, those of the calls among them; what it raises is logged and goes no further.
        contents: whether journals may hold texts, tool calls and results.
        is_streaming: whether the driver hands on what its calls say.
        jitter: returns a number from 0 to 1 for each wait of a call.
        deadline: when the turn must have ended, on the driver's clock, beside the seconds of its budget.

    Raises:
        ConfigurationError: something is not of its form, no backend can be used, or prices are missing for a budget.
    """

    request: Request
    policy: TurnPolicy
    tools: Toolbox
    journal: TurnJournal
    position: Run
    budget: SharedBudget
    _given_deadline: float | None
    _chain: tuple[Link, ...]
    _options: dict[str, Any]
    _count: Callable[[Any], int]
    _recorder: TurnRecorder
    _conversation: Conversation
    _repeats: Repeats
    _prior_answer: str | None
    _round: ToolRound | None
    _call: Call | None
    _last: Result | None
    _tally: Tally
    _why: str | None
    _error: Exception | None
    _drained: int
    _result: TurnResult | None

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
    ) -> None:
        for name, value, kind in (("request", request, Request), ("policy", policy, TurnPolicy)):
            if not isinstance(value, kind):
                raise ConfigurationError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
        check_deadline(deadline)
        self.policy, self.tools, self._given_deadline = policy, Toolbox.of(tools), deadline
        if self.tools and "tools" in request.parameters:
            raise ConfigurationError("Request.parameters cannot set 'tools' beside the tools of the turn")
        self.budget = SharedBudget(policy.budget, within, name="the turn's budget")
        self.position = Run.at_start(TURN, policy.limits)
        setting = TurnSetting(policy, has_compactor)
        self.journal = TurnJournal(table=TURN.name, counters=TURN.counters, contents=contents, setting=setting)
        self._chain, self._count = tuple(chain), count
        self._options = {"observer": observer, "contents": contents, "is_streaming": is_streaming}
        self._options |= {} if jitter is None else {"jitter": jitter}
        self._conversation = Conversation(request.messages)
        self._repeats = Repeats()
        self._tally, self._drained = Tally(), 0
        self._recorder = TurnRecorder(self.journal, self.position, self._tally, observer)
        self._prior_answer = self._round = self._call = self._last = self._why = self._error = self._result = None
        link = self._new_call(request).link  # which refuses what no call can be given, before anything is sent
        definitions = self.tools.definitions(shapes_of(link))
        self.request = evolve(request, tools=(*request.tools, *definitions)) if definitions else request

    def __repr__(self) -> str:
        position = getattr(self, "position", None)  # tracebacks show what is only half made, too
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
        """Return when the turn must have ended, on the driver's clock; None if its time has no limit."""
        return min((each for each in (self._given_deadline, self.budget.deadline) if each is not None), default=None)

    @property
    def messages(self) -> tuple[PlainMessage | Message, ...]:
        """Return the conversation so far; it is valid at any moment, whatever is still in flight."""
        return self._conversation.whole(self.policy.hints.not_run)

    @without_locals
    def begin(self, now: float = 0.0) -> Action | None:
        """Start the turn and return the first thing to do.

        Arguments:
            now: seconds on any clock that only goes forward.

        Raises:
            IllegalEvent: the turn has begun already.
        """
        self._tally.begin(now)
        self.budget.begin(now)
        if self._given_deadline is not None:
            self.journal.setting.deadline = self._given_deadline - now
        return self._act()

    @without_locals
    def called(self, result: Result, now: float | None = None) -> Action | None:
        """Take what the call that was to be made ended with, and return the next thing to do; None at the end.

        Arguments:
            result: its result, whatever the outcome.
            now: the time; left out, as much has passed as the call took.

        Raises:
            IllegalEvent: no call is being made.
            ConfigurationError: this is no result; the turn is as it was.
        """
        if not isinstance(result, Result):
            raise ConfigurationError(f"result must be a Result, not {type(result).__name__}")
        if self._call is None or self.position.state != TURN.hub:
            raise IllegalEvent(f"no call is being made in state {self.position.state!r}")
        if result.journal is not self._call.journal:
            raise ConfigurationError("result must be that of the call that was to be made")
        self._tally.pass_time(now, result.seconds)
        is_summary = self._is_summary
        event = event_of(result)
        self._conversation.take(result, event, is_summary=is_summary)
        self._settle_call(result)
        facts = facts_of(result, self.position, has_compactor=self.journal.setting.has_compactor, is_summary=is_summary)
        asked = self._conversation.asked
        content = None if asked is None else {"ids": [call.id for call in asked.tool_calls]}
        return self._advance(event, facts, result=result, content=content)

    @without_locals
    def tools_ran(self, outcomes: Sequence[ToolOutcome], now: float | None = None) -> Action | None:
        """Take what came of the tools that were to be run, in their order, and return the next thing to do.

        Arguments:
            outcomes: one for each run.
            now: the time; left out, none has passed.

        Raises:
            IllegalEvent: no tools are being run.
            ConfigurationError: these are no outcomes of the runs; the turn is as it was.
        """
        if self._round is None:
            raise IllegalEvent(f"no tools are being run in state {self.position.state!r}")
        round, conversation = self._round, self._conversation
        told = list(round.outcomes(outcomes, self.policy))
        self._tally.pass_time(now)
        results = [conversation.tell(place, text, is_fault=is_fault) for place, text, is_fault in told]
        worked = sum(not each.is_fault for each in results)
        counts = [self._repeats.count(*pair) for pair in zip(round.calls, results, strict=True)]
        handed_off = round.handed_off(self.tools, conversation)
        self._remember_answer(round)
        self._round = None
        conversation.close("")
        facts = facts_of_tools(
            self.position,
            tool_worked=worked > 0,
            repeats_calls=max(counts) >= self.policy.same_calls,
            over_tool_limit=round.is_too_long,
            was_handed_off=bool(handed_off),
        )
        note = f"{worked} of {len(results)} calls worked"
        content = {**_in_journal(results), "handed_off": [call.id for call in handed_off]}
        return self._advance("tools_ran", facts, note=note, content=content, handed_off=handed_off)

    @without_locals
    def compacted(
        self, messages: Sequence[PlainMessage | Message] | Exception, now: float | None = None
    ) -> Action | None:
        """Take what the compactor made of the conversation, and return the next thing to do.

        What is no valid conversation, or hardly shorter, is no help; the conversation is then as it was.

        Arguments:
            messages: the conversation that it left, or what it raised.
            now: the time; left out, none has passed.

        Raises:
            IllegalEvent: no compaction was asked for.
        """
        if self.position.state != TURN.hub or self._call is not None or self._round is not None:
            raise IllegalEvent(f"no compaction was asked for in state {self.position.state!r}")
        self._tally.pass_time(now)
        if (late := self._late()) is not None:
            return self._advance("ran_out", (), note=late)
        if isinstance(messages, Exception):
            self._error = messages
            return self._advance("stayed_long", (), note=f"the compactor raised {type(messages).__name__}")
        try:
            shorter = Request(() if isinstance(messages, str) else messages).messages
        except ConfigurationError:
            return self._advance("stayed_long", (), note="what the compactor returned is no conversation")
        if (fault := self._broken_by(shorter)) is not None:
            return self._advance("stayed_long", (), note=f"what the compactor returned is not valid: {fault}")
        if not helps(self._conversation.messages, shorter, self._count):
            return self._advance("stayed_long", (), note="the conversation is hardly shorter")
        self._conversation.messages = shorter
        return self._advance("compacted", ())

    def _broken_by(self, shorter: tuple[PlainMessage | Message, ...]) -> str | None:
        """Say what a compaction has broken, such as a tool call that it parted from its result, if anything."""
        follows = Message.saying("assistant", "An answer.")
        if problems_of((*self._conversation.messages, follows), given=self.request.messages):
            return None  # the caller's own messages were like that
        return next(iter(problems_of((*shorter, follows), given=shorter)), None)

    def cancel(self, now: float | None = None, outcomes: Sequence[ToolOutcome | None] = ()) -> TurnResult:
        """End the turn; what was gathered stays in the result. A turn that has ended is left as it is.

        Arguments:
            now: the time; left out, none has passed.
            outcomes: what came of the tools that were being run, in their order; None where nothing is known.
        """
        if self._result is None and self.position.state in OUTCOMES:
            self._end_after_all()
        elif self._result is None:
            if self._tally.began is None:
                self._tally.begin(now or 0.0)
            self._tally.pass_time(now)
            if self._call is not None:
                ended = self._call.cancel(now)
                self._conversation.take(ended, "cancelled", is_summary=False)
                self._settle_call(ended)
            content = None
            if self._round is not None and self._conversation.asked is not None:
                known = outcomes or [None] * len(self._round.runs)
                found = self._round.outcomes(known, self.policy, may_lack=True)
                told = [self._conversation.tell(place, text, is_fault=is_fault) for place, text, is_fault in found]
                content = _in_journal(told)
            self._advance("cancelled", (), content=content)
        return self.result

    def drain(self) -> tuple[TurnStep, ...]:
        """Return the steps that were taken since this was last asked."""
        steps = self.journal.steps_from(self._drained + 1)
        self._drained = self.journal.size
        return steps  # type: ignore[return-value] # a turn's journal holds no others

    # what comes next

    def _act(self) -> Action | None:
        """Return what the rung does, or end the turn where its time is up."""
        state, conversation, policy = self.position.state, self._conversation, self.policy
        deadline = self.deadline
        left = None if deadline is None else deadline - self._tally.now
        if state not in CALLS and (late := self._late()) is not None:  # a call sees this for itself
            row = self.position.fire("ran_out")
            try:
                self._recorder.record(row, note=late)
            finally:
                self._end(row, late)
            return None
        action: Action
        if state in CALLS:
            call = self._call = self._new_call(self._request_in(state))
            self.journal.calls.append(call.journal)
            action = MakeCall(call)
        elif state == "use_tools":
            assert conversation.asked is not None
            self._round = ToolRound.of(conversation.asked.tool_calls, self.tools, policy, left)
            action = RunTools(tuple(run for _, run in self._round.runs), policy.calls_at_once, left)
        else:
            room = room_for(conversation.messages, policy.window, self._cap, self._count)
            action = Compact(conversation.messages, room)
        self._recorder.record(self.position.fire("sent"))
        return action

    def _new_call(self, request: Request) -> Call:
        prior = self._prior_answer
        turn = TurnContext(
            prior, only_housekeeping=prior is not None, is_shown=True, gathered=self._conversation.gathered
        )
        options = {"within": self.budget, "deadline": self._given_deadline, **self._options}
        return Call(request, self.policy.of_calls, self._chain, turn, **options)

    def _request_in(self, state: str) -> Request:
        hints, written = self.policy.hints, self._tally.usage.output_tokens
        return request_of(state, self.request, self._conversation, hints=hints, shapes=self._shapes, written=written)

    @property
    def _shapes(self) -> Shapes:
        return self._last.shapes if self._last is not None else shapes_of(self._chain[0])

    @property
    def _cap(self) -> int:
        return self.request.max_tokens or self.policy.of_calls.base_cap

    @property
    def _is_summary(self) -> bool:
        return self.position.spent_of("summaries") > 0

    def _late(self) -> str | None:
        """Say whose time is up, if any is."""
        given, of_budget, now = self._given_deadline, self.budget.deadline, self._tally.now
        if of_budget is not None and now >= of_budget:
            return self.budget.lacking(now)
        return "the deadline has passed" if given is not None and now >= given else None

    # what came back

    def _settle_call(self, result: Result) -> None:
        self._call, self._last = None, result
        self._tally.add(result)

    def _remember_answer(self, round: ToolRound) -> None:
        """Remember the text beside housekeeping tools as an answer; any other tool makes it out of date."""
        assert self._last is not None
        if not all(self.tools.is_housekeeping(call.name) for call in round.calls):
            self._prior_answer = None
        elif not is_blank(self._last.text):
            self._prior_answer = self._last.text

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
        """Fire the event and go where the table leads."""
        row = self.position.fire(event, facts)
        why = cause_of(row, facts, self.policy, result, note)
        if row.target in OUTCOMES:
            try:
                self._recorder.record(row, facts, result=result, note=note, content=content)
            finally:  # also where the observer of the last step is interrupted
                self._end(row, self._why if self._is_summary and row.target == "limit_reached" else why, handed_off)
            return None
        counts = counts_of(self.position, row, self.policy)
        told = "; ".join(filter(None, (counts, note))) or None
        self._recorder.record(row, facts, result=result, note=told, content=content)
        self._why = why
        return self._act()

    def _end_after_all(self) -> None:
        """End a turn that a signal has interrupted as it ended."""
        row, steps = self.position.row, self.journal.steps
        assert row is not None
        if not steps or steps[-1].target != row.target:
            self._recorder.record(row)
        self._end(row, "it was interrupted as it ended")

    def _end(self, row: Row, cause: str | None, handed_off: tuple[Any, ...] = ()) -> None:
        """Close the conversation and settle."""
        self._conversation.close(self.policy.hints.not_run)
        self.journal.outcome = row.target
        del self.journal.calls[self.journal.made :]  # one that was interrupted before it was made
        self._call = self._round = None
        tally = self._tally
        self._result = TurnResult(
            outcome=row.target,
            text=self._conversation.shown,
            messages=self._conversation.messages,
            handed_off=handed_off,
            usage=tally.usage,
            cost=tally.cost,
            seconds=tally.elapsed,
            calls=len(self.journal.calls),
            attempts=tally.attempts,
            cause=cause,
            last=self._last,
            journal=self.journal,
            error=self._error,
            shapes=self._shapes,
        )


def _in_journal(results: Sequence[ToolResult]) -> dict[str, Any]:
    return {"results": [[each.id, each.name, each.text, each.is_fault] for each in results]}
