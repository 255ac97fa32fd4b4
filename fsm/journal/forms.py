"""The forms of the values in a journal, which may come from anybody and contain anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import fields

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import LARGEST, Check, is_flag, is_number, is_text, is_whole, or_none
from rungwise.fsm.values.label import short

Form = tuple[Check, str]
"""A check of a value, and the name of the form in words."""

Forms = Mapping[str, Form]


def _is_count(value: Any) -> bool:
    return is_whole(value, 0, LARGEST)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def list_of(check: Check, length: int | None = None) -> Check:
    """Return a check for lists whose items pass a check; `length` None allows any number of items."""
    return lambda value: isinstance(value, list) and length in (None, len(value)) and all(map(check, value))


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

_OF_TYPES: Final[Forms] = {
    **{"str": TEXT, "bool": FLAG, "int": COUNT, "float": AMOUNT, "tuple[str, ...]": NAMES, "Mapping[str, Any]": OBJECT},
    "Mapping[str, int]": (
        lambda value: _is_object(value) and all(map(_is_count, value.values())),
        "a count for each name",
    ),
}


def forms_of(kind: type[Any], **others: Form) -> Forms:
    """Derive the forms of an object from the field types of its class."""
    return {field.name: others.get(field.name) or _form_of_type(str(field.type)) for field in fields(kind)}


def _form_of_type(name: str) -> Form:
    plain = name.removesuffix(" | None")
    return _OF_TYPES[plain] if plain == name else or_null(_OF_TYPES[plain])


def check_object(document: Mapping[str, Any], forms: Forms, needed: Iterable[str], where: str = "") -> None:
    """Refuse an object with a missing, malformed or unknown field; the journal itself, of no place, may have others."""
    place = f"{where}: " if where else ""
    unknown = [name for name in document if name not in forms] if where else []
    if unknown:
        raise ConfigurationError(f"{where} has no {short(unknown[0])}")
    for name in needed:
        if name not in document:
            raise ConfigurationError(f"{place}{name!r} is missing")
    for name, (check, form) in forms.items():
        if name in document and not check(document[name]):
            raise ConfigurationError(f"{place}{name!r} must be {form}, not {short(document[name])}")
