"""Which of many similar cases, and how many examples, an ordinary run takes; `.ci/run full` takes
the others, and of those that each take seconds one of n: the rest is left to `.ci/run soak`.
"""

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

THOROUGH = bool(os.environ.get("THOROUGH"))
"""Whether this run spares nothing: `.ci/run full` is thorough."""

MANY = 5
"""From how many cases on a test is sampled, if it does not say itself how."""
ONE_IN = 14
"""Of how many of its cases an ordinary run then takes one."""


def sampled(values: Iterable[Any], *, one_in: int) -> list[Any]:
    """Return values for `parametrize` and mark all but every n-th as `full`; a tuple is one case of
    several arguments.

    Arguments:
        values: the cases.
        one_in: n.
    """
    return [
        pytest.param(*_arguments(value), marks=[pytest.mark.full] if place % one_in else [])
        for place, value in enumerate(values)
    ]


def mark_the_rest_as_full(items: Iterable[pytest.Item]) -> None:
    """Mark all but about every n-th case of each test that is marked `sampled(n)` as `full`; a test
    that is not marked, and has many cases, is taken as if it were.

    The choice starts at another case for each test of a file, and moves by one after n cases. So
    the tests of a file take every mode, and a test with two parameters meets several values of
    both.
    """
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("full"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    places: Counter[str] = Counter()
    for cases in tests.values():
        marker = cases[0].get_closest_marker("sampled")
        if marker is not None:
            (one_in,) = marker.args
        else:
            one_in = ONE_IN if len(cases) >= MANY else 1
        step = min(one_in, len(cases))
        file = str(cases[0].path)
        for place, item in enumerate(cases):
            if (place + place // step + places[file]) % step:
                item.add_marker(pytest.mark.full)
        places[file] += 1


def leave_the_dear_to_a_soak(items: Iterable[pytest.Item]) -> None:
    """Mark all but every n-th case of each test that is marked `dear(n)` as `soak`, of those that
    an ordinary run leaves out.
    """
    places: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("dear")
        if marker is None or not item.get_closest_marker("full"):
            continue
        (one_in,) = marker.args
        test = item.nodeid.partition("[")[0]
        if places[test] % one_in:
            item.add_marker(pytest.mark.soak)
        places[test] += 1


def examples(many: int) -> int:
    """Return how many examples this run tries where a thorough one tries so many."""
    return max(many * settings().max_examples // 100, 1)


def _arguments(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
