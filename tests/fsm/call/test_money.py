"""Money is counted exactly: in whole units, by one rule, whatever floats say."""

import random
from functools import reduce
from operator import add

import pytest

import rungwise
from rungwise import Budget, Limits, Message, Policy, Prices, SharedBudget, Usage
from rungwise.core import Call, Failure, PlainLink, Reply, Request
from rungwise.fsm.call.budget.budget import Reserved, Spending
from rungwise.fsm.call.budget.costs import (
    LARGEST_PRICED_CAP,
    Charges,
    bought,
    dearest_prompt,
    price_of,
)
from rungwise.fsm.call.budget.estimate import estimate_tokens, message_tokens, tokens_of
from rungwise.fsm.call.budget.metering import most_counted
from rungwise.fsm.values.money import UNITS, as_money, units_of
from rungwise.fsm.values.usage import NO_USAGE


@pytest.mark.parametrize("money", [0.03, 0.1 + 0.2, 1e-9, 5.0, 1.25, 123_456.78, 1e12])
def test_what_a_person_writes_is_read_back_as_it_was(money: float) -> None:
    assert as_money(units_of(money)) == money


def test_fifty_calls_come_to_what_they_cost_and_not_to_a_float_beside_it() -> None:
    prices = Prices(1.0, 10.0)
    shared = SharedBudget(Budget(attempts=1000, money=0.03))
    usage = Usage(10, 59)
    # as floats add up, where nothing compensates
    assert reduce(add, [(10 * 1.0 + 59 * 10.0) / 1e6] * 50) != 0.03
    for _ in range(50):
        share = shared.share()
        assert share.send(51, 10, prices) is None
        share.settle(usage, usage, prices, None)
    assert shared.cost == 0.03
    assert shared.shortfall(input_tokens=1, prices=prices) == (
        "the money of the shared budget cannot pay for another attempt: "
        "0 is left, and it needs 0.000091"
    )


def test_money_buys_no_token_more_and_none_less() -> None:
    prices = Prices(0.1, 0.3)
    for tokens in (1, 7, 999_999, 10**9):
        paid = price_of(Usage(output_tokens=tokens), prices)
        assert (bought(paid, prices), bought(paid - 1, prices)) == (tokens, tokens - 1)


def test_money_that_is_used_up_buys_no_tokens_that_are_free_either() -> None:
    spending = Spending(Budget(money=1.0))
    for left, cap in ((-1, 0), (0, 0), (1, LARGEST_PRICED_CAP)):
        reserved = Reserved(money=UNITS - left)
        assert spending.lowered(None, 0, Prices(1.0, 0.0), reserved) == cap


def test_a_cost_is_known_until_a_backend_without_prices_is_paid() -> None:
    charges = Charges()
    charges.add(NO_USAGE, NO_USAGE, None)
    assert charges.cost == 0
    usage = Usage(1, 1)
    for prices in (None, Prices(1.0, 2.0)):
        charges.add(usage, usage, prices)
        assert charges.cost is None
    assert charges.money_note(None, 5, Prices(1.0, 2.0)) == ""
    assert charges.money_note(5, 5, None) == ""


def test_cached_tokens_have_a_price_of_their_own_and_an_estimate_counts_at_the_dearest() -> None:
    prices = Prices(1.0, 10.0, cache_read=0.1, cache_creation=1.25)
    assert price_of(Usage(100, 1, 50, 20), prices) * 1_000_000 == units_of(30 + 5 + 25 + 10)
    assert price_of(Usage(100, 0, estimated=True), prices) == dearest_prompt(100, prices)
    # more was cached than was sent
    assert price_of(Usage(1, 0, 50), prices) * 1_000_000 == units_of(5)


def test_less_than_a_unit_is_cut_off_and_never_added() -> None:
    assert units_of(0.4 / UNITS) == 0
    assert units_of(1.9 / UNITS) == 1


# what is estimated


def digits(number: int, count: int) -> str:
    return "".join(random.Random(number).choices("0123456789", k=count))


def test_text_of_one_token_a_digit_is_paid_within_the_budget_when_it_is_sent_back() -> None:
    policy = Policy(budget=Budget(money=0.20))
    link = PlainLink(prices=Prices(10, 1))
    call = Call(Request("hi", max_tokens=8_000, input_tokens=10), policy, [link])
    send = call.begin()
    billed = 0
    while send is not None:
        # a byte a token, and four for each message
        added = sum(4 + len(each.text) for each in send.messages[1:])
        usage = Usage(10 + added, send.max_tokens)
        billed += price_of(usage, link.prices)
        send = call.receive(
            Reply(digits(billed, send.max_tokens), stop_reason="length", usage=usage)
        )
    assert (call.result.outcome, call.result.attempts) == ("over_budget", 2)
    assert call.result.cost == as_money(billed) <= 0.20


@pytest.mark.parametrize("reported", [0, 300])
def test_what_is_sent_back_counts_as_the_larger_of_estimate_and_report(reported: int) -> None:
    assert tokens_of("word " * 60, 1_000, Usage(9, reported)) == 300  # reported, or each byte
    assert tokens_of("word " * 60, 1_000, Usage(9, 50)) == 100  # by the estimate
    assert tokens_of("1234 " * 600, 100, Usage()) > 108  # no cap was kept
    assert tokens_of("12345" * 60, 100) == 108  # a cap, and what is counted beside it


def test_a_reply_that_breaks_off_unreported_keeps_all_that_was_reserved_for_it() -> None:
    policy = Policy(limits=Limits(retries=9))
    shared = SharedBudget(Budget(attempts=99, output_tokens=400))
    call = Call(Request("hi", max_tokens=250), policy, [PlainLink()], within=shared)
    broken = Reply(digits(1, 540), interrupted=True)
    call.begin()
    caps = []
    while (send := call.sending()) is not None:
        caps.append(send.max_tokens)
        if call.receive(broken) is None:
            break
    assert sum(map(most_counted, caps)) <= 400
    assert shared.usage.output_tokens < sum(caps)  # which stays an estimate, and is marked as one
    assert shared.usage.estimated
    assert call.result.usage.estimated
    assert "what broke off unreported keeps what was reserved for it" in str(call.result.cause)
    replayed = rungwise.replay(rungwise.Journal.from_json(call.journal.to_json()))
    assert replayed.journal.steps == call.journal.steps


def test_a_stream_that_is_left_half_way_keeps_all_that_was_reserved_for_it() -> None:
    shared = SharedBudget(Budget(attempts=99, output_tokens=400))
    first = Call(Request("hi", max_tokens=250), Policy(), [PlainLink()], within=shared)
    first.begin()
    assert first.sending() is not None
    usage = first.cancel(partial=Reply("The heron", interrupted=True)).usage
    assert (usage.output_tokens, usage.estimated) == (3, True)
    second = Call(Request("hi", max_tokens=250), Policy(), [PlainLink()], within=shared)
    second.begin()
    sent = second.sending()
    assert sent is not None
    assert most_counted(250) + most_counted(sent.max_tokens) <= 400


def test_reported_usage_of_a_reply_that_breaks_off_is_what_it_costs() -> None:
    call = Call(
        Request("hi", max_tokens=100), Policy(budget=Budget(output_tokens=300)), [PlainLink()]
    )
    call.begin()
    call.receive(Reply("The heron stands in the reeds", interrupted=True, usage=Usage(9, 12)))
    assert call.spending.charged_tokens == 12


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_each_message_of_the_callers_counts_as_much_as_one_of_ours(role: str) -> None:
    messages = [{"role": role, "content": "ok"}] * 400 + [{"role": "user", "content": "ok"}]
    prices, money = Prices(10, 10), 0.0145  # 4 tokens a message and one of text cost 0.02005
    call = Call(Request(messages), Policy(budget=Budget(money=money)), [PlainLink(prices=prices)])
    assert call.begin() is None
    for written in (messages[:1], [Message.saying("user", "ok")]):
        assert estimate_tokens(written) >= message_tokens("ok") - 1  # two bytes are one token here


def test_a_compacted_prompt_counts_its_messages_and_as_densely_as_before() -> None:
    many = [{"role": "user", "content": "ok"}] * 50
    policy = Policy(budget=Budget(money=1))
    link = PlainLink(prices=Prices(10, 10))
    for given, counted in ((None, estimate_tokens(many[:1])), (50 * 40, 40)):
        call = Call(Request(many, input_tokens=given), policy, [link], has_compactor=True)
        call.begin()
        call.receive(Failure("context_overflow", status=400))
        call.compacted(many[:1])
        call.sending()
        assert call.journal.steps[-1].input_tokens == counted
