"""How many tests run at once, and which are left to `.ci/run full`."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than there are processors: many tests wait for a deadline to pass."""
    return (os.cpu_count() or 1) + 1


LONG = ("test_own_turns.py::TestManyTurnsAtOnce",)
"""What is word for word what the README shows, and takes long: it bears no mark of its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `.ci/run full` what takes long and cannot say so itself."""
    for item in items:
        if any(name in item.nodeid for name in LONG):
            item.add_marker(pytest.mark.full)
