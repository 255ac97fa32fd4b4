"""What a turn asks its driver to do next."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.parts import Message, ToolCall
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.call.run.delivery import StreamEvent
from rungwise.fsm.turn.tools import ToolRun


@frozen(eq=False)
class MakeCall:
    """Run this call to its end, and tell the turn with `called`.

    Arguments:
        call: the call, which has not begun.
    """

    call: Call


@frozen
class ToolOutcome:
    """Hold what came of a tool run.

    Arguments:
        value: what the tool returned.
        fault: what went wrong, in words for the model; None where nothing did.
    """

    value: Any = field(default=None, repr=False)
    fault: str | None = field(default=None, repr=False)


@frozen
class RunTools:
    """Run these tools side by side, and tell the turn with `tools_ran`, in their order.

    Arguments:
        runs: the calls of one reply that can be run; the others have their results already.
        at_once: how many may run side by side.
        seconds: how long all of them may take together, and after which none begins; None for no limit.
    """

    runs: tuple[ToolRun, ...]
    at_once: int
    seconds: float | None = None


@frozen
class Compact:
    """Shorten the conversation, and tell the turn with `compacted`.

    Arguments:
        messages: the conversation.
        room: by how many tokens it should become shorter.
    """

    messages: tuple[PlainMessage | Message, ...] = field(repr=False)
    room: int


Action = MakeCall | RunTools | Compact


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
