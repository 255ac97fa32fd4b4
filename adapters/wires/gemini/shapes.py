"""The form of Gemini's contents: what the core reads of it, and how a message is written in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from rungwise.adapters.wires.form import Body, Form, Rules, among
from rungwise.adapters.wires.gemini.models import NEWEST, Traits, traits_of
from rungwise.adapters.wires.gemini.parameters import camel
from rungwise.adapters.wires.gemini.writing import Writer
from rungwise.adapters.wires.plain.making import list_of
from rungwise.adapters.wires.plain.schemas import json_schema_of
from rungwise.adapters.wires.plain.tools import DECLARATIONS, NOT_GEMINIS, ToolDefinition
from rungwise.fsm.call.conversation.parts import Message, ToolResult
from rungwise.fsm.call.conversation.request import PlainMessage

_RULES: Final = Rules(alternates=True, begins_with_user=True)
_ROLES: Final = ("user", "model", "system")
_RESULTS: Final = frozenset({"functionResponse", "function_response"})
_SIGNATURES: Final = ("thoughtSignature", "thought_signature")


class GeminiForm(Form):
    """Read and write contents.

    Arguments:
        traits: what the model does in its own way.
    """

    __slots__ = ("_traits",)

    SAYS = frozenset()

    def __init__(self, traits: Traits = NEWEST) -> None:
        self._traits = traits

    @property
    def rules(self) -> Rules:
        """Return what the protocol demands of a conversation."""
        return _RULES

    @property
    def tool_parameters(self) -> frozenset[str]:
        """Return the parameters of a request that mean nothing without tools."""
        return super().tool_parameters | {"toolConfig", "tool_config"}

    def asks_for_json(self, parameters: Mapping[str, Any]) -> bool | None:
        """Tell whether parameters of a request ask for JSON; None where they do not speak of it."""
        places = [parameters, *(parameters.get(name) for name in ("generationConfig", "generation_config"))]
        for place in places:
            for name in ("responseMimeType", "response_mime_type"):
                if isinstance(place, Mapping) and name in place:
                    return bool(place[name] == "application/json")
        return super().asks_for_json(parameters)

    def _own_schema(self, parameters: Mapping[str, Any]) -> Any:
        places = [parameters, *(parameters.get(name) for name in ("generationConfig", "generation_config"))]
        held = {camel(name): each for place in places if isinstance(place, Mapping) for name, each in place.items()}
        return held.get("responseJsonSchema") or json_schema_of(held.get("responseSchema"))

    def _role_of(self, message: Mapping[str, Any]) -> str:
        for part in list_of(message.get("parts")):
            if isinstance(part, Mapping) and _is_result(part):
                return "tool"
        blocks = list_of(message.get("content"))
        if any(isinstance(block, Mapping) and block.get("type") == "tool_result" for block in blocks):
            return "tool"
        return "tool" if message.get("role") == "function" else super()._role_of(message)

    # tools

    def _definition_of(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        declared = [each for name in DECLARATIONS for each in list_of(tool.get(name)) if isinstance(each, Mapping)]
        return declared[0] if declared else tool

    def tool_of(self, name: str, description: str, parameters: Mapping[str, Any]) -> Body:
        """Return the definition of a tool."""
        described = {"description": description} if description else {}
        return {"functionDeclarations": [{"name": name, **described, "parametersJsonSchema": parameters}]}

    def strictly(self, definition: dict[str, Any], strict: bool) -> dict[str, Any]:
        """Return the definition of a tool as it is: no function is held to its schema by itself."""
        return definition

    def is_own_tool(self, tool: Mapping[str, Any]) -> bool:
        """Tell whether the definition of a tool can go out as it is."""
        return NOT_GEMINIS.isdisjoint(tool)

    def written_tool(self, tool: ToolDefinition) -> Body:
        """Return the definition of a tool in this form."""
        return self.tool_of(tool.name, tool.description, tool.parameters)

    def written_tools(self, tools: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return the definitions of tools in this form, all functions in one: Vertex takes no second list of them."""
        written = super().written_tools(tools)
        functions: list[Any] = []
        rest: list[Mapping[str, Any]] = []
        for tool in written:
            functions += [each for name in DECLARATIONS for each in list_of(tool.get(name))]
            others = {name: value for name, value in tool.items() if name not in DECLARATIONS}
            rest += [others] if others else []
        return [*([{DECLARATIONS[0]: functions}] if functions else []), *rest]

    # messages

    def is_own(self, message: PlainMessage) -> bool:
        """Tell whether a plain message can go out as it is."""
        parts = message.get("parts")
        is_list = isinstance(parts, list | tuple) and all(isinstance(part, Mapping) for part in parts)
        return is_list and message.get("role") in _ROLES and "content" not in message

    def unsigned(self, message: PlainMessage) -> PlainMessage:
        """Return a content without signatures and thoughts that may be another provider's."""
        parts = [part for part in message["parts"] if part.get("thought") is not True]
        parts = [{name: value for name, value in part.items() if name not in _SIGNATURES} for part in parts]
        return message if parts == [*message["parts"]] else {**message, "parts": parts}

    def with_results(self, message: PlainMessage, results: Sequence[ToolResult]) -> PlainMessage | None:
        """Return a content with more results among its own: the API wants as many in one as there were calls."""
        if not any(map(_is_result, message["parts"])):
            return None
        [more] = self.sent_to("", Message("tool", results))
        return {**message, "parts": among(message["parts"], more["parts"], _is_result)}

    def sent_to(self, provider: str, message: Message) -> list[Body]:
        """Return a message as one content, with what this provider wants back in the place where it stood."""
        writer = Writer(provider, self._traits)
        for part in message.parts:
            writer.add(part)
        role = {"assistant": "model", "system": "system"}.get(message.role, "user")
        return [{"role": role, "parts": writer.written()}]


def _is_result(part: Mapping[str, Any]) -> bool:
    return not _RESULTS.isdisjoint(part)


GEMINI: Final = GeminiForm()


@lru_cache(maxsize=64)
def form_for(model: str) -> GeminiForm:
    """Return the form in which a model is written to."""
    return GeminiForm(traits_of(model))
