"""Read the items of Responses into neutral parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rungwise.adapters.wires.plain.blocks import parts_of
from rungwise.adapters.wires.plain.parts import json_of, list_of, result_of, text_in
from rungwise.fsm.call.conversation.parts import Message, OpaquePart, ReasoningPart, ToolCall


def read_item(item: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return an item in neutral parts; an item that only its provider can read goes to no other."""
    kind = item.get("type")
    if kind in ("function_call", "custom_tool_call"):
        arguments = item.get("arguments") if kind == "function_call" else {"input": item.get("input")}
        id = text_in(item, "call_id", "id")
        return (Message("assistant", (ToolCall(id, text_in(item, "name"), json_of(arguments)),)),)
    if kind in ("function_call_output", "custom_tool_call_output"):
        result = result_of(text_in(item, "call_id"), text_in(item, "name"), parts_of(item.get("output")))
        return (Message("tool", (result,)),)
    if kind == "reasoning":
        texts = [text_in(part, "text") for part in (*list_of(item.get("summary")), *list_of(item.get("content")))]
        return (Message("assistant", (ReasoningPart("\n\n".join(filter(None, texts))),)),)
    return (Message("assistant", (OpaquePart("", item),)),)
