"""A budget that many calls share: what is reserved, in which order, and which ceiling is used
up.
"""

import copy
import gc
import json
import os
import pickle
import threading
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

import rungwise
from rungwise import (
    Budget,
    ConfigurationError,
    Journal,
    Policy,
    Prices,
    SharedBudget,
    Usage,
    replay,
)
from rungwise.core import Call, Failure, IllegalEvent, PlainLink, Reply, Request
from rungwise.fsm.call.budget.costs import Paid
from rungwise.fsm.call.budget.ledger import Ledger
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.testing import run
from support.sharing import PRICED, answer, begun, over_budget, sent, spend, waiting

BUSY = Failure("rate_limit", status=429, asked_wait=30.0)


def assert_replays(call: Call) -> None:
    replayed = replay(Journal.from_json(call.journal.to_json()))
    assert replayed.journal.steps == call.journal.steps


# what is reserved


@pytest.mark.parametrize("backends", [2, 3])
def test_a_first_attempt_that_waits_into_the_time_of_the_next_backend_yields(backends: int) -> None:
    shared = SharedBudget(Budget(seconds=100.0, output_tokens=700))
    holder = sent(shared, 600)
    chain = [PlainLink(f"backend {number}") for number in range(backends)]
    call, woken = waiting(shared, 500, chain=chain)
    now = 100.0 - 25.0 * (backends - 1)
    holder.receive(answer(10), now)
    assert woken.is_set()
    assert call.reserve(woken.set, now)
    gone = call.sending(now)
    assert gone is not None
    assert (gone.rung, gone.backend, call.position.attempts) == ("fallback", 1, 1)
    assert call.clocks().ends_by == now + 25.0
    assert call.receive(answer(10), now + 1.0) is None
    assert [(step.event, step.guard) for step in call.journal.steps][:2] == [
        ("ran_out", "must_yield"),
        ("sent", None),
    ]
    assert_replays(call)


def test_a_fallback_that_waits_into_the_time_of_the_next_backend_is_passed_over() -> None:
    shared = SharedBudget(Budget(seconds=100.0, output_tokens=1_000))
    call = sent(shared, 100, chain=[PlainLink(name) for name in ("one", "two", "three")])
    holder = sent(shared, 800)
    assert call.receive(Failure("auth"), 1.0) is not None
    woken = threading.Event()
    assert call.reserve(woken.set, 1.0) or not woken.is_set()
    holder.receive(answer(10), 80.0)
    gone = call.sending(80.0)
    assert gone is not None
    assert (gone.backend, call.position.attempts) == (2, 2)
    assert [step.backend for step in call.journal.steps if step.event == "skipped"] == ["two"]
    call.receive(answer(10), 81.0)
    assert_replays(call)


def test_what_a_reply_has_not_used_is_free_before_anybody_judges_it() -> None:
    shared = SharedBudget(Budget(output_tokens=150))
    judged = sent(shared, verdict=lambda reply: "too short")
    nested, woken = waiting(shared)
    reply = answer(5)
    came = judged.settle(reply)
    assert (came.event, came.evidence.usage.output_tokens) == ("answered", 5)
    assert woken.is_set()
    assert nested.sending(1.0) is not None
    assert shared.usage.output_tokens == 5
    nested.receive(answer(7), 1.0)
    found = judged.judging(reply)
    assert found is not None
    assert judged.receive(reply, 2.0, found.found(["too short"])) is not None
    assert judged.journal.last.usage == Usage(10, 5)
    assert (shared.attempts, shared.usage.output_tokens) == (2, 12)


@pytest.mark.parametrize("end", ["judging", "settle", "cancel", "receive"])
def test_an_attempt_is_paid_once_whatever_comes_after_its_reply(end: str) -> None:
    shared = SharedBudget(Budget(output_tokens=150))
    call = sent(shared, verdict=lambda reply: None)
    reply = answer(5)
    call.settle(reply)
    if end == "cancel":
        call.cancel(1.0, reply)
    else:
        getattr(call, end)(reply)
    assert (shared.attempts, shared.usage.output_tokens) == (1, 5)
    assert shared.committed.tokens == 5


def test_the_schema_of_an_answer_is_read_when_nothing_is_held() -> None:
    shared = SharedBudget(Budget(output_tokens=150))
    seen: list[int] = []

    def look(value: str) -> str:
        seen.append(shared.committed.tokens)
        return value

    returns = Annotated[str, AfterValidator(look)]
    call = sent(shared, returns=returns)
    call.receive(answer(5, '"In reeds."'), 1.0)
    assert call.result.outcome == "done"
    assert seen == [5]


def test_the_budget_that_others_hold_is_named() -> None:
    session = SharedBudget(Budget(output_tokens=150))
    other = sent(SharedBudget(Budget(), within=session))
    inner = SharedBudget(Budget(), within=session, name="the budget of the tests")
    assert over_budget(begun(inner)) == "other calls hold what is left of the shared budget"
    own = SharedBudget(
        Budget(output_tokens=150), within=SharedBudget(Budget()), name="the budget of the tests"
    )
    mine = sent(own)
    assert over_budget(begun(own)) == "other calls hold what is left of the budget of the tests"
    assert not other.is_over
    assert not mine.is_over


def test_what_a_server_may_count_beside_a_cap_is_reserved() -> None:
    shared = SharedBudget(Budget(output_tokens=2 * most_counted(100)))
    calls = [sent(shared), sent(shared)]
    for call in calls:
        call.receive(answer(most_counted(100)), 1.0)
    assert [call.result.overran for call in calls] == [False, False]
    assert shared.usage.output_tokens == 2 * most_counted(100)
    exact = SharedBudget(Budget(output_tokens=2 * most_counted(100) - 1))
    holder = sent(exact)
    assert not begun(exact).reserve(lambda: None)
    assert holder.position.attempts == 1


def test_a_call_without_a_cap_asks_for_the_base_cap() -> None:
    policy = Policy(base_cap=300)
    assert (
        sent(SharedBudget(Budget(output_tokens=10_000)), None, policy=policy).journal.last.cap
        == 300
    )
    assert sent(SharedBudget(Budget(attempts=5)), None, policy=policy).journal.last.cap is None


def test_a_cap_is_made_smaller_only_to_what_is_left_when_all_have_settled() -> None:
    shared = SharedBudget(Budget(output_tokens=200))
    first = sent(shared, 150)
    second, woken = waiting(shared, 150)
    first.receive(answer(150), 1.0)
    assert woken.is_set()
    send = second.sending(1.0)
    assert most_counted(send.max_tokens or 0) == 50
    assert [step.cap for step in second.journal.steps if step.event == "sent"] == [send.max_tokens]
    second.receive(answer(44), 2.0)
    assert shared.usage.output_tokens == 194


@pytest.mark.parametrize(("money", "waits"), [(0.00222, False), (0.00219, True)])
def test_money_is_reserved_for_the_prompt_and_the_longest_answer(money: float, waits: bool) -> None:
    # 10 tokens in at 2, and 108 out at 10, for each of the two
    shared = SharedBudget(Budget(money=money))
    first = sent(shared, chain=PRICED)
    second = begun(shared, chain=PRICED)
    assert second.reserve(lambda: None, 0.0) is not waits
    first.receive(answer(20), 1.0)
    assert shared.cost == pytest.approx(0.00022)
    assert second.sending(1.0) is not None


def test_the_own_budget_of_a_call_holds_beside_the_shared_one() -> None:
    shared = SharedBudget(Budget(output_tokens=10_000))
    call = sent(shared, 500, policy=Policy(budget=Budget(output_tokens=208)))
    assert call.journal.last.cap == 200
    cause = over_budget(begun(shared, policy=Policy(budget=Budget(money=0.00001)), chain=PRICED))
    assert cause == (
        "the money of the budget cannot pay for another attempt: "
        "0.00001 is left, and it needs 0.00011"
    )


# the shortfall


@pytest.mark.parametrize(
    ("budget", "cause"),
    [
        (Budget(attempts=1), "all 1 attempts of the shared budget are used"),
        (
            Budget(output_tokens=108),
            "the output tokens of the shared budget cannot pay for another attempt",
        ),
        (Budget(money=0.0011), "the money of the shared budget cannot pay for another attempt"),
        (Budget(seconds=1), "the next attempt would begin after the 1 s of the shared budget"),
    ],
    ids=["attempts", "tokens", "money", "seconds"],
)
def test_the_part_that_ends_a_call_is_named(budget: Budget, cause: str) -> None:
    shared = SharedBudget(budget)
    spend(shared, chain=PRICED)
    shortfall = shared.shortfall(1.0, input_tokens=10, prices=PRICED[0].prices)
    assert str(shortfall).partition(": ")[0] == cause
    late = begun(shared, now=1.0, chain=PRICED)
    assert over_budget(late, 1.0).partition(": ")[0] == cause
    assert (late.result.attempts, shared.attempts) == (0, 1)
    assert cause in str(rungwise.fsm.call.run.result.error_of(late.result))


def test_a_level_around_is_named_apart() -> None:
    session = SharedBudget(Budget(attempts=1))
    turn = SharedBudget(Budget(attempts=5), within=session)
    spend(turn)
    assert over_budget(begun(turn)) == "all 1 attempts of the shared budget are used"
    inner = SharedBudget(Budget(attempts=1), within=SharedBudget(Budget()))
    spend(inner)
    assert over_budget(begun(inner)) == "all 1 attempts of the inner shared budget are used"


def test_a_reply_that_passes_its_cap_closes_the_budget_for_everybody() -> None:
    shared = SharedBudget(Budget(output_tokens=250))
    first = sent(shared)
    second = sent(shared)
    third, woken = waiting(shared)
    first.receive(answer(200), 1.0)
    assert first.result.overran
    assert woken.is_set()
    cause = (
        "a reply under the shared budget was longer than its output cap of 100 tokens, so "
        "no cap can be relied on"
    )
    assert over_budget(third, 1.0) == over_budget(begun(shared)) == shared.shortfall() == cause
    second.receive(Reply("", stop_reason="stop", usage=Usage(10, 3)), 1.0)
    assert over_budget(second, 1.0) == cause
    assert shared.attempts == 2


def test_a_budget_that_rests_on_no_cap_stays_open() -> None:
    shared = SharedBudget(Budget(attempts=3))
    call = sent(shared, policy=Policy(budget=Budget(output_tokens=1000)))
    call.receive(answer(900), 1.0)
    assert call.result.overran
    assert shared.shortfall() is None


# time


def test_the_tightest_deadline_is_that_of_a_send() -> None:
    session = SharedBudget(Budget(seconds=60))
    session.begin(100.0)
    session.begin(150.0)
    turn = SharedBudget(Budget(seconds=30), within=session)
    assert (session.deadline, turn.deadline) == (160.0, 160.0)
    for seconds, expected in ((5, 125.0), (None, 150.0), (500, 150.0)):
        call = Call(Request("Where?"), Policy(budget=Budget(seconds=seconds)), within=turn)
        send = call.begin(120.0)
        assert (send.deadline, turn.deadline) == (expected, 150.0)


def test_a_wait_that_the_shared_budget_does_not_allow_leaves_the_backend() -> None:
    chain = [PlainLink("one"), PlainLink("two")]
    for seconds, target in ((60, "retry"), (25, "fallback")):
        call = sent(SharedBudget(Budget(seconds=seconds)), chain=chain)
        call.receive(BUSY, 0.0)
        assert call.position.state == target


def test_a_call_that_never_began_begins_no_time() -> None:
    shared = SharedBudget(Budget(seconds=5))
    Call(Request("Where?"), within=shared).cancel()
    assert shared.deadline is None


# levels


def test_nobody_passes_by_where_another_waits_and_others_are_not_held_up() -> None:
    session = SharedBudget(Budget(output_tokens=2000))
    one, other = (SharedBudget(Budget(output_tokens=400), within=session) for _ in range(2))
    holder = sent(one, 200)
    large, large_woken = waiting(one, 300)
    _small, small_woken = waiting(one, 50)  # for which there would be room
    elsewhere = begun(other)
    assert elsewhere.reserve(lambda: None)
    holder.receive(answer(60), 1.0)
    assert large_woken.is_set()
    assert not small_woken.is_set()
    assert large.sending(1.0) is not None
    large.receive(answer(10), 2.0)
    assert small_woken.is_set()


# what is refused


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ConfigurationError, match="budget must be a Budget, not int"):
        SharedBudget(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="within must be a SharedBudget, not Budget"):
        SharedBudget(Budget(), Budget())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="within must be a SharedBudget, not Budget"):
        Call(Request("Where?"), within=Budget())  # type: ignore[arg-type]
    with pytest.raises(
        ConfigurationError, match="now must be seconds, a finite number, not 'soon'"
    ):
        SharedBudget(Budget()).begin("soon")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="a finite number, not nan"):
        SharedBudget(Budget(seconds=1)).begin(float("nan"))
    deep = SharedBudget(Budget())
    for _ in range(31):
        deep = SharedBudget(Budget(), deep)
    with pytest.raises(ConfigurationError, match="more than 32 deep"):
        SharedBudget(Budget(), deep)


@pytest.mark.parametrize("is_inner", [False, True])
def test_a_shared_budget_of_money_needs_prices(is_inner: bool) -> None:
    shared = SharedBudget(Budget(money=1.0))
    with pytest.raises(
        ConfigurationError, match="money needs prices on every backend; 'plain' has none"
    ):
        Call(
            Request("Where?"),
            chain=[PlainLink("plain")],
            within=SharedBudget(Budget(), shared) if is_inner else shared,
        )


@pytest.mark.parametrize("act", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_is_not_copied(act: Any) -> None:
    with pytest.raises(TypeError, match="counted in one place"):
        act(SharedBudget(Budget()))


def test_its_ceilings_are_not_changed() -> None:
    shared = SharedBudget(Budget())
    with pytest.raises(AttributeError):
        shared.budget = Budget(attempts=500)  # type: ignore[misc]


def test_nothing_is_taken_to_have_gone_out_by_itself() -> None:
    call = begun(SharedBudget(Budget(output_tokens=1000)))
    with pytest.raises(IllegalEvent, match="`sending`"):
        call.receive(answer(5))


# however a call ends, what it held is settled


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


@pytest.mark.parametrize(
    ("failure", "tokens"),
    [
        (Failure("connection"), 100),
        (Failure("server_error", status=500), 0),
        (Failure("connection", is_stale=True), 0),
    ],
)
def test_an_attempt_that_brings_nothing_settles_as_it_is_counted(
    failure: Failure, tokens: int
) -> None:
    shared = SharedBudget(Budget(output_tokens=1000))
    call = sent(shared)
    call.receive(failure, 1.0)
    call.cancel(2.0)
    assert shared.usage.output_tokens == call.result.usage.output_tokens == tokens
    assert begun(shared, 2000).sending() is not None


@pytest.mark.parametrize(
    ("partial", "tokens"),
    [
        (None, 100),
        (Reply("", interrupted=True), 100),
        (Reply("Herons nest in re", interrupted=True), 5),
    ],
    ids=["nothing", "an empty stream", "text"],
)
def test_a_call_that_is_cancelled_in_flight_is_counted_as_one_that_broke_off(
    partial: Reply | None, tokens: int
) -> None:
    shared = SharedBudget(Budget(output_tokens=1000))
    call = sent(shared)
    call.cancel(1.0, partial)
    assert shared.usage == call.result.usage == Usage(10, tokens, estimated=True)
    assert replay(call.journal).usage == shared.usage


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


def test_the_collector_may_end_a_call_in_the_middle_of_a_reservation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = SharedBudget(Budget(output_tokens=1000))
    calls = [sent(shared)]
    plain = Ledger.shortfall

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
    call = sent(shared)
    locked = threading.Event()
    let_go = threading.Event()

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


def test_what_an_attempt_has_paid_is_known_as_soon_as_the_ledgers_are_free() -> None:
    shared = SharedBudget(Budget(output_tokens=700))
    share = shared.share()
    in_hand = threading.Event()
    go_on = threading.Event()
    assert share.reserve(100, 10, None)
    reservation = share.held
    assert reservation is not None
    assert share.send(100, 10, None) is None

    def hold() -> None:
        share.note(lambda: in_hand.set() or go_on.wait(10))

    holder = threading.Thread(target=hold)
    holder.start()
    assert in_hand.wait(10)
    share.settle(Usage(10, 20), Usage(10, 20), None, None)
    assert reservation.paid is None
    go_on.set()
    share.note(lambda: None)
    assert reservation.paid == (1, 20, 0)
    holder.join()


def test_what_others_have_paid_counts_but_not_what_they_were_told_of_this_process() -> None:
    shared = SharedBudget(Budget(attempts=3, output_tokens=700, money=1.0), name="nightly")
    ledger = shared._ledger
    ledger.note_reported(Paid(1, 20, 5))
    ledger.note_others(Paid(3, 50, 9), began=-10.0)
    assert (ledger.others, ledger.began) == (Paid(2, 30, 4), -10.0)
    ledger.note_others(Paid(0, 0, 0), began=5.0)
    assert (ledger.others, ledger.began) == (Paid(), -10.0)
    ledger.note_others(Paid(4, 0, 0), began=5.0)
    assert shared.shortfall(0.0, prices=Prices(1.0, 1.0)) == "all 3 attempts of nightly are used"


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


# its journal says what it was within, and replays without that budget


def recorded(shared: SharedBudget, **options: Any) -> Call:
    """Run a call that is lowered, recovers, and runs out."""
    call = sent(shared, 60, **options)
    call.receive(Reply("", stop_reason="stop", usage=Usage(10, 30)), 1.0)
    for now in range(6, 200, 50):
        if call.is_over or call.sending(float(now)) is None:
            break
        call.receive(Reply("", stop_reason="stop", usage=Usage(10, 30)), now + 1.0)
    return call


def test_a_call_that_ran_out_before_and_while_its_messages_were_made_shorter_replays() -> None:
    for before in (0, 60):
        shared = SharedBudget(Budget(money=0.002))
        call = sent(shared, 60, chain=PRICED, has_compactor=True)
        if before:
            spend(shared, before, chain=PRICED, cap=before)
        call.receive(Failure("context_overflow", status=400), 1.0)
        assert call.position.state == "compact"
        spend(shared, 196 - before, chain=PRICED, cap=196 - before)
        call.compacted([{"role": "user", "content": "Why?"}])
        assert "money" in over_budget(call, 2.0)
        assert_replays(call)


@pytest.mark.parametrize(
    "prices", [(9e6, 9e6), (9e6, 9e6, 9e6), (9e6,) * 4, (9e6, 9e6, 1.0), (1.0, 9e6, 1.0)], ids=repr
)
@pytest.mark.parametrize("own", [None, 0.5])
def test_a_call_that_passes_over_backends_replays(
    prices: tuple[float, ...], own: float | None
) -> None:
    chain = [
        PlainLink(f"backend {number}", prices=Prices(price, price))
        for number, price in enumerate(prices)
    ]
    policy = Policy(budget=Budget(money=own))
    call = run(policy, [Failure("auth")], chain=chain, within=SharedBudget(Budget(money=0.001)))
    assert call.result.outcome == ("failed" if 1.0 in prices else "over_budget")
    assert call.result.attempts == prices.count(1.0)
    assert_replays(call)


def test_the_journal_of_a_call_by_itself_says_nothing_of_it() -> None:
    alone = recorded(SharedBudget(Budget())).journal
    document = json.loads(alone.to_json())
    assert document.pop("within") == [
        {
            "attempts": 24,
            "seconds": 900.0,
            "output_tokens": None,
            "money": None,
        }
    ]
    assert document.pop("within_deadline") == 900.0
    call = Call(Request("Where?", max_tokens=60, input_tokens=10))
    call.begin(0.0)
    assert list(json.loads(call.journal.to_json())) == list(document)


@pytest.mark.parametrize("within", ["x", [1], [{"attempts": 0}], [{"tokens": 3}], [{"money": 1.0}]])
def test_a_journal_with_another_form_of_it_is_refused(within: Any) -> None:
    document = json.loads(recorded(SharedBudget(Budget())).journal.to_json())
    with pytest.raises(ConfigurationError, match="journal"):
        Journal.from_json(json.dumps({**document, "within": within}))


def test_a_cap_that_is_not_what_it_was_is_found() -> None:
    document = json.loads(recorded(SharedBudget(Budget(output_tokens=5000))).journal.to_json())
    document["steps"][0]["cap"] = 61
    with pytest.raises(rungwise.JournalMismatch, match="cap is 61"):
        replay(Journal.from_json(json.dumps(document)))
