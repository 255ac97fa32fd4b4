"""The lists of best values by number of attempts, against every way to spend the units."""

from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.engine.checker.best_values import (
    NEVER,
    Units,
    after_send,
    after_spending,
    better,
    leaving,
    merged,
)

WEIGHTS = st.integers(0, 9)
VALUES = st.lists(st.one_of(st.just(NEVER), st.integers(0, 30)), min_size=2, max_size=7)
CHAINS = st.builds(
    lambda prefix, count, weight: Units((("leaf", len(prefix) + count),), prefix, count, weight),
    st.lists(WEIGHTS, max_size=3).map(tuple),
    st.integers(0, 4),
    WEIGHTS,
)


def gain_of(chain: Units, units: int) -> int:
    """Add up the units one by one."""
    return sum([chain.unit(index) for index in range(units)])


@given(CHAINS)
def test_what_units_gain_together_is_their_sum(chain: Units) -> None:
    assert [chain.gain(units) for units in range(chain.size + 1)] == [
        gain_of(chain, units) for units in range(chain.size + 1)
    ]


def test_units_weigh_what_the_first_of_them_do_and_then_all_the_same() -> None:
    chain = Units((("leaf", 4),), (5, 4), 2, 3)
    assert [chain.unit(index) for index in range(chain.size)] == [5, 4, 3, 3]
    assert [chain.gain(units) for units in (0, 1, 2, 4)] == [0, 5, 9, 15]


@given(VALUES, CHAINS)
def test_spending_units_is_the_best_of_every_number_of_them(values: list, chain: Units) -> None:
    expected = []
    for attempts in range(len(values)):
        counts = range(min(attempts, chain.size) + 1)
        expected.append(max([values[attempts - n] + gain_of(chain, n) for n in counts]))
    assert after_spending(values, [chain]) == expected


@given(st.integers(0, 30), CHAINS)
def test_if_attempts_are_not_counted_all_units_are_spent(value: int, chain: Units) -> None:
    assert after_spending([value], [chain]) == [value + gain_of(chain, chain.size)]


@given(VALUES.map(sorted), st.lists(CHAINS, max_size=4))  # one more attempt never costs weight
def test_chains_may_be_joined(values: list, chains: list[Units]) -> None:
    assert after_spending(values, merged(chains)) == after_spending(values, chains)
    apart = [chain for chain in merged(chains) if not chain.prefix]
    assert len({chain.weight for chain in apart}) == len(apart)


def test_a_send_takes_one_attempt_and_a_reserve_leaves_some() -> None:
    assert after_send([1, 2, 3], 10) == [NEVER, 11, 12]
    assert after_send([1], 10) == [11]
    assert leaving(2, [1, 2, 3]) == [NEVER, NEVER, 3]
    assert leaving(0, [1, 2, 3]) == [1, 2, 3]
    assert better([1, 5, NEVER], [2, 4, NEVER]) == [2, 5, NEVER]
