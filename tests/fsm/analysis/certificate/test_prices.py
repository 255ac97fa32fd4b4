"""The worst case of money is that of the dearest model and tier that may serve."""

import pytest

import rungwise
from rungwise import Budget, Limits, Policy, Prices
from rungwise.core import PlainLink
from rungwise.fsm.analysis.certificate.certificate import WorstCase

POLICY = Policy(
    limits=Limits(fallbacks=0, continuations=1, retries=1),
    budget=Budget(attempts=4, seconds=None),
)
PLAIN = Prices(3.0, 12.0)


def money(prices: Prices, policy: Policy = POLICY) -> WorstCase:
    [link] = [PlainLink(prices=prices)]
    proved = rungwise.verify(policy, [link], max_tokens=100, input_tokens=50)
    [case] = [case for case in proved.worst if case.name == "money"]
    return case


@pytest.mark.parametrize(
    "prices",
    [
        Prices(1.0, 2.0, models={"a": PLAIN}),
        Prices(1.0, 2.0, tiers={"priority": PLAIN}),
        Prices(1.0, 2.0, models={"a": Prices(0.5, 12.0), "b": Prices(3.0, 1.0)}),
        Prices(1.0, 2.0, models={"a": Prices(2.0, 3.0, tiers={"priority": PLAIN})}),
        Prices(1.0, 12.0, cache_creation=2.0, cache_creation_long=3.0),
        Prices(1.0, 2.0, models={"a": Prices(1.0, 12.0, cache_read=3.0)}),
    ],
)
def test_the_dearest_that_may_come_is_certified_and_attained(prices: Prices) -> None:
    case = money(prices)
    expected = money(PLAIN)
    assert case.value == expected.value
    assert case.attained == pytest.approx(expected.attained)
    assert (case.is_exact, case.is_certain) == (expected.is_exact, expected.is_certain)
    assert case.is_certain


@pytest.mark.full
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "prices",
    [
        Prices(3.0, 12.0, units={"web_search": 0.01}),
        Prices(3.0, 12.0, models={"a": Prices(1.0, 1.0, units={"web_search": 0.01})}),
    ],
)
def test_what_nobody_can_bound_is_said(prices: Prices) -> None:
    case = money(prices)
    assert case.value == money(PLAIN).value
    assert not case.is_certain
    assert "beside tokens" in case.note
    assert "beside tokens" not in money(PLAIN).note
