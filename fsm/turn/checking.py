"""A JSON schema validator that no arguments keep busy for long: a model may send any, and a megabyte of them.

The library collects every fault of every alternative, quotes the whole value in each, and compares all items with all
others. Here a few faults are enough, nothing is quoted, and equal items are found by what they are written as.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MOST_FAULTS: Final = 5
"""Faults that are told at once, and that are looked for in an alternative."""

MOST_UNEVALUATED: Final = 2_000
"""Values of an array or an object of which it is found what `unevaluatedItems` and its like mean: by their square."""

Errors = Iterator["ValidationError"]
Check = Callable[[Any, Any, Any, Mapping[str, Any]], Errors]


def draft_of(schema: Mapping[str, Any]) -> Any:
    """Return the class of validators for the draft that a schema names, or for Draft 2020-12."""
    from jsonschema.validators import Draft202012Validator, extend, validator_for

    draft = validator_for(schema, default=Draft202012Validator)
    own: dict[str, Check] = {"type": _type, "uniqueItems": _unique, "anyOf": _any_of, "oneOf": _one_of}
    if "anyOf" not in draft.VALIDATORS:
        own = {"uniqueItems": _unique}  # the third draft, whose types may be schemas
    slow = {name: check for name, check in draft.VALIDATORS.items() if name.startswith("unevaluated")}
    return extend(draft, {**own, **{name: _bounded(check) for name, check in slow.items()}})


def _fault(words: str, context: list[ValidationError] | None = None) -> ValidationError:
    from jsonschema.exceptions import ValidationError

    return ValidationError(words, context=context or ())


def _type(validator: Any, wanted: Any, instance: Any, schema: Mapping[str, Any]) -> Errors:
    kinds = [wanted] if isinstance(wanted, str) else wanted
    if not any(validator.is_type(instance, kind) for kind in kinds):
        yield _fault("is of another type")


def _unique(validator: Any, wanted: Any, instance: Any, schema: Mapping[str, Any]) -> Errors:
    if wanted is True and isinstance(instance, list):
        seen = {json.dumps(_comparable(item), sort_keys=True) for item in instance}
        if len(seen) < len(instance):
            yield _fault("its items must differ from each other")


def _comparable(value: Any) -> Any:
    """Return a value so that those which JSON schema takes for equal, such as 1 and 1.0, are written alike."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()}
    return [_comparable(item) for item in value] if isinstance(value, list) else value


def _faults_in(validator: Any, alternative: Any, place: int, instance: Any) -> list[ValidationError]:
    return list(islice(validator.descend(instance, alternative, schema_path=place), MOST_FAULTS))


def _any_of(validator: Any, alternatives: Any, instance: Any, schema: Mapping[str, Any]) -> Errors:
    found: list[ValidationError] = []
    for place, alternative in enumerate(alternatives):
        faults = _faults_in(validator, alternative, place, instance)
        if not faults:
            return
        found += faults
    yield _fault("fits none of what it may be", found)


def _one_of(validator: Any, alternatives: Any, instance: Any, schema: Mapping[str, Any]) -> Errors:
    tried = [_faults_in(validator, alternative, place, instance) for place, alternative in enumerate(alternatives)]
    fitting = tried.count([])
    if not fitting:
        yield _fault("fits none of what it may be", [fault for faults in tried for fault in faults])
    elif fitting > 1:
        yield _fault(f"must fit one of what it may be, and fits {fitting}")


def _bounded(check: Check) -> Check:
    def unevaluated(validator: Any, wanted: Any, instance: Any, schema: Mapping[str, Any]) -> Errors:
        if isinstance(instance, list | dict) and len(instance) > MOST_UNEVALUATED:
            yield _fault(f"it must hold no more than {MOST_UNEVALUATED} values")
        else:
            yield from check(validator, wanted, instance, schema) or ()

    return unevaluated
