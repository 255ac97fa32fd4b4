"""The event loops that anyio knows, as far as it does not say what they can do."""

from __future__ import annotations

from collections.abc import Callable

Soon = Callable[[Callable[[], object]], object]
"""Calls something in an event loop, from any thread."""


def is_asyncio() -> bool:
    """Tell whether the running event loop is one of asyncio; else it is trio's."""
    import asyncio  # which calls in threads do without

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def soon() -> Soon:
    """Return what calls something in the running event loop."""
    if is_asyncio():
        import asyncio

        return asyncio.get_running_loop().call_soon_threadsafe
    import trio  # which is running, so it is there

    found: Soon = trio.lowlevel.current_trio_token().run_sync_soon
    return found
