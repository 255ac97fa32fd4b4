"""Everything that happens to a turn, as a script that can be written down and played again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Final, Literal, get_args

from attrs import field, frozen

from rungwise.fsm.call.conversation.parts import Message, ToolCall, ToolResult
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.testing.backend import PROMPT, Played, Scripted
from rungwise.fsm.testing.callers import TOOL_ROUND, WITH_SYSTEM
from rungwise.fsm.testing.turn.compactors import TurnCompactor
from rungwise.fsm.testing.turn.tools import ToolPlay
from rungwise.fsm.values.checks import is_whole, must, must_be_one_of

_LONG: Final = "The river rose, and the nests in the bank were flooded. " * 60
_ASKED: Final = {"role": "user", "content": PROMPT}
_BLOCKS: Final[Sequence[PlainMessage]] = (
    _ASKED,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look_up", "input": {"path": "x"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": _LONG}]},
    {"role": "assistant", "content": "They nest in the steep bank."},
    {"role": "user", "content": "And in summer?"},
)
_TOLD: Final[Sequence[PlainMessage | Message]] = (
    {"role": "system", "content": "You know the birds of this river."},
    {"role": "user", "content": _LONG},
    Message("assistant", (ToolCall("call_1", "look_up", '{"path": "x"}'), ToolCall("call_2", "note", "{}"))),
    Message("tool", (ToolResult("call_1", "look_up", _LONG), ToolResult("call_2", "note", "done"))),
    Message.saying("assistant", "They were seen near the weir."),
    _ASKED,
)

CONVERSATIONS: Final[Mapping[str, Sequence[PlainMessage | Message]]] = {
    "a question": (_ASKED,),
    "a long question": ({"role": "user", "content": _LONG}, {"role": "assistant", "content": "I see."}, _ASKED),
    "after tools": tuple(TOOL_ROUND),
    "with a system message": tuple(WITH_SYSTEM),
    "a turn of another provider": _BLOCKS,
    "a turn of ours": _TOLD,
}
"""What a turn may begin with, the simplest first."""

StopKind = Literal["cancel", "kill"]


@frozen
class Stop:
    """Say when the turn is ended from outside.

    Arguments:
        kind: "cancel" as a caller does, or "kill" as a crash does: the turn is simply dropped.
        at: after how many moments; each action, each request, each reply and each run of a tool is one.
    """

    kind: StopKind = field(default="cancel", validator=must_be_one_of(get_args(StopKind), names_class=True))
    at: int = field(
        default=1,
        validator=must("a whole number of 0 or more", lambda value: is_whole(value, 0), names_class=True),
    )


def _replies(value: Iterable[Scripted]) -> tuple[Scripted, ...]:
    return tuple([_bare(each) for each in value])


def _bare(item: Scripted) -> Scripted:
    """Return a reply that comes in one piece as it is."""
    return item.reply if isinstance(item, Played) and item == Played(item.reply) else item


def _plays(value: Iterable[ToolPlay]) -> tuple[ToolPlay, ...]:
    return tuple(value)


_NOT_EMPTY: Final = must("at least one", bool, names_class=True)


@frozen
class TurnScript:
    """Hold what happens to one turn.

    Arguments:
        replies: what the providers answer, request by request; the last one is repeated for ever.
        tools: what the tools do, run by run; the last one is repeated for ever.
        asked: what the turn begins with, of `CONVERSATIONS`.
        max_tokens: the caller's output cap.
        compactor: what shortens conversations that do not fit, or does not; None for none.
        stop: how the turn is ended from outside; None lets it end by itself.
        latency: seconds that each request takes.
        streams: whether there is a consumer of a stream.
        contents: whether the journal may hold texts.
        is_fair: whether providers keep to caps and count prompts as they are.

    Raises:
        ConfigurationError: a field is not of its form.
    """

    replies: tuple[Scripted, ...] = field(converter=_replies, validator=_NOT_EMPTY)
    tools: tuple[ToolPlay, ...] = field(default=(ToolPlay(),), converter=_plays, validator=_NOT_EMPTY)
    asked: str = field(default=next(iter(CONVERSATIONS)), validator=must_be_one_of(CONVERSATIONS, names_class=True))
    max_tokens: int | None = None
    compactor: TurnCompactor | None = None
    stop: Stop | None = None
    latency: float = 0.0
    streams: bool = False
    contents: bool = False
    is_fair: bool = False

    @property
    def request(self) -> Request:
        """Return what is asked."""
        return Request(deepcopy(CONVERSATIONS[self.asked]), max_tokens=self.max_tokens)

    def play(self, number: int) -> ToolPlay:
        """Return what the tools do in a run, counted from 0."""
        return self.tools[min(number, len(self.tools) - 1)]
