"""Read tool definitions and tool choices in any form.

A tool that the caller runs becomes a `ToolDefinition`, whatever its form: OpenAI's nest it under
`function` or `custom`, Bedrock under `toolSpec`, Gemini holds several functions in one tool, and
the member with the schema has six names. A tool that a provider runs has no equivalent elsewhere,
and stays as it is. Choices become those of chat completions, which every wire can translate.

Gemini's older schemas are a dialect of JSON Schema: types in capitals, `nullable`, counts that may
be text, and names in snake case (`json_schema_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.wires.plain.parts import inner_of, list_of, mapping_of, text_in

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
    result: dict[str, Any] = {}
    for name, value in members.items():
        says_nothing = (name, value) in (("type", _NO_TYPE), ("format", "enum"))
        if name not in _NOT_JSONS and not says_nothing:
            result[name] = _member(name, value)
    order = [name for name in list_of(members.get("propertyOrdering")) if isinstance(name, str)]
    fields = result.get("properties")
    if order and isinstance(fields, Mapping):
        # JSON Schema has no member for the order, but models follow that of the properties
        names = dict.fromkeys((*order, *fields))
        result["properties"] = {name: fields[name] for name in names if name in fields}
    if "example" in members:
        result.setdefault("examples", [members["example"]])
    if members.get("nullable") is True:
        return _nullable(result)
    return result


def _member(name: str, value: Any) -> Any:
    """Return the value of one member as JSON Schema writes it."""
    if name == "type":
        return value.lower() if isinstance(value, str) and value in _TYPES else value
    if name in ("items", "additionalProperties"):
        return json_schema_of(value)
    if name in ("anyOf", "prefixItems") and isinstance(value, list | tuple):
        return [*map(json_schema_of, value)]
    if name in ("properties", "$defs") and isinstance(value, Mapping):
        return {each: json_schema_of(schema) for each, schema in value.items()}
    if name in _COUNTS and isinstance(value, str):
        is_count = value.isascii() and value.isdigit() and len(value) < 20
        return int(value) if is_count else value
    return value


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema, changed to allow null as well."""
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
    """Return each of the tools in one tool of Gemini's, its functions together.

    Any other tool stays unchanged.
    """
    if not NOT_GEMINIS.isdisjoint(tool):
        return [tool]
    return [{name: value} for name, value in tool.items()]


def read_tools(tools: Iterable[Mapping[str, Any]]) -> Iterator[ToolDefinition | Mapping[str, Any]]:
    """Yield the definitions of tools that the caller runs.

    Tools that a provider runs stay unchanged.
    """
    for tool in tools:
        definitions = tuple(_definitions(tool))
        if definitions:
            yield from definitions
        else:
            yield tool


def _definitions(tool: Mapping[str, Any]) -> Iterator[ToolDefinition]:
    """Yield the definitions in a tool: several in Gemini's form, none if a provider runs it."""
    if tool.keys().isdisjoint(DECLARATIONS):
        definition = _definition(tool)
        if definition is not None:
            yield definition
        return
    for name in DECLARATIONS:
        for function in list_of(tool.get(name)):
            if not isinstance(function, Mapping):
                continue
            if "parameters" in function:
                function = {**function, "parameters": json_schema_of(function["parameters"])}
            yield from _definitions(function)


def _definition(tool: Mapping[str, Any]) -> ToolDefinition | None:
    """Read one tool that the caller runs; None if it is of another kind, or malformed."""
    if tool.get("type") not in (None, "function", "custom") and "input_schema" not in tool:
        return None
    inner = inner_of(tool, "function", "custom", "toolSpec")
    schema = _schema_in(inner)
    if schema is None and tool.get("type") == "custom":
        schema = FREE_TEXT
    name = text_in(inner, "name")
    if not name or not (schema is None or isinstance(schema, Mapping)):
        return None
    strict = inner.get("strict")
    mark = tool.get("cache_control", inner.get("cache_control"))
    return ToolDefinition(
        name=name,
        description=text_in(inner, "description"),
        parameters=schema or _NO_PARAMETERS,
        strict=strict if isinstance(strict, bool) else None,
        cache=mark,
    )


def _schema_in(inner: Mapping[str, Any]) -> Any:
    """Return the schema of a tool's arguments as JSON Schema; None if it has none."""
    schema = next((inner[name] for name in _SCHEMAS if name in inner), None)
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") in (*_TYPES, _NO_TYPE):  # in capitals, so not JSON Schema but Gemini's
        schema = json_schema_of(schema)
    if isinstance(schema.get("json"), Mapping):  # Bedrock's
        return schema["json"]
    return schema


_WORDS: Final[Mapping[object, str]] = {
    "auto": "auto",
    "any": "required",
    "none": "none",
}
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
    """Return a tool choice of any form in the form of chat completions.

    An unknown one stays unchanged.

    Arguments:
        choice: the choice, in the form of any protocol.
        tools: the tools of the request: OpenAI names a free-text tool under "custom".
    """
    if not isinstance(choice, Mapping):
        return choice
    kind = choice.get("type")
    if kind is None:  # Bedrock's
        kind = next((name for name in (*_WORDS, "tool") if name in choice), None)
        if isinstance(choice.get("tool"), Mapping):
            choice = {"type": kind, **choice["tool"]}
    elif not isinstance(kind, str):
        return choice
    if kind in _WORDS:
        return _WORDS[kind]
    if kind == _ALLOWED:
        return _allowed(choice, tools)
    name = name_of(choice)
    if not name:
        return choice
    kind = "custom" if _is_free_text(name, tools) else _KINDS[kind]
    if isinstance(choice.get(kind), Mapping):
        return choice
    return {"type": kind, kind: {"name": name}}


def _allowed(choice: Mapping[str, Any], tools: Any) -> dict[str, Any]:
    """Return a choice among some of the tools, which Responses write without an inner object."""
    inner = choice.get(_ALLOWED)
    if not isinstance(inner, Mapping):
        inner = {name: value for name, value in choice.items() if name != "type"}
    if "tools" in inner:
        chosen = [chat_choice(each, tools) for each in list_of(inner["tools"])]
        inner = {**inner, "tools": chosen}
    return {"type": _ALLOWED, _ALLOWED: inner}


def _is_free_text(name: str, tools: Any) -> bool:
    """Tell whether a tool among these takes free text, in either of OpenAI's forms."""
    for tool in map(mapping_of, list_of(tools)):
        if tool.get("type") != "custom":
            continue
        if text_in(tool.get("custom", tool), "name") == name:
            return True
    return False


def forced_name(choice: Any) -> str:
    """Return the name of the one tool that a choice of any form forces; "" if it forces none."""
    chosen = chat_choice(choice)
    if isinstance(chosen, Mapping) and chosen.get("type") == _ALLOWED:
        inner = chosen[_ALLOWED]
        tools = list_of(inner.get("tools"))
        if inner.get("mode") != "required" or len(tools) != 1:
            return ""
        chosen = tools[0]
    return name_of(chosen)


def name_of(chosen: Any) -> str:
    """Return the name of the chosen tool, in either of OpenAI's forms; "" if there is none."""
    kind = chosen.get("type") if isinstance(chosen, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        return ""
    return text_in(chosen.get(_KINDS[kind]), "name") or text_in(chosen, "name")
