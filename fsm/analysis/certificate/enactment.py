"""Play a path of the search to a real call and see what it spends, so that every worst case has
happened once.

The search knows rows and counters. What brings the facts of a row about is up to the call. So each
move becomes a reply or a failure as a provider might send it, at its dearest, and the certificate
shows the path that the call took.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

from attrs import define, evolve, field, frozen

from rungwise.fsm.call.budget.estimate import BYTES_A_TOKEN
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.call.call import Call
from rungwise.fsm.call.chain.link import PlainLink
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.clocks.silence import CLOSING
from rungwise.fsm.call.clocks.waiting import longest_wait
from rungwise.fsm.call.conversation.observation import WRONG
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.call.play import Answers, Came, PlayClock, play
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.call.run.recording import silent
from rungwise.fsm.call.table import keeps_asked_wait
from rungwise.fsm.engine.checker.moves import Move
from rungwise.fsm.engine.journal.record import Record, Step
from rungwise.fsm.replies.failures.failure import Failure, Reason
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply, StopReason
from rungwise.fsm.values.money import as_money
from rungwise.fsm.values.usage import Usage


@frozen
class EnactedAttempt:
    """Hold one attempt of a path that was played to a call."""

    backend: int  # counted from 0
    wait: float  # seconds before it
    seconds: float  # that it lasted
    closing: float  # seconds that closing its connection took
    is_late: bool  # whether it left no time for another attempt at the same backend
    came: Reply | Failure = field(repr=False)


PASSING: tuple[Reason, ...] = ("server_error", "overloaded")
"""The transient failures that have a series of waits of their own."""

PLAIN: tuple[Mapping[str, Any], ...] = ({"role": "user", "content": "say"},)
AFTER_A_TOOL: tuple[Mapping[str, Any], ...] = (
    {"role": "user", "content": "look it up"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "found"},
)
LONGEST_TEXT = 400_000
"""Bytes of text that one path gathers at most; longer paths get shorter parts than their caps
allow.
"""

ANSWER = Reply("An answer.", stop_reason="stop")

JUST_BEFORE = 2.0**-32
"""The part of the seconds by which a wait ends before the budget: one that ends together with it is
not made.
"""

SHORTEST_TEXT = 12
"""Bytes of a part that stitching keeps: it could take a shorter one for a restart."""


@frozen
class Enacted:
    """Hold what a call did when a path was played to it."""

    steps: tuple[Step, ...] = ()  # that led to a rung
    rungs: tuple[str, ...] = ()
    spent: Mapping[str, float] = field(factory=dict, hash=False)  # by the names of the worst cases
    moves: tuple[Move, ...] = field(default=(), hash=False)
    attempts: tuple[EnactedAttempt, ...] = field(default=(), hash=False, repr=False)
    messages: tuple[Mapping[str, Any], ...] = field(default=(), hash=False, repr=False)


def enact(
    policy: Policy,
    prices: Sequence[Prices | None],
    moves: Sequence[Move],
    name: str,
    *,
    keys: int,
    max_tokens: int | None,
    input_tokens: int | None,
) -> Enacted:
    """Play a path to a call in every way that might be dearest, and return the dearest.

    Arguments:
        policy: of the call.
        prices: of each backend; None where they are unknown.
        moves: the path.
        name: of the worst case, which says what is dear.
        keys: of each backend.
        max_tokens: the caller's output cap.
        input_tokens: the tokens of the prompt.
    """
    # without prices, nothing counts against it
    if None in prices and policy.budget.money is not None:
        policy = evolve(policy, budget=evolve(policy.budget, money=None))
    longest = SHORTEST_TEXT
    if name == "money":
        longest = LONGEST_TEXT // (len(moves) + 1)
    asking: tuple[bool, ...] = (True,)
    if policy.budget.seconds is not None:  # with a requested wait the path may not fit the time
        asking = (True, False)
    links = links_of(prices, keys)
    ways = []
    for messages, reason, asks in product((PLAIN, AFTER_A_TOOL), PASSING, asking):
        request = Request(messages, max_tokens=max_tokens, input_tokens=input_tokens)
        call = Call(request, policy, links, jitter=lambda: 1.0, has_compactor=True, observer=silent)
        answers = Play(
            policy,
            prices,
            input_tokens=request.input_tokens or 0,
            passing=reason,
            longest=longest,
            lasts=name == "seconds",
            asks=asks,
            fills=name == "waiting seconds",
        )
        play(call, answers.along(moves, ANSWER), PlayClock())
        enacted = _enacted(call, moves)
        ways.append(evolve(enacted, attempts=tuple(answers.attempts), messages=messages))
    return max(ways, key=lambda each: each.spent[name])


def links_of(prices: Sequence[Prices | None], keys: int = 1) -> list[PlainLink]:
    """Return backends with these prices, and so many keys each."""
    return [
        PlainLink(f"backend {number}", prices=price, keys=keys)
        for number, price in enumerate(prices, 1)
    ]


@define
class Play(Answers):
    """Answer calls along a path of the search, each attempt at its dearest.

    Arguments:
        policy: of the calls.
        prices: of each backend; None where they are unknown.
        input_tokens: of the request.
        passing: the reason of transient failures.
        longest: bytes of a part of text.
        lasts: whether attempts last as long as they may; otherwise they take no time.
        asks: whether failures request a wait.
        fills: whether a requested wait that is too long is cut to the remaining time.
        attempts: those of all calls so far, in order.
    """

    policy: Policy
    prices: Sequence[Prices | None]
    input_tokens: int
    passing: Reason
    longest: int = SHORTEST_TEXT
    lasts: bool = False
    asks: bool = True
    fills: bool = False
    attempts: list[EnactedAttempt] = field(factory=list, init=False)
    _last: Reply = field(default=ANSWER, init=False)  # ends the call
    _todo: deque[Move] = field(factory=deque, init=False)  # the rest of the path
    _move: Move | None = field(default=None, init=False)  # what the attempt before was to cause
    _is_over: bool = field(default=False, init=False)  # whether the last reply was given
    _number: int = field(default=0, init=False)  # of the move, over all calls

    def along(self, moves: Iterable[Move], last: Reply) -> Play:
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

    def answer(self, call: Call, sent: Send, now: float) -> Came:
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
    ) -> Came:
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
        return Came(came, end)

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
        """Return the most tokens that an attempt may count as."""
        prompt = self.input_tokens + send.added_tokens
        price = self.prices[send.backend]
        output = most_counted(send.max_tokens or 0)
        if price is None:
            return Usage(prompt, output)
        read = price.cache_read or 0.0
        created = price.cache_creation or 0.0
        return Usage(
            prompt,
            output,
            cache_read_tokens=prompt if read > max(price.input, created) else 0,
            cache_creation_tokens=prompt if created > price.input and created >= read else 0,
        )

    def text(self, send: Send) -> str:
        """Return as much text as the cap allows, with no part twice."""
        size = max(min(BYTES_A_TOKEN * (send.max_tokens or 0), self.longest), SHORTEST_TEXT)
        unit = f"part {self._number} word "
        return (
            "".join(f"{unit}{count} " for count in range(size // len(unit) + 1))[: size - 1] + "."
        )

    def reply_for(
        self, move: Move, call: Call, send: Send, *, is_detour: bool = False
    ) -> Reply | Failure:
        """Return what causes the event and the facts of a move; it requests a wait only if an
        attempt follows.
        """
        event = move.row.event
        facts = move.facts
        usage = self.usage(send)
        requested = None if is_detour else self.requested_wait(move, call)
        if facts.get("connection_was_stale"):
            return Failure("connection", is_stale=True)
        if move.row.target == "retry" and self.may_fail_instead(call, event):
            event = "failed_transiently"  # the call leaves a backend after few broken streams
        reason = self.passing if event == "failed_transiently" else _FAILURES.get(event)
        if move.row.target == "fallback":
            reason = "model_not_found"  # leaves a backend, whatever else it could still try
        elif move.row.target == "rotate":
            reason = "rate_limit" if event == "failed_transiently" else "auth"
        if reason is not None:
            # An error inside a stream, after reasoning has used up the cap.
            failure = Failure(reason, asked_wait=requested, parameter=f"p{self._number}")
            return Reply(usage=usage, interrupted=True, failure=failure)
        text = self.text(send)
        if event == "interrupted":
            visible = text if facts.get("added_text", True) else ""
            return Reply(
                visible,
                usage=usage,
                interrupted=True,
                failure=Failure("connection", asked_wait=requested),
            )
        if event in ("tools_truncated", "json_truncated"):
            return Reply(
                tool_calls=(ToolCall("1", "look_up", "{"),), usage=usage, stop_reason="length"
            )
        if event in WRONG.values():  # different each time; nobody needs to judge what is no object
            calls = (ToolCall(f"call_{self._number}", "look_up", json.dumps([text])),)
            return Reply(tool_calls=calls, usage=usage, stop_reason="stop")
        if event in ("only_reasoned", "reasoning_truncated"):
            stop: StopReason = "stop" if event == "only_reasoned" else "length"
            return Reply(reasoning=text, usage=usage, stop_reason=stop)
        if event in _STOPS:
            return Reply(text, usage=usage, stop_reason=_STOPS[event])
        # Empty, and different each time.
        return Reply(usage=usage, stop_reason="stop", stop_raw=f"stop {self._number}")

    def may_fail_instead(self, call: Call, event: str) -> bool:
        """Tell whether a failure that passes leads to a retry as well, and to no shorter wait."""
        row = call.position.would_take("failed_transiently", ("wait_fits",))
        rung = None if row is None else self.policy.table.rung(row.target)
        if rung is None or rung.name != "retry":
            return False
        number = call.position.spent_of(rung.counter) + 1
        other, own = (
            longest_wait(self.policy.waits, rung, number, each)
            for each in ("failed_transiently", event)
        )
        return other >= own

    def requested_wait(self, move: Move, call: Call) -> float | None:
        """Return the requested wait that makes a move dearest: the longest that the policy allows,
        or none.
        """
        waits = self.policy.waits
        row = move.row
        if not self.asks or not keeps_asked_wait(row.event, row.target):
            return None
        rung = self.policy.table.rung(row.target)
        assert rung is not None
        spent = call.position.spent_of(rung.counter) + 1
        own = longest_wait(evolve(waits, longest_asked=0.0), rung, spent, row.event)
        if not self.fills:
            return waits.longest_asked if waits.longest_asked > own else None
        ends_by = call.clocks().ends_by
        least = 0.0
        remaining = math.inf
        if ends_by is not None:
            began = call.spending.began or 0.0
            least = JUST_BEFORE * (ends_by - began)
            remaining = ends_by - (began + call.spending.elapsed)
        requested = min(waits.longest_asked, remaining - least)
        return requested if requested > least and (requested > own or own >= remaining) else None

    def is_filled(self, call: Call, send: Send) -> bool:
        """Tell whether no time remains for another wait."""
        limit = call.spending.limit
        return (
            self.fills
            and limit is not None
            and call.spending.elapsed + send.wait >= limit * (1 - 2 * JUST_BEFORE)
        )


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


def waited(journal: Record) -> float:
    """Return the seconds that a call waited before its attempts."""
    path = [step for step in journal.steps if step.event != "skipped"]
    return sum(step.wait for step, after in pairwise(path) if after.event == "sent")


def _enacted(call: Call, moves: Sequence[Move]) -> Enacted:
    path = [step for step in call.journal.steps if step.event != "skipped"]
    rungs = [step.source for step in path if step.event == "sent"]
    spent = {
        "attempts": call.position.attempts,
        "waiting seconds": waited(call.journal),
        "seconds": call.spending.elapsed,
        "output tokens": call.spending.usage.output_tokens,
        "money": as_money(call.spending.cost or 0),
    }
    led = tuple(
        step
        for step, after in pairwise(path)
        if step.event != "sent" and after.event in ("sent", "ran_out")
    )
    return Enacted(led, tuple(rungs), spent, tuple(moves))
