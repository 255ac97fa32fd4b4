"""Validators for the fields of policies. Their errors say what is wrong, where, and what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any, TypeVar

import attrs

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_flag, is_number, is_whole, must
from rungwise.fsm.values.label import did_you_mean, short

LONGEST_SECONDS = 1e6
"""No number of seconds may exceed this (11 days): sockets take at most 2**31 - 1 milliseconds, some waits 2**32 - 1."""

_Kind = TypeVar("_Kind", bound=type[Any])

Attribute = attrs.Attribute  # the parameter of every validator below


def explains_arguments(kind: _Kind) -> _Kind:
    """Make an attrs class refuse an argument without a name, or of an unknown one, and say what would be right."""
    plain: Any = kind.__init__
    names = [each.alias for each in attrs.fields(kind)]
    parts: Mapping[str, type[Any]] = getattr(kind, "parts", {})

    @wraps(plain)
    def init(self: Any, /, *values: Any, **named: Any) -> None:
        for value in values:
            fitting = [name for name in names if isinstance(value, parts.get(name, ()))] or names
            by_name = " or ".join(f"{name}={short(value)}" for name in fitting)
            raise ConfigurationError(f"{kind.__name__} takes its fields by name: {by_name}")
        for name in [name for name in named if name not in names]:
            inside = [
                f"{part}={of.__name__}({name}={short(named[name])})"
                for part, of in parts.items()
                if name in (attrs.fields_dict(of) if attrs.has(of) else of())
            ]
            near = f"it is {kind.__name__}({inside[0]})" if inside else did_you_mean(name, names, ", ".join(names))
            raise ConfigurationError(f"{kind.__name__} has no field {short(name)}: {near}")
        plain(self, **named)

    kind.__init__ = init
    return kind


def where(instance: object, attribute: Attribute[Any]) -> str:
    """Name a field in errors."""
    return f"{type(instance).__name__}.{attribute.name}"


def whole(lowest: int, highest: int) -> Any:
    """Return a validator for whole numbers in a range."""
    form = f"a whole number from {lowest} to {highest}"
    return must(form, lambda value: is_whole(value, lowest, highest), names_class=True)


def number(*, above_zero: bool, highest: float = LONGEST_SECONDS) -> Any:
    """Return a validator for finite numbers in a range."""
    form = f"a finite number {'above 0' if above_zero else 'of 0 or more'}, at most {highest:,.0f}"
    return must(form, lambda value: is_number(value, 0, highest) and not (above_zero and value == 0), names_class=True)


def text(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Refuse anything but a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{where(instance, attribute)} must be a text that is not blank")


def instance(kind: type) -> Any:
    """Return a validator for instances of a class."""

    def check(instance: object, attribute: Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            name = where(instance, attribute)
            raise ConfigurationError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")

    return check


def one_of(values: tuple[str, ...]) -> Any:
    """Return a validator for one of some words."""
    return must(f"one of {', '.join(map(repr, values))}", lambda value: value in values, names_class=True)


flag = must("true or false", is_flag, names_class=True)
"""Refuse anything but True and False."""

optional: Any = attrs.validators.optional  # typed so that it fits fields with any default


def brief_repr(self: Any) -> str:
    """Write an attrs object whose fields all have defaults, with the fields that differ from them."""
    plain = type(self)()
    fields = [each.name for each in attrs.fields(type(self)) if each.repr and each.init]
    shown = [f"{name}={getattr(self, name)!r}" for name in fields if getattr(self, name) != getattr(plain, name)]
    return f"{type(self).__name__}({', '.join(shown)})"
