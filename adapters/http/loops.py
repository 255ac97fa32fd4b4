"""The event loops that anyio knows, as far as it does not say what they can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

Soon = Callable[[Callable[[], object]], object]
"""Calls something in an event loop, from any thread."""


def is_asyncio() -> bool:
    """Tell whether the running event loop is one of asyncio; else it is trio's."""
    from asyncio import get_running_loop  # which calls in threads do without

    try:
        get_running_loop()
    except RuntimeError:
        return False
    return True


def running_loop() -> AbstractEventLoop | None:
    """Return the event loop of asyncio that runs this task; None on another kind, trio as the guest of one included."""
    from asyncio import current_task

    try:
        task = current_task()
    except RuntimeError:
        return None
    return None if task is None else task.get_loop()


def soon() -> Soon:
    """Return what calls something in the running event loop."""
    if is_asyncio():
        from asyncio import get_running_loop

        return get_running_loop().call_soon_threadsafe
    import trio  # which is running, so it is there

    found: Soon = trio.lowlevel.current_trio_token().run_sync_soon
    return found
