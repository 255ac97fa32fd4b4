"""The scenarios of `rungwise demo`, as data: the request, and how the providers misbehave."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.provider.script import ScriptedReply
from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.errors import ToolError

Messages = str | tuple[Mapping[str, Any], ...]


@frozen(kw_only=True)
class Scenario:
    """Hold one scenario."""

    name: str  # what `--scenario` calls it
    title: str  # its heading
    says: str  # one sentence on what the providers do
    messages: Messages  # what is asked
    # The replies of the first backend, the last one for ever; None if it is down.
    primary: tuple[ScriptedReply, ...] | None
    second: tuple[ScriptedReply, ...] | None = None  # the replies of the second backend; None for a chain of one
    # The tools of the request; in a turn, what runs them.
    tools: tuple[Mapping[str, Any] | Callable[..., Any], ...] = field(default=(), repr=False)
    auto_continues: int | None = None  # how often the turn may go on by itself; None for a call
    max_tokens: int = 300  # the caller's own output cap
    prefill: bool = False  # whether the first backend goes on from a trailing assistant turn
    calls_before: int = 0  # how many calls of the same client came before, which are not shown


OUTLOOK: Final = 0.1  # seconds that the weather takes, so that it ends behind the tool that begins after it


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
        says="The model calls two tools in one reply. Both are plain functions, and one of them raises an error.",
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

WEATHER_TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Look up the weather of a place.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
AFTER_A_TOOL: Final[Messages] = (
    {"role": "user", "content": "Do I need a coat in Oslo?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "4 degrees, light rain"},
)

# Cut where the caps of 16 and 32 tokens fall, at the provider's 4 characters a token.
LONG: Final = (
    "A ladder is two rails and a lot of rungs. The rails carry the load, the rungs carry whoever climbs. Its whole art "
    "is in the spacing: close enough to be found in the dark by the foot, far enough apart to get anywhere before "
    "nightfall."
)
TIDES: Final = (
    "The moon pulls on the sea. The water bulges towards it, and on the far side away from it, and as the earth "
    "turns, each shore passes through both bulges: two high tides a day."
)
TIDES_CUT: Final = "on the far side away from it, "

SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        name="clean",
        title="A clean answer",
        says="The provider answers at once, as it should.",
        messages="Why do ladders have rungs?",
        primary=(ScriptedReply(text="So that a fall from one of them is a short one."),),
    ),
    Scenario(
        name="rate-limit",
        title="Rate limited",
        says="The provider rejects the first request and asks for a pause of 30 seconds.",
        messages="Name three rivers.",
        primary=(
            ScriptedReply(status=429, headers={"retry-after": "30"}),
            ScriptedReply(text="Rhine, Rhone and Reuss."),
        ),
    ),
    Scenario(
        name="tool-round",
        title="Nothing to say to a tool",
        says="The model has nothing to say to a tool result, as many do.",
        messages=AFTER_A_TOOL,
        primary=(ScriptedReply(), ScriptedReply(text="Yes: 4 degrees and light rain call for a coat, and a hat.")),
        tools=(WEATHER_TOOL,),
    ),
    Scenario(
        name="thinking-only",
        title="Thoughts, but no answer",
        says="The model thinks, and stops before it has said anything.",
        messages="Is 91 a prime number?",
        primary=(
            ScriptedReply(reasoning="91 is odd, its digits add up to 10, and 7 times 13 is 91."),
            ScriptedReply(text="No: 91 is 7 times 13."),
        ),
        prefill=True,
    ),
    Scenario(
        name="truncated",
        title="Truncated twice",
        says="The output cap cuts the answer, and then its continuation, in the middle of a word.",
        messages="What is a ladder?",
        primary=(
            ScriptedReply(text=LONG[:64], finish="length"),
            ScriptedReply(text=LONG[64:192], finish="length"),
            ScriptedReply(text=LONG[192:]),
        ),
        max_tokens=20,
    ),
    Scenario(
        name="cut-stream",
        title="A stream cut in the middle",
        says="The connection drops in the middle of the answer; asked to continue, the model repeats itself.",
        messages="Why are there tides?",
        primary=(ScriptedReply(text=TIDES, cut_after=2600), ScriptedReply(text=TIDES[TIDES.index(TIDES_CUT) :])),
    ),
    Scenario(
        name="silence",
        title="A stream that falls silent",
        says="The first provider falls silent in the middle of the answer; the second one continues.",
        messages="Why are there tides?",
        primary=(ScriptedReply(text=TIDES, cut_after=2600, hang=True),),
        second=(ScriptedReply(text=TIDES[TIDES.index(TIDES_CUT) :]),),
    ),
    Scenario(
        name="cut-tool-call",
        title="A truncated tool call",
        says="The output cap cuts a tool call in the middle of its arguments.",
        messages="What is the weather in Reykjavik?",
        primary=(
            ScriptedReply(
                text="Let me look that up.",
                tool_calls=(ToolCall("call_1", "get_weather", '{"city": "Reykj'),),
                finish="length",
            ),
            ScriptedReply(tool_calls=(ToolCall("call_2", "get_weather", '{"city": "Reykjavik"}'),)),
        ),
        tools=(WEATHER_TOOL,),
        max_tokens=20,
    ),
    Scenario(
        name="refusal",
        title="A refusal, and a fallback",
        says="A content filter stops the first provider in the middle of its answer; the second one has none.",
        messages="How do I kill a zombie process?",
        primary=(ScriptedReply(text="To kill a zombie, you first", finish="content_filter"),),
        second=(ScriptedReply(text="You cannot kill it, it is dead: let its parent wait for it."),),
    ),
    Scenario(
        name="dead-primary",
        title="A dead primary",
        says="Nobody listens on the port of the first provider.",
        messages="Is anybody there?",
        primary=None,
        second=(ScriptedReply(text="The second in the chain is here."),),
    ),
    Scenario(
        name="next-call",
        title="The next call after an outage began",
        says="An earlier call has found the first provider down; this one sends it nothing.",
        messages="Is anybody there?",
        primary=(ScriptedReply(status=503),),
        second=(ScriptedReply(text="The second in the chain is still here."),),
        calls_before=1,
    ),
    Scenario(
        name="all-broken",
        title="Everything is broken",
        says="Both providers fail in one way after another, and no answer ever comes.",
        messages="Will you ever answer?",
        primary=(ScriptedReply(status=500), ScriptedReply(), ScriptedReply(body="<html><body>It works!</body></html>")),
        second=(ScriptedReply(status=529), ScriptedReply(cut_after=0), ScriptedReply(status=401)),
    ),
    *TURNS,
)
