"""Checking the arguments of tool calls, and answers, against a caller's JSON schema; `hints` does
it for types.

Both report a misfit to the model in the words of this module, which stay short however much the
model sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from attrs import frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.schemas.validator import (
    MOST_FAULTS,
    TooMuchWork,
    bounded,
    check_patterns,
    draft_of,
)
from rungwise.fsm.values.frozen_map import FrozenMap
from rungwise.fsm.values.label import close_to, label

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


# characters of one fault; all faults of a message take up about 1 kB at most
LONGEST_FAULT: Final = 180
MOST_COMPARED: Final = 100  # the most faults of alternatives that are searched for the nearest

_ANNOTATIONS: Final = frozenset(
    [
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "default",
        "definitions",
        "description",
        "examples",
        "title",
    ]
)
_LONGEST_NAME: Final = 64
_LONGEST_PLACE: Final = 120

Arguments = dict[str, Any]


class Fault(NamedTuple):
    """Say what is wrong with a value: in a sentence for the model, and where."""

    place: str
    sentence: str


class Misfit(Exception):
    """A value does not fit; the message is for the model."""

    def __init__(self, message: str, places: Iterable[str] = ()) -> None:
        super().__init__(message)
        # without anything that the model wrote
        self.places = tuple(dict.fromkeys(filter(None, places)))


@frozen(eq=False)
class Schema:
    """Hold what arguments a tool takes; any, for a tool without a schema. What it reads, it does
    not change.
    """

    WHAT: ClassVar[str] = "the arguments"

    schema: Mapping[str, Any] = FrozenMap({"type": "object", "properties": FrozenMap()})
    validator: Any = None  # checks values against it; None for anything

    def read(self, value: Any) -> Any:
        """Return the arguments as the function takes them, or an answer as the caller does, or
        raise a Misfit.
        """
        what = self.WHAT
        try:
            with bounded():
                result, faults = self._read(value)
        except RecursionError:
            raise Misfit(f"{what}: nested too deeply") from None
        except TooMuchWork:
            raise Misfit(
                f"{what}: too much work to check; give less at once, or flatter values"
            ) from None
        except Exception as error:
            # no schema, no value and no validator of the caller's may crash a turn
            raise Misfit(f"{what} cannot be checked ({type(error).__name__})") from None
        except BaseException as error:
            # A Rust library that meets a RecursionError panics.
            if type(error).__name__ != "PanicException":
                raise
            raise Misfit(f"{what}: nested too deeply") from None
        if faults:
            shown = faults[:MOST_FAULTS]
            sentences = [label(fault.sentence, LONGEST_FAULT) for fault in shown]
            if len(faults) > MOST_FAULTS:
                sentences.append("and more")
            places = [fault.place for fault in shown]
            raise Misfit(f"{what} {_DO[what]} not fit: {'; '.join(sentences)}", places)
        return result

    def _read(self, value: Any) -> tuple[Any, Sequence[Fault]]:
        faults: list[Fault] = []
        if self.validator is not None:
            for error in islice(self.validator.iter_errors(value), MOST_FAULTS + 1):
                faults += _faults_for_model(error)
        return value, faults


def schema_of(schema: Mapping[str, Any], where: str) -> Schema:
    """Build the check of arguments against a JSON schema; without a `$schema` it is read as Draft
    2020-12.

    Raise a ConfigurationError if it is no schema of an object, refers to something outside itself,
    or has a pattern that cannot be matched in bounded time.
    """
    if schema.get("type", "object") != "object":
        raise ConfigurationError(
            f"{where} must be the schema of an object: {{'type': 'object', ...}}"
        )
    check_keywords(schema, where)
    whole = FrozenMap({"type": "object", "properties": FrozenMap(), **schema})
    return Schema(whole, validator_of(whole, where))


def check_keywords(schema: Mapping[str, Any], where: str) -> None:
    """Refuse a mapping without any word that limits a value, such as `{"age": "int"}`: as a schema
    it would take anything.
    """
    from jsonschema.validators import Draft202012Validator, validator_for

    keywords = validator_for(schema, default=Draft202012Validator).VALIDATORS.keys()
    if not schema.keys() <= _ANNOTATIONS and keywords.isdisjoint(schema):
        raise ConfigurationError(
            f"{where} is no JSON schema, as in {{'type': 'object', 'properties': {{...}}}}: it has "
            f"none of its keywords, but {label(', '.join(map(str, schema)), LONGEST_FAULT)}"
        )


def validator_of(schema: Mapping[str, Any], where: str) -> Any:
    """Return what checks values against a schema, which may be of any value; raises what
    `schema_of` does.
    """
    from jsonschema.exceptions import SchemaError

    draft = draft_of(schema)
    try:
        draft.check_schema(schema, format_checker=None)  # patterns have an engine of their own
    except SchemaError as error:
        place = place_of(error.path)
        at = f", at {place}" if place else ""
        raise ConfigurationError(
            f"{where} is no JSON schema{at}: {label(error.message, LONGEST_FAULT)}"
        ) from None
    return draft(schema, registry=_holding(schema, where))


def _holding(schema: Mapping[str, Any], where: str) -> Any:
    """Return a registry that fetches nothing, after resolving every reference and pattern of the
    schema.
    """
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import NoSuchResource, Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with

    dialect = schema.get("$schema")
    specification = DRAFT202012
    if isinstance(dialect, str):
        specification = specification_with(dialect, default=DRAFT202012)
    root = specification.create_resource(schema)
    ahead = [(root, REGISTRY.resolver_with_root(root))]
    is_unevaluated = "'unevaluatedProperties'" in str(schema)
    while ahead:
        resource, resolver = ahead.pop()
        contents: Any = resource.contents
        if not isinstance(contents, Mapping):
            contents = {}
        check_patterns(contents, where, is_unevaluated=is_unevaluated)
        reference = contents.get("$ref")
        if isinstance(reference, str):
            try:
                resolver.lookup(reference)
            except (NoSuchResource, Unresolvable):
                raise ConfigurationError(
                    f"{where} refers to {label(reference)!r}, which it does not contain; nothing "
                    "is fetched"
                ) from None
        ahead += [(sub, resolver.in_subresource(sub)) for sub in resource.subresources()]
    return REGISTRY


def _faults_for_model(error: ValidationError) -> list[Fault]:
    """Describe what is wrong with one value; the library's own messages quote the whole of it."""
    place = place_of(error.absolute_path)
    value = error.validator_value
    instance = error.instance
    match error.validator:
        case "required" if isinstance(instance, Mapping):
            return [missing(place, name) for name in value if name not in instance][:MOST_FAULTS]
        case "additionalProperties" if value is False and isinstance(instance, Mapping):
            names = list(error.schema.get("properties", ()))
            unknown = (name for name in instance if name not in names)
            if not error.schema.get("patternProperties"):
                return [unwanted(place, name, names) for name in islice(unknown, MOST_FAULTS)]
    subject = repr(place) if place else "it"
    return [Fault(place, f"{subject}{_fault_of(error)}")]


def _fault_of(error: ValidationError) -> str:
    """Say what is wrong with a value, behind its place."""
    value = error.validator_value
    instance = error.instance
    match error.validator:
        case "type":
            kinds = value
            if isinstance(value, Sequence) and not isinstance(value, str):
                kinds = " or ".join(value)
            return f" must be of type {kinds}, not {_KINDS.get(type(instance), 'null')}"
        case "enum":
            return f" must be one of {quoted(value)}"
        case "const":
            return f" must be {quoted([value])}"
        case "anyOf" | "oneOf" if nearest := _nearest(error):
            faults = "; ".join(fault.sentence for fault in _faults_for_model(nearest))
            return f" fits none of what it may be, the nearest being: {faults}"
        case "uniqueItems" | "unevaluatedItems" | "unevaluatedProperties" | "oneOf":
            return f": {error.message}"
        case (
            "minLength"
            | "maxLength"
            | "minItems"
            | "maxItems"
            | "minimum"
            | "maximum"
            | "pattern"
            | "format"
        ):
            return f" does not fit {error.validator} {quoted([value])}"
    return (
        f" does not fit {label(str(error.validator))!r} of its schema: "
        f"{label(error.message, LONGEST_FAULT)}"
    )


def _nearest(error: ValidationError) -> ValidationError | None:
    """Return the fault of the alternative that fits best: the deepest one, preferably not of a
    type.
    """
    nearest = None
    while error.context:
        nearest = max(islice(error.context, MOST_COMPARED), key=_nearness)
        error = nearest
    return nearest


def _nearness(fault: ValidationError) -> tuple[int, bool]:
    return len(fault.relative_path), fault.validator != "type"


_DO: Final = {"the arguments": "do", "the answer": "does"}
_KINDS: Final = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}


def quoted(values: Iterable[Any]) -> str:
    """Write the first 20 of some JSON values."""
    texts = []
    for value in islice(values, 20):
        try:
            texts.append(label(json.dumps(value, ensure_ascii=False), _LONGEST_NAME))
        except (TypeError, ValueError, RecursionError):
            texts.append(type(value).__name__)
    return ", ".join(texts)


def place_of(path: Iterable[Any]) -> str:
    """Write the path to a value, such as `items[2].name`."""
    place = ""
    for step in islice(path, 20):
        if isinstance(step, int):
            place += f"[{step}]"
        else:
            place += f".{label(str(step), _LONGEST_NAME)}"
    return str(label(place.removeprefix("."), _LONGEST_PLACE))


def missing(place: str, name: object) -> Fault:
    """Describe a missing value."""
    absent = label(name, _LONGEST_NAME)
    if not place:
        return Fault(str(absent), f"{absent!r} is missing")
    return Fault(f"{place}.{absent}", f"{absent!r} is missing in {place!r}")


def unwanted(place: str, name: object, names: Sequence[str]) -> Fault:
    """Describe an unknown value, and suggest a similar name."""
    unknown = label(name, _LONGEST_NAME)
    sentence = f"there is no {unknown!r}"
    if place:
        sentence += f" in {place!r}"
    near = close_to(unknown, names[:100])
    if not near and names:
        near = f"; there are: {quoted(names)}"
    return Fault(place, sentence + (near or "; there are none"))
