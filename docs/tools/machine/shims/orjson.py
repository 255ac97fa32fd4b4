"""What the core uses of orjson, with the json of the standard library."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

JSONDecodeError = json.JSONDecodeError
JSONEncodeError = TypeError
OPT_INDENT_2 = 1
OPT_SORT_KEYS = 2
OPT_NON_STR_KEYS = 4
OPT_SERIALIZE_NUMPY = 8


def loads(text: str | bytes) -> Any:
    """Read JSON."""
    return json.loads(text)


def dumps(
    value: Any, *, option: int | None = None, default: Callable[[Any], Any] | None = None
) -> bytes:
    """Write JSON.

    Arguments:
        value: what to write.
        option: flags, as of orjson.
        default: makes a value that JSON has of one that it has not.
    """
    flags = option or 0
    is_indented = bool(flags & OPT_INDENT_2)
    separators = (",", ": ") if is_indented else (",", ":")
    text = json.dumps(
        value,
        default=default,
        ensure_ascii=False,
        indent=2 if is_indented else None,
        separators=separators,
        sort_keys=bool(flags & OPT_SORT_KEYS),
    )
    return text.encode()
