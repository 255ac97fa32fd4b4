"""What a test needs and this machine has not."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test on a developer's machine, and fail it in CI, where everything is to be had."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
