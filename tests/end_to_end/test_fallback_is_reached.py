"""Whatever the other backends of a chain do, a healthy one that answers within its reserve gets the call done."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from attrs import evolve

from support.modes import MODES
from support.troubled import TROUBLES, Chain, problem_with

AT_ONCE = 6


def problems(chains: Iterable[Chain], *, certified: bool = False) -> list[str]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(partial(problem_with, certified=certified), chains)
        return [problem for problem in found if problem]


def test_each_trouble_of_a_first_backend_is_survived() -> None:
    plain = evolve(Chain.drawn(0), borrowed=False, max_tokens=None)
    chains = [
        evolve(plain, troubles=((name,), ()), mode=MODES[place % len(MODES)]) for place, name in enumerate(TROUBLES)
    ]
    assert problems(chains) == []


def test_random_troubles_are_survived() -> None:
    assert problems(map(Chain.drawn, range(24))) == []


@pytest.mark.full
def test_five_hundred_random_troubles_are_survived() -> None:
    assert problems(map(Chain.drawn, range(1000, 1500)), certified=True) == []
