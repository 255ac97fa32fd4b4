"""Whether success is real: nothing empty, nothing cut, no text lost to an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import orjson

from rungwise.fsm.call.conversation.observation import ANSWERS
from rungwise.fsm.call.run.result import SUCCESSES
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.schemas.given import Misfit
from rungwise.fsm.replies.text.contents import is_blank
from rungwise.fsm.testing.checks.ended import Dishonest, EndedCall

NOT_EMPTY = "an empty answer is no success"
CLEAN = "what is done ended cleanly"
WHOLE_TOOLS = "no cut tool call is handed out"
RIGHT = "what is done is what the caller asked for"
TEXT_STAYS = "text is never turned into an error"


def check_success(ended: EndedCall) -> None:
    """Check that a success has text or tool calls, and that an outcome that raises is no
    success.
    """
    result = ended.result
    if result.is_success != (result.outcome in SUCCESSES):
        taken = "a" if result.is_success else "no"
        raise Dishonest(NOT_EMPTY, f"the outcome {result.outcome!r} is taken for {taken} success")
    something = not is_blank(result.text) or (result.outcome == "done" and result.tool_calls)
    if result.is_success and not something:
        wrong = f"the outcome is {result.outcome!r}, and there is no text and no tool call"
        raise Dishonest(NOT_EMPTY, wrong, ended.path[-1])


def check_clean(ended: EndedCall) -> None:
    """Check that a call is done only after a reply that ended properly."""
    result = ended.result
    last = ended.path[-1]
    if result.outcome != "done" or result.reply is None:
        return  # a replay without contents has no reply
    reply = result.reply
    if reply.interrupted or reply.refusal:
        raise Dishonest(
            CLEAN, f"the last reply was {'interrupted' if reply.interrupted else 'a refusal'}", last
        )
    if reply.stop_reason in ("length", "content_filter", "overflow", "error", "unknown"):
        raise Dishonest(
            CLEAN, f"the last reply ended by {reply.stop_raw or reply.stop_reason!r}", last
        )
    if _is_at_cap(ended, reply):
        wrong = (
            f"the last reply filled its cap of {ended.sent[-1].cap} tokens and says "
            f"nothing of its end"
        )
        raise Dishonest(CLEAN, wrong, last)


def _is_at_cap(ended: EndedCall, reply: Reply) -> bool:
    cap = ended.sent[-1].cap if ended.sent else None
    silent = reply.stop_reason is None and reply.stop_raw is None
    hides = silent or reply.stop_reason == "tool_calls"
    return (
        hides and cap is not None and not reply.usage.estimated and reply.usage.output_tokens >= cap
    )


def check_tools(ended: EndedCall) -> None:
    """Check that tool calls are handed out only if the call is done, and only whole ones."""
    result = ended.result
    last = ended.path[-1]
    if not result.tool_calls:
        return
    if result.outcome != "done":
        raise Dishonest(
            WHOLE_TOOLS, f"the outcome is {result.outcome!r}, and there are tool calls", last
        )
    for call in result.tool_calls:
        problem = _problem(ended, call)
        if problem:
            raise Dishonest(WHOLE_TOOLS, f"the call {call.name!r} {problem}", last)


def check_right(ended: EndedCall) -> None:
    """Check that an answer passes its schema and its verdicts, and that only tools that were
    offered are called.
    """
    result = ended.result
    last = ended.path[-1]
    if result.outcome != "done" or result.reply is None or last.event not in ANSWERS:
        return
    if result.tool_calls:
        offered = _offered(ended)
        for call in result.tool_calls:
            if offered and None not in offered and call.name not in offered:
                raise Dishonest(RIGHT, f"no tool {call.name!r} was offered", last)
        return
    try:
        value = None if ended.returns is None else ended.returns.read_text(result.text)
    except Misfit as fault:
        raise Dishonest(RIGHT, str(fault), last) from None
    if value != result.value:
        raise Dishonest(RIGHT, "the value is not that of the text", last)
    for verdict in ended.verdicts:
        if (
            reason := verdict(
                attrs.evolve(result.reply, text=result.text, final_text=None, parts=None)
            )
        ) is not None:
            raise Dishonest(RIGHT, f"a verdict says no: {reason}", last)


def _offered(ended: EndedCall) -> dict[str | None, Mapping[str, Any]] | None:
    """Return the tools that were offered, by name; None if nobody can tell, or a turn reports other
    calls by itself.
    """
    if ended.request is None or (ended.turn is not None and ended.turn.runs_tools):
        return None
    functions = [tool.get("function", tool) for tool in ended.request.tools]
    return {function.get("name"): function for function in reversed(functions)}


def _problem(ended: EndedCall, call: ToolCall) -> str | None:
    if is_blank(call.name):
        return "has no name"
    if not call.arguments.strip():  # a tool that requires none may be called without
        offered = _offered(ended)
        if offered is not None and call.name not in offered:
            return "has no arguments, and no such tool was offered"
        required = ((offered or {}).get(call.name, {}).get("parameters") or {}).get("required")
        return f"has no arguments, and {required} are required" if required else None
    fault = fault_of_arguments(call.arguments)
    return f"has arguments that are {fault}" if fault else None


def fault_of_arguments(arguments: str) -> str:
    """Return what the arguments of a tool call are instead of a JSON object; "" for nothing
    else.
    """
    try:
        value = orjson.loads(arguments)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return "no JSON"
    return "" if isinstance(value, dict) else "no JSON object"


def check_text_stays(ended: EndedCall) -> None:
    """Check that a call with text does not end exhausted or failed, if its table provides for
    that.
    """
    result = ended.result
    last = ended.path[-1]
    provided = any(row.guard == "has_text" for row in ended.table.ladder(last.event, last.source))
    if provided and result.outcome in ("exhausted", "failed") and not is_blank(result.text):
        raise Dishonest(TEXT_STAYS, f"the outcome is {result.outcome!r}, and there is text", last)
