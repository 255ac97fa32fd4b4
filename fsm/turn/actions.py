"""The actions that a turn asks its driver for, and the events of its stream."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.turn.tools import ToolRun


@frozen(eq=False)
class MakeCall:
    """Run this call to its end, and pass its result to `Turn.called`.

    Arguments:
        call: the call, which has not begun.
    """

    call: Call


@frozen
class ToolOutcome:
    """Hold the outcome of a tool.

    Arguments:
        value: what the tool returned.
        fault: what went wrong, in words for the model; None for a success.
    """

    value: Any = field(default=None, repr=False)
    fault: str | None = field(default=None, repr=False)


@frozen
class RunTools:
    """Run these tools in parallel, and pass their outcomes in the same order to `Turn.tools_ran`.

    Arguments:
        runs: the calls of one reply that can run; the others already have results.
        at_once: how many may run in parallel.
        seconds: the time for all of them together, after which none begins; None for no limit.
        observer: of the turn.
    """

    runs: tuple[ToolRun, ...]
    at_once: int
    seconds: float | None = None
    observer: Any = field(default=None, eq=False, repr=False)


@frozen
class Compact:
    """Shorten the conversation, and pass the result to `Turn.compacted`.

    Arguments:
        messages: the conversation as plain messages; a copy, which may be changed.
        room: by how many tokens it should shrink.
    """

    messages: tuple[PlainMessage, ...] = field(repr=False)
    room: int


Action = MakeCall | RunTools | Compact


@frozen
class ToolStarted:
    """Report that a tool has started.

    Arguments:
        call: the tool call of the model.
    """

    call: ToolCall


@frozen
class ToolEnded:
    """Report that a tool has ended.

    Arguments:
        call: the tool call of the model.
        outcome: what the tool returned, or what went wrong.
    """

    call: ToolCall
    outcome: ToolOutcome


TurnEvent = StreamEvent | ToolStarted | ToolEnded
