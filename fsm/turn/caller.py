"""The calls that a turn makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import Link
from rungwise.fsm.call.conversation.request import Request, TurnContext
from rungwise.fsm.call.conversation.shapes import Shapes
from rungwise.fsm.call.run.result import Result
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.turn.conversation import Conversation, request_of
from rungwise.fsm.turn.policy import TurnPolicy
from rungwise.fsm.turn.tool_round import ToolRound
from rungwise.fsm.turn.tools import Toolbox


@define
class TurnCaller:
    """Build the calls of a turn from the conversation so far."""

    policy: TurnPolicy
    chain: Sequence[Link]
    tools: Toolbox
    options: dict[str, Any]  # of every call
    wants: dict[str, Any]  # what the answer must be, which a summary need not
    new: Callable[..., Call] = Call  # makes a call
    # An answer that stood beside calls of housekeeping tools, and is not stale.
    prior_answer: str | None = field(default=None, init=False)
    last: Result | None = field(default=None, init=False)

    @property
    def shapes(self) -> Shapes:
        """Return the message format of the last backend."""
        if self.last is None:
            return self.chain[0].shapes
        return self.last.shapes

    def first(self, request: Request) -> Call:
        """Build the call that sends a request as it is."""
        return self._call(request, "", self.wants)

    def next(
        self,
        state: str,
        first: Request,
        conversation: Conversation,
        written: int,
    ) -> Call:
        """Build the call of a state.

        Arguments:
            state: the state of the machine.
            first: the request of the turn.
            conversation: everything since.
            written: the output tokens of the calls so far.
        """
        request = request_of(
            state,
            first,
            conversation,
            self.policy.hints,
            self.shapes,
            written=written,
            keeps_choice=self.policy.keep_tool_choice,
        )
        wants = {} if state == "summarize" else self.wants
        return self._call(request, conversation.gathered, wants)

    def _call(
        self,
        request: Request,
        gathered: str,
        wants: dict[str, Any],
    ) -> Call:
        turn = TurnContext(
            prior_answer=self.prior_answer,
            only_housekeeping=self.prior_answer is not None,
            is_shown=True,
            gathered=gathered,
            runs_tools=True,
        )
        return self.new(request, self.policy.of_calls, self.chain, turn, **self.options, **wants)

    def remember_answer(self, round: ToolRound) -> None:
        """Remember the text beside housekeeping tools as an answer; any other tool makes it
        stale.
        """
        if self.last is None:  # the answer stands in an earlier turn
            return
        if not all(self.tools.is_housekeeping(call.name) for call in round.calls):
            self.prior_answer = None
        elif not is_blank(self.last.text):
            self.prior_answer = self.last.text
