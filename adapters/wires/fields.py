"""Converters and validators for the fields of backends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rungwise.adapters.wires.endpoint import check_headers
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, MOST_TOKENS
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_number, is_whole, must, or_none
from rungwise.fsm.values.fields import LONGEST_SECONDS
from rungwise.fsm.values.frozen_map import sendable_copy
from rungwise.fsm.values.secret import SecretMap


def as_parameters(value: Mapping[str, Any] | None) -> Any:
    """Copy parameters; None is no parameters."""
    return sendable_copy({} if value is None else value, "parameters")


def as_headers(value: Mapping[str, str] | None) -> Mapping[str, str]:
    """Hide the values of headers; anything but a mapping is left to the validator."""
    if value is None or isinstance(value, Mapping):
        return SecretMap(value or {})
    return value


def check_text(instance: object, attribute: Any, value: Any) -> None:
    """Refuse anything but a string with something in it."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{attribute.name} must be a string with something in it")


def check_header_field(instance: object, attribute: Any, value: Any) -> None:
    """Refuse headers that cannot be sent."""
    check_headers(value, "headers")


def check_parameters(instance: Any, attribute: Any, value: Any) -> None:
    """Refuse reserved parameters, and an output cap that is not a number of tokens."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ConfigurationError("parameters must be a mapping whose keys are strings")
    instance.refuse_reserved(value, "parameters")
    for name in CAP_PARAMETERS:
        cap = value.get(name)
        if cap is not None and not is_whole(cap, 1, MOST_TOKENS):
            raise ConfigurationError(f"parameters[{name!r}] must be a whole number of tokens above 0")


def optional(kind: type) -> Any:
    """Return the check that a field is of a type, or None."""
    return must(f"of type {kind.__name__}, or None", or_none(lambda value: isinstance(value, kind)))


SECONDS: Final = must(
    f"a number of seconds above 0, at most {LONGEST_SECONDS:,.0f}, or None",
    or_none(lambda value: is_number(value, 0, LONGEST_SECONDS) and value > 0),
)
