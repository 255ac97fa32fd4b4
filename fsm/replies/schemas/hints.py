"""Checking arguments against a function's type hints, with pydantic, which also converts them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from inspect import Parameter
from itertools import islice
from types import FunctionType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from weakref import WeakKeyDictionary

from attrs import frozen
from typing_extensions import TypedDict

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.schemas.given import Fault, Schema, missing, place_of, unwanted
from rungwise.fsm.replies.schemas.validator import MOST_FAULTS, MOST_WORK, spend
from rungwise.fsm.values.frozen_map import FrozenMap, frozen_copy
from rungwise.fsm.values.label import label

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic.json_schema import GenerateJsonSchema

_MORE = "**"  # the name, which no parameter can have, of what a function's `**keywords` take


@frozen(eq=False, kw_only=True)
class HintedSchema(Schema):
    """Check and convert arguments by the type hints of a function."""

    model: type[Any]
    names: Mapping[str, str]  # the parameter of each field
    # the fields with a default of the function, which are omitted if the call omits them
    optional: frozenset[str]
    takes_more: bool  # whether the function takes further keywords
    # the most alternatives of an object and of an array: pydantic tries all at each level
    widths: tuple[int, int]

    @classmethod
    def of(cls, function: Callable[..., Any], where: str) -> HintedSchema:
        """Read the hints of a function, as `read_from` does; the result for a `def` is cached."""
        if not isinstance(function, FunctionType):
            return cls.read_from(function, where)
        schema = _cache.get(function)
        if schema is None:
            schema = _cache[function] = cls.read_from(function, where)
        return schema

    @classmethod
    def read_from(cls, function: Callable[..., Any], where: str) -> HintedSchema:
        """Read the hints of a function. One without a JSON schema, or by position only, raises a
        ConfigurationError.
        """
        from pydantic import Field, create_model
        from pydantic.fields import FieldInfo

        parameters = list(_parameters(function, where))
        hints = _hints(function, where)
        # with aliases of their own: a setting of the model would go for what it holds, too
        fields: dict[str, Any] = {}
        names: dict[str, str] = {}
        optional = set()
        try:
            for number, parameter in enumerate(parameters):
                hint = with_typed_dicts(hints.get(parameter.name, Any))
                if parameter.kind is Parameter.VAR_KEYWORD:
                    fields["more"] = (dict[str, hint], Field({}, alias=_MORE))  # type: ignore[valid-type]
                    continue
                field = f"p{number}"
                name = parameter.name
                names[field] = name
                named: Any = Annotated[hint, Field(alias=name)]
                if parameter.default is not Parameter.empty:
                    fields[field] = (named, parameter.default)
                    if not isinstance(parameter.default, FieldInfo):
                        optional.add(field)
                elif _has_own_default(hint):
                    fields[field] = named
                else:
                    fields[field] = (named, ...)
            model = create_model("Arguments", **fields)
            schema = model.model_json_schema(schema_generator=generator())
        except Exception as error:
            raise ConfigurationError(
                f"{where} has a parameter whose type hint has no JSON schema: "
                f"{label(first_line(error), 200)}; give the tool its parameters as a JSON schema"
            ) from None
        more = schema.setdefault("properties", {}).pop(_MORE, {})
        schema["additionalProperties"] = more.get("additionalProperties", False)
        schema.pop("title", None)
        schema.pop("description", None)  # at most the docstring of pydantic's own class
        return cls(
            schema=frozen_copy(schema, where),
            model=model,
            names=FrozenMap(names),
            optional=frozenset(optional),
            takes_more="more" in fields,
            widths=alternatives(schema),
        )

    def _read(self, value: Any) -> tuple[Any, Sequence[Fault]]:
        from pydantic import ValidationError

        spend(work_of(value, *self.widths))
        known = self.schema["properties"]
        passed: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for name, each in value.items():
            if name in known:
                passed[name] = each
            else:
                others[name] = each
        faults = []
        if not self.takes_more:
            faults = [unwanted("", name, list(known)) for name in islice(others, MOST_FAULTS)]
        try:
            read = self.model.model_validate({**passed, _MORE: others})
        except ValidationError as error:
            return value, [*faults_in(error), *faults]
        arguments = dict(read.more) if self.takes_more else {}
        omitted = self.optional - read.model_fields_set
        for field, name in self.names.items():
            if field not in omitted:
                arguments[name] = getattr(read, field)
        return arguments, faults


def _has_own_default(hint: Any) -> bool:
    """Tell whether a hint holds a default, as in `Annotated[int, Field(default=3)]`."""
    from pydantic.fields import FieldInfo

    for each in getattr(hint, "__metadata__", ()):
        if isinstance(each, FieldInfo) and not each.is_required():
            return True
    return False


def faults_in(error: ValidationError) -> Iterator[Fault]:
    """Describe what pydantic found wrong, for the model, which wrote no `_MORE`."""
    try:
        faults: list[Any] = list(
            error.errors(include_url=False, include_context=False, include_input=False)
        )
    except Exception:  # the message of a caller's validator may be unprintable
        return
    for fault in faults[: MOST_FAULTS + 1]:
        path = fault["loc"]
        if path[:1] == (_MORE,):
            path = path[1:]
        *way, last = path or ("",)
        match fault["type"]:
            case "missing":
                yield missing(place_of(way), last)
            case "extra_forbidden":
                yield unwanted(place_of(way), last, [])
            case _:
                place = place_of([*way, last])
                message = fault["msg"]
                sentence = message[:1].lower() + message[1:]
                if place:
                    sentence = f"{place!r}: {sentence}"
                yield Fault(place, sentence)


def alternatives(schema: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many alternatives an object and an array have at most; a discriminator tells them
    apart at once.
    """
    most = {"object": 1, "array": 1}
    defined = schema.get("$defs", {})
    ahead = [schema]
    while ahead:
        part = ahead.pop()
        for name, value in part.items():
            values = value if isinstance(value, list) else [value]
            inner = [each for each in values if isinstance(each, Mapping)]
            ahead += inner
            if name in ("anyOf", "oneOf") and "discriminator" not in part:
                targets = [_target_of(each, defined) for each in inner]
                for kind in most:
                    count = sum(each.get("type", kind) == kind for each in targets)
                    most[kind] = max(most[kind], count)
    return most["object"], most["array"]


def _target_of(schema: Mapping[str, Any], defined: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the definition that an alternative refers to, or the alternative itself."""
    if "$ref" not in schema:
        return schema
    _, _, name = schema["$ref"].rpartition("/")
    target: Mapping[str, Any] = defined.get(name, {})
    return target


def work_of(arguments: Any, of_object: int, of_array: int) -> int:
    """Return the work of trying every alternative at every level; a unit is about ten values."""
    work = 0
    ahead = [(arguments, 1)]
    while ahead and work <= 10 * MOST_WORK:
        value, times = ahead.pop()
        if isinstance(value, dict):
            times *= of_object
            ahead += [(item, times) for item in value.values()]
        elif isinstance(value, list):
            times *= of_array
            ahead += [(item, times) for item in value]
        work += times
    return work // 10


_cache: WeakKeyDictionary[Callable[..., Any], HintedSchema] = WeakKeyDictionary()


@cache
def generator() -> type[GenerateJsonSchema]:
    """Return what writes the schemas of types."""
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        """Write no titles, which repeat the names, and silently omit defaults without a JSON
        form.
        """

        def emit_warning(self, kind: Any, detail: str) -> None:
            pass

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Generator


def _parameters(function: Callable[..., Any], where: str) -> Iterator[Parameter]:
    """Yield the parameters that the model may pass."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"{where} has no signature that can be read; pass its parameters as a JSON schema"
        ) from None
    bound: Mapping[str, Any] = {}
    if isinstance(function, partial):
        bound = function.keywords
    for parameter in signature.parameters.values():
        if parameter.name in bound:
            continue  # the caller has bound it
        if parameter.kind is Parameter.POSITIONAL_ONLY and parameter.default is Parameter.empty:
            raise ConfigurationError(
                f"{where} takes {parameter.name!r} by position only; tools get their arguments by "
                "name"
            )
        if parameter.name == "self":
            raise ConfigurationError(f"{where} is the method of a class: give that of an object")
        if parameter.kind in (
            Parameter.POSITIONAL_OR_KEYWORD,
            Parameter.KEYWORD_ONLY,
            Parameter.VAR_KEYWORD,
        ):
            yield parameter


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    """Return the type hints of the parameters, with forward references resolved."""
    parameters = inspect.signature(function).parameters
    hints = {
        name: each.annotation
        for name, each in parameters.items()
        if each.annotation is not Parameter.empty
    }
    try:
        names = getattr(_written(function), "__globals__", {})
        return get_type_hints(
            SimpleNamespace(__annotations__=hints), globalns=names, include_extras=True
        )
    except Exception as error:
        raise ConfigurationError(
            f"{where} has a type hint that cannot be resolved: {label(first_line(error), 200)}; "
            "what it names must stand in its module, or give the tool its parameters as a JSON "
            "schema"
        ) from None


def _written(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, type):
        return inspect.unwrap(vars(function).get("__init__", function.__new__))
    if not inspect.isroutine(function):
        function = type(function).__call__
    function = inspect.unwrap(function)
    return getattr(function, "__func__", function)


def with_typed_dicts(hint: Any) -> Any:
    """Return a hint with each `typing.TypedDict` in the form that pydantic takes before Python
    3.12.
    """
    parts = get_args(hint)
    if sys.version_info >= (3, 12) or get_origin(hint) is Literal:
        return hint
    if not is_typeddict(hint):  # this knows those of `typing` alone
        modern = tuple(map(with_typed_dicts, parts))
        if modern == parts:
            return hint
        generic: Any = Union if isinstance(hint, UnionType) else get_origin(hint)
        return generic[modern]
    fields = {}
    for name, part in get_type_hints(hint, include_extras=True).items():
        mark: Any = Required if name in hint.__required_keys__ else NotRequired
        if get_origin(part) in (Required, NotRequired):
            mark = get_origin(part)
            (part,) = get_args(part)
        fields[name] = mark[with_typed_dicts(part)]
    made = TypedDict(hint.__name__, fields)  # type: ignore[misc]
    made.__doc__ = hint.__doc__
    made.__module__ = hint.__module__
    return made


def first_line(error: Exception) -> str:
    """Return the first line of what an error says."""
    return next(iter(str(error).splitlines()), type(error).__name__)
