"""What a client needs to run turns; imported with the first of them, for it takes a fifth of the time of an import."""

from __future__ import annotations

from rungwise.adapters.turn.async_driver import AsyncTurnDriver
from rungwise.adapters.turn.options import OF_TURNS, Planned
from rungwise.adapters.turn.streams import AsyncTurnStream, TurnStream
from rungwise.adapters.turn.sync_driver import SyncTurnDriver

__all__ = ["OF_TURNS", "AsyncTurnDriver", "AsyncTurnStream", "Planned", "SyncTurnDriver", "TurnStream"]
