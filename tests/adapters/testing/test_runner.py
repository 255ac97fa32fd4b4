"""What runs the cases of a fuzz run keeps them apart."""

import threading

import httpx
import pytest

from rungwise import Budget, Policy, Timeouts
from rungwise.adapters.testing.case import Case
from rungwise.adapters.testing.runner import CaseRunner, MemoryProvider
from rungwise.testing import Script, ScriptedReply


def test_a_request_that_an_earlier_case_left_behind_counts_for_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[httpx.Request] = []
    next_began = threading.Event()
    late_arrived = threading.Event()
    handle = MemoryProvider.respond

    def handle_late(self: MemoryProvider, request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) > 1:
            next_began.set()
            late_arrived.wait(10)
            return handle(self, request)
        next_began.wait(10)  # the request of the first case arrives when the next case has begun
        try:
            return handle(self, request)
        finally:
            late_arrived.set()

    monkeypatch.setattr(MemoryProvider, "respond", handle_late)
    policy = Policy(budget=Budget(attempts=1), timeouts=Timeouts(total=0.5))
    with CaseRunner(policy, 1, over_http=False) as runner:
        late = runner.run(Case(Script([ScriptedReply(text="Late.")])), [])
        assert late.outcome == "over_budget"
        assert late.attempts == 1
        assert runner.received == []
        result = runner.run(Case(Script([ScriptedReply(text="In the reeds.")])), [])
        assert result.text == "In the reeds."
        assert result.attempts == 1
        assert len(runner.received) == 1
