"""A test that fails is run again where the machine held it up, and nowhere else."""

import math
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parents[1]
CONFTEST = """
import sys

sys.path.insert(0, {tests!r})

import pytest
from support import held_up

held_up.TOO_LONG = float("{limit}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    held_up.run_again_where_held_up(item, nextitem)
    return True
"""
FAILS_ONCE = """
import pytest

RUNS = []
SET_UP = []


@pytest.fixture
def server():
    SET_UP.append(1)
    yield len(SET_UP)
    SET_UP.append(-len(SET_UP))


def test_it(server):
    RUNS.append(1)
    assert server == 2 * len(RUNS) - 1
    assert len(RUNS) == {passes_at}
"""
HELD_UP, REGULAR = 0.0, math.inf


@pytest.mark.parametrize(
    ("limit", "passes_at", "passed"),
    [
        (HELD_UP, 1, 1),
        (HELD_UP, 2, 1),
        (HELD_UP, 4, 1),
        (HELD_UP, 5, 0),  # it fails for a fault of its own
        (REGULAR, 1, 1),
        (REGULAR, 2, 0),
    ],
)
def test_what_fails_is_run_again_where_it_was_held_up(
    pytester: pytest.Pytester, limit: float, passes_at: int, passed: int
) -> None:
    pytester.makeconftest(CONFTEST.format(tests=str(TESTS), limit=limit))
    pytester.makepyfile(FAILS_ONCE.format(passes_at=passes_at))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=passed, failed=1 - passed)
