"""Checks of values from outside, and the attrs validators made of them.

Their errors say what is wrong, where, and what would be right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeGuard, TypeVar

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
    """Return an attrs validator that says "NAME must be FORM, not VALUE" of a wrong value.

    Arguments:
        form: what would be right, in words: "a whole number of tokens above 0".
        holds: whether a value is of that form.
        names_class: whether the error names the class as well, as in `Budget.money`.
    """

    def check(instance: object, attribute: Attribute[Any], value: object) -> None:
        if holds(value):
            return
        name = attribute.alias
        if names_class:
            name = f"{type(instance).__name__}.{name}"
        raise ConfigurationError(f"{name} must be {form}, not {short(value)}")

    return check


def must_be_one_of(words: Iterable[str], *, names_class: bool = False) -> Validator:
    """Return an attrs validator that accepts only these words."""
    allowed = tuple(words)
    form = f"one of {', '.join(allowed)}"
    return must(form, lambda value: value in allowed, names_class=names_class)


def explains_arguments(kind: _Kind) -> _Kind:
    """Make an attrs class refuse an argument without a name, or of an unknown one.

    Its errors say what would be right: `Policy has no field 'retries': it is
    Policy(limits=Limits(retries=1))`.
    """
    plain: Any = kind.__init__
    names = [each.alias for each in attrs.fields(kind)]
    parts: Mapping[str, type[Any]] = getattr(kind, "parts", {})

    @wraps(plain)
    def init(self: Any, /, *values: Any, **named: Any) -> None:
        for value in values:
            fitting = [name for name in names if isinstance(value, parts.get(name, ()))]
            right = " or ".join(f"{name}={short(value)}" for name in fitting or names)
            raise ConfigurationError(f"{kind.__name__} takes its fields by name: {right}")
        for name, value in named.items():
            if name in names:
                continue
            near = _as_field_of_part(kind, name, value)
            near = near or did_you_mean(name, names, ", ".join(names))
            raise ConfigurationError(f"{kind.__name__} has no field {short(name)}: {near}")
        plain(self, **named)

    kind.__init__ = init
    return kind


class Called:
    """Say of an attribute that stands elsewhere, or is called otherwise, what takes its place."""

    __slots__ = ()
    _INSTEAD: ClassVar[Mapping[str, str]] = {}  # advice, by the names that others have

    if not TYPE_CHECKING:  # which would take any name for an attribute then

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError, with advice where there is some."""
            kind = type(self)
            if name in kind._INSTEAD:
                raise AttributeError(f"{kind.__name__} has no {name!r}: {kind._INSTEAD[name]}")
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name)


def by_name(advice: Mapping[str, str]) -> Mapping[str, str]:
    """Return the advice for each name, where the names stand beside their advice."""
    return {name: said for said, names in advice.items() for name in names.split()}


OF_TOOLS: Final = by_name(
    {
        "it is called function here": "callable fn func",
        "it is called needs_approval here": "requires_approval",
        "it is called parameters here": "args_schema input_schema schema",
        "it is called seconds here": "timeout timeout_seconds",
        "say it in the policy of the turn, as in TurnPolicy(faults=2)": "max_retries retries",
    }
)
"""Advice for the arguments of a tool."""

OF_SHARED_BUDGETS: Final = by_name(
    {
        "it is of the budget, as in SharedBudget(Budget(money=0.5))": "attempts money "
        "output_tokens seconds",
    }
)
"""Advice for those of a shared budget."""


def explains_names(instead: Mapping[str, str]) -> Callable[[_Kind], _Kind]:
    """Make an attrs class say of an argument of an unknown name what would be right.

    Arguments:
        instead: advice for names that other libraries have.
    """

    def explained(kind: _Kind) -> _Kind:
        plain: Any = kind.__init__
        fields = [each for each in attrs.fields(kind) if each.init]
        names = [each.alias for each in fields]
        unnamed = [each.alias for each in fields if not each.kw_only]

        @wraps(plain)
        def init(self: Any, /, *values: Any, **named: Any) -> None:
            for name in named:
                if name not in names:
                    near = instead.get(name) or did_you_mean(name, names, ", ".join(names))
                    raise TypeError(f"{kind.__name__}() has no argument {short(name)}: {near}")
            if len(values) > len(unnamed):
                raise TypeError(
                    f"{kind.__name__}() takes only {', '.join(unnamed)} without a name: name the "
                    "others"
                )
            plain(self, *values, **named)

        kind.__init__ = init
        return kind

    return explained


def _as_field_of_part(kind: type[Any], name: str, value: object) -> str:
    """Say where an argument belongs that is a field of a part of a class; "" if it is of none."""
    path = path_of(kind, name)
    kinds = [kind]
    for part in path:
        kinds.append(kinds[-1].parts[part])
    written = f"{name}={short(value)}"
    for part, of in zip(reversed(("", *path)), reversed(kinds), strict=True):
        written = f"{of.__name__}({written})"
        if part:
            written = f"{part}={written}"
    return f"it is {written}" if path else ""


def path_of(kind: type[Any], name: str) -> tuple[str, ...]:
    """Return the parts of a class, from the outermost, that lead to a field of this name; nothing
    where there is none.
    """
    parts: Mapping[str, type[Any]] = getattr(kind, "parts", {})
    for part, of in parts.items():
        if name in (attrs.fields_dict(of) if attrs.has(of) else of()):
            return (part,)
    for part, of in parts.items():
        inner = path_of(of, name)
        if inner:
            return (part, *inner)
    return ()


def where(instance: object, attribute: Attribute[Any]) -> str:
    """Name a field in errors."""
    return f"{type(instance).__name__}.{attribute.name}"


def whole(lowest: int, highest: int) -> Any:
    """Return a validator for whole numbers in a range."""
    form = f"a whole number from {lowest} to {highest}"
    return must(form, lambda value: is_whole(value, lowest, highest), names_class=True)


def number(*, above_zero: bool, highest: float = LONGEST_SECONDS) -> Any:
    """Return a validator for finite numbers in a range."""
    least = "above 0" if above_zero else "of 0 or more"

    def holds(value: object) -> bool:
        return is_number(value, 0, highest) and not (above_zero and value == 0)

    return must(f"a finite number {least}, at most {highest:,.0f}", holds, names_class=True)


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
    form = f"one of {', '.join(map(repr, values))}"
    return must(form, lambda value: value in values, names_class=True)


flag = must("true or false", is_flag, names_class=True)
"""Refuse anything but True and False."""

optional: Any = attrs.validators.optional  # typed so that it fits fields with any default


def brief_repr(self: Any) -> str:
    """Write an attrs object whose fields all have defaults: only the fields that differ from
    them.
    """
    plain = type(self)()
    shown = []
    for field in attrs.fields(type(self)):
        if not (field.repr and field.init):
            continue
        value = getattr(self, field.name)
        if value != getattr(plain, field.name):
            shown.append(f"{field.name}={value!r}")
    return f"{type(self).__name__}({', '.join(shown)})"
