"""JSON as providers send it, and as they take it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson


def load(data: bytes) -> Any:
    """Return the JSON value in `data`, also where it has `NaN`, halves of surrogate pairs or broken UTF-8.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return mended(json.loads(data.decode("utf-8-sig", "replace")))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def as_json(value: object) -> str:
    """Return `value` as JSON text, or `null` where it has none."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return "null"


def mended(value: Any) -> Any:
    """Return JSON data with the lone surrogates of its strings repaired: two halves are joined, others replaced."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {mended(key): mended(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [mended(part) for part in value]
    return value
