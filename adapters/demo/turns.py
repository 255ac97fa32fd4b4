"""The scenarios of `rungwise demo` that are turns, and the tools that they run."""

from __future__ import annotations

import time
from typing import Final

from rungwise.adapters.demo.scenario import Scenario
from rungwise.adapters.provider.script import ScriptedReply
from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.errors import ToolError

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


TURNS: Final[tuple[Scenario, ...]] = (
    Scenario(
        name="tools",
        title="A turn: two tools side by side, one of which fails",
        says="The model calls two tools in one reply. Both are functions of ours, and one of them raises an error.",
        messages="Can I row to the island today?",
        primary=(
            ScriptedReply(
                text="Let me look.",
                tool_calls=(
                    ToolCall("call_1", "get_weather", '{"place": "the island"}'),
                    ToolCall("call_2", "get_boat", '{"number": 2}'),
                ),
            ),
            ScriptedReply(text="Yes, it is calm and mild. But take boat 3: boat 2 leaks."),
        ),
        tools=(get_weather, get_boat),
        auto_continues=25,
    ),
    Scenario(
        name="endless-turn",
        title="A turn that would never end",
        says="The model makes the same call again and again. This turn may go on by itself three times.",
        messages="Tell me when my parcel comes.",
        primary=(
            *(ScriptedReply(tool_calls=(ToolCall(f"call_{number}", "look_outside", "{}"),)) for number in range(1, 5)),
            ScriptedReply(text="Your parcel has not come yet. I have looked four times, and can look no more."),
        ),
        tools=(look_outside,),
        auto_continues=3,
    ),
)
