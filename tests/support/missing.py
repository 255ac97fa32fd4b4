"""Tests whose requirements this machine lacks."""

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test on a developer's machine, and fail it in CI, where everything is installed."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
