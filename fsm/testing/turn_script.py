"""Scripts of turns: what models, tools and compactors do, and their form in TOML.

A script is plain data. So a fuzz run can print the one that failed, and `read_turn_script` plays it
again in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, Literal, get_args

import attrs
from attrs import field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Message, ToolCall, ToolResult
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.testing.compactors import TurnCompactor
from rungwise.fsm.testing.samples import TOOL_ROUND, WITH_SYSTEM
from rungwise.fsm.testing.scripted import PROMPT, Played, Scripted
from rungwise.fsm.testing.strategies import first_or_often
from rungwise.fsm.turn.actions import ToolOutcome
from rungwise.fsm.turn.tools import Tool, Toolbox, ToolLike, ToolRun
from rungwise.fsm.values.checks import is_number, is_whole, must, must_be_one_of
from rungwise.fsm.values.files import ascii_toml, read_toml
from rungwise.fsm.values.usage import Usage

FOUND: Final = "Two nests were seen in the bank, on walk number"
HUGE: Final = 30_000  # characters of a result that no share of a small window holds
SECONDS: Final = (0.0, 0.0, 0.5, 20.0)
FOREVER: Final = 1e6  # seconds that are longer than any tool may take


class Untellable:
    """A value that JSON cannot express."""


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


_WAYS: Final[Mapping[str, Callable[[int], Any]]] = {
    "returns text": lambda number: f"{FOUND} {number}",
    "returns the same text": lambda number: FOUND,
    "returns JSON": lambda number: {"nests": [number, 2.5, None], "bank": "steep \U0001fa9c"},
    "returns nothing": lambda number: None,
    "returns blank text": lambda number: " \n",
    "returns half a pair": lambda number: f"half \ud83d {number}",
    "returns much text": lambda number: f"{FOUND} {number}. " * (HUGE // len(FOUND)),
    "returns much JSON": lambda number: {"nests": [number] * (HUGE // 4)},
    "returns what cannot be told": lambda number: Untellable(),
    "returns a circle": lambda number: _circle(),
}
_FAULTS: Final[Mapping[str, Callable[[int], str]]] = {
    "raises": lambda number: f"OSError: the bank is closed, {number}",
    "raises the same": lambda number: "OSError: the bank is closed",
}
TIMES_OUT: Final = "times out"

TOOL_WAYS: Final = (*_WAYS, *_FAULTS, TIMES_OUT)
"""What a tool may do: the ways that work come first."""
_IS_WAY = must("one of TOOL_WAYS", lambda value: value in TOOL_WAYS, names_class=True)
_IS_DURATION = must(
    "a number of seconds, 0 or more", lambda value: is_number(value, 0, FOREVER), names_class=True
)


@frozen
class ToolPlay:
    """What one run of a tool does, for how many seconds of a virtual clock."""

    way: str = field(default=TOOL_WAYS[0], validator=_IS_WAY)
    seconds: float = field(default=0.0, validator=_IS_DURATION)

    def outcome(self, run: ToolRun, number: int) -> tuple[ToolOutcome, float]:
        """Return the outcome of a run, and the seconds that it takes.

        Arguments:
            run: the run.
            number: its number in the turn, which its result mentions.
        """
        if self.way == TIMES_OUT or self.seconds > run.seconds:
            return ToolOutcome(fault=f"the tool took longer than {run.seconds:g} s"), run.seconds
        if self.way in _FAULTS:
            return ToolOutcome(fault=_FAULTS[self.way](number)), self.seconds
        return ToolOutcome(_WAYS[self.way](number)), self.seconds


def tool_plays() -> SearchStrategy[ToolPlay]:
    """Generate what a run of a tool does."""
    plays = st.builds(ToolPlay, st.sampled_from(TOOL_WAYS), st.sampled_from(SECONDS))
    return first_or_often(st.just(ToolPlay()), plays, once_in=3)


def _anything(**arguments: Any) -> None:
    # the docstring is the description of the tool, so scripted backends count it in the prompt
    """Take anything; a script says what comes of each run."""


def _look_up(path: str, n: int = 0) -> None:
    """Look something up."""


_OBJECT: Final = {"type": "object"}
_PATH: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
_NUMBER: Final = {"type": "object", "properties": {"n": {"type": "integer"}}}

_TOOLS_BY_NAME: Final[Mapping[str, ToolLike]] = {
    "look_up": _look_up,
    "read-file": Tool(_anything, parameters=_PATH),
    "write": Tool(
        _anything,
        alone=True,
        seconds=5.0,
        parameters=_OBJECT,
    ),
    "send": Tool(_anything, needs_approval=True, parameters=_OBJECT),
    "note": Tool(_anything, housekeeping=True, parameters=_OBJECT),
    "title": Tool(_anything, housekeeping=True, parameters=_OBJECT),
    "ask_user": Tool(terminating=True, parameters=_NUMBER),
    "hand_over": Tool(_anything, terminating=True),
}
TOOLS: Final = Toolbox.of(_TOOLS_BY_NAME)
"""A tool of every kind.

With type hints or a schema, run alone, with approval, for notes only, and ending the turn with a
run or without one.
"""

_LONG: Final = "The river rose, and the nests in the bank were flooded. " * 60
_QUESTION: Final = {"role": "user", "content": PROMPT}
_TOOL_USE: Final = {
    "type": "tool_use",
    "id": "t1",
    "name": "look_up",
    "input": {"path": "x"},
}
_BLOCKS: Final[Sequence[PlainMessage]] = (
    _QUESTION,
    {"role": "assistant", "content": [_TOOL_USE]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": _LONG,
            }
        ],
    },
    {"role": "assistant", "content": "They nest in the steep bank."},
    {"role": "user", "content": "And in summer?"},
)
_EARLIER_CALLS: Final = (
    ToolCall("call_1", "look_up", '{"path": "x"}'),
    ToolCall("call_2", "note", "{}"),
)
_EARLIER_RESULTS: Final = (
    ToolResult("call_1", "look_up", _LONG),
    ToolResult("call_2", "note", "done"),
)
_EARLIER_TURN: Final[Sequence[PlainMessage | Message]] = (
    {"role": "system", "content": "You know the birds of this river."},
    {"role": "user", "content": _LONG},
    Message("assistant", _EARLIER_CALLS),
    Message("tool", _EARLIER_RESULTS),
    Message.saying("assistant", "They were seen near the weir."),
    _QUESTION,
)

CONVERSATIONS: Final[Mapping[str, Sequence[PlainMessage | Message]]] = {
    "a question": (_QUESTION,),
    "a long question": (
        {"role": "user", "content": _LONG},
        {"role": "assistant", "content": "I see."},
        _QUESTION,
    ),
    "after tools": tuple(TOOL_ROUND),
    "with a system message": tuple(WITH_SYSTEM),
    "a turn of another provider": _BLOCKS,
    "a turn of ours": _EARLIER_TURN,
}
"""What a turn may begin with, the simplest first."""

StopKind = Literal["cancel", "kill"]
_IS_COUNT: Final = must(
    "a whole number of 0 or more", lambda value: is_whole(value, 0), names_class=True
)


@frozen
class Stop:
    """When the turn is ended from outside, and how.

    Arguments:
        kind: `cancel` as a caller does, or `kill`: the turn is dropped, as by a crash.
        at: after how many moments; each action, request, reply and run of a tool is one.
    """

    kind: StopKind = field(
        default="cancel", validator=must_be_one_of(get_args(StopKind), names_class=True)
    )
    at: int = field(default=1, validator=_IS_COUNT)


def _replies(value: Iterable[Scripted]) -> tuple[Scripted, ...]:
    """Replace each `Played` that arrives in one piece by its reply, which says the same."""
    replies: list[Scripted] = []
    for each in value:
        if isinstance(each, Played) and each == Played(each.reply):
            replies.append(each.reply)
        else:
            replies.append(each)
    return tuple(replies)


_NOT_EMPTY: Final = must("at least one", bool, names_class=True)


@frozen
class TurnScript:
    """What happens in one turn.

    Arguments:
        replies: what the providers answer, request by request; the last one is repeated for ever.
        tools: what the tools do, run by run; the last one is repeated for ever.
        asked: what the turn begins with, of `CONVERSATIONS`.
        max_tokens: the caller's output cap.
        compactor: shortens conversations that do not fit, or fails to; None for none.
        stop: how the turn is ended from outside; None lets it end by itself.
        latency: seconds that each request takes.
        streams: whether there is a consumer of a stream.
        contents: whether the journal may hold texts.
        is_fair: whether providers keep to caps and count prompts as they are.

    Raises:
        ConfigurationError: a field is not of its form.
    """

    replies: tuple[Scripted, ...] = field(converter=_replies, validator=_NOT_EMPTY)
    tools: tuple[ToolPlay, ...] = field(
        default=(ToolPlay(),), converter=tuple[ToolPlay, ...], validator=_NOT_EMPTY
    )
    asked: str = field(
        default=next(iter(CONVERSATIONS)), validator=must_be_one_of(CONVERSATIONS, names_class=True)
    )
    max_tokens: int | None = None
    compactor: TurnCompactor | None = None
    stop: Stop | None = None
    latency: float = 0.0
    streams: bool = False
    contents: bool = False
    is_fair: bool = False

    @property
    def request(self) -> Request:
        """Return the request."""
        return Request(deepcopy(CONVERSATIONS[self.asked]), max_tokens=self.max_tokens)

    def play(self, number: int) -> ToolPlay:
        """Return what the tool does in a run, counted from 0."""
        return self.tools[min(number, len(self.tools) - 1)]


_UNWRITTEN: Final = ("raw", "exception", "_parts", "extras", "provider")
_PARTS: Final[Mapping[str, Any]] = {
    "usage": Usage,
    "failure": Failure,
    "compactor": TurnCompactor,
    "stop": Stop,
}


def write_turn_script(script: TurnScript) -> str:
    """Write a script as TOML for `read_turn_script`, without fields at their default."""
    own = _changed(script)
    own.pop("replies")
    tools = [f"[[tools]]\n{_lines(play)}" for play in own.pop("tools", [])]
    replies = [f"[[replies]]\n{_lines(_item(item))}" for item in script.replies]
    return "\n".join([_lines(own), *replies, *tools])


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {ascii_toml(value)}\n" for name, value in table.items())


def _item(item: Scripted) -> dict[str, Any]:
    """Return an item as a table: the fields of a reply or failure, and how it streams."""
    played = item if isinstance(item, Played) else Played(item)
    table = _changed(played.reply)
    if isinstance(played.reply, Failure):
        table = {"no_reply": table}
    streams = _changed(played)
    streams.pop("reply", None)
    return {**table, **streams}


def _changed(value: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults, as plain values."""
    return attrs.asdict(value, filter=_is_changed)


def _is_changed(attribute: attrs.Attribute[Any], value: Any) -> bool:
    if not attribute.init or attribute.name in _UNWRITTEN or value is None:
        return False
    default: Any = attribute.default
    if hasattr(default, "factory"):
        default = default.factory()
    return bool(value != default)


def read_turn_script(text: str) -> TurnScript:
    """Read a script from TOML.

    Raises:
        ConfigurationError: the text is not TOML, or a field is missing, unknown or invalid.
    """
    table = read_toml(text)
    try:
        replies = [_read_item(each) for each in table.pop("replies", ())]
        tools = [ToolPlay(**each) for each in table.pop("tools", ())] or [ToolPlay()]
        return TurnScript(replies, tools, **_read_parts(table))
    except ConfigurationError as error:
        raise ConfigurationError(f"script of a turn: {error}") from None
    except (TypeError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"script of a turn: not of its form: {error}") from None


def _read_item(table: Mapping[str, Any]) -> Scripted:
    entries = _read_parts(table)
    sizes = tuple(entries.pop("sizes", ()))
    streamed = entries.pop("streamed", None)
    failure = entries.pop("no_reply", None)
    if failure is not None:
        reply: Reply | Failure = Failure(**failure)
    else:
        calls = [ToolCall(**each) for each in entries.pop("tool_calls", ())]
        reply = Reply(**entries, tool_calls=tuple(calls))
    if not sizes and streamed is None:
        return reply
    return Played(reply, sizes, streamed)


def _read_parts(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a table, with each part as an object of its class."""
    entries: dict[str, Any] = {}
    for name, value in table.items():
        entries[name] = _PARTS[name](**value) if name in _PARTS else value
    return entries
