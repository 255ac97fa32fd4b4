"""Converters and validators of the fields of a scripted reply; their errors name the field.

A converter leaves what it cannot convert to the validator, which knows the name of the field.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rungwise.adapters.wires.endpoint import HEADER_NAME
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.checks import is_flag, is_number, is_text, is_whole, must, or_none
from rungwise.fsm.values.files import BARE_KEY
from rungwise.fsm.values.frozen_map import frozen_copy
from rungwise.fsm.values.label import LONGEST_QUOTE, did_you_mean, short

ERROR_FIELDS = ("message", "type", "code", "param")
CALL_FIELDS = ("id", "name", "arguments")
FRAMING = ("content-length", "transfer-encoding")
SURROGATE = re.compile("[\ud800-\udfff]")  # alone it fits into neither TOML nor UTF-8


def refuse_unknown(where: str, keys: Iterable[object], names: Collection[str]) -> None:
    """Raise a ConfigurationError if a key is none of the names."""
    for key in keys:
        if key in names:
            continue
        name = short(key)
        if isinstance(key, str) and len(key) <= LONGEST_QUOTE and BARE_KEY.fullmatch(key):
            name = key
        hint = did_you_mean(name, names, f"it must be one of {', '.join(names)}")
        raise ConfigurationError(f"{where}{name} is unknown; {hint}")


def _is_writable(value: object) -> bool:
    return is_text(value) and not SURROGATE.search(value)


def _is_count(value: object, least: int = 0) -> bool:
    return is_whole(value, least, 2**63 - 1)  # as large as the integers of TOML are


def _is_size(value: object) -> bool:
    return _is_count(value, 1)


def _is_seconds(value: object) -> bool:
    # an int may be larger than any float, and is then as useless as infinity
    return is_number(value, 0, sys.float_info.max)


def _is_counts(value: object) -> bool:
    """Tell whether a value is a table of numbers, or of such tables."""
    if not isinstance(value, Mapping):
        return False
    for key, count in value.items():
        is_number = _is_count(count) or (isinstance(count, float) and _is_seconds(count))
        if not _is_writable(key) or not (is_number or _is_counts(count)):
            return False
    return True


def check_error(instance: object, attribute: Any, value: Any) -> None:
    """Refuse an error that is no table of its fields."""
    if not isinstance(value, Mapping | None):
        raise ConfigurationError(f"{attribute.name} must be a table of {', '.join(ERROR_FIELDS)}")
    refuse_unknown(f"{attribute.name}.", value or (), ERROR_FIELDS)
    for key, part in (value or {}).items():
        if not _is_writable(part) and not (key == "code" and _is_count(part)):
            raise ConfigurationError(f"{attribute.name}.{key} must be a string, not {short(part)}")


def check_headers(instance: object, attribute: Any, value: Any) -> None:
    """Refuse headers that HTTP cannot carry, or that frame the body."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"headers must be a table of strings, not {short(value)}")
    for name, text in value.items():
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"headers: {short(name)} is not a header name")
        if name.lower() in FRAMING:
            raise ConfigurationError(
                f"headers.{name} is set by the provider; use cut_after to end a body early"
            )
        if not isinstance(text, str) or not text.isprintable() or max(text, default="") > "\xff":
            wrong = f"headers.{name} must be one line in Latin-1, not {short(text)}"
            raise ConfigurationError(wrong)


def copied(value: Mapping[str, Any] | None) -> Any:
    """Copy a table, so that nobody changes it."""
    return frozen_copy(value, "a table of a reply")


def as_tuple(value: Sequence[int]) -> Any:
    """Return a list as a tuple, and anything else as it is."""
    return tuple(value) if isinstance(value, list | tuple) else value


def tool_calls_of(value: Sequence[ToolCall | Mapping[str, str]]) -> tuple[ToolCall, ...]:
    """Read tool calls, each as a `ToolCall` or as a table."""
    if not isinstance(value, list | tuple):
        names = ", ".join(CALL_FIELDS)
        raise ConfigurationError(f"tool_calls must be a list of tables with {names}")
    return tuple([_tool_call(index, call) for index, call in enumerate(value)])


def _tool_call(index: int, value: object) -> ToolCall:
    where = f"tool_calls[{index}]"
    table = value
    if isinstance(value, ToolCall):
        table = {name: getattr(value, name) for name in CALL_FIELDS}
    if not isinstance(table, Mapping):
        names = ", ".join(CALL_FIELDS)
        raise ConfigurationError(f"{where} must be a table with {names}, not {short(value)}")
    refuse_unknown(f"{where}.", table, CALL_FIELDS)
    if "name" not in table:
        raise ConfigurationError(f"{where}.name is missing; give the tool's name")
    whole = {"id": f"call_{index + 1}", "arguments": "{}", **table}
    for name, part in whole.items():
        if not _is_writable(part):
            hint = "; write the JSON as one string" if name == "arguments" else ""
            raise ConfigurationError(f"{where}.{name} must be a string, not {short(part)}{hint}")
    return ToolCall(**whole)


TEXT = must("a string", _is_writable)
OPTIONAL_TEXT = must("a string", or_none(_is_writable))
TEXT_OR_FLAG = must(
    "true, false or a string", or_none(lambda value: is_flag(value) or _is_writable(value))
)
FLAG = must("true or false", is_flag)
SECONDS = must("a number of seconds, 0 or more", _is_seconds)
STATUS = must(
    "a status from 200 to 999 that has a body",
    lambda value: is_whole(value, 200, 999) and value not in (204, 304),
)
USAGE = must("a table of numbers, 0 or more", or_none(_is_counts))
CUT = must("a whole number of bytes, 0 or more", or_none(_is_count))
SIZE = must("a whole number of characters above 0", _is_size)
SIZES = must(
    "a list of whole numbers of bytes above 0",
    lambda value: isinstance(value, tuple) and all(map(_is_size, value)),
)
