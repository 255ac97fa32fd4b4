"""Calls under nested shared budgets in whatever order Hypothesis likes: no ceiling is passed, and
all of it adds up.
"""

from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import rungwise
from rungwise import Budget, Policy, Prices, SharedBudget, Usage
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.call.budget.costs import price_of
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.values.money import units_of
from support.sampling import examples

PRICES = Prices(2.0, 10.0, cache_creation=4.0)
CHAIN = [PlainLink("one", prices=PRICES), PlainLink("two", prices=PRICES)]
PROMPT = 70

budgets = st.builds(
    Budget,
    attempts=st.integers(1, 12),
    seconds=st.none() | st.integers(1, 40),
    output_tokens=st.none() | st.integers(1, 600),
    money=st.none() | st.floats(0.0001, 0.006),
)
SECONDS = st.integers(0, 3)


@attrs.define(eq=False)
class Asked:
    """A call, the budgets that it is within, and what the provider has counted of it."""

    call: Call
    levels: list[int]
    state: str = "begun"
    woken: bool = False
    counted: list[Usage] = attrs.field(factory=list)

    def wake(self) -> None:
        self.woken = True


def used(tokens: int) -> Usage:
    """Return what a provider reports that writes all of the prompt into its cache, at the highest
    price.
    """
    return Usage(PROMPT, tokens, cache_creation_tokens=PROMPT)


def chosen(data: st.DataObject, calls: list[Asked]) -> Asked:
    """Draw one by its number: Hypothesis keeps what it has drawn, and a call that is kept is not
    dropped.
    """
    return calls[data.draw(st.integers(0, len(calls) - 1))]


class SharedCalls(RuleBasedStateMachine):
    """Begin, reserve, send, receive, cancel and drop calls; a provider counts what it was asked and
    what it wrote.
    """

    @initialize(outer=budgets, inner=st.lists(budgets, min_size=2, max_size=2))
    def share(self, outer: Budget, inner: list[Budget]) -> None:
        session = SharedBudget(outer)
        self.shared = [session, *(SharedBudget(each, within=session) for each in inner)]
        self.calls: list[Asked] = []
        self.gone: list[tuple[list[int], list[Usage]]] = []
        self.now = 0.0

    def of(self, *states: str) -> list[Asked]:
        return [each for each in self.calls if each.state in states]

    def note(self, asked: Asked, send: Any) -> None:
        """Look at what a call wants now."""
        asked.state = "over" if asked.call.is_over else "begun" if send is not None else asked.state

    @precondition(lambda self: len(self.calls) < 8)
    @rule(
        level=st.integers(0, 2),
        cap=st.none() | st.integers(1, 300),
        own=st.none() | st.integers(1, 400),
    )
    def begin(
        self,
        level: int,
        cap: int | None,
        own: int | None,
    ) -> None:
        policy = Policy(budget=Budget(output_tokens=own), base_cap=200)
        request = Request("Where?", max_tokens=cap, input_tokens=PROMPT)
        call = Call(request, policy, CHAIN, within=self.shared[level], jitter=lambda: 0.0)
        asked = Asked(call, [level] if level == 0 else [level, 0])
        self.calls.append(asked)
        self.note(asked, call.begin(self.now))

    @precondition(lambda self: self.of("begun"))
    @rule(data=st.data())
    def reserve(self, data: st.DataObject) -> None:
        asked = chosen(data, self.of("begun"))
        asked.woken = False
        asked.state = "ready" if asked.call.reserve(asked.wake, self.now) else "waiting"

    @precondition(
        lambda self: self.of("begun", "ready") or any(each.woken for each in self.of("waiting"))
    )
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        able = [*self.of("begun", "ready"), *(each for each in self.of("waiting") if each.woken)]
        self.go(chosen(data, able))

    @precondition(lambda self: self.of("waiting"))
    @rule(data=st.data())
    def send_without_being_woken(self, data: st.DataObject) -> None:
        self.go(chosen(data, self.of("waiting")))

    def go(self, asked: Asked) -> None:
        send = asked.call.sending(self.now)
        asked.state = "over" if send is None else "in flight"
        if send is not None:
            asked.counted.append(Usage())
            for level in asked.levels:
                deadline = self.shared[level].deadline
                assert deadline is None or self.now < deadline

    @precondition(lambda self: self.of("in flight"))
    @rule(
        data=st.data(),
        share=st.floats(0, 1),
        kind=st.sampled_from(["done", "empty", "cut", "busy", "lost"]),
    )
    def receive(
        self,
        data: st.DataObject,
        share: float,
        kind: str,
    ) -> None:
        asked = chosen(data, self.of("in flight"))
        cap = asked.call.journal.last.cap
        usage = used(max(1, int(share * most_counted(200 if cap is None else cap))))
        reply: Reply | Failure
        if kind in ("busy", "lost"):
            reply = (
                Failure("rate_limit", status=429)
                if kind == "busy"
                else Failure("connection", is_stale=True)
            )
            usage = Usage()
        else:
            text = "" if kind == "empty" else "Herons nest in the reeds."
            reply = Reply(text, stop_reason="length" if kind == "cut" else "stop", usage=usage)
        asked.counted[-1] = usage
        self.note(asked, asked.call.receive(reply, self.now))

    @precondition(lambda self: self.of("begun", "ready", "waiting", "in flight"))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        asked = chosen(data, self.of("begun", "ready", "waiting", "in flight"))
        if asked.state == "in flight":  # the provider went on to its cap
            asked.counted[-1] = Usage(PROMPT, asked.call.journal.last.cap or 0)
        asked.call.cancel(self.now)
        asked.state = "over"

    @precondition(lambda self: self.of("begun", "ready", "waiting", "in flight"))
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        asked = chosen(data, self.of("begun", "ready", "waiting", "in flight"))
        if asked.state == "in flight":
            asked.counted[-1] = Usage(PROMPT, most_counted(asked.call.journal.last.cap or 0))
        self.gone.append((asked.levels, asked.counted))
        self.calls.remove(asked)
        del asked

    @rule(seconds=SECONDS)
    def wait(self, seconds: int) -> None:
        self.now += seconds

    def counted(self, level: int) -> list[Usage]:
        """List what the provider has counted of the attempts within a budget."""
        ended = [usage for levels, usages in self.gone if level in levels for usage in usages]
        return ended + [
            usage for each in self.calls if level in each.levels for usage in each.counted
        ]

    @invariant()
    def no_ceiling_is_passed(self) -> None:
        for level, shared in enumerate(getattr(self, "shared", ())):
            counted = self.counted(level)
            budget = shared.budget
            assert len(counted) <= shared.attempts <= budget.attempts
            if budget.output_tokens is not None:
                assert sum(each.output_tokens for each in counted) <= budget.output_tokens
            if budget.money is not None:
                assert sum(price_of(each, PRICES) for each in counted) <= units_of(budget.money)

    @invariant()
    def what_is_held_is_that_of_the_attempts_that_hold_it(self) -> None:
        for level, shared in enumerate(getattr(self, "shared", ())):
            within = [each for each in self.calls if level in each.levels]
            reservations = [each.call.spending.share._reservation for each in within]  # type: ignore[union-attr]
            holding = [each for each in reservations if each.state in ("held", "sent")]
            account = shared._ledger
            assert account.holders == len(holding)
            assert account.unsent == sum(each.state == "held" for each in holding)
            assert account.held_tokens == sum(each.tokens for each in holding)
            assert account.held_money == sum(each.money for each in holding)

    @invariant()
    def nobody_waits_who_could_go_on(self) -> None:
        for asked in getattr(self, "calls", ()):
            if asked.state == "waiting":
                assert asked.woken is (asked.call.spending.share._reservation.state != "waiting")  # type: ignore[union-attr]
        if hasattr(self, "shared"):
            desk = self.shared[0]._queue
            waiting = tuple(desk._waiting)
            desk._serve()
            assert tuple(desk._waiting) == waiting

    def teardown(self) -> None:
        for asked in self.of("begun", "ready", "waiting", "in flight"):
            asked.call.cancel(self.now)
        for asked in self.calls:
            replayed = rungwise.replay(rungwise.Journal.from_json(asked.call.journal.to_json()))
            assert replayed.journal.steps == asked.call.journal.steps
        for level, shared in enumerate(getattr(self, "shared", ())):
            account = shared._ledger
            assert (account.holders, account.unsent, account.held_tokens, account.held_money) == (
                0,
                0,
                0,
                0,
            )
            results = [each.call.result for each in self.calls if level in each.levels]
            dropped = [usage for levels, usages in self.gone if level in levels for usage in usages]
            paid = [result.usage for result in results] + dropped
            assert shared.usage.output_tokens == sum(each.output_tokens for each in paid)
            assert shared.attempts == sum(result.attempts for result in results) + len(dropped)
            if shared.cost is not None and not dropped:
                assert units_of(shared.cost) == sum(
                    units_of(result.cost or 0) for result in results
                )


SharedCalls.TestCase.settings = settings(stateful_step_count=60, max_examples=examples(60))
TestSharedCalls = SharedCalls.TestCase
