"""Checks of values from outside, and the attrs validators made of them.

Their errors say what is wrong, where, and what would be right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, TypeGuard, TypeVar

import attrs
from attrs import Attribute

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import did_you_mean, short

LARGEST: Final = 10**15
"""No number that comes from outside may exceed this, so that as many as anybody sends can be added
up.
"""

LONGEST_SECONDS: Final = 1e6
"""No number of seconds may exceed this (11 days): sockets take at most 2**31 - 1 milliseconds, some
waits 2**32 - 1.
"""

Check = Callable[[Any], bool]
Validator = Callable[[Any, "Attribute[Any]", Any], None]
_Kind = TypeVar("_Kind", bound=type[Any])


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[int]:
    """Tell whether a value is a whole number within these bounds; booleans are not."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[float]:
    """Tell whether a value is a number within these bounds; booleans and NaN are not."""
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
    )


def is_flag(value: object) -> TypeGuard[bool]:
    """Tell whether a value is True or False."""
    return isinstance(value, bool)


def is_text(value: object) -> TypeGuard[str]:
    """Tell whether a value is a string."""
    return isinstance(value, str)


def or_none(check: Check) -> Check:
    """Return a check that accepts None as well."""
    return lambda value: value is None or check(value)


def must(form: str, holds: Check, *, names_class: bool = False) -> Validator:
    """Return an attrs validator that says "NAME must be FORM, not VALUE" of a wrong value, perhaps
    with its class.
    """

    def check(instance: object, attribute: Attribute[Any], value: object) -> None:
        if not holds(value):
            where = f"{type(instance).__name__}." if names_class else ""
            raise ConfigurationError(f"{where}{attribute.alias} must be {form}, not {short(value)}")

    return check


def must_be_one_of(words: Iterable[str], *, names_class: bool = False) -> Validator:
    """Return an attrs validator that accepts only these words."""
    allowed = tuple(words)
    return must(
        f"one of {', '.join(allowed)}", lambda value: value in allowed, names_class=names_class
    )


def explains_arguments(kind: _Kind) -> _Kind:
    """Make an attrs class refuse an argument without a name, or of an unknown one, and say what
    would be right.
    """
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
            near = (
                f"it is {kind.__name__}({inside[0]})"
                if inside
                else did_you_mean(name, names, ", ".join(names))
            )
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
    return must(
        form,
        lambda value: is_number(value, 0, highest) and not (above_zero and value == 0),
        names_class=True,
    )


def text(instance: object, attribute: Attribute[Any], value: object) -> None:
    """Refuse anything but a text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{where(instance, attribute)} must be a text that is not blank")


def instance(kind: type) -> Any:
    """Return a validator for instances of a class."""

    def check(instance: object, attribute: Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            name = where(instance, attribute)
            raise ConfigurationError(
                f"{name} must be a {kind.__name__}, not {type(value).__name__}"
            )

    return check


def one_of(values: tuple[str, ...]) -> Any:
    """Return a validator for one of some words."""
    return must(
        f"one of {', '.join(map(repr, values))}", lambda value: value in values, names_class=True
    )


flag = must("true or false", is_flag, names_class=True)
"""Refuse anything but True and False."""

optional: Any = attrs.validators.optional  # typed so that it fits fields with any default


def brief_repr(self: Any) -> str:
    """Write an attrs object whose fields all have defaults, with the fields that differ from
    them.
    """
    plain = type(self)()
    fields = [each.name for each in attrs.fields(type(self)) if each.repr and each.init]
    shown = [
        f"{name}={getattr(self, name)!r}"
        for name in fields
        if getattr(self, name) != getattr(plain, name)
    ]
    return f"{type(self).__name__}({', '.join(shown)})"
