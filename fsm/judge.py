"""Judge a reply: which event of the machine it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from fsm.blank import is_blank
from fsm.reply import Reply, ToolCall

Tools = tuple[Mapping[str, Any], ...]


def judge(reply: Reply, visible: str, reasoning: str, cap: int | None, tools: Tools = ()) -> str:
    """Return the event that a reply is.

    Arguments:
        reply: the reply, as the adapter read it.
        visible: its text without inline reasoning.
        reasoning: all its reasoning, structured and inline.
        cap: the output cap in tokens that was sent, or None.
        tools: the tool definitions of the request, for calls that come without arguments.
    """
    if reply.interrupted:
        return "interrupted"
    if reply.stop_reason == "content_filter" or reply.refusal:
        return "refused"
    if reply.stop_reason == "overflow":
        return "overflowed"
    if reply.tool_calls:
        return _judge_tools(reply, cap, tools)
    if was_cut(reply, cap):
        return "reasoning_truncated" if is_blank(visible) else "truncated"
    if reply.stop_reason in ("unknown", "error", "tool_calls"):
        return "malformed"
    if reply.stop_reason == "paused":
        return "paused"
    if not is_blank(visible):
        return "answered"
    return "came_empty" if is_blank(reasoning) else "only_reasoned"


def _judge_tools(reply: Reply, cap: int | None, tools: Tools) -> str:
    if was_cut(reply, cap) or not all(is_complete(call, tools) for call in reply.tool_calls):
        return "tools_truncated"
    return "malformed" if reply.stop_reason in ("unknown", "error") else "called_tools"


def was_cut(reply: Reply, cap: int | None) -> bool:
    """Tell whether the output cap cut a reply, also where the finish reason hides it.

    Servers report `tool_calls`, a word of their own or nothing at all for a reply that the cap has cut; then the number
    of output tokens tells.
    """
    if reply.stop_reason == "length":
        return True
    hides = reply.stop_reason in (None, "unknown", "tool_calls")
    return hides and cap is not None and not reply.usage.estimated and reply.usage.output_tokens >= cap


def is_complete(call: ToolCall, tools: Tools) -> bool:
    """Tell whether a tool call can be handed out: it has a name, and its arguments are one whole JSON object.

    No arguments at all are complete only for a tool whose definition requires none.
    """
    if is_blank(call.name):
        return False
    if not call.arguments.strip():
        return _requires_nothing(call.name, tools)
    try:
        return isinstance(orjson.loads(call.arguments), dict)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return False


def _requires_nothing(name: str, tools: Tools) -> bool:
    for tool in tools:
        function = tool.get("function", tool)
        if isinstance(function, Mapping) and function.get("name") == name:
            parameters = function.get("parameters") or {}
            return isinstance(parameters, Mapping) and not parameters.get("required")
    return False
