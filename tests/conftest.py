"""How many tests run at once."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than there are processors: many tests wait for a deadline to pass."""
    return (os.cpu_count() or 1) + 1
