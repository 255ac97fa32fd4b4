"""A chain whose backends each speak a protocol of their own gets the call done, whatever all but one of them do."""

import pytest

from support.many_tongues import Chain, problem_with


@pytest.mark.parametrize("seed", range(12))
def test_random_troubles_in_random_protocols_are_survived(seed: int) -> None:
    assert problem_with(Chain.drawn(seed)) is None


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 1500, 50))
def test_hundreds_of_random_troubles_are_survived(start: int) -> None:
    problems = [problem_with(Chain.drawn(seed)) for seed in range(start, start + 50)]
    assert [problem for problem in problems if problem] == []
