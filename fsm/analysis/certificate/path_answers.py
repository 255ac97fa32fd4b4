"""What backends answer along a path of the search, each attempt at its dearest.

See `enactment.py` for the theory.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, evolve, field, frozen

from rungwise.fsm.call.budget.costs import dearest_prompt, price_of, price_of_output
from rungwise.fsm.call.budget.estimate import BYTES_A_TOKEN
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.clocks.waiting import longest_wait
from rungwise.fsm.call.conversation.observation import UNCLEAR, WRONG
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.call.play import Answers, Arrival
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.table import keeps_asked_wait
from rungwise.fsm.engine.checker.moves import Move
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply, StopReason
from rungwise.fsm.values.money import as_money
from rungwise.fsm.values.usage import Usage

JUST_BEFORE = 2.0**-32
"""The part of the seconds by which a wait ends before the budget: one that ends together with it is
not made.
"""

SHORTEST_TEXT = 12
"""Bytes of a part that stitching keeps: it could take a shorter one for a restart."""

_FAILURES: Mapping[str, Reason] = {
    "malformed": "malformed",
    "rejected_fixably": "parameter_unsupported",
    "failed_permanently": "auth",
    "refused": "content_policy",
}
_STOPS: Mapping[str, StopReason] = {
    "truncated": "length",
    "paused": "paused",
    "overflowed": "overflow",
}


@frozen
class EnactedAttempt:
    """Hold one attempt of a path that was played to a call.

    Arguments:
        backend: which, counted from 0.
        wait: seconds before it.
        seconds: that it lasted.
        closing: seconds that closing its connection took.
        is_late: whether it left no time for another attempt at the same backend.
        came: what came back.
    """

    backend: int
    wait: float
    seconds: float
    closing: float
    is_late: bool
    came: Reply | Failure = field(repr=False)


@define
class PathAnswers(Answers):
    """Answer calls along a path of the search, each attempt at its dearest.

    Arguments:
        policy: of the calls.
        prices: of each backend; None where they are unknown.
        input_tokens: of the request.
        passing: the reason of transient failures.
        name: of the worst case, which says what is dear.
        longest: bytes of a part of text.
        asks: whether failures request a wait.
        attempts: those of all calls so far, in order.
    """

    policy: Policy
    prices: Sequence[Prices | None]
    input_tokens: int
    passing: Reason
    name: str
    longest: int = SHORTEST_TEXT
    asks: bool = True
    attempts: list[EnactedAttempt] = field(factory=list, init=False)
    _last: Reply = field(init=False)  # ends the call
    _todo: deque[Move] = field(factory=deque, init=False)  # the rest of the path
    _move: Move | None = field(default=None, init=False)  # what the attempt before was to cause
    _is_over: bool = field(default=False, init=False)  # whether the last reply was given
    _number: int = field(default=0, init=False)  # of the move, over all calls

    @property
    def lasts(self) -> bool:
        """Tell whether attempts last as long as they may; otherwise they take no time."""
        return self.name == "seconds"

    @property
    def fills(self) -> bool:
        """Tell whether a requested wait that is too long is cut to the remaining time."""
        return self.name == "waiting seconds"

    def along(self, moves: Iterable[Move], last: Reply) -> PathAnswers:
        """Begin a call: answer it along a path, and end it with a reply."""
        start = self.policy.table.start
        self._todo = deque(moves)
        if self._todo and self._todo[0].row.source == start:  # nothing is sent there
            self._todo.popleft()
        self._last = last
        self._move = None
        self._is_over = False
        return self

    def proposed(self, call: Call, send: Send) -> Send | None:
        """Compare where the call went with the path, and stop after the last reply."""
        if self._is_over:
            return None
        if self._move is not None:
            self._reorder(call.position.state, self._move)
            if self.is_filled(call, send):
                self._todo.clear()
        return send

    def _reorder(self, state: str, move: Move) -> None:
        """Exchange a move with a later one that the call took first."""
        if state == move.row.target:
            return
        for index, other in enumerate(self._todo):
            if other.row.target == state:
                del self._todo[index]
                self._todo.appendleft(move)
                return

    def answer(
        self,
        call: Call,
        sent: Send,
        now: float,
    ) -> Arrival:
        """Return what causes the next move; after the path, the reply that ends the call.

        That reply costs as much as it may, too.
        """
        if not self._todo:
            self._is_over = True
            reply = evolve(self._last, usage=self.usage(sent))
            return self._recorded(sent, reply, now, self._end_of_attempt(call, now))
        move = self._todo.popleft()
        self._move = move
        self._number += 1
        end = self._end_of_attempt(call, now)
        is_detour = move.via is not None
        ends_by = call.clocks().ends_by
        if is_detour and ends_by is not None:  # too late for another attempt at this backend
            end = max(end, ends_by)
        came = self.reply_for(move.via or move, call, sent, is_detour=is_detour)
        return self._recorded(sent, came, now, end, is_late=is_detour)

    def _recorded(
        self, sent: Send, came: Reply | Failure, now: float, end: float, *, is_late: bool = False
    ) -> Arrival:
        """Record an attempt, and return what comes back from it.

        Arguments:
            sent: what went out.
            came: what comes back.
            now: when it went out, in seconds on the clock.
            end: when it ends, its connection closed.
            is_late: whether it leaves no time for another attempt at the same backend.
        """
        closing = CLOSING if self.lasts else 0.0
        self.attempts.append(
            EnactedAttempt(
                backend=sent.backend,
                wait=sent.wait,
                seconds=end - closing - now,
                closing=closing,
                is_late=is_late,
                came=came,
            )
        )
        return Arrival(came, end)

    def _end_of_attempt(self, call: Call, now: float) -> float:
        """Return when the attempt in flight ends, its connection closed."""
        if not self.lasts:
            return now
        ends = []
        total = self.policy.timeouts.total
        if total is not None:
            ends.append(now + total)
        ends_by = call.clocks().ends_by
        if ends_by is not None:
            ends.append(ends_by)
        return min(ends) + CLOSING

    def usage(self, send: Send) -> Usage:
        """Return the most tokens that an attempt may count as, each at its dearest price."""
        prompt = self.input_tokens + send.added_tokens
        output = most_counted(send.max_tokens or 0)
        price = self.prices[send.backend]
        if price is None:
            return Usage(prompt, output)
        cost = dearest_prompt(prompt, price) + price_of_output(output, price)
        dearest = Usage(prompt, output, cost=as_money(cost))
        plain = Usage(prompt, output)
        return plain if price_of(plain, price) == cost else dearest

    def text(self, send: Send) -> str:
        """Return as much text as the cap allows, with no part twice."""
        size = min(BYTES_A_TOKEN * (send.max_tokens or 0), self.longest)
        size = max(size, SHORTEST_TEXT)
        unit = f"part {self._number} word "
        words = [f"{unit}{count} " for count in range(size // len(unit) + 1)]
        return "".join(words)[: size - 1] + "."

    def reply_for(
        self, move: Move, call: Call, send: Send, *, is_detour: bool = False
    ) -> Reply | Failure:
        """Return what causes the event and the facts of a move.

        Arguments:
            move: the move.
            call: the call, with an attempt in flight.
            send: what went out.
            is_detour: whether no attempt follows in the rung of the move, so that a requested wait
                would have no effect.
        """
        event = move.row.event
        if move.facts.get("connection_was_stale"):
            return Failure("connection", is_stale=True)
        requested = None if is_detour else self.requested_wait(move, call)
        if move.row.target == "retry" and self.may_fail_instead(call, event):
            event = "failed_transiently"  # the call leaves a backend after few broken streams
        usage = self.usage(send)
        reason = self.reason_for(event, move.row.target)
        if reason is not None:
            # An error inside a stream, after reasoning has used up the cap.
            failure = Failure(reason, asked_wait=requested, parameter=f"p{self._number}")
            return Reply(usage=usage, interrupted=True, failure=failure)
        text = self.text(send)
        if event == "interrupted":
            visible = text if move.facts.get("added_text", True) else ""
            failure = Failure("connection", asked_wait=requested)
            return Reply(visible, usage=usage, interrupted=True, failure=failure)
        if event == UNCLEAR:
            # At the cap it would be a cut one.
            below = max(0, (send.max_tokens or 0) - 1)
            usage = evolve(usage, output_tokens=below, estimated=below == 0)
        return self.whole_reply(event, text, usage)

    def reason_for(self, event: str, target: str) -> Reason | None:
        """Return the reason of a failure that causes an event and leads to a rung.

        None if no failure causes it.
        """
        if target == "fallback":
            return "model_not_found"  # leaves a backend, whatever else it could still try
        if target == "rotate":
            return "rate_limit" if event == "failed_transiently" else "auth"
        if event == "failed_transiently":
            return self.passing
        return _FAILURES.get(event)

    def whole_reply(
        self,
        event: str,
        text: str,
        usage: Usage,
    ) -> Reply:
        """Return a reply that ends by itself and causes an event, different each time."""
        if event in ("tools_truncated", "json_truncated"):
            calls = (ToolCall("1", "look_up", "{"),)
            return Reply(tool_calls=calls, usage=usage, stop_reason="length")
        if event in WRONG.values():  # nobody needs to judge what is no object
            calls = (ToolCall(f"call_{self._number}", "look_up", json.dumps([text])),)
            return Reply(tool_calls=calls, usage=usage, stop_reason="stop")
        if event == "only_reasoned":
            return Reply(reasoning=text, usage=usage, stop_reason="stop")
        if event == "reasoning_truncated":
            return Reply(reasoning=text, usage=usage, stop_reason="length")
        if event == UNCLEAR:
            return Reply(text, usage=usage, stop_reason="unknown")
        if event in _STOPS:
            return Reply(text, usage=usage, stop_reason=_STOPS[event])
        return Reply(usage=usage, stop_reason="stop", stop_raw=f"stop {self._number}")  # empty

    def may_fail_instead(self, call: Call, event: str) -> bool:
        """Tell whether a failure that passes leads to a retry as well, and to no shorter wait."""
        row = call.position.would_take("failed_transiently", ("wait_fits",))
        rung = None if row is None else self.policy.table.rung(row.target)
        if rung is None or rung.name != "retry":
            return False
        waits = self.policy.waits
        number = call.position.spent_of(rung.counter) + 1
        wait = longest_wait(waits, rung, number, "failed_transiently")
        return wait >= longest_wait(waits, rung, number, event)

    def requested_wait(self, move: Move, call: Call) -> float | None:
        """Return the requested wait that makes a move dearest, in seconds; None for no request.

        It is the longest that the policy allows; if waits fill the budget, no longer than the time
        that remains.
        """
        waits = self.policy.waits
        row = move.row
        if not self.asks or not keeps_asked_wait(row.event, row.target):
            return None
        rung = self.policy.table.rung(row.target)
        assert rung is not None
        number = call.position.spent_of(rung.counter) + 1
        own = longest_wait(evolve(waits, longest_asked=0.0), rung, number, row.event)
        if not self.fills:
            return waits.longest_asked if waits.longest_asked > own else None
        least = 0.0
        remaining = math.inf
        ends_by = call.clocks().ends_by
        if ends_by is not None:
            began = call.spending.began or 0.0
            least = JUST_BEFORE * (ends_by - began)
            remaining = ends_by - (began + call.spending.elapsed)
        requested = min(waits.longest_asked, remaining - least)
        if requested <= least:
            return None
        # A shorter wait than the rung's own is only asked for if that one does not fit.
        is_longer = requested > own
        own_fits = own < remaining
        if is_longer or not own_fits:
            return requested
        return None

    def is_filled(self, call: Call, send: Send) -> bool:
        """Tell whether no time remains for another wait."""
        limit = call.spending.limit
        if not self.fills or limit is None:
            return False
        return call.spending.elapsed + send.wait >= limit * (1 - 2 * JUST_BEFORE)
