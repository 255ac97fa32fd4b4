"""The scenarios of `rungwise demo`, read from `scenarios.toml`, and the tools of its turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.provider.script import ScriptedReply
from rungwise.fsm.errors import ToolError
from rungwise.fsm.values.files import toml_in


@frozen(kw_only=True)
class Scenario:
    """One scenario.

    Arguments:
        name: what `--scenario` calls it.
        title: its heading.
        says: one sentence on what the providers do.
        messages: what is asked.
        primary: the replies of the first backend, the last one for ever; empty if it is down.
        second: the replies of the second backend; empty for a chain of one.
        tools: of the request; in a turn, the functions that run.
        auto_continues: how often the turn may go on by itself; None for a call.
        max_tokens: the caller's own output cap.
        prefill: whether the first backend continues a trailing assistant turn.
        calls_before: how many calls of the same client come before, which are not shown.
    """

    name: str
    title: str
    says: str
    messages: str | list[Mapping[str, Any]]
    primary: tuple[ScriptedReply, ...]
    second: tuple[ScriptedReply, ...]
    tools: tuple[Mapping[str, Any] | Callable[..., Any], ...] = field(repr=False)
    auto_continues: int | None = None
    max_tokens: int = 300
    prefill: bool = False
    calls_before: int = 0


OUTLOOK: Final = 0.1
"""Seconds that the weather takes, so that it ends behind the tool that begins after it."""


def get_weather(place: str) -> str:
    """Look up the weather of a place."""
    time.sleep(OUTLOOK)
    return "calm, 14 degrees"


def get_boat(number: int) -> str:
    """Take a boat, by its number."""
    raise ToolError(f"boat {number} leaks, boat 3 does not")


def look_outside() -> str:
    """Look whether a parcel lies at the door."""
    return "no parcel yet"


_DOCUMENT: Final = toml_in(__package__, "scenarios.toml")
_TOOLS: Final = {
    **_DOCUMENT["tools"],
    **{each.__name__: each for each in (get_weather, get_boat, look_outside)},
}


def _scenario(table: Mapping[str, Any]) -> Scenario:
    fields: dict[str, Any] = dict(table)
    for name in ("primary", "second"):
        fields[name] = tuple(ScriptedReply(**each) for each in table.get(name, ()))
    fields["tools"] = tuple(_TOOLS[name] for name in table.get("tools", ()))
    return Scenario(**fields)


SCENARIOS: Final = {table["name"]: _scenario(table) for table in _DOCUMENT["scenarios"]}
"""Every scenario by its name, in the order in which they run."""
