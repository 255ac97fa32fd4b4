"""What an answer must be: a type that pydantic knows, or a JSON schema. Both read the text of an
answer.

Providers hold models to objects only, so anything else, such as a list or an enum, travels as
`{"value": ...}`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, get_args, get_origin

from attrs import frozen

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.schemas.given import Fault, Misfit, Schema, check_keywords, validator_of
from rungwise.fsm.replies.schemas.validator import spend
from rungwise.fsm.replies.text.contents import json_in
from rungwise.fsm.values.frozen_map import FrozenMap, frozen_copy, sendable_copy
from rungwise.fsm.values.label import label, short

VALUE: Final = "value"  # the one member of the object around a value that is none

_DEFINITIONS: Final = ("$defs", "definitions")
_BEGUN: Final = re.compile(r"\s*```[A-Za-z]*[ \t]*\n(.*)", re.DOTALL)
_FENCE: Final = re.compile(r"\s*```[A-Za-z]*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)


@frozen(eq=False, kw_only=True)
class Returns(Schema):
    """Check and read an answer as parsed JSON; the schema, which goes out, is that of an object."""

    WHAT: ClassVar[str] = "the answer"
    is_decision: ClassVar[bool] = False
    """Whether it holds the questions of a decision, as `OpenQuestions` does."""

    is_wrapped: bool  # whether that object holds the value as its `value`

    def plain_questions(self) -> Mapping[str, Any]:
        """Return the questions of a decision as plain values."""
        return FrozenMap()

    @property
    def in_words(self) -> str:
        """Return the questions of a decision in words."""
        return ""

    def read_text(self, text: str) -> Any:
        """Return the value of an answer, in a code fence or not, bare or in an object; raise a
        Misfit if it is none.
        """
        fenced = _FENCE.fullmatch(text)
        if fenced:
            text = fenced[1]
        value, is_one = json_in(text)
        if not is_one:
            raise Misfit("the answer is not JSON", ["no JSON"])
        if self.is_wrapped and isinstance(value, Mapping) and value.keys() == {VALUE}:
            value = value[VALUE]
        return self.read(value)

    def so_far(self, text: str) -> Any:
        """Return what is whole of a value in the beginning of an answer; None for nothing."""
        from pydantic_core import from_json

        begun = _BEGUN.match(text)
        if begun:
            text = begun[1]
        try:
            value = from_json(text.encode("utf-8", "replace"), allow_partial=True)
        except ValueError:
            return None
        if self.is_wrapped and isinstance(value, dict):
            value = value.get(VALUE)
        if isinstance(value, list):
            return [self._item(each) for each in value[:-1]]  # the last may be cut
        return value

    def _item(self, item: Any) -> Any:
        return item


@frozen(eq=False, kw_only=True)
class TypedReturns(Returns):
    """Read an answer as a type, in pydantic's lax mode."""

    adapter: Any
    items: Any = None  # the adapter of an item, if the type is a list
    widths: tuple[int, int]  # the most alternatives of an object and of an array

    def _item(self, item: Any) -> Any:
        if self.items is None:
            return item
        try:
            return self.items.validate_json(json.dumps(item))
        except Exception:
            # a validator of the caller's may raise anything; the whole list is refused in the end
            return item

    def _read(self, value: Any) -> tuple[Any, Sequence[Fault]]:
        from pydantic import ValidationError

        from rungwise.fsm.replies.schemas.hints import (  # which JSON schemas do without
            faults_in,
            work_of,
        )

        spend(work_of(value, *self.widths))
        try:
            return self.adapter.validate_json(json.dumps(value)), ()
        except ValidationError as error:
            return value, [*faults_in(error)]


def returns_of(returns: Any) -> Returns | None:
    """Read what a caller wants back, a type or a JSON schema, or raise a ConfigurationError; None
    for any answer.
    """
    if returns is None or isinstance(returns, Returns):
        return returns
    if isinstance(returns, Mapping):
        # written and read again: a date is its text then, as on the wire
        written = json.dumps(sendable_copy(returns, "returns"), default=_as_json)
        schema = frozen_copy(json.loads(written), "returns")
        check_keywords(schema, "returns")
        is_wrapped = not _is_of_object(schema)
        return Returns(
            schema=_wrapped(schema) if is_wrapped else schema,
            is_wrapped=is_wrapped,
            validator=validator_of(schema, "returns"),
        )
    try:
        return _typed(returns)
    except TypeError:  # it cannot be hashed
        return _typed.__wrapped__(returns)


def _as_json(value: Any) -> Any:
    """Return the value of an enum, and the text of anything else that JSON does not have."""
    return getattr(value, "value", str(value))


@lru_cache(maxsize=256)
def _typed(kind: Any) -> TypedReturns:
    from pydantic import TypeAdapter

    # likewise
    from rungwise.fsm.replies.schemas.hints import (
        alternatives,
        first_line,
        generator,
        with_typed_dicts,
    )

    try:
        if isinstance(kind, str | bytes | int | float | list | tuple) or inspect.isroutine(kind):
            raise TypeError(f"{short(kind)} is none")
        if hasattr(kind, "model_dump") and not isinstance(kind, type):
            raise TypeError(f"give the class {type(kind).__name__} itself")
        adapter: TypeAdapter[Any] = TypeAdapter(with_typed_dicts(kind))
        schema = adapter.json_schema(schema_generator=generator())
    except Exception as error:
        raise ConfigurationError(
            "returns must be a type that pydantic can read, such as a model or list[str], or a "
            f"JSON schema: {label(first_line(error), 200)}"
        ) from None
    whole = frozen_copy(schema, "returns")
    is_wrapped = not _is_of_object(whole)
    sent = whole
    if is_wrapped:
        sent = _wrapped(whole)
    elif "$ref" in whole:  # providers want an object at the root and no reference
        sent = FrozenMap({"$defs": whole["$defs"], **_target(whole)})
    items = None
    if get_origin(kind) is list and get_args(kind):
        (item,) = get_args(kind)
        items = TypeAdapter(with_typed_dicts(item))
    return TypedReturns(
        schema=sent,
        is_wrapped=is_wrapped,
        adapter=adapter,
        items=items,
        widths=alternatives(whole),
    )


def _is_of_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" or _target(schema).get("type") == "object"


def _target(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the definition that a schema is nothing but a reference to; the schema itself
    otherwise.
    """
    _, _, name = str(schema.get("$ref", "")).rpartition("#/$defs/")
    if not name:
        return schema
    target = schema.get("$defs", {}).get(name)
    return target if isinstance(target, Mapping) else schema


def _wrapped(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an object that holds the value; the definitions stay at the root."""
    value: dict[str, Any] = {}
    wrapped: dict[str, Any] = {
        "type": "object",
        "properties": {VALUE: value},
        "required": [VALUE],
        "additionalProperties": False,
    }
    for name in _DEFINITIONS:
        if name in schema:
            wrapped[name] = _moved(schema[name])
    for name, each in schema.items():
        if name not in (*_DEFINITIONS, "$schema"):
            value[name] = _moved(each)
    return frozen_copy(wrapped, "returns")  # type: ignore[no-any-return]


def _moved(value: Any) -> Any:
    """Return a part of a schema that now stands below the value, its references to the root
    included.
    """
    if isinstance(value, Mapping):
        moved = {name: _moved(each) for name, each in value.items()}
        if "$ref" in value:
            moved["$ref"] = _reference(value["$ref"])
        return moved
    if isinstance(value, list | tuple):
        return [_moved(each) for each in value]
    return value


def _reference(reference: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return reference
    if reference.startswith(tuple(f"#/{name}/" for name in _DEFINITIONS)):
        return reference  # definitions stay at the root
    return f"#/properties/{VALUE}{reference[1:]}"
