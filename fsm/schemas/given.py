"""Checking the arguments of tool calls against a caller's JSON schema; `hints` does it for type hints.

Both report a misfit to the model in the words of this module: they name the argument and what would fit, and stay short
however much the model sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.schemas.validator import MOST_FAULTS, check_patterns, draft_of
from rungwise.fsm.schemas.work import TooMuchWork, bounded
from rungwise.fsm.values.frozen_map import FrozenMap
from rungwise.fsm.values.label import close_to, label

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


LONGEST_FAULT: Final = 180
"""Characters of one fault; all faults of a message take up about 1 kB at most."""

MOST_COMPARED: Final = 100
"""The most faults of alternatives that are searched for the nearest."""

_LONGEST_NAME: Final = 64
_LONGEST_PLACE: Final = 120
TOO_MUCH: Final = "the arguments take too much work to check; give fewer at once, or flatter ones"

Arguments = dict[str, Any]


class Misfit(Exception):
    """Arguments do not fit; the message is for the model."""


@frozen(eq=False)
class Schema:
    """Hold what arguments a tool takes; this one accepts any, for a tool without a schema."""

    schema: Mapping[str, Any] = FrozenMap({"type": "object", "properties": FrozenMap()})

    def read(self, arguments: Arguments) -> Arguments:
        """Return the arguments in the form that the function takes.

        Raises:
            Misfit: they do not fit.
        """
        try:
            with bounded():
                values, faults = self._read(arguments)
        except RecursionError:
            raise Misfit("the arguments are nested too deeply") from None
        except TooMuchWork:
            raise Misfit(TOO_MUCH) from None
        except Exception as error:  # no schema, no value and no validator of the caller's may crash a turn
            raise Misfit(f"the arguments cannot be checked ({type(error).__name__})") from None
        if faults:
            listed = "; ".join(label(fault, LONGEST_FAULT) for fault in faults[:MOST_FAULTS])
            raise Misfit(f"the arguments do not fit: {listed}{'; and more' if len(faults) > MOST_FAULTS else ''}")
        return values

    def _read(self, arguments: Arguments) -> tuple[Arguments, Sequence[str]]:
        """Return the arguments as `read` does, and what is wrong with them."""
        return arguments, ()


@frozen(eq=False)
class GivenSchema(Schema):
    """Check arguments against a JSON schema without changing them."""

    _validator: Any = None

    @classmethod
    def of(cls, schema: Mapping[str, Any], where: str) -> GivenSchema:
        """Build a check from a schema; without a `$schema` it is read as Draft 2020-12.

        Raises:
            ConfigurationError: it is no schema of an object, has a reference to something outside itself, or a pattern
                that cannot be matched in bounded time.
        """
        from jsonschema.exceptions import SchemaError

        if schema.get("type", "object") != "object":
            raise ConfigurationError(f"{where} must be the schema of an object: {{'type': 'object', ...}}")
        whole = FrozenMap({"type": "object", "properties": FrozenMap(), **schema})
        draft = draft_of(whole)
        try:
            draft.check_schema(whole, format_checker=None)  # patterns have an engine of their own
        except SchemaError as error:
            place = place_of(error.path)
            raise ConfigurationError(
                f"{where} is no JSON schema{f', at {place}' if place else ''}: {label(error.message, LONGEST_FAULT)}"
            ) from None
        return cls(whole, draft(whole, registry=_holding(whole, where)))

    def _read(self, arguments: Arguments) -> tuple[Arguments, Sequence[str]]:
        errors = islice(self._validator.iter_errors(arguments), MOST_FAULTS + 1)
        return arguments, [fault for error in errors for fault in _faults_for_model(error)]


def _holding(schema: Mapping[str, Any], where: str) -> Any:
    """Return a registry that fetches nothing, after resolving every reference and pattern of the schema."""
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import NoSuchResource, Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with

    dialect = schema.get("$schema")
    specification = specification_with(dialect, default=DRAFT202012) if isinstance(dialect, str) else DRAFT202012
    root = specification.create_resource(schema)
    ahead = [(root, REGISTRY.resolver_with_root(root))]
    is_unevaluated = "'unevaluatedProperties'" in str(schema)
    while ahead:
        resource, resolver = ahead.pop()
        contents = resource.contents if isinstance(resource.contents, Mapping) else {}
        check_patterns(contents, where, is_unevaluated=is_unevaluated)
        reference = contents.get("$ref")
        if isinstance(reference, str):
            try:
                resolver.lookup(reference)
            except (NoSuchResource, Unresolvable):
                raise ConfigurationError(
                    f"{where} refers to {label(reference)!r}, which it does not contain; nothing is fetched"
                ) from None
        ahead += [(sub, resolver.in_subresource(sub)) for sub in resource.subresources()]
    return REGISTRY


def _faults_for_model(error: ValidationError) -> Iterable[str]:
    """Describe what is wrong with one argument; the library's own messages quote the whole value."""
    place, value, instance = place_of(error.absolute_path), error.validator_value, error.instance
    what = f"{place!r}" if place else "the arguments"
    match error.validator:
        case "required" if isinstance(instance, Mapping):
            return [missing(place, name) for name in value if name not in instance][:MOST_FAULTS]
        case "additionalProperties" if value is False and isinstance(instance, Mapping):
            names = list(error.schema.get("properties", ()))
            unknown = (name for name in instance if name not in names)
            if not error.schema.get("patternProperties"):
                return [unwanted(place, name, names) for name in islice(unknown, MOST_FAULTS)]
        case "type":
            kinds = " or ".join(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
            return [f"{what} must be of type {kinds}, not {_KINDS.get(type(instance), 'null')}"]
        case "enum":
            return [f"{what} must be one of {quoted(value)}"]
        case "const":
            return [f"{what} must be {quoted([value])}"]
        case "anyOf" | "oneOf" if nearest := _nearest(error):
            return [f"{what} fits none of what it may be, the nearest being: {'; '.join(_faults_for_model(nearest))}"]
        case "uniqueItems" | "unevaluatedItems" | "unevaluatedProperties" | "oneOf":
            return [f"{what}: {error.message}"]
        case "minLength" | "maxLength" | "minItems" | "maxItems" | "minimum" | "maximum" | "pattern" | "format":
            return [f"{what} does not fit {error.validator} {quoted([value])}"]
    return [f"{what} does not fit {label(str(error.validator))!r} of its schema: {label(error.message, LONGEST_FAULT)}"]


def _nearest(error: ValidationError) -> ValidationError | None:
    """Return the fault of the alternative that fits best: the deepest one, preferably not of a type."""
    nearest = None
    while error.context:
        faults = islice(error.context, MOST_COMPARED)
        nearest = error = max(faults, key=lambda fault: (len(fault.relative_path), fault.validator != "type"))
    return nearest


_KINDS: Final = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}


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
        place += f"[{step}]" if isinstance(step, int) else f".{label(str(step), _LONGEST_NAME)}"
    return str(label(place.removeprefix("."), _LONGEST_PLACE))


def missing(place: str, name: object) -> str:
    """Describe a missing argument, or a missing value within one."""
    return f"{label(name, _LONGEST_NAME)!r} is missing{f' in {place!r}' if place else ''}"


def unwanted(place: str, name: object, names: Sequence[str]) -> str:
    """Describe an unknown argument, and suggest a similar one."""
    unknown = label(name, _LONGEST_NAME)
    near = close_to(unknown, names[:100]) or (f"; there are: {quoted(names)}" if names else "; there are none")
    return f"there is no {unknown!r}{f' in {place!r}' if place else ''}{near}"
