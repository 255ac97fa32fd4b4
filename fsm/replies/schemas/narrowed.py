"""A JSON schema as providers take it when they hold a model to it.

What they would refuse moves into the description, where the model reads it; the answer is checked
against all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any, Final

from attrs import frozen

_MAPS: Final = ("properties", "$defs", "definitions")
_LISTS: Final = ("anyOf", "allOf", "prefixItems")
_SCHEMAS: Final = ("items", "additionalProperties", "not", "contains")


@frozen
class Narrowed:
    """Hold a schema without the keywords that a provider refuses."""

    schema: Mapping[str, Any]
    is_closed: bool  # whether no object in it takes names that are not listed
    # whether every object requires all its names besides, as OpenAI's strict mode wants it
    is_strict: bool
    is_recursive: bool  # whether a definition refers to itself, at once or by way of others


def narrowed(schema: Mapping[str, Any], refused: Set[str]) -> Narrowed:
    """Narrow a schema."""
    objects: list[Mapping[str, Any]] = []
    result = _narrow(schema, refused, objects)
    is_closed = all(each.get("additionalProperties") is False for each in objects)
    is_full = all({*each.get("required", ())} == {*each.get("properties", ())} for each in objects)
    return Narrowed(result, is_closed, is_closed and is_full, _is_recursive(schema))


def _narrow(
    schema: Mapping[str, Any], refused: Set[str], objects: list[Mapping[str, Any]]
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    moved: list[str] = []
    for name, value in schema.items():
        if name in ("$schema", "discriminator"):
            continue
        if name in refused and name not in ("const", "oneOf"):
            moved.append(f"{name}: {json.dumps(value, ensure_ascii=False, default=dict)}")
        elif name in _MAPS and isinstance(value, Mapping):
            result[name] = {key: _inner(each, refused, objects) for key, each in value.items()}
        elif name in (*_LISTS, "oneOf") and isinstance(value, list | tuple):
            known = "anyOf" if name == "oneOf" and name in refused else name
            result[known] = [_inner(each, refused, objects) for each in value]
        elif name == "const" and name in refused:
            result["enum"] = [value]
        else:
            result[name] = _inner(value, refused, objects) if name in _SCHEMAS else value
    if "properties" in result or result.get("type") == "object":
        result.setdefault("additionalProperties", False)
        objects.append(result)
    if moved:
        result["description"] = " ".join(
            filter(None, (schema.get("description"), f"({'; '.join(moved)})"))
        )
    return result


def _inner(schema: Any, refused: Set[str], objects: list[Mapping[str, Any]]) -> Any:
    return _narrow(schema, refused, objects) if isinstance(schema, Mapping) else schema


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Tell whether following references from the root leads back to where it came from."""
    defined = {
        f"#/{place}/{name}": each
        for place in _MAPS[1:]
        for name, each in schema.get(place, {}).items()
    }
    leads = {name: set(_references(each)) for name, each in defined.items()}
    ended: set[str] = set()
    while left := {name for name, to in leads.items() if name not in ended and to <= ended}:
        ended |= left
    root = {name: each for name, each in schema.items() if name not in _MAPS[1:]}
    return ended != leads.keys() or not {*_references(root)} <= ended


def _references(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [each for inner in value.values() for each in _references(inner)]
    return (
        [each for inner in value for each in _references(inner)]
        if isinstance(value, list | tuple)
        else []
    )
