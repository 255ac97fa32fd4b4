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

from collections.abc import Sequence

from rungwise.fsm.call.conversation.plain import plain_messages, with_originals
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.turn.actions import Action, ToolOutcome
from rungwise.fsm.turn.compaction import NoHelp, accepted
from rungwise.fsm.turn.observe import event_of, facts_of, facts_of_call
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.steps import TurnSteps
from rungwise.fsm.turn.table import OUTCOMES, TURN
from rungwise.fsm.turn.turn_journal import TurnStep, results_content


class Turn(TurnSteps):
    """Run one turn through the machine: its calls, the tools between them, and when to stop.

    Arguments:
        request: what the caller asks; the turn adds the definitions of the tools.
        policy: how often the turn may continue by itself, the policy of its calls, and the budget
            of the whole turn.
        chain: the backends in order, as for a call.
        tools: the caller's tools.
        within: a budget that the turn shares with others.
        has_compactor: whether the driver can shorten a conversation that does not fit.
        count: counts the input tokens of messages, for compactions.
        observer: called with each step, those of the calls included; an exception that it raises is
            logged.
        contents: whether journals may hold texts, tool calls and results.
        is_streaming: whether the driver hands on the text of the calls as it arrives.
        jitter: returns a number from 0 to 1 for each wait of a call.
        deadline: when the turn must end, in seconds on the driver's clock; the budget's seconds
            count too.
        returns, verdict: what the final answer must be, and what judges it; see
            `rungwise.core.Call`.
        approvals: for each tool call that waits at the end of the messages, by its id, True or why
            it is refused.

    Raises:
        ConfigurationError: an argument is invalid, no backend can be used, or prices are missing
            for a budget.
    """

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
        return self._ends_by()

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
        repeats_calls = False
        for entry, result in zip(entries, results, strict=True):
            count = self._repeats.count(round.calls[entry.place], result)
            repeats_calls = repeats_calls or count >= self.policy.same_calls
        handed_off = round.handed_off(self.tools, conversation)
        self._caller.remember_answer(round)
        self._round = None
        conversation.close("")
        self._paused_at = round if round.awaiting else None
        found = {
            "tool_worked": worked > 0,
            "repeats_calls": repeats_calls,
            "over_tool_limit": round.is_too_long,
            "was_handed_off": bool(handed_off),
            "awaits_approval": bool(round.awaiting),
        }
        facts = facts_of(self.position, found)
        note = f"{worked} of {len(results)} calls worked"
        content = results_content(results)
        content["handed_off"] = [call.id for call in handed_off]
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
        late = self._late()
        if late is not None:
            return self._advance("ran_out", (), note=late)
        if isinstance(messages, Exception):
            self._error = messages
        try:
            own = self._conversation.messages
            callers = plain_messages(self.request.messages)
            shorter = accepted(messages, plain_messages(own), callers, self._count)
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
                outcomes = outcomes or [None] * len(self._round.runs)
                entries = self._round.entries(outcomes, self.policy, may_lack=True)
                content = results_content(self._conversation.add_tool_results(entries))
            self._advance("cancelled", (), content=content)
        return self.result

    def drain(self) -> tuple[TurnStep, ...]:
        """Return the steps taken since the last call of this method."""
        steps = self.journal.steps_from(self._drained + 1)
        self._drained = self.journal.size
        return steps  # type: ignore[return-value] # a turn's journal holds only these
