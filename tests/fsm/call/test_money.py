"""Money is counted exactly: in whole units, by one rule, whatever floats say."""

import pytest

from rungwise import Budget, Prices, SharedBudget, Usage
from rungwise.fsm.call.budget.prices import bought, dearest_prompt, price_of
from rungwise.fsm.values.money import UNITS, as_money, units_of


@pytest.mark.parametrize("money", [0.03, 0.1 + 0.2, 1e-9, 5.0, 1.25, 123_456.78, 1e12])
def test_what_a_person_writes_is_read_back_as_it_was(money: float) -> None:
    assert as_money(units_of(money)) == money


def test_fifty_calls_come_to_what_they_cost_and_not_to_a_float_beside_it() -> None:
    prices, shared = Prices(1.0, 10.0), SharedBudget(Budget(attempts=1000, money=0.03))
    usage = Usage(10, 59)
    assert sum([(10 * 1.0 + 59 * 10.0) / 1e6] * 50) != 0.03  # as floats add up
    for _ in range(50):
        share = shared.share()
        assert share.send(51, 10, prices) is None
        share.settle(usage, usage, prices, None)
    assert shared.cost == 0.03
    assert (
        shared.shortfall(input_tokens=1, prices=prices)
        == "the money of the shared budget cannot pay for another attempt"
    )


def test_money_buys_no_token_more_and_none_less() -> None:
    prices = Prices(0.1, 0.3)
    for tokens in (1, 7, 999_999, 10**9):
        paid = price_of(Usage(output_tokens=tokens), prices)
        assert (bought(paid, prices), bought(paid - 1, prices)) == (tokens, tokens - 1)


def test_cached_tokens_have_a_price_of_their_own_and_an_estimate_counts_at_the_dearest() -> None:
    prices = Prices(1.0, 10.0, cache_read=0.1, cache_creation=1.25)
    assert price_of(Usage(100, 1, 50, 20), prices) * 1_000_000 == units_of(30 + 5 + 25 + 10)
    assert price_of(Usage(100, 0, estimated=True), prices) == dearest_prompt(100, prices)


def test_less_than_a_unit_is_cut_off_and_never_added() -> None:
    assert units_of(0.4 / UNITS) == 0
    assert units_of(1.9 / UNITS) == 1
