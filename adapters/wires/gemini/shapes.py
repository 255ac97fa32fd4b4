"""The form of Gemini's contents: how messages and tools are written in it.

A turn is a content with parts. A signature is a member of the part that it signs, so `Writer` keeps
it until that part comes. The generation of the model decides where pictures of results stand.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from attrs import define, evolve, field

from rungwise.adapters.wires.draft import Draft
from rungwise.adapters.wires.form import Body, Form, Rules, among
from rungwise.adapters.wires.gemini.calls import calls_of_pieces
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
from rungwise.fsm.replies.reply import Reply

MADE_UP: Final = "call_gemini_"
"""The prefix of made-up ids for calls without one; only Rungwise uses them, they are never sent."""

_URL: Final = re.compile(r"https?://|gs://", re.IGNORECASE)
"""What a model can read that fetches public URLs."""
_OWN_URL: Final = re.compile(
    r"gs://|https://(generativelanguage\.googleapis\.com|storage\.googleapis\.com"
    r"|(www\.)?youtube\.com|youtu\.be)/",
    re.IGNORECASE,
)
"""Google's own hosts, whose files every model can read."""
_TYPES: Final = {
    "image": "image/png",
    "audio": "audio/wav",
    "video": "video/mp4",
}
"""The media types of what does not say its own."""


@define
class Writer:
    """Write the parts of one message, in their order."""

    provider: str  # whose own parts are written
    traits: Traits  # of the model
    _parts: list[Body] = field(factory=list, init=False)
    _members: Mapping[str, Any] = field(factory=dict, init=False)
    """Members of the part that comes next, such as its signature."""
    _beside: list[Body] = field(factory=list, init=False)  # media of results, behind all parts

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
        elif isinstance(part, CitationPart):
            return
        elif self.provider and part.provider == self.provider:
            self._add_own(part)

    def _append(self, written: Body) -> None:
        """Append a part, with the members that wait for it."""
        self._parts.append({**written, **self._members})
        self._members = {}

    def _add_own(self, part: ReasoningPart | OpaquePart) -> None:
        """Write a part that only this provider can read."""
        if isinstance(part, OpaquePart):
            if isinstance(part.block, Mapping):
                self._append(dict(part.block))
        elif isinstance(part.signature, Mapping):
            if "text" in part.signature:  # a part that is nothing but a signature
                self._append(dict(part.signature))
            else:
                self._members = part.signature
        else:
            thought: Body = {"text": part.text, "thought": True}
            if part.signature:
                thought["thoughtSignature"] = part.signature
            self._append(thought)

    def _call(self, call: ToolCall) -> Body:
        id: Any = sent_id(call.id)
        extras: Body = {}
        if self.provider and call.provider == self.provider:
            extras = dict(call.extras)
            id = extras.pop("id", None)  # as the server had it, if it had one
        sent: Body = {}
        if id:
            sent["id"] = id
        sent["name"] = call.name
        sent["args"] = object_of(call.arguments)
        return {"functionCall": sent, **extras}

    def _result(self, result: ToolResult) -> Body:
        response: Body = {}
        id = sent_id(result.id)
        if id:
            response["id"] = id
        response["name"] = result.name or "unknown"
        response["response"] = {"error" if result.is_fault else "output": result.text}
        nested: list[Body] = []
        for each in result.media:
            written = media(each, self.traits)
            if self.traits.nests_media and "text" not in written:
                nested.append(written)
            else:
                self._beside.append(written)
        if nested:
            response["parts"] = nested
        return {"functionResponse": response}


def sent_id(id: str) -> str:
    """Return the id of a call as it is sent; "" for a made-up one."""
    return "" if id.startswith(MADE_UP) else id


def media(part: MediaPart, traits: Traits) -> Body:
    """Return a picture or a file.

    One that cannot be sent is named, so that the model can say so.
    """
    kind = _type_of(part)
    if part.data:
        return {"inlineData": {"mimeType": kind, "data": part.data}}
    readable = _URL if traits.fetches else _OWN_URL
    if not readable.match(part.url):
        return {"text": in_words(part)}
    if not kind:
        return {"fileData": {"fileUri": part.url}}
    return {"fileData": {"mimeType": kind, "fileUri": part.url}}


def _type_of(part: MediaPart) -> str:
    """Return a media type: the part's own, that of its name, or the usual one of its kind."""
    if part.media_type:
        return part.media_type
    path = re.sub(r"[?#].*", "", part.url)
    guessed = mimetypes.guess_type(path or part.name)[0]
    if guessed:
        return guessed
    if part.kind in _TYPES:
        return _TYPES[part.kind]
    return "" if part.url else "application/octet-stream"


_ROLES: Final = ("user", "model", "system")
_RESULTS: Final = frozenset({"functionResponse", "function_response"})
_SIGNATURES: Final = ("thoughtSignature", "thought_signature")


class _GeminiForm(Form):
    """Read and write Gemini's contents for one generation of models."""

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

    def joined(self, reply: Reply, pieces: tuple[Any, ...]) -> Reply:
        if not pieces:
            return reply
        calls = calls_of_pieces((*pieces, *reply.pieces))
        if not reply.pieces:
            calls += reply.tool_calls
        parts = [part for part in reply.parts if not isinstance(part, ToolCall)]
        whole = Draft(parts=(*parts, *calls), stop=(None, None), made_up=MADE_UP).reply()
        return evolve(
            reply,
            text="",
            final_text=None,
            tool_calls=(),
            reasoning="",
            parts=whole.parts if isinstance(whole, Reply) else parts,
        )

    def __init__(self, traits: Traits = NEWEST) -> None:
        self._traits = traits

    def _own_format(self, parameters: Mapping[str, Any]) -> Any:
        configs = map(parameters.get, ("generationConfig", "generation_config"))
        places = [parameters, *map(mapping_of, configs)]
        for place in places:
            for name in ("responseMimeType", "response_mime_type"):
                if name not in place:
                    continue
                if place[name] != "application/json":  # the first one counts
                    return False
                return _asked_schema(places)
        return None

    def _role_of(self, message: Mapping[str, Any]) -> str:
        if message.get("role") == "function":
            return "tool"
        if any(_is_result(mapping_of(part)) for part in list_of(message.get("parts"))):
            return "tool"
        for block in list_of(message.get("content")):
            if mapping_of(block).get("type") == "tool_result":  # another protocol's
                return "tool"
        return super()._role_of(message)

    def tool_of(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
    ) -> Body:
        function: Body = {"name": name}
        if description:
            function["description"] = description
        function["parametersJsonSchema"] = parameters
        return {DECLARATIONS[0]: [function]}

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        return NOT_GEMINIS.isdisjoint(tool)

    def written_tools(self, tools: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the definitions of tools in this form, all functions in one.

        Vertex accepts only one list.
        """
        functions: list[Any] = []
        rest: list[Mapping[str, Any]] = []
        for tool in super().written_tools(tools):
            for name in DECLARATIONS:
                functions += list_of(tool.get(name))
            others = {name: value for name, value in tool.items() if name not in DECLARATIONS}
            if others:
                rest.append(others)
        if not functions:
            return rest
        return [{DECLARATIONS[0]: functions}, *rest]

    def is_own(self, message: PlainMessage) -> bool:
        if message.get("role") not in _ROLES or "content" in message:
            return False
        parts = message.get("parts")
        if not isinstance(parts, list | tuple):
            return False
        return all(isinstance(part, Mapping) for part in parts)

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a content without what another provider may have signed or thought."""
        parts: list[Body] = []
        for part in message["parts"]:
            if part.get("thought") is not True:
                own = {name: value for name, value in part.items() if name not in _SIGNATURES}
                parts.append(own)
        if parts == [*message["parts"]]:
            return message
        return {**message, "parts": parts}

    def with_results(
        self, message: PlainMessage, results: Sequence[ToolResult]
    ) -> PlainMessage | None:
        """Add results to a content that holds results.

        The API wants as many in one content as there were calls.
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


def _asked_schema(places: Iterable[Mapping[str, Any]]) -> Any:
    """Return the schema among some parameters, as JSON Schema; True if there is none."""
    members: Body = {}
    for place in places:
        for name, value in place.items():
            members[camel(name)] = value
    schema = members.get("responseJsonSchema") or json_schema_of(members.get("responseSchema"))
    return True if schema is None else schema


def _is_result(part: Mapping[str, Any]) -> bool:
    """Tell whether a part is the result of a function."""
    return not _RESULTS.isdisjoint(part)


GEMINI: Final = _GeminiForm()


@lru_cache(maxsize=64)
def form_for(model: str) -> Form:
    """Return the form for a model."""
    return _GeminiForm(traits_of(model))
