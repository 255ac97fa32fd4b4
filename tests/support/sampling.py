"""Which of many like cases, and how many examples, every run takes; the others are left to `.ci/run full`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def sampled(values: Iterable[Any], *, one_in: int) -> list[Any]:
    """Return the values for `parametrize`, those of every run among them; a tuple is one case of several arguments.

    Arguments:
        values: the cases.
        one_in: how many stand for one that every run takes.
    """
    return [
        pytest.param(*_arguments(value), marks=[pytest.mark.full] if place % one_in else [])
        for place, value in enumerate(values)
    ]


def examples(many: int) -> int:
    """Return how many examples this run tries where a thorough one tries so many."""
    return max(many * settings().max_examples // 100, 1)


def _arguments(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
