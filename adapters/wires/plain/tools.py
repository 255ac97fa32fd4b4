"""Read tool definitions and tool choices in any form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.wires.plain.parts import list_of, mapping_of, text_in

_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_NO_TYPE: Final = "TYPE_UNSPECIFIED"
_NAMES: Final[Mapping[str, str]] = {
    "any_of": "anyOf",
    "property_ordering": "propertyOrdering",
    "additional_properties": "additionalProperties",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "defs": "$defs",
    "ref": "$ref",
}
"""The other names of members: the API takes both."""
_COUNTS: Final = (
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
)
"""Whole numbers of 64 bits, which Google's JSON may write as text."""
_NOT_JSONS: Final = ("nullable", "propertyOrdering", "example")


def json_schema_of(schema: Any) -> Any:
    """Return a schema of Gemini's as JSON Schema; JSON Schema stays unchanged."""
    if not isinstance(schema, Mapping):
        return schema
    members = {_NAMES.get(name, name): value for name, value in schema.items()}
    result = {
        name: _member(name, value)
        for name, value in members.items()
        if name not in _NOT_JSONS and (name, value) not in (("type", _NO_TYPE), ("format", "enum"))
    }
    order = [name for name in list_of(members.get("propertyOrdering")) if isinstance(name, str)]
    fields = result.get("properties")
    if order and isinstance(fields, Mapping):
        result["properties"] = {
            name: fields[name] for name in dict.fromkeys((*order, *fields)) if name in fields
        }
    if "example" in members:
        result.setdefault("examples", [members["example"]])
    return _nullable(result) if members.get("nullable") is True else result


def _member(name: str, value: Any) -> Any:
    if name == "type":
        return value.lower() if isinstance(value, str) and value in _TYPES else value
    if name in ("items", "additionalProperties"):
        return json_schema_of(value)
    if name in ("anyOf", "prefixItems") and isinstance(value, list | tuple):
        return [*map(json_schema_of, value)]
    if name in ("properties", "$defs") and isinstance(value, Mapping):
        return {each: json_schema_of(schema) for each, schema in value.items()}
    if (
        name in _COUNTS
        and isinstance(value, str)
        and value.isascii()
        and value.isdigit()
        and len(value) < 20
    ):
        return int(value)
    return value


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    null = {"type": "null"}
    if "$ref" in schema:
        return {"anyOf": [schema, null]}
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    if isinstance(schema.get("anyOf"), list) and null not in schema["anyOf"]:
        schema["anyOf"] = [*schema["anyOf"], null]
    if isinstance(schema.get("enum"), list | tuple) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


_NO_PARAMETERS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}
FREE_TEXT: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""The schema of a free-text tool for protocols where every tool takes an object."""
DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
"""Where a tool of Gemini's holds functions; it may hold tools that the server runs as well."""
NOT_GEMINIS: Final = frozenset(
    {
        "type",
        "name",
        "function",
        "custom",
        "input_schema",
        "parameters",
        "toolSpec",
        "systemTool",
        "cachePoint",
    }
)
"""Members of tools in other forms than Gemini's."""
_SCHEMAS: Final = (
    "parameters",
    "input_schema",
    "inputSchema",
    "parametersJsonSchema",
    "parameters_json_schema",
)


@frozen
class ToolDefinition:
    """Hold a tool that the caller runs, in no provider's form."""

    name: str
    description: str = field(default="", repr=False)
    parameters: Mapping[str, Any] = field(default=_NO_PARAMETERS, repr=False, hash=False)
    strict: bool | None = None
    cache: Any = field(default=None, repr=False, eq=False)


def parted(tool: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return each of the tools in one tool of Gemini's, its functions together; any other tool
    unchanged.
    """
    if not NOT_GEMINIS.isdisjoint(tool):
        return [tool]
    return [{name: value} for name, value in tool.items()]


def read_tools(tools: Iterable[Mapping[str, Any]]) -> Iterator[ToolDefinition | Mapping[str, Any]]:
    """Yield the definitions of tools that the caller runs; tools that a provider runs stay
    unchanged.
    """
    for tool in tools:
        yield from tuple(_read(tool)) or (tool,)


def _read(tool: Mapping[str, Any]) -> Iterator[ToolDefinition]:
    if not tool.keys().isdisjoint(DECLARATIONS):  # Gemini's, several in one
        declared = [each for name in DECLARATIONS for each in list_of(tool.get(name))]
        for function in (each for each in declared if isinstance(each, Mapping)):
            own = (
                {"parameters": json_schema_of(function["parameters"])}
                if "parameters" in function
                else {}
            )
            yield from _read({**function, **own})
        return
    inners = (
        tool[name]
        for name in ("function", "custom", "toolSpec")
        if isinstance(tool.get(name), Mapping)
    )
    inner = next(inners, tool)
    if tool.get("type") not in (None, "function", "custom") and "input_schema" not in tool:
        return
    name = text_in(inner, "name")
    schema = next((inner[each] for each in _SCHEMAS if each in inner), None)
    # no JSON Schema has it in capitals
    if isinstance(schema, Mapping) and schema.get("type") in (*_TYPES, _NO_TYPE):
        schema = json_schema_of(schema)
    if isinstance(schema, Mapping) and isinstance(schema.get("json"), Mapping):  # Bedrock's
        schema = schema["json"]
    if schema is None and tool.get("type") == "custom":
        schema = FREE_TEXT
    if not name or (schema is not None and not isinstance(schema, Mapping)):
        return
    strict = inner.get("strict")
    yield ToolDefinition(
        name,
        text_in(inner, "description"),
        schema or _NO_PARAMETERS,
        strict if isinstance(strict, bool) else None,
        tool.get("cache_control", inner.get("cache_control")),
    )


_WORDS: Final[Mapping[object, str]] = {"auto": "auto", "any": "required", "none": "none"}
"""Anthropic's and Bedrock's tool choices without a name, with their equivalents in chat
completions.
"""
_KINDS: Final[Mapping[object, str]] = {
    "tool": "function",
    "function": "function",
    "custom": "custom",
}
_ALLOWED: Final = "allowed_tools"


def chat_choice(choice: Any, tools: Any = ()) -> Any:
    """Return a tool choice of any form in the form of chat completions; an unknown one stays
    unchanged.
    """
    if not isinstance(choice, Mapping):
        return choice
    kind = choice.get("type")
    if kind is None:  # Bedrock's
        kind = next((name for name in (*_WORDS, "tool") if name in choice), None)
        choice = (
            {"type": kind, **choice["tool"]} if isinstance(choice.get("tool"), Mapping) else choice
        )
    elif not isinstance(kind, str):
        return choice
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == _ALLOWED:
        own = choice.get(_ALLOWED)
        inner = (
            own
            if isinstance(own, Mapping)
            else {name: each for name, each in choice.items() if name != "type"}
        )
        if "tools" in inner:
            inner = {
                **inner,
                "tools": [chat_choice(each, tools) for each in list_of(inner["tools"])],
            }
        return {"type": _ALLOWED, _ALLOWED: inner}
    name = name_of(choice)
    if not name:
        return choice
    free = [each for each in map(mapping_of, list_of(tools)) if each.get("type") == "custom"]
    is_free = any(text_in(each.get("custom", each), "name") == name for each in free)
    kind_here = "custom" if is_free else _KINDS[kind]
    return (
        choice
        if isinstance(choice.get(kind_here), Mapping)
        else {"type": kind_here, kind_here: {"name": name}}
    )


def forced_name(choice: Any) -> str:
    """Return the name of the one tool that a choice of any form forces; "" if it forces none."""
    chosen = chat_choice(choice)
    if isinstance(chosen, Mapping) and chosen.get("type") == _ALLOWED:
        inner = chosen[_ALLOWED]
        tools = list_of(inner.get("tools"))
        chosen = tools[0] if inner.get("mode") == "required" and len(tools) == 1 else None
    return name_of(chosen)


def name_of(chosen: Any) -> str:
    """Return the name of the chosen tool, in either of OpenAI's forms; "" if there is none."""
    kind = chosen.get("type") if isinstance(chosen, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        return ""
    return text_in(chosen.get(_KINDS[kind]), "name") or text_in(chosen, "name")
