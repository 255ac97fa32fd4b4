"""Which event of the machine a reply is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from rungwise.fsm.call.conversation.parts import ToolCall
from rungwise.fsm.call.conversation.reply import Reply, has_media
from rungwise.fsm.call.conversation.shapes import NEUTRAL, Shapes
from rungwise.fsm.text.blank import is_blank

Tools = tuple[Mapping[str, Any], ...]


def classify_reply(
    reply: Reply,
    *,
    visible: str,
    reasoning: str,
    cap: int | None,
    tools: Tools = (),
    expects_json: bool = False,
    shapes: Shapes = NEUTRAL,
) -> str:
    """Return the event that a reply is.

    Arguments:
        reply: the reply, as the adapter read it.
        visible: its text without inline reasoning.
        reasoning: all its reasoning, structured and inline.
        cap: the output cap in tokens that was sent, or None.
        tools: the tool definitions of the request, for calls that come without arguments.
        expects_json: whether the request asked for JSON, so that anything else is no answer.
        shapes: how the tools are written.
    """
    if reply.refusal and not is_blank(reply.refusal):
        return "refused"  # whatever else broke or came: the model has said no
    # A provider that has counted up to the cap, and says neither why it stopped nor what broke, was cut by the cap.
    says_nothing = reply.stop_reason is None and reply.failure is None
    if reply.interrupted and not (says_nothing and not reply.tool_calls and was_cut(reply, cap)):
        return _CUT_BY.get(reply.failure.reason, "interrupted") if reply.failure is not None else "interrupted"
    if reply.stop_reason == "content_filter":
        return "refused"
    if reply.stop_reason == "overflow":
        return "overflowed"
    if reply.tool_calls:
        return _classify_tool_calls(reply, cap, tools, shapes)
    if was_cut(reply, cap):
        if is_blank(visible):
            return "reasoning_truncated"
        return "json_truncated" if expects_json else "truncated"
    if reply.stop_reason in ("unknown", "error", "tool_calls"):
        return "malformed"
    if reply.stop_reason == "paused":
        return "paused"
    if not is_blank(visible):
        return "answered" if not expects_json or is_json(visible) else "malformed"
    if has_media(reply):
        return "malformed" if expects_json else "answered"  # a picture is an answer as well
    return "came_empty" if is_blank(reasoning) else "only_reasoned"


_CUT_BY: Mapping[str, str] = {"content_policy": "refused", "silence": "fell_silent"}
"""What a reply is that broke off for a reason of its own."""


def _classify_tool_calls(reply: Reply, cap: int | None, tools: Tools, shapes: Shapes) -> str:
    if was_cut(reply, cap) or not all(is_complete(call, tools, shapes) for call in reply.tool_calls):
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


def is_complete(call: ToolCall, tools: Tools, shapes: Shapes = NEUTRAL) -> bool:
    """Tell whether a tool call can be handed out: it has a name, and its arguments are one whole JSON object.

    No arguments at all are complete only for a tool whose definition requires none.
    """
    import orjson  # which an answer in words does without

    if is_blank(call.name):
        return False
    if not call.arguments.strip():
        return shapes.needs_no_arguments(call.name, tools)
    try:
        return isinstance(orjson.loads(call.arguments), dict)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return False


def is_json(text: str) -> bool:
    """Tell whether a text is one JSON value and nothing else."""
    import orjson

    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return _is_odd_json(text)
    return True


def _is_odd_json(text: str) -> bool:
    """Tell whether a text is JSON that stricter readers refuse for halves of surrogate pairs, or long whole numbers."""
    try:
        json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return False
    return True


def _finite(number: str) -> float:
    """Return a number; `NaN`, `Infinity` and 1e400 are none that a reader of JSON could hold.

    Raises:
        ValueError: it is none.
    """
    value = float(number)
    if not isfinite(value):
        raise ValueError("the number is not finite")
    return value
