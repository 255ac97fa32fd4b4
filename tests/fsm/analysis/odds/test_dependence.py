"""Whether attempts depend on the one before: journals of independent ones draw no warning, those of
bursts do.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

from rungwise import ConfigurationError, Policy
from rungwise.fsm.analysis.odds.counted import RatesCount, chi_square_tail, dependence_of
from rungwise.fsm.analysis.odds.rates import BackendRates, Dependence, EventRate, Rates
from rungwise.fsm.call.policy import Waits
from support.command_line import invoke
from support.sampled_odds import Sample, play, random_policy, random_rates

ANSWERED = '[[backend]]\nname = "a"\n[[backend.fresh]]\nevent = "answered"\nshare = 1.0\n'
FAMILIAR = "{ pairs = 300, p = 0.004, v = 0.12 }"


def rates_of(answered: float, overloaded: float, empty: float) -> Rates:
    fresh = (
        EventRate(event="answered", share=answered),
        EventRate(event="failed_transiently", reason="overloaded", share=overloaded),
        EventRate(event="came_empty", share=empty),
    )
    return Rates([BackendRates(name="primary", fresh=fresh)])


CALM, BURST = rates_of(0.5, 0.2, 0.3), rates_of(0.1, 0.8, 0.1)


@pytest.mark.parametrize(
    ("square", "degrees", "share"),
    [  # Abramowitz and Stegun 1964, table 26.8
        (3.84146, 1, 0.05),
        (10.8276, 1, 0.001),
        (5.99146, 2, 0.05),
        (11.0705, 5, 0.05),
        (23.2093, 10, 0.01),
        (43.7730, 30, 0.05),
        (149.449, 100, 0.001),
        (0.0, 3, 1.0),
        (1e6, 7, 0.0),
    ],
)
def test_tails_are_those_of_the_table(square: float, degrees: int, share: float) -> None:
    assert chi_square_tail(square, degrees) == pytest.approx(share, rel=1e-4)


def test_a_small_table_by_hand() -> None:
    found = dependence_of(
        [
            {
                ("a", "x"): 10,
                ("a", "y"): 20,
                ("b", "x"): 30,
                ("b", "y"): 40,
            }
        ]
    )
    # 100 (10 * 40 - 20 * 30)^2 / (30 * 70 * 40 * 60) = 0.79365
    assert found == Dependence(pairs=100, p=0.37, v=0.089)


def test_rare_kinds_are_joined() -> None:
    table = {("a", "x"): 30, ("a", "y"): 30, ("b", "x"): 30, ("b", "y"): 30}
    rare = {("c", "x"): 1, ("a", "z"): 1, ("d", "z"): 1}
    found = dependence_of([Counter(table) + Counter(rare)])
    assert found is not None
    assert (found.pairs, found.p > 0.5) == (123, True)
    assert dependence_of([rare]) is None
    assert dependence_of([{("a", "x"): 500, ("a", "y"): 500}]) is None, "nothing to compare with"
    assert dependence_of([]) is None


def test_the_positions_are_compared_by_themselves() -> None:
    """Each table is independent, but their sum is not."""
    one = {"a": 90, "b": 10}
    other = {"a": 10, "b": 90}
    tables = [
        {(x, y): part[x] * part[y] // 100 for x in "ab" for y in "ab"} for part in (one, other)
    ]
    found = dependence_of(tables)
    summed = dependence_of([Counter(tables[0]) + Counter(tables[1])])
    assert found is None or not found.is_likely
    assert summed is not None
    assert summed.is_likely


def test_one_in_a_hundred_independent_tables_is_taken_for_dependent() -> None:
    chance = random.Random(5)
    found = []
    for _ in range(1_000):
        pairs = zip(
            chance.choices("abcd", (50, 30, 15, 5), k=400),
            chance.choices("xyz", (60, 35, 5), k=400),
            strict=True,
        )
        tested = dependence_of([Counter(pairs)])
        found.append(tested is not None and tested.p)
    for level in (0.01, 0.1, 0.5):
        assert sum(p < level for p in found) / 1_000 == pytest.approx(
            level, abs=4 * (level * (1 - level) / 1_000) ** 0.5
        )


def counted(
    rates: tuple[Rates, ...],
    seed: int,
    calls: int,
    policy: Policy,
) -> RatesCount:
    """Count calls of which each meets one of these rates all along."""
    chance = random.Random(seed)
    count = RatesCount()
    sample = Sample()
    for _ in range(calls):
        count.add(play(policy, chance.choice(rates), chance, sample))
    return count


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 6))]
)
def test_independent_attempts_draw_no_warning(seed: int) -> None:
    chance = random.Random(seed)
    for policy, rates in ((Policy(), CALM), (random_policy(chance), random_rates(chance, 2))):
        found = counted((rates,), seed, 1_000, policy).rates()
        assert not [warning for warning in found.warnings if "depends" in warning]


@pytest.mark.full
@pytest.mark.parametrize(
    "waits", [Waits(), Waits(retry_base=0, reask_base=0)], ids=["after waits", "at once"]
)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))]
)
def test_bursts_draw_one(seed: int, waits: Waits) -> None:
    found = counted((CALM, BURST), seed, 1_000, Policy(waits=waits)).rates()
    [warning] = [warning for warning in found.warnings if "depends" in warning]
    assert warning.startswith("primary: what an attempt brings depends on the attempt before (p = ")
    assert Rates.from_toml(found.to_toml()) == found
    dependence = found.backend[0].dependence
    assert dependence is not None
    assert dependence.p < 1e-6
    assert 0.15 < dependence.v < 0.8


@pytest.mark.full
def test_the_command_line_warns(tmp_path: Path) -> None:
    chance = random.Random(1)
    sample = Sample()
    policy = Policy()
    for number in range(400):
        text = play(policy, chance.choice((CALM, BURST)), chance, sample).to_json()
        (tmp_path / f"{number}.json").write_text(text)
    result = invoke("rates", tmp_path, "-o", tmp_path / "rates.toml")
    assert result.exit_code == 0
    assert "primary: what an attempt brings depends on the attempt before" in result.stderr
    assert "\ndependence = { pairs = " in (tmp_path / "rates.toml").read_text()
    result = invoke("odds", "--rates", tmp_path / "rates.toml")
    assert "primary: what an attempt brings depends on the attempt before (p = " in result.stdout
    (tmp_path / "rates.toml").write_text(ANSWERED)
    result = invoke("odds", "--rates", tmp_path / "rates.toml")
    assert "a: whether attempts depend on the one before is not known." in result.stdout


def with_dependence(value: str) -> str:
    return ANSWERED.replace("[[backend.fresh]]", f"dependence = {value}\n[[backend.fresh]]")


def test_a_person_can_read_and_write_it() -> None:
    rates = Rates.from_toml(with_dependence(FAMILIAR))
    assert rates.backend[0].dependence == Dependence(pairs=300, p=0.004, v=0.12)
    assert f"dependence = {FAMILIAR}\n" in rates.to_toml()
    assert rates.warnings == (
        "a: what an attempt brings depends on the attempt before (p = 0.004, Cramér's V = 0.12, "
        "300 pairs); the odds take attempts as independent",
    )
    assert Rates.from_toml(with_dependence(FAMILIAR.replace("0.004", "0.01"))).warnings == ()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("0.3", "BackendRates.dependence must be a table of keys"),
        ("'much'", "BackendRates.dependence must be a table of keys"),
        ("{}", "Dependence.pairs must be a whole number from 1"),
        (FAMILIAR.replace("300", "0"), "Dependence.pairs must be a whole number from 1"),
        (FAMILIAR.replace("300", "2.5"), "Dependence.pairs must be a whole number from 1"),
        (FAMILIAR.replace("p = 0.004, ", ""), "Dependence.p must be a share from 0 to 1"),
        (FAMILIAR.replace("0.004", "1.1"), "Dependence.p must be a share from 0 to 1"),
        (FAMILIAR.replace("0.004", "nan"), "Dependence.p must be a share from 0 to 1"),
        (FAMILIAR.replace("0.12", "-0.1"), "Dependence.v must be a share from 0 to 1"),
        (FAMILIAR.replace("v =", "phi ="), "unknown key 'phi'"),
    ],
)
def test_nonsense_is_refused(value: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Rates.from_toml(with_dependence(value))
    assert says in str(caught.value)
