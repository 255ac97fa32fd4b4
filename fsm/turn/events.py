"""What the stream of a turn hands to its consumer, besides what its calls say, its steps and the final result."""

from __future__ import annotations

from attrs import frozen

from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.turn.actions import ToolOutcome


@frozen
class ToolStarted:
    """Say that a tool runs.

    Arguments:
        call: what the model asked for.
    """

    call: ToolCall


@frozen
class ToolEnded:
    """Say what came of a tool that has run.

    Arguments:
        call: what the model asked for.
        outcome: what it returned, or what went wrong.
    """

    call: ToolCall
    outcome: ToolOutcome


TurnEvent = StreamEvent | ToolStarted | ToolEnded
