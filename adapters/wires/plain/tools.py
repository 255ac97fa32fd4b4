"""Read the definitions of tools, in whichever form they were written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.wires.plain.making import list_of, text_in
from rungwise.adapters.wires.plain.schemas import is_openapi, json_schema_of

_NO_PARAMETERS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}
_FREE_TEXT: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""What a tool that takes free text is given where all tools are given objects."""
DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
"""Where functions stand in a tool of Gemini's, which may hold tools that its server runs beside them."""
NOT_GEMINIS: Final = frozenset(
    {"type", "name", "function", "custom", "input_schema", "parameters", "toolSpec", "systemTool", "cachePoint"}
)
"""Members of tools that are in another form than Gemini's."""
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")


@frozen
class ToolDefinition:
    """Hold a tool that the caller runs, in no provider's form.

    Arguments:
        name: what the model calls it by.
        description: what it does, for the model.
        parameters: the JSON schema of its arguments.
        strict: whether the provider must hold the model to the schema; None where nobody said.
        cache: what the caller marked it with, for providers that keep a prompt up to there.
    """

    name: str
    description: str = field(default="", repr=False)
    parameters: Mapping[str, Any] = field(default=_NO_PARAMETERS, repr=False, hash=False)
    strict: bool | None = None
    cache: Any = field(default=None, repr=False, eq=False)


def parted(tool: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return each tool of those that Gemini has in one, its functions together; any other tool as it is."""
    if not NOT_GEMINIS.isdisjoint(tool):
        return [tool]
    return [{name: value} for name, value in tool.items()]


def read_tools(tools: Iterable[Mapping[str, Any]]) -> Iterator[ToolDefinition | Mapping[str, Any]]:
    """Yield the tools that the caller runs; what a provider runs by itself comes as it was given."""
    for tool in tools:
        read = [*_read(tool)]
        if read:
            yield from read
        else:
            yield tool


def _read(tool: Mapping[str, Any]) -> Iterator[ToolDefinition]:
    if not tool.keys().isdisjoint(DECLARATIONS):  # Gemini's, several in one
        for each in (each for name in DECLARATIONS for each in list_of(tool.get(name))):
            yield from _read(_declared(each)) if isinstance(each, Mapping) else ()
        return
    inner = next(
        (tool[name] for name in ("function", "custom", "toolSpec") if isinstance(tool.get(name), Mapping)), tool
    )
    if tool.get("type") not in (None, "function", "custom") and "input_schema" not in tool:
        return
    name, schema = text_in(inner, "name"), next((inner[each] for each in _SCHEMAS if each in inner), None)
    if is_openapi(schema):
        schema = json_schema_of(schema)
    if isinstance(schema, Mapping) and isinstance(schema.get("json"), Mapping):  # Bedrock's
        schema = schema["json"]
    if schema is None and tool.get("type") == "custom":
        schema = _FREE_TEXT
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


def _declared(function: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a function of Gemini's, the schema of whose `parameters` is OpenAPI's whether its types say so or not."""
    if "parameters" not in function:
        return function
    return {**function, "parameters": json_schema_of(function["parameters"])}
