"""The scenarios of `rungwise demo`, read from `scenarios.toml`, and the tools of its turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.provider.script import ScriptedReply
from rungwise.fsm.errors import ToolError
from rungwise.fsm.values.files import read_toml


@frozen(kw_only=True)
class Scenario:
    """Hold one scenario."""

    name: str  # what `--scenario` calls it
    title: str  # its heading
    says: str  # one sentence on what the providers do
    messages: str | list[Mapping[str, Any]]  # what is asked
    # the replies of the first backend, the last one for ever; empty if it is down
    primary: tuple[ScriptedReply, ...]
    second: tuple[ScriptedReply, ...]  # the replies of the second backend; empty for a chain of one
    # The tools of the request; in a turn, what runs them.
    tools: tuple[Mapping[str, Any] | Callable[..., Any], ...] = field(repr=False)
    auto_continues: int | None = None  # how often the turn may go on by itself; None for a call
    max_tokens: int = 300  # the caller's own output cap
    prefill: bool = False  # whether the first backend goes on from a trailing assistant turn
    calls_before: int = 0  # how many calls of the same client came before, which are not shown


# seconds that the weather takes, so that it ends behind the tool that begins after it
OUTLOOK: Final = 0.1


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


_DOCUMENT: Final = read_toml(
    files("rungwise.adapters.demo").joinpath("scenarios.toml").read_text(encoding="utf-8")
)
_TOOLS: Final = {
    **_DOCUMENT["tools"],
    **{each.__name__: each for each in (get_weather, get_boat, look_outside)},
}


def _scenario(table: Mapping[str, Any]) -> Scenario:
    replies = {
        name: tuple(ScriptedReply(**each) for each in table.get(name, ()))
        for name in ("primary", "second")
    }
    return Scenario(
        **{**table, **replies, "tools": tuple(_TOOLS[name] for name in table.get("tools", ()))}
    )


SCENARIOS: Final = {table["name"]: _scenario(table) for table in _DOCUMENT["scenarios"]}
"""Every scenario by its name, in the order in which they run."""
