"""Whatever the other backends of a chain do, a healthy one that answers within its reserve gets the
call done.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import evolve

from rungwise.fsm.call.clocks.silence import CLOSING
from support import many_tongues
from support.modes import MODES
from support.troubled import SECONDS, TROUBLES, Chain, bound_of, lasting_problem_with

AT_ONCE = 6


def problems(chains: Iterable[Chain]) -> list[str]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [problem.text for problem in pool.map(lasting_problem_with, chains) if problem]


def test_each_trouble_of_a_first_backend_is_survived() -> None:
    plain = evolve(Chain.drawn(0), borrowed=False, max_tokens=None)
    chains = [
        evolve(plain, troubles=((name,), ()), mode=MODES[place % len(MODES)])
        for place, name in enumerate(TROUBLES)
    ]
    assert problems(chains) == []


@pytest.mark.parametrize(
    "seeds", [range(24), pytest.param(range(1000, 1500), marks=pytest.mark.full)], ids=len
)
def test_random_troubles_are_survived(seeds: range) -> None:
    chains = [*map(Chain.drawn, seeds)]
    assert problems(chains) == []
    # They were held to the seconds of their budget, which is what their certificates say, but for
    # closing.
    assert {bound_of(chain) for chain in chains[::25]} == {SECONDS + CLOSING}


# where each backend speaks a protocol of its own


@pytest.mark.full
@pytest.mark.parametrize("seed", range(12))
def test_random_troubles_in_random_protocols_are_survived(seed: int) -> None:
    assert many_tongues.problem_with(many_tongues.Chain.drawn(seed)) is None


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 1500, 50))
def test_hundreds_of_random_troubles_are_survived(start: int) -> None:
    problems = [
        many_tongues.problem_with(many_tongues.Chain.drawn(seed))
        for seed in range(start, start + 50)
    ]
    assert [problem for problem in problems if problem] == []
