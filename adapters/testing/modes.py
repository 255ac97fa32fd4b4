"""The methods of a client by which a call can be made."""

from __future__ import annotations

from typing import Final

MODES: Final = ("call", "stream", "acall", "astream")


def is_streaming(mode: str) -> bool:
    """Tell whether the reply is asked for as a stream."""
    return mode in ("stream", "astream")


def is_async(mode: str) -> bool:
    """Tell whether an event loop runs the call."""
    return mode in ("acall", "astream")
