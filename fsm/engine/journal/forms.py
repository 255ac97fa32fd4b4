"""The forms of the values in a journal that is read: what each field may hold, in words.

A journal may come from anybody and contain anything. A value of another form is refused with its
place, its name, and the form that it must have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import (
    LARGEST,
    Check,
    is_flag,
    is_number,
    is_text,
    is_whole,
    or_none,
)
from rungwise.fsm.values.label import short

Form = tuple[Check, str]
"""A check of a value, and the name of the form in words."""

Forms = Mapping[str, Form]


def _is_count(value: Any) -> bool:
    return is_whole(value, 0, LARGEST)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def list_of(check: Check, length: int | None = None) -> Check:
    """Return a check for lists whose items pass a check; a `length` of None allows any."""

    def check_list(value: Any) -> bool:
        if not isinstance(value, list) or length not in (None, len(value)):
            return False
        return all(map(check, value))

    return check_list


def or_null(form: Form) -> Form:
    """Return the form that also allows null."""
    check, name = form
    return or_none(check), f"{name}, or null"


TEXT: Final[Form] = (is_text, "a text")
FLAG: Final[Form] = (is_flag, "true or false")
COUNT: Final[Form] = (_is_count, "a whole number of 0 or more")
AMOUNT: Final[Form] = (lambda value: is_number(value, 0, LARGEST), "a number of 0 or more")
NUMBER: Final[Form] = (lambda value: is_number(value, -LARGEST, LARGEST), "a number")
NAMES: Final[Form] = (list_of(is_text), "a list of names")
OBJECT: Final[Form] = (_is_object, "an object")
OBJECTS: Final[Form] = (list_of(_is_object), "a list of objects")


def _is_counts(value: Any) -> bool:
    return _is_object(value) and all(map(_is_count, value.values()))


_OF_TYPES: Final[Forms] = {
    "str": TEXT,
    "bool": FLAG,
    "int": COUNT,
    "float": AMOUNT,
    "tuple[str, ...]": NAMES,
    "Mapping[str, Any]": OBJECT,
    "Mapping[str, int]": (_is_counts, "a count for each name"),
}
"""The form of each type of a field."""


def forms_of(kind: type[Any], **others: Form) -> Forms:
    """Derive the forms of an object from the field types of its class.

    Arguments:
        kind: the class, an attrs one.
        others: the forms of fields whose type has none.
    """
    forms = {}
    for each in attrs.fields(kind):
        forms[each.name] = others.get(each.name) or _form_of_type(str(each.type))
    return forms


def _form_of_type(name: str) -> Form:
    """Return the form of a type, as it is written."""
    plain = name.removesuffix(" | None")
    form = _OF_TYPES[plain]
    return form if plain == name else or_null(form)


def check_object(
    document: Mapping[str, Any],
    forms: Forms,
    needed: Iterable[str],
    where: str = "",
) -> None:
    """Refuse an object with a missing, malformed or unknown field.

    Arguments:
        document: the object.
        forms: those of its fields.
        needed: the fields that it must have.
        where: its place in the journal; empty for the journal itself, which may have other fields.
    """
    place = f"{where}: " if where else ""
    for name in document:
        if where and name not in forms:
            raise ConfigurationError(f"{where} has no {short(name)}")
    for name in needed:
        if name not in document:
            raise ConfigurationError(f"{place}{name!r} is missing")
    for name, (check, form) in forms.items():
        if name in document and not check(document[name]):
            raise ConfigurationError(f"{place}{name!r} must be {form}, not {short(document[name])}")
