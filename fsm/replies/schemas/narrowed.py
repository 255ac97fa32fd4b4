"""A JSON schema as providers take it when they hold a model to it.

What they would refuse moves into the description, where the model reads it; the answer is checked
against all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set
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
    is_closed = True
    is_full = True  # whether every object requires all its names
    for each in objects:
        if each.get("additionalProperties") is not False:
            is_closed = False
        if {*each.get("required", ())} != {*each.get("properties", ())}:
            is_full = False
    return Narrowed(
        schema=result,
        is_closed=is_closed,
        is_strict=is_closed and is_full,
        is_recursive=_is_recursive(schema),
    )


def _narrow(
    schema: Mapping[str, Any], refused: Set[str], objects: list[Mapping[str, Any]]
) -> dict[str, Any]:
    """Narrow a schema and all within it.

    Arguments:
        schema: the schema.
        refused: the keywords that the provider refuses.
        objects: this appends the narrowed schema of each object.
    """
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
            if name == "oneOf" and name in refused:
                name = "anyOf"
            result[name] = [_inner(each, refused, objects) for each in value]
        elif name == "const" and name in refused:
            result["enum"] = [value]
        elif name in _SCHEMAS:
            result[name] = _inner(value, refused, objects)
        else:
            result[name] = value
    if "properties" in result or result.get("type") == "object":
        result.setdefault("additionalProperties", False)
        objects.append(result)
    if moved:
        words = [schema.get("description"), f"({'; '.join(moved)})"]
        result["description"] = " ".join(filter(None, words))
    return result


def _inner(schema: Any, refused: Set[str], objects: list[Mapping[str, Any]]) -> Any:
    if isinstance(schema, Mapping):
        return _narrow(schema, refused, objects)
    return schema


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Tell whether following references from the root leads back to where it came from.

    A definition ends if all that it refers to end; what never does is on a circle, or leads to one
    (as in Kahn's topological sort).
    """
    leads: dict[str, set[str]] = {}
    for place in _MAPS[1:]:
        for name, each in schema.get(place, {}).items():
            leads[f"#/{place}/{name}"] = set(_references(each))
    ended: set[str] = set()
    size = -1
    while size < len(ended):
        size = len(ended)
        ended |= {name for name, references in leads.items() if references <= ended}
    root = {name: each for name, each in schema.items() if name not in _MAPS[1:]}
    return ended != leads.keys() or not {*_references(root)} <= ended


def _references(value: Any) -> list[str]:
    """List the references within a part of a schema."""
    references: list[str] = []
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            references.append(value["$ref"])
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    for each in inner:
        references += _references(each)
    return references
