"""What the journal of a call under a shared budget says, and that it replays without that budget."""

import json
from typing import Any

import pytest

import rungwise
from rungwise import Budget, Journal, SharedBudget, Usage
from rungwise.core import Call, Failure, Reply, Request
from support.sharing import PRICED, over_budget, sent, spend


def recorded(shared: SharedBudget, **options: Any) -> Call:
    """Run a call that is lowered, recovers, and runs out."""
    call = sent(shared, 60, **options)
    call.receive(Reply("", stop_reason="stop", usage=Usage(10, 30)), 1.0)
    for now in range(6, 200, 50):
        if call.is_over or call.sending(float(now)) is None:
            break
        call.receive(Reply("", stop_reason="stop", usage=Usage(10, 30)), now + 1.0)
    return call


@pytest.mark.parametrize(
    "budget",
    [Budget(output_tokens=100), Budget(money=0.0011), Budget(attempts=2), Budget(seconds=10), Budget()],
    ids=["tokens", "money", "attempts", "seconds", "nothing"],
)
@pytest.mark.parametrize("is_inner", [False, True])
def test_a_call_replays_to_the_same_steps(budget: Budget, is_inner: bool) -> None:
    other = SharedBudget(Budget(output_tokens=5000))
    shared = SharedBudget(budget, within=other) if is_inner else SharedBudget(budget)
    call = recorded(shared, chain=PRICED)
    journal = Journal.from_json(call.journal.to_json())
    replayed = rungwise.replay(journal)
    assert replayed.journal.steps == call.journal.steps
    assert replayed.journal.to_json() == call.journal.to_json()
    assert (replayed.outcome, replayed.cause, replayed.usage) == (
        call.result.outcome,
        call.result.cause,
        call.result.usage,
    )
    assert journal.setting.within == shared.budgets == ((budget, other.budget) if is_inner else (budget,))


def test_a_call_that_ran_out_before_and_while_its_messages_were_made_shorter_replays() -> None:
    for others in (False, True):
        shared = SharedBudget(Budget(money=0.002))
        call = sent(shared, 60, chain=PRICED, has_compactor=True)
        if not others:
            spend(shared, 108, chain=PRICED, cap=100)
        spare = sent(shared, chain=PRICED) if others else None
        call.receive(Failure("context_overflow", status=400), 1.0)
        assert call.position.state == "compact"
        call.compacted([{"role": "user", "content": "Where do they nest? " * 400}])
        assert "money" in over_budget(call, 2.0)
        replayed = rungwise.replay(Journal.from_json(call.journal.to_json()))
        assert replayed.journal.steps == call.journal.steps
        assert spare is None or not spare.is_over


def test_the_journal_of_a_call_by_itself_says_nothing_of_it() -> None:
    alone = recorded(SharedBudget(Budget())).journal
    document = json.loads(alone.to_json())
    assert document.pop("within") == [{"attempts": 24, "seconds": 900.0, "output_tokens": None, "money": None}]
    assert document.pop("within_deadline") == 900.0
    call = Call(Request("Where?", max_tokens=60, input_tokens=10))
    call.begin(0.0)
    assert list(json.loads(call.journal.to_json())) == list(document)


@pytest.mark.parametrize("within", ["x", [1], [{"attempts": 0}], [{"tokens": 3}], [{"money": 1.0}]])
def test_a_journal_with_another_form_of_it_is_refused(within: Any) -> None:
    document = json.loads(recorded(SharedBudget(Budget())).journal.to_json())
    with pytest.raises(rungwise.ConfigurationError, match="journal"):
        Journal.from_json(json.dumps({**document, "within": within}))


def test_a_cap_that_is_not_what_it_was_is_found() -> None:
    document = json.loads(recorded(SharedBudget(Budget(output_tokens=5000))).journal.to_json())
    document["steps"][0]["cap"] = 61
    with pytest.raises(rungwise.JournalMismatch, match="cap is 61"):
        rungwise.replay(Journal.from_json(json.dumps(document)))
