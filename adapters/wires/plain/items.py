"""Read the items of OpenAI's Responses that have no role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rungwise.adapters.wires.plain.blocks import parts_of
from rungwise.adapters.wires.plain.making import json_of, list_of, result_of, text_in
from rungwise.fsm.call.conversation.parts import Message, OpaquePart, ReasoningPart, ToolCall


def read_item(item: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return an item in neutral parts; one that only its provider can read is a part that no other is sent."""
    kind = item.get("type")
    if kind in ("function_call", "custom_tool_call"):
        given = item.get("arguments") if kind == "function_call" else {"input": item.get("input")}
        id = text_in(item, "call_id", "id")
        return (Message("assistant", (ToolCall(id, text_in(item, "name"), json_of(given)),)),)
    if kind in ("function_call_output", "custom_tool_call_output"):
        result = result_of(text_in(item, "call_id"), text_in(item, "name"), parts_of(item.get("output")))
        return (Message("tool", (result,)),)
    if kind == "reasoning":
        said = [text_in(part, "text") for part in (*list_of(item.get("summary")), *list_of(item.get("content")))]
        return (Message("assistant", (ReasoningPart("\n\n".join(filter(None, said))),)),)
    return (Message("assistant", (OpaquePart("", item),)),)
