"""Read a reply of Converse: its blocks, its stop reason, and its tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.anthropic.blocks import identified, opaque_parts, text_parts, thinking_parts
from rungwise.adapters.wires.bedrock.plain import SERVERS
from rungwise.adapters.wires.draft import Draft, arguments_of, count_of, stop_of, text_at
from rungwise.adapters.wires.json_text import mended
from rungwise.fsm.call.conversation.parts import Part, ToolCall
from rungwise.fsm.call.conversation.reply import Reply, StopReason
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.values.usage import Usage

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "model_context_window_exceeded": "overflow",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
_FAILED: Final = ("malformed_model_output", "malformed_tool_use")
"""The server could not read what the model wrote; another attempt may succeed."""


def reply_of(
    parts: Iterable[Part],
    stop: object,
    usage: Any,
    *,
    error: Failure | None = None,
    cut: bool = False,
    cause: Failure | None = None,
    raw: object = None,
) -> Reply | Failure:
    """Make the reply, or a failure if an error left nothing of it; see `Draft.reply`."""
    reason = stop_of(stop, STOP_REASONS)
    counted = usage_of(usage) if isinstance(usage, dict) else None
    unique = identified(parts, counted and counted.total_tokens)
    if reason[1] in _FAILED and error is None:
        error = Failure("failed_generation", status=200, code=reason[1], message="the server could not read the reply")
        unique = tuple([part for part in unique if not isinstance(part, ToolCall)])
    draft = Draft(parts=unique, stop=reason, usage=counted)  # no reply names its model
    return draft.reply(error=error, cut=cut, cause=cause, raw=raw)


def usage_of(raw: Mapping[str, Any]) -> Usage | None:
    """Return the tokens of a reply, or None for none; the total shows if the input includes cached tokens."""
    fresh, output = count_of(raw.get("inputTokens")), count_of(raw.get("outputTokens"))
    read, created = count_of(raw.get("cacheReadInputTokens")), count_of(raw.get("cacheWriteInputTokens"))
    is_within = count_of(raw.get("totalTokens")) == fresh + output and read + created <= fresh
    total = fresh if is_within else fresh + read + created
    if not total and not output:
        return None
    return Usage(input_tokens=total, output_tokens=output, cache_read_tokens=read, cache_creation_tokens=created)


def parts_of(block: Any, provider: str) -> Iterator[Part]:
    """Yield the parts of one whole block; nothing if it is not a block."""
    if not isinstance(block, dict) or not block:
        return
    call, thought, cited = (block.get(name) for name in ("toolUse", "reasoningContent", "citationsContent"))
    reasoning = thought.get("reasoningText") if isinstance(thought, dict) else None
    if isinstance(block.get("text"), str):
        yield from text_parts(block["text"], None, provider)
    elif isinstance(call, dict) and call.get("type") != SERVERS:
        yield tool_call(call, arguments_of(call.get("input")))
    elif isinstance(reasoning, dict):
        yield from thinking_parts(text_at(reasoning, "text"), reasoning.get("signature"), provider)
    elif isinstance(cited, dict):
        texts = cited.get("content")
        text = "".join([text_at(each, "text") for each in texts]) if isinstance(texts, list) else ""
        yield from text_parts(text, cited.get("citations"), provider)
    else:
        yield from opaque_parts(block, provider)


def tool_call(call: Mapping[str, Any], arguments: str) -> ToolCall:
    """Return the tool call of a block; the arguments are JSON text."""
    id, name = str(mended(text_at(call, "toolUseId"))), str(mended(text_at(call, "name")))
    return ToolCall(id, name, str(mended(arguments)))
