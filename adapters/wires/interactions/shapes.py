"""The form of Interactions: how a message is written as steps, and a tool as a definition.

One answer is several steps in a row. A thought carries the signature of what stands behind it, so
it goes back to its provider as it came, in its place; so do the steps of tools that the provider
ran.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rungwise.adapters.wires.form import Body, Form, Rules
from rungwise.adapters.wires.gemini.parameters import NEWEST
from rungwise.adapters.wires.gemini.shapes import GEMINI
from rungwise.adapters.wires.gemini.shapes import media as gemini_media
from rungwise.adapters.wires.interactions import WIRE
from rungwise.adapters.wires.json_text import object_of
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.fsm.call.conversation.request import PlainMessage
from rungwise.fsm.replies.parts import (
    CitationPart,
    MediaPart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)

_CALL: Final = "function_call"
_STEPS: Final = frozenset(
    [*WIRE.items, *WIRE.kinds.split(), "file_search_call", "tool_search_call"]
)
"""The types of steps but calls; the last two are those of items of Responses, too."""
_FUNCTION: Final = frozenset(
    {"type", "name", "description", "parameters", "short_description", "defer_loading"}
)
"""The members of a function."""
_ELSEWHERE: Final = frozenset({"function", "custom", "input_schema", "toolSpec", "strict"})
"""Members of tools in other protocols' forms."""
_DOCUMENTED: Final = re.compile(
    "code_execution|google_search|google_maps|url_context|file_search|mcp_server|retrieval"
    "|tool_search|computer_use"
)
"""The types of Google's own tools, as its client has them."""
_DATED: Final = re.compile(r"_20\d{2}_?\d\d_?\d\d$")
"""The suffix of the types of tools that other providers run."""
_RESOLUTIONS: Final = ("low", "medium", "high", "ultra_high")


class _InteractionsForm(Form):
    """Read and write steps."""

    __slots__ = ()

    SAYS = frozenset({"detail"})
    refused_keywords = GEMINI.refused_keywords
    rules = Rules(alternates=True, begins_with_user=True)

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        format = parameters.get("response_format")
        for each in (format, *list_of(format)):
            about = mapping_of(each)
            if about.get("type") == "text" and "mime_type" in about:
                return about["mime_type"] == "application/json" and about.get("schema", True)
        return None

    def wanted_json(self, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the JSON format that parameters ask for, as chat completions write it."""
        schema = self._own_format(parameters)
        if isinstance(schema, Mapping):
            return {"type": "json_schema", "schema": schema}
        if schema is True:
            return {"type": "json_object"}
        return super().wanted_json(parameters)

    def is_own(self, message: PlainMessage) -> bool:
        if "role" in message:
            return False
        kind = message.get("type")
        if kind == _CALL:
            return isinstance(message.get("arguments"), Mapping) and "call_id" not in message
        return isinstance(kind, str) and kind in _STEPS

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a step without its signature; a thought that has none is left out at the end."""
        return {name: value for name, value in message.items() if name != "signature"}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        if message.role == "tool":
            return [_result(result) for result in message.tool_results]
        if message.role == "assistant":
            return [*_steps(message.parts, provider)]
        content = [*_content(message.parts)]
        if message.role == "system":
            return [{"role": "system", "content": content}]
        return [{"type": "user_input", "content": content}]

    def tool_of(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
    ) -> Body:
        return {"type": "function", **super().tool_of(name, description, parameters)}

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        kind = tool.get("type")
        if kind == "function":
            return "name" in tool and _FUNCTION.issuperset(tool)
        if not isinstance(kind, str) or not _ELSEWHERE.isdisjoint(tool):
            return False
        return kind != "custom" and not _DATED.search(kind)

    def knows_tool(self, tool: Mapping[str, Any]) -> bool:
        kind = tool.get("type")
        is_documented = isinstance(kind, str) and _DOCUMENTED.fullmatch(kind) is not None
        return is_documented or kind == "function" or not self.is_own_tool(tool)


def _steps(parts: Sequence[Part], provider: str) -> Iterator[Body]:
    """Yield the steps of an assistant turn, in order; other providers' own parts are left out."""
    content: list[Body] = []
    for part in parts:
        is_own = provider != "" and getattr(part, "provider", "") == provider
        if isinstance(part, TextPart | MediaPart):
            content += _content((part,))
            continue
        if isinstance(part, CitationPart):
            if is_own and content and "text" in content[-1]:
                cited = content[-1].setdefault("annotations", [])
                cited.append(dict(part.block))
            continue
        if content:
            yield _output(content)
            content = []
        if isinstance(part, ToolCall):
            yield _call(part, part.extras if is_own else {})
        elif isinstance(part, ReasoningPart):
            if is_own and isinstance(part.signature, Mapping):
                yield dict(part.signature)
        elif is_own and isinstance(part, OpaquePart) and isinstance(part.block, Mapping):
            yield dict(part.block)
    if content:
        yield _output(content)


def _output(content: list[Body]) -> Body:
    return {"type": "model_output", "content": content}


def _content(parts: Sequence[Part]) -> Iterator[Body]:
    """Yield texts and media as they stand in a content; media that cannot be sent are named."""
    for part in parts:
        if isinstance(part, TextPart):
            yield {"type": "text", "text": part.text}
        elif isinstance(part, MediaPart):
            yield _media(part)


def _media(part: MediaPart) -> Body:
    """Return a picture, a recording or a document, which generateContent takes as well."""
    written = gemini_media(part, NEWEST)
    if "text" in written:
        return {"type": "text", **written}
    [about] = written.values()
    content: Body = {"type": "document" if part.kind == "file" else part.kind}
    if "mimeType" in about:
        content["mime_type"] = about["mimeType"]
    if part.data:
        content["data"] = part.data
    else:
        content["uri"] = part.url
    if part.kind == "image" and part.detail in _RESOLUTIONS:
        content["resolution"] = part.detail
    return content


def _call(call: ToolCall, extras: Mapping[str, Any]) -> Body:
    arguments = object_of(call.arguments)
    return {**extras, "type": _CALL, "id": call.id, "name": call.name, "arguments": arguments}


def _result(result: ToolResult) -> Body:
    """Return the step of a result: a text, or a content if there is anything besides."""
    step: Body = {"type": "function_result", "call_id": result.id}
    if result.name:
        step["name"] = result.name
    step["result"] = result.text
    if result.media:
        text = [TextPart(result.text)] if result.text else []
        step["result"] = [*_content([*text, *result.media])]
    if result.is_fault:
        step["is_error"] = True
    return step


INTERACTIONS: Final = _InteractionsForm()
