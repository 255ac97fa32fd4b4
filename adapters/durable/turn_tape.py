"""What a turn was told, recorded together with what its calls were told; see `tape.py`.

Tools act on the world, so an entry says which of them may have begun, before they do. One that may
have begun and whose outcome is not on the tape ran as long as its process did, and nobody knows how
far it came: it is run again only if it is `repeatable`. The model gets the outcome of each tool as
the tape has it, after a crash or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from attrs import define, evolve, field

from rungwise.adapters.durable.forms import (
    Plain,
    name_of_error,
    plain_outcome,
    read_outcome,
    recorded_error,
)
from rungwise.adapters.durable.recorded import Entry, Recorded
from rungwise.adapters.durable.tape import RecordedCall
from rungwise.fsm.call.conversation.plain import stored
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.call.run.recording import observer_of, silent
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import Message
from rungwise.fsm.turn.actions import Action, MakeCall, RunTools, ToolOutcome
from rungwise.fsm.turn.result import TurnResult
from rungwise.fsm.turn.turn import Turn
from rungwise.fsm.values.money import as_money

UNKNOWN: Final = "its process ended while it ran: nobody knows whether it has taken effect"
"""The result of a tool that may have run."""

Running = Sequence[ToolOutcome | None]
"""The outcomes of the tools that were handed out, in order; None for one that has not ended."""


@define(eq=False)
class ToolsSoFar:
    """Know of the tools of one round, by their places."""

    handed_out: Sequence[int]  # those that the driver was given; all, but after a crash
    begun: set[int] = field(factory=set)  # those that may have begun
    ended: dict[int, Plain] = field(factory=dict)  # the outcomes

    def news(self, outcomes: Running) -> dict[int, Plain]:
        """Return the outcomes that are not known yet, of those that were handed out."""
        news = {}
        for place, outcome in zip(self.handed_out, outcomes, strict=True):
            if outcome is not None and place not in self.ended:
                news[place] = plain_outcome(outcome)
        return news

    def merged(self, outcomes: Running) -> list[Plain | None]:
        """Return what is known of each, with the outcomes of those that were handed out."""
        known = self.ended | self.news(outcomes)
        return [known.get(place) for place in sorted({*self.handed_out, *known})]


def read_running(plain: Iterable[Plain | None]) -> Running:
    """Return the outcomes that a tape has of tools, some of which have not ended."""
    return [None if each is None else read_outcome(each) for each in plain]


class RecordedTurn(Recorded, Turn):
    """A turn that records what it is told. The arguments are those of `Turn`."""

    def __init__(self, *args: Any, jitter: Callable[[], float], **kwargs: Any) -> None:
        self.tape: list[Entry] = []
        self._to_come: deque[Entry] = deque()  # while it is restored
        self._action: Action | None = None  # what it waits for
        self._tools = ToolsSoFar(())
        super().__init__(*args, jitter=jitter, **kwargs)

    @property
    def spent(self) -> Plain:
        """Return what is spent of its budget; an attempt in flight counts as if it used all that it
        may.
        """
        committed = self.budget.committed
        seconds = self._tally.elapsed
        if self._call is not None:
            seconds += self._call.spending.elapsed
        return {
            "attempts": committed.attempts,
            "seconds": seconds,
            "output_tokens": committed.tokens,
            "money": as_money(committed.money),
        }

    def restore(self, tape: Iterable[Entry]) -> None:
        """Tell a new turn what is on a tape; see `Recorded`."""
        self._to_come.extend(tape)
        super().restore(tuple(self._to_come))
        if isinstance(self._action, MakeCall):
            call = self._current_call
            observer = self._recorder.observer
            call.observe(observer and observer_of(observer, call))

    def resume(
        self,
        now: float,
        deadline: float | None,
        gone: float,
    ) -> None:
        """Go on with a turn that was restored; see `RecordedCall`."""
        self._move_deadline(deadline)
        self._note("resume turn", now, deadline=deadline)
        if isinstance(self._action, MakeCall):
            self._current_call.resume(now, deadline, gone)
        elif isinstance(self._action, RunTools):
            self._action = self._rest_of(self._action, now)

    def _rest_of(self, action: RunTools, now: float) -> RunTools:
        """Return the tools that are still to be run; those that may have run are not among them."""
        tools = self._tools
        for place in tools.begun - tools.ended.keys():
            if not action.runs[place].tool.repeatable:
                tools.ended[place] = {"fault": UNKNOWN}
        places = range(len(action.runs))
        tools.handed_out = [place for place in places if place not in tools.ended]
        runs = [action.runs[place] for place in tools.handed_out]
        seconds = None
        if self.deadline is not None:
            seconds = max(self.deadline - now, 0.0)
        return evolve(action, runs=tuple(runs), seconds=seconds)

    def begin(self, now: float = 0.0) -> Action | None:
        """Start the turn, or go on with one that was restored; see `Turn`."""
        if self.tape:
            return self._action
        action = super().begin(now)
        self._note("turn", now, started=self.journal.started, deadline=self._caller_deadline)
        return action

    def called(self, result: Result, now: float | None = None) -> Action | None:
        """Take the result of the call; see `Turn`."""
        action = super().called(result, now)
        self._note("called", now)
        return action

    def note_tools(self, count: int, outcomes: Running) -> None:
        """Note that so many of the tools that were handed out may have begun, and what has come of
        others.
        """
        tools = self._tools
        begun = [place for place in tools.handed_out[:count] if place not in tools.begun]
        ended = tools.news(outcomes)
        if begun or ended:
            tools.begun.update(begun)
            tools.ended.update(ended)
            self._note("tools", None, begun=begun, ended=list(ended.items()))

    def tools_ran(self, outcomes: Sequence[ToolOutcome], now: float | None = None) -> Action | None:
        """Take the outcomes of the tools; see `Turn`."""
        plain = self._tools.merged(outcomes)
        action = super().tools_ran([read_outcome(each) for each in plain if each is not None], now)
        self._note("ran", now, outcomes=plain)
        return action

    def compacted(
        self, messages: Sequence[PlainMessage | Message] | Exception, now: float | None = None
    ) -> Action | None:
        """Take what the compactor returned; see `Turn`."""
        shorter = messages
        plain = None
        if not isinstance(shorter, Exception):
            try:
                plain = [stored(message) for message in Request(shorter).messages]
            except ConfigurationError as error:
                shorter = error
        raised = name_of_error(shorter) if isinstance(shorter, Exception) else None
        action = super().compacted(shorter, now)
        self._note("shortened", now, messages=plain, raised=raised)
        return action

    def cancel(self, now: float | None = None, outcomes: Running = ()) -> TurnResult:
        """End the turn; see `Turn`."""
        was_over = self.is_over
        plain = self._tools.merged(outcomes) if outcomes else []
        result = super().cancel(now, read_running(plain))
        if not was_over:
            self._note("stopped", now, outcomes=plain)
        return result

    def retell(self, entry: Entry) -> None:
        """Tell the turn one entry again, without recording that.

        An entry that is not of a turn is for the call that it waits for.
        """
        self._to_come.popleft()
        now = entry["now"]
        match entry["did"]:
            case "turn":
                self.journal.started = entry.get("started")
                self._action = super().begin(now)
            case "resume turn":
                self._move_deadline(entry["deadline"])
            case "called":
                result = self._current_call.result
                self._action = super().called(result, now)
            case "tools":
                self._tools.begun.update(entry["begun"])
                self._tools.ended.update(entry["ended"])
            case "ran":
                outcomes = [read_outcome(each) for each in entry["outcomes"]]
                self._action = super().tools_ran(outcomes, now)
            case "shortened":
                error = recorded_error(entry["raised"])
                shorter = entry["messages"] if error is None else error
                self._action = super().compacted(shorter, now)
            case "stopped":
                super().cancel(now, read_running(entry["outcomes"]))
                self._action = None
            case _:
                self._current_call.retell(entry)

    @property
    def _current_call(self) -> RecordedCall:
        """Return the call that the turn waits for."""
        assert isinstance(self._action, MakeCall)
        assert isinstance(self._action.call, RecordedCall)
        return self._action.call

    def _move_deadline(self, deadline: float | None) -> None:
        self._caller_deadline = self._caller.options["deadline"] = deadline

    def _new_call(self, *args: Any, **options: Any) -> RecordedCall:
        """Make a call that records on the tape of the turn, with what it knew if it had begun
        already.
        """
        if self._to_come:
            options["observer"] = silent
            begun = next((each for each in self._to_come if each["did"] == "begin"), None)
            if begun is not None:
                options["lessons"] = RecordedCall.setting_of([begun])["lessons"]
        call = RecordedCall(*args, **options)
        call.tape = self.tape
        return call

    def _act(self) -> Action | None:
        action = super()._act()
        if isinstance(action, RunTools):
            self._tools = ToolsSoFar(range(len(action.runs)))
        return action
