"""What a turn asks its driver to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from rungwise.fsm.call.call import Call
from rungwise.fsm.call.conversation.parts import Message, ToolCall
from rungwise.fsm.call.conversation.request import PlainMessage

if TYPE_CHECKING:
    from rungwise.fsm.turn.tools import Tool


@frozen(eq=False)
class MakeCall:
    """Run this call to its end, and tell the turn with `called`.

    Arguments:
        call: the call, which has not begun.
    """

    call: Call


@frozen
class ToolRun:
    """Hold one tool call that is to be run.

    Arguments:
        call: what the model asked for.
        tool: what runs it; where it has no function, the caller's executor does.
        arguments: the arguments, which fit the schema.
        seconds: how long it may take.
    """

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any] = field(repr=False)
    seconds: float


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
