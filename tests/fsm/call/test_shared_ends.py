"""However a call ends, what it held of a shared budget is settled."""

import gc
import os
import threading
from typing import Any

import pytest

from rungwise import Budget, Policy, SharedBudget, Usage
from rungwise.core import Failure, Reply
from rungwise.fsm.call.budget.ledger import Ledger
from rungwise.fsm.call.budget.metering import most_counted
from support.sharing import PRICED, answer, begun, over_budget, sent, waiting


def test_a_call_that_is_cancelled_while_it_waits_lets_the_next_one_go() -> None:
    shared = SharedBudget(Budget(output_tokens=400))
    holder = sent(shared, 200)
    large, _ = waiting(shared, 300)
    small, woken = waiting(shared, 50)
    large.cancel(1.0)
    assert woken.is_set()
    assert small.sending(1.0) is not None
    assert (shared.attempts, large.result.usage) == (2, Usage())
    assert holder.cancel(1.0).usage.output_tokens == 200


def test_an_attempt_that_was_reserved_and_never_went_out_is_none() -> None:
    shared = SharedBudget(Budget(attempts=1, output_tokens=108))
    first = begun(shared)
    assert first.reserve(lambda: None)
    second, woken = waiting(shared)
    first.cancel(1.0)
    assert woken.is_set()
    assert shared.attempts == 1  # which the second one holds
    assert second.sending(1.0) is not None
    assert over_budget(begun(shared)) == "all 1 attempts of the shared budget are used"


def test_time_that_runs_out_with_a_reservation_gives_it_back() -> None:
    shared = SharedBudget(Budget(output_tokens=108))
    call = begun(shared, policy=Policy(budget=Budget(seconds=5)))
    assert call.reserve(lambda: None, 1.0)
    assert "after the 5 s of the budget" in over_budget(call, 6.0)
    assert sent(shared).position.attempts == 1


@pytest.mark.parametrize(
    ("failure", "tokens"),
    [(Failure("connection"), 100), (Failure("server_error", status=500), 0), (Failure("connection", is_stale=True), 0)],
)
def test_an_attempt_that_brings_nothing_settles_as_it_is_counted(failure: Failure, tokens: int) -> None:
    shared = SharedBudget(Budget(output_tokens=1000))
    call = sent(shared)
    call.receive(failure, 1.0)
    call.cancel(2.0)
    assert shared.usage.output_tokens == call.result.usage.output_tokens == tokens
    assert begun(shared, 2000).sending() is not None


@pytest.mark.parametrize(
    ("partial", "tokens"),
    [(None, 100), (Reply("", interrupted=True), 100), (Reply("Herons nest in re", interrupted=True), 5)],
    ids=["nothing", "an empty stream", "text"],
)
def test_a_call_that_is_cancelled_in_flight_is_counted_as_one_that_broke_off(
    partial: Reply | None, tokens: int
) -> None:
    shared = SharedBudget(Budget(output_tokens=1000))
    call = sent(shared)
    call.cancel(1.0, partial)
    assert shared.usage == call.result.usage == Usage(10, tokens, estimated=True)


def test_a_call_that_is_dropped_is_counted_as_if_it_had_used_what_it_held() -> None:
    shared = SharedBudget(Budget(output_tokens=250, money=1.0))
    calls = [sent(shared, chain=PRICED)]
    third, woken = waiting(shared, 200, chain=PRICED)
    calls.clear()
    gc.collect()
    assert woken.is_set()
    assert shared.usage == Usage(10, 108, estimated=True)
    send = third.sending()
    assert most_counted(send.max_tokens or 0) == 250 - 108


def test_a_call_that_is_dropped_before_it_sends_leaves_nothing() -> None:
    shared = SharedBudget(Budget(output_tokens=108))
    calls = [begun(shared)]
    assert calls[0].reserve(lambda: None)
    calls += [waiting(shared)[0]]
    calls.clear()
    gc.collect()
    assert (shared.attempts, shared.usage) == (0, Usage())
    assert begun(shared).reserve(lambda: None)


def test_the_collector_may_end_a_call_in_the_middle_of_a_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedBudget(Budget(output_tokens=1000))
    calls, plain = [sent(shared)], Ledger.shortfall

    def collecting(ledger: Ledger, *given: Any) -> str | None:
        calls.clear()
        gc.collect()
        return plain(ledger, *given)

    call = begun(shared)
    monkeypatch.setattr(Ledger, "shortfall", collecting)
    shared._queue.ask(call.spending.share._reservation)  # type: ignore[union-attr]
    monkeypatch.undo()
    assert call.sending() is not None
    call.receive(answer(5), 1.0)
    assert (shared.attempts, shared.usage.output_tokens) == (2, 113)


def test_a_reservation_ignores_what_another_thread_has_yet_to_settle() -> None:
    shared = SharedBudget(Budget(output_tokens=1000))
    call, locked, let_go = sent(shared), threading.Event(), threading.Event()

    def work() -> None:
        with shared._queue._lock:
            locked.set()
            let_go.wait(10)

    other = threading.Thread(target=work)
    other.start()
    assert locked.wait(10)
    call.receive(Reply("", stop_reason="stop", usage=Usage(10, 30)), 1.0)  # which waits for nobody
    let_go.set()
    other.join(10)
    assert call.sending(6.0) is not None
    assert (shared._ledger.holders, shared.usage.output_tokens) == (1, 30)
    call.receive(answer(5), 7.0)
    assert (shared._ledger.holders, shared.usage.output_tokens) == (0, 35)


def test_what_wakes_one_call_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def explode() -> None:
        raise ValueError("a secret")

    shared = SharedBudget(Budget(output_tokens=130))
    first = sent(shared)
    second = begun(shared)
    assert not second.reserve(explode)
    first.receive(answer(10), 1.0)
    assert first.result.outcome == "done"
    assert second.sending() is not None
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_begins_without_the_reservations_of_its_parent() -> None:
    shared = SharedBudget(Budget(output_tokens=250))
    calls = [sent(shared), sent(shared)]
    if (child := os.fork()) == 0:
        try:
            mine = begun(shared, 200)
            fits = mine.reserve(lambda: None)
            for call in calls:
                call.receive(answer(5), 1.0)
            os._exit(0 if fits and shared._ledger.held_tokens == most_counted(200) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert not begun(shared).reserve(lambda: None)
