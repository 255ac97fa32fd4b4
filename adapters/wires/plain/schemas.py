"""Read Gemini's schemas, which are OpenAPI's, as the JSON schemas that all others take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.plain.making import list_of

_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_UNSAID: Final = "TYPE_UNSPECIFIED"
_NAMES: Final[Mapping[str, str]] = {
    **{"any_of": "anyOf", "property_ordering": "propertyOrdering", "additional_properties": "additionalProperties"},
    **{"min_items": "minItems", "max_items": "maxItems", "min_length": "minLength", "max_length": "maxLength"},
    **{"min_properties": "minProperties", "max_properties": "maxProperties"},
    **{"defs": "$defs", "ref": "$ref"},
}
"""The other names of members: the API takes both."""
_COUNTS: Final = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
"""Whole numbers that JSON of Google's may write as texts, as they are 64 bits long."""
_NOT_JSONS: Final = ("nullable", "propertyOrdering", "example")


def is_openapi(schema: object) -> bool:
    """Tell whether a schema cannot be JSON Schema: its type is in capitals."""
    return isinstance(schema, Mapping) and schema.get("type") in (*_TYPES, _UNSAID)


def json_schema_of(schema: Any) -> Any:
    """Return a schema of Gemini's as JSON Schema; what is that already stays as it is."""
    if not isinstance(schema, Mapping):
        return schema
    given = {_NAMES.get(name, name): value for name, value in schema.items()}
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name in _NOT_JSONS or (name, value) in (("type", _UNSAID), ("format", "enum")):
            continue
        made[name] = _member(name, value)
    order = [name for name in list_of(given.get("propertyOrdering")) if isinstance(name, str)]
    held = made.get("properties")
    if order and isinstance(held, Mapping):
        made["properties"] = {name: held[name] for name in dict.fromkeys((*order, *held)) if name in held}
    if "example" in given:
        made.setdefault("examples", [given["example"]])
    return _nullable(made) if given.get("nullable") is True else made


def _member(name: str, value: Any) -> Any:
    if name == "type":
        return value.lower() if isinstance(value, str) and value in _TYPES else value
    if name in ("items", "additionalProperties"):
        return json_schema_of(value)
    if name in ("anyOf", "prefixItems") and isinstance(value, list | tuple):
        return [*map(json_schema_of, value)]
    if name in ("properties", "$defs") and isinstance(value, Mapping):
        return {each: json_schema_of(held) for each, held in value.items()}
    if name in _COUNTS and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value


def _nullable(made: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that takes null too, whatever it asks for."""
    null = {"type": "null"}
    if "$ref" in made:
        return {"anyOf": [made, null]}
    kind = made.get("type")
    if isinstance(kind, str) and kind != "null":
        made["type"] = [kind, "null"]
    if isinstance(made.get("anyOf"), list) and null not in made["anyOf"]:
        made["anyOf"] = [*made["anyOf"], null]
    if isinstance(made.get("enum"), list | tuple) and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made
