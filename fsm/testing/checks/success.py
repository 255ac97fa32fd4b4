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

UNCLEAN = ("length", "content_filter", "overflow", "error", "unknown")
"""The stop reasons with which nothing is done."""


def check_success(ended: EndedCall) -> None:
    """Check that a success has text or tool calls, and that no other outcome is one."""
    result = ended.result
    if not result.needs_value and result.is_success != (result.outcome in SUCCESSES):
        taken = "a" if result.is_success else "no"
        raise Dishonest(NOT_EMPTY, f"the outcome {result.outcome!r} is taken for {taken} success")
    has_text = not is_blank(result.text)
    has_calls = result.outcome == "done" and bool(result.tool_calls)
    if result.is_success and not has_text and not has_calls:
        wrong = f"the outcome is {result.outcome!r}, and there is no text and no tool call"
        raise Dishonest(NOT_EMPTY, wrong, ended.path[-1])


def check_clean(ended: EndedCall) -> None:
    """Check that a call is done only after a reply that ended properly."""
    result = ended.result
    last = ended.path[-1]
    if result.outcome != "done" or result.reply is None:
        return  # a replay without contents has no reply
    reply = result.reply
    if reply.interrupted:
        raise Dishonest(CLEAN, "the last reply was interrupted", last)
    if reply.refusal:
        raise Dishonest(CLEAN, "the last reply was a refusal", last)
    if reply.stop_reason in UNCLEAN:
        stop = reply.stop_raw or reply.stop_reason
        raise Dishonest(CLEAN, f"the last reply ended by {stop!r}", last)
    if _is_at_cap(ended, reply):
        cap = ended.sent[-1].cap
        wrong = f"the last reply filled its cap of {cap} tokens and says nothing of its end"
        raise Dishonest(CLEAN, wrong, last)


def _is_at_cap(ended: EndedCall, reply: Reply) -> bool:
    """Tell whether a reply filled its cap, and does not say how it ended."""
    if not ended.sent:
        return False
    cap = ended.sent[-1].cap
    if cap is None or reply.usage.estimated or reply.usage.output_tokens < cap:
        return False
    if reply.stop_reason == "tool_calls":  # some servers say so of calls that the cap has cut
        return True
    return reply.stop_reason is None and reply.stop_raw is None


def check_tools(ended: EndedCall) -> None:
    """Check that tool calls are handed out only if the call is done, and only whole ones."""
    result = ended.result
    last = ended.path[-1]
    if not result.tool_calls:
        return
    if result.outcome != "done":
        wrong = f"the outcome is {result.outcome!r}, and there are tool calls"
        raise Dishonest(WHOLE_TOOLS, wrong, last)
    for call in result.tool_calls:
        problem = _problem(ended, call)
        if problem:
            raise Dishonest(WHOLE_TOOLS, f"the call {call.name!r} {problem}", last)


def check_right(ended: EndedCall) -> None:
    """Check that an answer passes its schema and verdicts, and calls only tools it was offered."""
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
    value = None
    if ended.returns is not None:
        try:
            value = ended.returns.read_text(result.text)
        except Misfit as fault:
            raise Dishonest(RIGHT, str(fault), last) from None
    if value != result.value:
        raise Dishonest(RIGHT, "the value is not that of the text", last)
    for verdict in ended.verdicts:
        answer = attrs.evolve(
            result.reply,
            text=result.text,
            final_text=None,
            parts=None,
        )
        reason = verdict(answer)
        if reason is not None:
            raise Dishonest(RIGHT, f"a verdict says no: {reason}", last)


def _offered(ended: EndedCall) -> dict[str | None, Mapping[str, Any]] | None:
    """Return the tools that were offered, by name.

    None if nobody can tell, or if a turn runs the tools, which reports unknown ones to the model.
    """
    if ended.request is None or (ended.turn is not None and ended.turn.runs_tools):
        return None
    functions = [tool.get("function", tool) for tool in ended.request.tools]
    return {function.get("name"): function for function in reversed(functions)}


def _problem(ended: EndedCall, call: ToolCall) -> str | None:
    """Return what is wrong with a tool call, as the end of a sentence; None if it is whole."""
    if is_blank(call.name):
        return "has no name"
    if not call.arguments.strip():
        return _problem_without_arguments(ended, call)
    fault = fault_of_arguments(call.arguments)
    if fault:
        return f"has arguments that are {fault}"
    return None


def _problem_without_arguments(ended: EndedCall, call: ToolCall) -> str | None:
    """Return what is wrong with a tool call that has no arguments.

    A tool that requires none may be called without.
    """
    offered = _offered(ended)
    if offered is None:
        return None
    if call.name not in offered:
        return "has no arguments, and no such tool was offered"
    parameters = offered[call.name].get("parameters") or {}
    required = parameters.get("required")
    if required:
        return f"has no arguments, and {required} are required"
    return None


def fault_of_arguments(arguments: str) -> str:
    """Return what the arguments of a tool call are instead of a JSON object; "" if they are one."""
    try:
        value = orjson.loads(arguments)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return "no JSON"
    if not isinstance(value, dict):
        return "no JSON object"
    return ""


def check_text_stays(ended: EndedCall) -> None:
    """Check that no call with text ends exhausted or failed, if its table has a row for that."""
    result = ended.result
    last = ended.path[-1]
    ladder = ended.table.ladder(last.event, last.source)
    keeps_text = any(row.guard == "has_text" for row in ladder)
    if keeps_text and result.outcome in ("exhausted", "failed") and not is_blank(result.text):
        raise Dishonest(TEXT_STAYS, f"the outcome is {result.outcome!r}, and there is text", last)
