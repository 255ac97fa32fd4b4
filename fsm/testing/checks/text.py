"""Whether what a call hands out is what it got: nothing empty, cut, lost or said twice."""

from __future__ import annotations

from typing import Any

import orjson

from rungwise.fsm.call.events import Reasoning, Text
from rungwise.fsm.call.reply import Reply, ToolCall
from rungwise.fsm.call.result import SUCCESSES, Result
from rungwise.fsm.journal.record import Step
from rungwise.fsm.testing.checks.seen import Dishonest, Seen, shown_by
from rungwise.fsm.text.blank import is_blank

NOT_EMPTY = "an empty answer is no success"
CLEAN = "what is done ended cleanly"
WHOLE_TOOLS = "no cut tool call is handed out"
TEXT_STAYS = "text is never turned into an error"
KEPT = "what a stream handed out is the text of the result"
STITCHED = "the parts make up the text, nothing lost and nothing said twice"

SHORTEST_ECHO = 6
SHORTEST_RESTART = 12
"""Repeats of fewer code points come by chance, and dropping them would lose text."""


def check_success(seen: Seen) -> None:
    """Check that a success has something to show, and that an outcome that raises is no success."""
    result = seen.result
    if result.is_success != (result.outcome in SUCCESSES):
        raise Dishonest(
            NOT_EMPTY, f"the outcome {result.outcome!r} is taken for {'a' if result.is_success else 'no'} success"
        )
    something = not is_blank(result.text) or (result.outcome == "done" and result.tool_calls)
    if result.is_success and not something:
        raise Dishonest(
            NOT_EMPTY, f"the outcome is {result.outcome!r}, and there is no text and no tool call", seen.path[-1]
        )


def check_clean(seen: Seen) -> None:
    """Check that a call is done only after a reply that says of itself that it is whole."""
    result, last = seen.result, seen.path[-1]
    if result.outcome != "done" or result.reply is None:
        return  # a replay without contents has no reply
    reply = result.reply
    if reply.interrupted or reply.refusal:
        raise Dishonest(CLEAN, f"the last reply was {'interrupted' if reply.interrupted else 'a refusal'}", last)
    if reply.stop_reason in ("length", "content_filter", "overflow", "error", "unknown"):
        raise Dishonest(CLEAN, f"the last reply ended by {reply.stop_raw or reply.stop_reason!r}", last)
    if _is_at_cap(seen, reply):
        raise Dishonest(
            CLEAN, f"the last reply filled its cap of {seen.sent[-1].cap} tokens and says nothing of its end", last
        )


def _is_at_cap(seen: Seen, reply: Reply) -> bool:
    cap = seen.sent[-1].cap if seen.sent else None
    silent = reply.stop_reason is None and reply.stop_raw is None
    hides = silent or reply.stop_reason == "tool_calls"
    return hides and cap is not None and not reply.usage.estimated and reply.usage.output_tokens >= cap


def check_tools(seen: Seen) -> None:
    """Check that tool calls are handed out only when done, and only whole ones."""
    result, last = seen.result, seen.path[-1]
    if not result.tool_calls:
        return
    if result.outcome != "done":
        raise Dishonest(WHOLE_TOOLS, f"the outcome is {result.outcome!r}, and there are tool calls", last)
    if result.reply is not None and result.reply.stop_reason == "length":
        raise Dishonest(WHOLE_TOOLS, "the reply was cut at its output cap", last)
    for call in result.tool_calls:
        problem = _problem(seen, call)
        if problem:
            raise Dishonest(WHOLE_TOOLS, f"the call {call.name!r} {problem}", last)


def _problem(seen: Seen, call: ToolCall) -> str | None:
    if is_blank(call.name):
        return "has no name"
    if not call.arguments.strip():
        return _missing_arguments(seen, call)
    try:
        value: Any = orjson.loads(call.arguments)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return "has arguments that are no JSON"
    return None if isinstance(value, dict) else "has arguments that are no JSON object"


def _missing_arguments(seen: Seen, call: ToolCall) -> str | None:
    """Say that arguments are missing; a tool that requires none may be called without."""
    if seen.request is None:
        return None  # nobody can tell which tools there were
    for tool in seen.request.tools:
        function = tool.get("function", tool)
        if function.get("name") == call.name:
            required = (function.get("parameters") or {}).get("required")
            return f"has no arguments, and {required} are required" if required else None
    return "has no arguments, and no such tool was offered"


def check_text_stays(seen: Seen) -> None:
    """Check that a call with text does not end exhausted or failed, where its table provides for that."""
    result, last = seen.result, seen.path[-1]
    provided = any(row.guard == "has_text" for row in seen.ladder(last))
    if provided and result.outcome in ("exhausted", "failed") and not is_blank(result.text):
        raise Dishonest(TEXT_STAYS, f"the outcome is {result.outcome!r}, and there is text", last)


def check_stream(seen: Seen) -> None:
    """Follow the events as a consumer does, and compare what it shows with the result."""
    if seen.events is None:
        return
    numbers: list[int] = []
    kept = shown = thought = ""
    for event, shown in shown_by(seen.events, KEPT):
        if isinstance(event, Reasoning):
            thought = event.text
        if isinstance(event, Step):
            numbers.append(event.number)
            if kept.strip() and not shown.startswith(kept) and thought != kept:
                raise Dishonest(KEPT, "text of an earlier part was taken back, and not for reasoning", event)
            kept = shown if event.event == "sent" else kept
        if isinstance(event, Result) and event is not seen.result:
            raise Dishonest(KEPT, "the last event is another result")
    if numbers != [step.number for step in seen.steps]:
        raise Dishonest(KEPT, f"the steps handed out are {numbers}, and the journal has {len(seen.steps)}")
    if shown != seen.result.text:
        raise Dishonest(KEPT, f"a consumer shows {shown[:80]!r}, and the text is {seen.result.text[:80]!r}")


LONGEST_JUDGED = 20_000
"""Characters of parts that are tried at every place where they may be joined, which is quadratic work."""


def check_parts(seen: Seen) -> None:
    """Check that the text is made of its parts, each without what it repeats of the text before it, and no less."""
    result = seen.result
    parts, text = result.parts, result.text
    if result.outcome == "salvaged":
        if parts[-1:] != (text,):
            raise Dishonest(STITCHED, "the last part is not what was salvaged")
        return
    if sum(map(len, parts)) > LONGEST_JUDGED:
        if len(parts) == 1 and parts[0] != text:
            raise Dishonest(STITCHED, "the only part is not the text")
        return
    delivered = result.outcome == "cancelled" and _was_shown(seen)
    ends = {0}
    for index, part in enumerate(parts):
        is_judged = not (delivered and index == len(parts) - 1)
        ends = {end for start in ends for end in _ends(text, start, part, is_judged)}
    if len(text) not in ends:
        raise Dishonest(
            STITCHED, f"{len(parts)} parts of {sum(map(len, parts))} characters do not make {len(text)} characters"
        )


def _ends(text: str, start: int, part: str, is_judged: bool) -> list[int]:
    """Return where a part may end that begins at `start`, given what may be dropped of it."""
    gathered = text[:start]
    ends = []
    for dropped in range(len(part) + 1):
        if not text.startswith(part[dropped:], start) or not _may_drop(gathered, part, dropped):
            continue
        if not is_judged or dropped >= _must_drop(gathered, part):
            ends.append(start + len(part) - dropped)
    return ends


def _may_drop(gathered: str, part: str, dropped: int) -> bool:
    """Tell whether the beginning of a part is a repeat: of the end of the text, of all of it, or a restart."""
    beginning = part[:dropped]
    if gathered.endswith(beginning) or gathered.strip() == beginning.strip():
        return True
    return dropped == len(part) and (gathered.startswith(part) or gathered.lstrip().startswith(part))


def _must_drop(gathered: str, part: str) -> int:
    """Return how much of a part repeats everything before it beyond doubt; text that repeats itself leaves doubts."""
    if _repeats_itself(gathered):
        return 0
    if len(gathered) >= SHORTEST_ECHO and part.startswith(gathered):
        return len(gathered)
    core = gathered.strip()
    if _repeats_itself(core):
        return 0
    if len(core) >= SHORTEST_ECHO and part.startswith(core):
        return len(core)
    # A restart that stands in the text only once, even in part, is no turn of something that recurs in it.
    restarts = len(part) >= SHORTEST_RESTART and gathered.startswith(part)
    return len(part) if restarts and gathered.count(part[: len(part) // 2]) == 1 else 0


def _repeats_itself(text: str) -> bool:
    """Tell whether a text is one unit again and again."""
    return any(text.startswith(text[period:]) for period in range(1, len(text) // 2 + 1))


def _was_shown(seen: Seen) -> bool:
    """Tell whether the text that a cancelled call ends with had been handed out by then, so that no echo is in it."""
    if seen.events is None:
        return True
    after = False
    for event in seen.events:
        if after and isinstance(event, Text):
            return False
        after = after or (isinstance(event, Step) and event.event == "cancelled")
    return True
