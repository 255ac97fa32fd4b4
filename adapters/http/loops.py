"""The event loops that anyio knows, as far as it does not say what they can do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Soon = Callable[[Callable[[], object]], object]
"""Calls something in an event loop, from any thread."""


def is_asyncio() -> bool:
    """Tell whether the running event loop is one of asyncio; else it is trio's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of asyncio that runs this task; None on another kind, trio as the guest of one included."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    return None if task is None else task.get_loop()


def soon() -> Soon:
    """Return what calls something in the running event loop."""
    if is_asyncio():
        return asyncio.get_running_loop().call_soon_threadsafe
    import trio  # which is running, so it is there

    found: Soon = trio.lowlevel.current_trio_token().run_sync_soon
    return found
