"""What the stream of a turn hands to its consumer, besides what its calls say, its steps and the final result."""

from __future__ import annotations

from attrs import frozen

from rungwise.fsm.call.delivery import StreamEvent
from rungwise.fsm.call.parts import ToolCall
from rungwise.fsm.turn.actions import ToolOutcome


@frozen
class ToolStarted:
    """Say that a tool has begun to run."""

    call: ToolCall


@frozen
class ToolEnded:
    """Say that a tool has ended, and what came of it."""

    call: ToolCall
    outcome: ToolOutcome


TurnEvent = StreamEvent | ToolStarted | ToolEnded
