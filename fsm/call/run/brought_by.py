"""What brings each event of a call about, in the words of HTTP and of the providers, for who has not seen the code."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

BROUGHT_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "answered": "200 with text and a clean stop",
        "called_tools": "200 with well-formed tool calls",
        "came_empty": "200 with no text, no reasoning and no tool call",
        "only_reasoned": "200 with reasoning, but no text",
        "truncated": "finish reason `length` behind visible text",
        "paused": "finish reason `pause_turn`",
        "tools_truncated": "a tool call that is cut or is no JSON",
        "json_truncated": "finish reason `length` inside the JSON that was asked for",
        "reasoning_truncated": "finish reason `length` before any text",
        "interrupted": "a stream that breaks off before its end",
        "fell_silent": "a stream that says nothing for too long",
        "malformed": "200 with no usable shape, or an unknown finish reason",
        "refused": "a content filter, a safety refusal",
        "failed_transiently": "429, 408, 500 to 599, a timeout, no connection",
        "failed_permanently": "401, 402, 403, 404 for the model, any other 400 or 422, a bad certificate",
        "rejected_fixably": "400 that names one thing: a parameter, the output cap, a prefill, a signature",
        "overflowed": "413, or 400 because the prompt exceeds the context",
        "cancelled": "the caller",
        "ran_out": "the budget",
    }
)
"""For each event of the shipped table, in a few words; a status stands for what it means by itself."""
