"""The form of Gemini's contents: how the core reads it, and how messages and tools are written in
it.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.form import Body, Form, Rules, among
from rungwise.adapters.wires.gemini.parameters import NEWEST, Traits, camel, traits_of
from rungwise.adapters.wires.json_text import object_of
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.adapters.wires.plain.tools import DECLARATIONS, NOT_GEMINIS, json_schema_of
from rungwise.fsm.call.conversation.plain import in_words
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

MADE_UP: Final = "call_gemini_"
"""The prefix of made-up ids for calls without one; only Rungwise uses them, they are never sent."""

_URL: Final = re.compile(r"https?://|gs://", re.IGNORECASE)
_OWN_URL: Final = re.compile(
    r"gs://|https://(generativelanguage\.googleapis\.com|storage\.googleapis\.com"
    r"|(www\.)?youtube\.com|youtu\.be)/",
    re.IGNORECASE,
)
"""Google's own hosts, whose files every model can read."""
_TYPES: Final = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4"}


@define
class Writer:
    """Write the parts of one message, in their order."""

    provider: str
    traits: Traits
    _parts: list[Body] = field(factory=list, init=False)
    _members: Mapping[str, Any] = field(factory=dict, init=False)
    """Members of the part that comes next, such as its signature."""
    _beside: list[Body] = field(factory=list, init=False)

    def written(self) -> list[Body]:
        """Return what was written."""
        if self._members:
            self._append({"text": ""})  # the part that it had signed was blank
        return [*self._parts, *self._beside]

    def add(self, part: Part) -> None:
        """Write a part; other providers' own parts are left out."""
        if isinstance(part, TextPart):
            if part.text or self._members:
                self._append({"text": part.text})
        elif isinstance(part, MediaPart):
            self._append(media(part, self.traits))
        elif isinstance(part, ToolCall):
            self._append(self._call(part))
        elif isinstance(part, ToolResult):
            self._append(self._result(part))
        elif (
            not isinstance(part, CitationPart) and self.provider and part.provider == self.provider
        ):
            self._add_own(part)

    def _append(self, written: Body) -> None:
        self._parts.append({**written, **self._members})
        self._members = {}

    def _add_own(self, part: ReasoningPart | OpaquePart) -> None:
        if isinstance(part, OpaquePart):
            if isinstance(part.block, Mapping):
                self._append(dict(part.block))
        elif not isinstance(part.signature, Mapping):
            signed = {"thoughtSignature": part.signature} if part.signature else {}
            self._append({"text": part.text, "thought": True, **signed})
        elif "text" in part.signature:  # a part that is nothing but a signature
            self._append(dict(part.signature))
        else:
            self._members = part.signature

    def _call(self, call: ToolCall) -> Body:
        is_own = bool(self.provider) and call.provider == self.provider
        extras = dict(call.extras) if is_own else {}
        own_id = extras.pop("id", None)
        id = own_id if is_own else sent_id(call.id)
        sent = {**({"id": id} if id else {}), "name": call.name, "args": object_of(call.arguments)}
        return {"functionCall": sent, **extras}

    def _result(self, result: ToolResult) -> Body:
        id = sent_id(result.id)
        response: Body = {**({"id": id} if id else {}), "name": result.name or "unknown"}
        response["response"] = {"error" if result.is_fault else "output": result.text}
        shown = [media(each, self.traits) for each in result.media]
        if self.traits.nests_media:
            response |= (
                {"parts": nested}
                if (nested := [each for each in shown if "text" not in each])
                else {}
            )
            shown = [each for each in shown if "text" in each]
        self._beside += shown
        return {"functionResponse": response}


def sent_id(id: str) -> str:
    """Return the id of a call as it is sent; "" for a made-up one."""
    return "" if id.startswith(MADE_UP) else id


def media(part: MediaPart, traits: Traits) -> Body:
    """Return a picture or a file; one that cannot be sent is named, so that the model can say
    so.
    """
    if part.data:
        return {"inlineData": {"mimeType": _type_of(part), "data": part.data}}
    if (_URL if traits.fetches else _OWN_URL).match(part.url):
        kind = _type_of(part)
        return {"fileData": {**({"mimeType": kind} if kind else {}), "fileUri": part.url}}
    return {"text": in_words(part)}


def _type_of(part: MediaPart) -> str:
    if part.media_type:
        return part.media_type
    path = re.sub(r"[?#].*", "", part.url)
    guessed = mimetypes.guess_type(path if path else part.name)[0]
    return guessed or _TYPES.get(part.kind, "" if part.url else "application/octet-stream")


_ROLES: Final = ("user", "model", "system")
_RESULTS: Final = frozenset({"functionResponse", "function_response"})
_SIGNATURES: Final = ("thoughtSignature", "thought_signature")


class _GeminiForm(Form):
    __slots__ = ("_traits",)

    SAYS = frozenset()
    refused_keywords = Form.refused_keywords - {"oneOf"} | {
        "const",
        "pattern",
        "minLength",
        "maxLength",
        "multipleOf",
        "exclusiveMinimum",
        "exclusiveMaximum",
    }  # [ai.google.dev, structured output: JSON Schema support]
    has_schema_beside_tools = False  # before Gemini 3, JSON is refused beside functions
    rules = Rules(alternates=True, begins_with_user=True)
    tool_parameters = Form.tool_parameters | {"toolConfig", "tool_config"}

    def __init__(self, traits: Traits = NEWEST) -> None:
        self._traits = traits

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        configs = map(parameters.get, ("generationConfig", "generation_config"))
        places = [*map(mapping_of, (parameters, *configs))]
        names = ("responseMimeType", "response_mime_type")
        types = [place[name] for place in places for name in names if name in place]
        if not types or types[0] != "application/json":
            return False if types else None
        members = {camel(name): each for place in places for name, each in place.items()}
        schema = members.get("responseJsonSchema") or json_schema_of(members.get("responseSchema"))
        return True if schema is None else schema

    def _role_of(self, message: Mapping[str, Any]) -> str:
        for part in list_of(message.get("parts")):
            if isinstance(part, Mapping) and _is_result(part):
                return "tool"
        blocks = list_of(message.get("content"))
        if any(
            isinstance(block, Mapping) and block.get("type") == "tool_result" for block in blocks
        ):
            return "tool"
        return "tool" if message.get("role") == "function" else super()._role_of(message)

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> Body:
        described = {"description": description} if description else {}
        return {
            "functionDeclarations": [
                {"name": name, **described, "parametersJsonSchema": parameters}
            ]
        }

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        return NOT_GEMINIS.isdisjoint(tool)

    def written_tools(self, tools: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the definitions of tools in this form, all functions in one: Vertex accepts only
        one list.
        """
        written = super().written_tools(tools)
        functions: list[Any] = []
        rest: list[Mapping[str, Any]] = []
        for tool in written:
            functions += [each for name in DECLARATIONS for each in list_of(tool.get(name))]
            others = {name: value for name, value in tool.items() if name not in DECLARATIONS}
            rest += [others] if others else []
        return [*([{DECLARATIONS[0]: functions}] if functions else []), *rest]

    def is_own(self, message: PlainMessage) -> bool:
        parts = message.get("parts")
        is_list = isinstance(parts, list | tuple) and all(
            isinstance(part, Mapping) for part in parts
        )
        return is_list and message.get("role") in _ROLES and "content" not in message

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a content without signatures and thoughts that another provider may have
        written.
        """
        parts = [part for part in message["parts"] if part.get("thought") is not True]
        parts = [
            {name: value for name, value in part.items() if name not in _SIGNATURES}
            for part in parts
        ]
        return message if parts == [*message["parts"]] else {**message, "parts": parts}

    def with_results(
        self, message: PlainMessage, results: Sequence[ToolResult]
    ) -> PlainMessage | None:
        """Add results to a content that holds results: the API wants as many in one as there were
        calls.
        """
        if not any(map(_is_result, message["parts"])):
            return None
        [more] = self.sent_to("", Message("tool", results))
        return {**message, "parts": among(message["parts"], more["parts"], _is_result)}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        writer = Writer(provider, self._traits)
        for part in message.parts:
            writer.add(part)
        role = {"assistant": "model", "system": "system"}.get(message.role, "user")
        return [{"role": role, "parts": writer.written()}]


def _is_result(part: Mapping[str, Any]) -> bool:
    return not _RESULTS.isdisjoint(part)


GEMINI: Final = _GeminiForm()


@lru_cache(maxsize=64)
def form_for(model: str) -> Form:
    """Return the form for a model."""
    return _GeminiForm(traits_of(model))
