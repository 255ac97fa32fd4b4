"""Checks of values from outside, and the attrs validators made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import short

if TYPE_CHECKING:
    from attrs import Attribute

LARGEST: Final = 10**15
"""No number that comes from outside may exceed this, so that as many as anybody sends can be added up."""

Check = Callable[[Any], bool]
Validator = Callable[[Any, "Attribute[Any]", Any], None]


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[int]:
    """Tell whether a value is a whole number within these bounds; booleans are not."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[float]:
    """Tell whether a value is a number within these bounds; booleans and NaN are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


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
    """Return an attrs validator that says "NAME must be FORM, not VALUE" of a wrong value, perhaps with its class."""

    def check(instance: object, attribute: Attribute[Any], value: object) -> None:
        if not holds(value):
            where = f"{type(instance).__name__}." if names_class else ""
            raise ConfigurationError(f"{where}{attribute.alias} must be {form}, not {short(value)}")

    return check


def must_be_one_of(words: Iterable[str], *, names_class: bool = False) -> Validator:
    """Return an attrs validator that accepts only these words."""
    allowed = tuple(words)
    return must(f"one of {', '.join(allowed)}", lambda value: value in allowed, names_class=names_class)
