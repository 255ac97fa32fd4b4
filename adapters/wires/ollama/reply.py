"""Read a reply of Ollama's chat: its parts, its tokens and its tool calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rungwise.adapters.wires.draft import arguments_of, count_of, text_at
from rungwise.adapters.wires.json_text import digest_of, mended
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.fsm.call.conversation.parts import Part, ReasoningPart, TextPart, ToolCall
from rungwise.fsm.values.usage import Usage

RawCall = tuple[str, str, str]
"""A tool call as it came: its id, its name and its arguments."""


def gathered(text: str, reasoning: str, calls: Iterable[RawCall], about: Sequence[object], provider: str) -> list[Part]:
    """Return the parts of a reply; the protocol does not say in which order they were written."""
    tool_calls = _with_ids(calls, [*map(str, about), text, reasoning], provider)
    thoughts = [ReasoningPart(reasoning, provider=provider)] if reasoning else []
    return [*thoughts, *([TextPart(text)] if text else []), *tool_calls]


def usage_of(value: Mapping[str, Any]) -> Usage | None:
    """Return the tokens that a reply counts, or None if it counts none."""
    prompt, output = count_of(value.get("prompt_eval_count")), count_of(value.get("eval_count"))
    return Usage(input_tokens=prompt, output_tokens=output) if prompt or output else None


def calls_in(message: Any) -> list[RawCall]:
    """Return the tool calls of a message; arguments that are objects become JSON text."""
    calls_here: list[RawCall] = []
    for call in list_of(mapping_of(message).get("tool_calls")):
        function = mapping_of(mapping_of(call).get("function"))
        name, arguments = text_at(function, "name"), arguments_of(function.get("arguments"))
        if name or arguments:
            calls_here.append((text_at(call, "id"), name, arguments))
    return calls_here


def _with_ids(calls: Iterable[RawCall], about: Sequence[str], provider: str) -> list[ToolCall]:
    """Return tool calls, each with a unique id: the server's, or one made up from the reply."""
    by_id: dict[str, ToolCall] = {}
    digest = ""
    for id, name, arguments in mended([*calls]):
        if not id or id in by_id:
            digest = digest or digest_of(about)  # once: it may be as long as the calls are many
            id = f"call_{digest_of([digest, len(by_id), name, arguments])[:24]}"
        by_id[id] = ToolCall(id, name, arguments, provider=provider)
    return [*by_id.values()]
