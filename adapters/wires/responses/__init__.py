"""OpenAI's Responses.

A conversation is a list of items: messages, calls, their results, and reasoning. Consecutive items
of the assistant are one answer.
"""

from collections.abc import Mapping
from typing import Any

from rungwise.adapters.wires.chat.plain import read_file, read_image_url, read_text
from rungwise.adapters.wires.plain.messages import parts_of
from rungwise.adapters.wires.plain.parts import json_of, list_of, result_of, text_in
from rungwise.adapters.wires.registry import Wire
from rungwise.fsm.replies.parts import Message, OpaquePart, Part, ReasoningPart, ToolCall


def read_item(item: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return an item in neutral parts; an item that only its provider can read goes to no other."""
    kind = item.get("type")
    name = text_in(item, "name")
    if kind in ("function_call_output", "custom_tool_call_output"):
        result = result_of(text_in(item, "call_id"), name, parts_of(item.get("output")))
        return (Message("tool", (result,)),)
    part: Part
    if kind == "function_call":
        part = ToolCall(text_in(item, "call_id", "id"), name, json_of(item.get("arguments")))
    elif kind == "custom_tool_call":
        arguments = {"input": item.get("input")}
        part = ToolCall(text_in(item, "call_id", "id"), name, json_of(arguments))
    elif kind == "reasoning":
        blocks = (*list_of(item.get("summary")), *list_of(item.get("content")))
        texts = [text_in(block, "text") for block in blocks]
        part = ReasoningPart("\n\n".join(filter(None, texts)))
    else:
        part = OpaquePart("", item)
    return (Message("assistant", (part,)),)


WIRE = Wire(
    protocol="Responses",
    client="openai.OpenAI(base_url={!r})",
    client_base="/v1",
    client_path="/v1/responses",
    # [openai-python, response_create_params]
    parameters="access_programs background background_options context_management conversation"
    " image include instructions max_tool_calls metadata moderation previous_response_id prompt"
    " prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier"
    " service_tier store stream_options text top_logprobs truncation user",
    members={
        **dict.fromkeys(("input_text", "output_text"), "type text refusal"),
        "input_image": "type image_url url detail file_id",
        "input_file": "type file file_data filename file_url file_id",
        "tool": "type name description format strict parameters",
    },
    parts={
        **dict.fromkeys(("input_text", "output_text"), read_text),
        "input_image": read_image_url,
        "input_file": read_file,
    },
    messages={"": read_item},
    sealed="message reasoning",
    references="item_reference",
)
