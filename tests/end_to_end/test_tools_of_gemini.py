"""Tools as Gemini has them go to any other backend: schemas of OpenAPI, and several tools in one object."""

from typing import Any

import pytest

from support import official
from support.protocols import PROTOCOLS
from support.told import told

OPENAPI: dict[str, Any] = {
    "type": "OBJECT",
    "propertyOrdering": ["type", "a"],
    "properties": {
        "a": {"type": "STRING", "nullable": True, "format": "enum", "enum": ["x", "y"], "example": "x"},
        "b": {"type": "ARRAY", "minItems": "2", "items": {"type": "INTEGER", "format": "int64", "nullable": False}},
        "c": {"anyOf": [{"type": "NUMBER"}, {"type": "BOOLEAN"}], "nullable": True, "title": "C"},
        "type": {"type": "STRING", "maxLength": 9, "default": "OBJECT"},
        "nullable": {"type": "OBJECT", "properties": {"deep": {"type": "STRING", "nullable": True}}},
    },
    "required": ["a"],
}
JSON_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "maxLength": 9, "default": "OBJECT"},
        "a": {"type": ["string", "null"], "enum": ["x", "y", None], "examples": ["x"]},
        "b": {"type": "array", "minItems": 2, "items": {"type": "integer", "format": "int64"}},
        "c": {"anyOf": [{"type": "number"}, {"type": "boolean"}, {"type": "null"}], "title": "C"},
        "nullable": {"type": "object", "properties": {"deep": {"type": ["string", "null"]}}},
    },
    "required": ["a"],
}
LOWER = {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}
SNAKE = {"type": "OBJECT", "properties": {"a": {"any_of": [{"type": "STRING"}], "property_ordering": []}}}
REFERRING = {"type": "OBJECT", "properties": {"a": {"ref": "#/$defs/x", "nullable": True}}}
REFERRED = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}}}
OTHERS = [api for api in PROTOCOLS if api != "gemini"]
NO_FORM = "the tool {}: it has no form here"


def declared(schema: Any, name: str = "parameters") -> dict[str, Any]:
    return {"functionDeclarations": [{"name": "f", "description": "d", name: schema}]}


def schema_in(api: str, body: dict[str, Any]) -> Any:
    [tool] = body["toolConfig"]["tools"] if api == "bedrock" else body["tools"]
    tool = tool.get("function", tool.get("toolSpec", tool))
    held = next(tool[name] for name in ("parameters", "input_schema", "inputSchema") if name in tool)
    return held["json"] if api == "bedrock" else held


@pytest.mark.parametrize(
    ("tool", "sent"),
    [
        (declared(OPENAPI), JSON_SCHEMA),
        ({"name": "f", "parameters": OPENAPI}, JSON_SCHEMA),
        (declared(JSON_SCHEMA, "parametersJsonSchema"), JSON_SCHEMA),
        (declared(LOWER), {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
        (declared(SNAKE), {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}),
        (declared(REFERRING), REFERRED),
    ],
    ids=["openapi", "bare", "json schema", "lower case", "snake case", "reference"],
)
@pytest.mark.parametrize("api", OTHERS)
def test_its_schemas_are_written_as_json_schema(api: str, tool: Any, sent: Any, serve: Any) -> None:
    body = told(serve, "gemini", api, tools=[tool]).body
    assert schema_in(api, body) == sent
    assert [*schema_in(api, body)["properties"]] == [*sent["properties"]]
    if api != "ollama":  # whose client's types know the types of arguments alone, while the server reads JSON Schema
        official.check(api, body)


@pytest.mark.parametrize("tool", [declared(OPENAPI), declared(JSON_SCHEMA, "parametersJsonSchema")])
def test_gemini_is_sent_its_own_word_for_word(tool: Any, serve: Any) -> None:
    assert told(serve, "openai", "gemini", tools=[tool]).body["tools"] == [tool]


MIXED = {**declared(OPENAPI), "googleSearch": {}, "codeExecution": {}}


@pytest.mark.parametrize("tools", [[MIXED], [declared(OPENAPI), {"googleSearch": {}, "codeExecution": {}}]])
@pytest.mark.parametrize("api", OTHERS)
def test_what_its_server_runs_is_told_wherever_it_stands(api: str, tools: Any, serve: Any) -> None:
    made = told(serve, "gemini", api, tools=tools)
    assert schema_in(api, made.body) == JSON_SCHEMA
    lost = (NO_FORM.format("googleSearch"), NO_FORM.format("codeExecution"))
    assert made.losses[0] == ()
    assert tuple(each for each in made.lost if "tool" in each) == lost
    assert made.notes[0] is None
    assert "; ".join(lost) in str(made.notes[1])
    assert {name: value for tool in made.bodies[0]["tools"] for name, value in tool.items()} == MIXED
