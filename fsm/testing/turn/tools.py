"""Tools that do what a script says: they return anything, raise, or take too long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import field, frozen
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.testing.strategies import first_or_often
from rungwise.fsm.turn.actions import ToolOutcome
from rungwise.fsm.turn.tools import Given, Tool, Toolbox, ToolRun
from rungwise.fsm.values.checks import is_number, must

FOUND: Final = "Two nests were seen in the bank, on walk number"
HUGE: Final = 30_000
"""Characters of a result that no share of a small window holds."""
SECONDS: Final = (0.0, 0.0, 0.5, 20.0)
FOREVER: Final = 1e6
"""Seconds that are longer than any tool may take."""


class Untellable:
    """Stand for what has no form in JSON."""


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


@frozen
class ToolPlay:
    """Say what one run of a tool does.

    Arguments:
        way: what it does, of `TOOL_WAYS`.
        seconds: how long it takes, of a virtual clock.

    Raises:
        ConfigurationError: the way is unknown, or the seconds are no number of 0 or more.
    """

    way: str = field(
        default=TOOL_WAYS[0], validator=must("one of TOOL_WAYS", lambda value: value in TOOL_WAYS, names_class=True)
    )
    seconds: float = field(
        default=0.0,
        validator=must("a number of seconds, 0 or more", lambda value: is_number(value, 0, FOREVER), names_class=True),
    )

    def outcome(self, run: ToolRun, number: int) -> tuple[ToolOutcome, float]:
        """Return what comes of a run, and the seconds that it takes.

        Arguments:
            run: the call, and how long it may take.
            number: how many runs there were before it in the turn.
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
    """Take anything; a script says what comes of each run."""


def _look_up(path: str, n: int = 0) -> None:
    """Look something up."""


_OBJECT: Final = {"type": "object"}
_PATH: Final = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_NUMBER: Final = {"type": "object", "properties": {"n": {"type": "integer"}}}

_GIVEN: Final[Mapping[str, Given]] = {
    "look_up": _look_up,
    "read-file": Tool(_anything, parameters=_PATH),
    "write": Tool(_anything, alone=True, seconds=5.0, parameters=_OBJECT),
    "note": Tool(_anything, housekeeping=True, parameters=_OBJECT),
    "title": Tool(_anything, housekeeping=True, parameters=_OBJECT),
    "ask_user": Tool(terminating=True, parameters=_NUMBER),
    "hand_over": Tool(_anything, terminating=True),
}
TOOLS: Final = Toolbox.of(_GIVEN)
"""A tool of every kind: with hints or a schema, alone, keeping notes, ending the turn with or without a run."""
