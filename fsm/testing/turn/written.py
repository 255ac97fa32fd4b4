"""Scripts of turns as TOML.

asked = "a question"

[[replies]]
text = "Let me see."
stop_reason = "tool_calls"
tool_calls = [{ id = "call_1", name = "look_up", arguments = '{"path": "x"}' }]

[[replies]]
no_reply = { reason = "rate_limit", status = 429 }

[[tools]]
way = "raises"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.testing.backend import Played, Scripted
from rungwise.fsm.testing.turn.compactors import TurnCompactor
from rungwise.fsm.testing.turn.script import Stop, TurnScript
from rungwise.fsm.testing.turn.tools import ToolPlay
from rungwise.fsm.values.toml import ascii_toml, read_toml
from rungwise.fsm.values.usage import Usage

_UNWRITTEN: Final = ("raw", "exception", "_parts", "extras", "provider")
_PARTS: Final[Mapping[str, Any]] = {"usage": Usage, "failure": Failure, "compactor": TurnCompactor, "stop": Stop}


def write_turn_script(script: TurnScript) -> str:
    """Write a script as TOML, which `read_turn_script` takes; fields that have their default are left out."""
    return "\n".join(_blocks(script))


def _blocks(script: TurnScript) -> Iterator[str]:
    own = _given(script)
    own.pop("replies")
    tools = own.pop("tools", [])
    yield "".join(_lines(own))
    for item in script.replies:
        yield "[[replies]]\n" + "".join(_lines(_item(item)))
    for play in tools:
        yield "[[tools]]\n" + "".join(_lines(play))


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        yield f"{name} = {ascii_toml(value)}\n"


def _item(item: Scripted) -> dict[str, Any]:
    """Return what a provider does as a table: the fields of a reply, or a failure, and how it streams."""
    played = item if isinstance(item, Played) else Played(item)
    what = {"no_reply": _given(played.reply)} if isinstance(played.reply, Failure) else _given(played.reply)
    streams = {name: value for name, value in _given(played).items() if name != "reply"}
    return {**what, **streams}


def _given(value: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults, as plain values."""
    fields = [each for each in attrs.fields(type(value)) if each.init and each.name not in _UNWRITTEN]
    found = {each.name: getattr(value, each.name) for each in fields}
    differs = {each.name for each in fields if found[each.name] != _default(each)}
    return {name: _plain(given) for name, given in found.items() if name in differs and given is not None}


def _default(attribute: attrs.Attribute[Any]) -> Any:
    default: Any = attribute.default
    return default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        return _given(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def read_turn_script(text: str) -> TurnScript:
    """Read a script from TOML.

    Raises:
        ConfigurationError: the text is no TOML, or a field is missing, unknown or not of its form.
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
    given = _read_parts(table)
    sizes, streamed = tuple(given.pop("sizes", ())), given.pop("streamed", None)
    failure = given.pop("no_reply", None)
    if failure is not None:
        reply: Reply | Failure = Failure(**failure)
    else:
        calls = [ToolCall(**each) for each in given.pop("tool_calls", ())]
        reply = Reply(**given, tool_calls=tuple(calls))
    return Played(reply, sizes, streamed) if sizes or streamed is not None else reply


def _read_parts(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _PARTS[name](**value) if name in _PARTS else value for name, value in table.items()}
