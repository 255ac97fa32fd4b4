"""Waiting for what happens in another thread, or in another task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until a condition holds, and fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def auntil(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait until a condition holds, and let the other tasks of this event loop have their turns."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
