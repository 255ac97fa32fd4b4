"""JSON Schema for values from strangers, with the jsonschema library and a bound on the work.

The library collects every fault of every alternative, compares all items with all others, and
matches patterns with `re`, which can take forever. Here a few faults are enough, and jsonschema-rs
compares items and matches patterns, in time linear in the value. What remains, such as alternatives
within alternatives, is counted as work and bounded: the core reads no clock, and equal values get
equal answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import label

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MOST_FAULTS: Final = 5
"""The most faults looked for in an alternative."""

MOST_WORK: Final = 50_000
"""The units that one check may take, or all checks within one `bounded`. A unit takes up to about
30 microseconds.
"""

MOST_UNEVALUATED: Final = 2_000
"""The largest array or object checked for `unevaluatedItems` and the like, which take quadratic
time.
"""

Errors = Iterator["ValidationError"]
Check = Callable[[Any, Any, Any, Mapping[str, Any]], Errors]

_left: ContextVar[list[int] | None] = ContextVar("rungwise_work", default=None)


class TooMuchWork(Exception):
    """Say that a check would take too long."""


@contextmanager
def bounded() -> Iterator[None]:
    """Bound the work of the block, together with that of the blocks around it."""
    if _left.get() is not None:
        yield
        return
    token = _left.set([MOST_WORK])
    try:
        yield
    finally:
        _left.reset(token)


def spend(units: int) -> None:
    """Count work that is about to be done, and raise TooMuchWork if there has been too much of
    it.
    """
    left = _left.get()
    if left is not None:
        left[0] -= units
        if left[0] < 0:
            raise TooMuchWork


def draft_of(schema: Mapping[str, Any]) -> Any:
    """Return the class of validators for the draft that a schema names, or for Draft 2020-12."""
    from jsonschema.validators import Draft202012Validator, extend, validator_for

    draft = validator_for(schema, default=Draft202012Validator)
    weights: dict[int, int] = {}
    checks = {**draft.VALIDATORS, **_OWN}
    counted = {name: _counted(name, checks[name], weights) for name in draft.VALIDATORS}
    bounded_draft = extend(draft, counted)
    # A subschema may name a draft of its own, and the library would check it with the class of
    # that, which counts nothing. So `evolve` is replaced; see `_evolve`.
    bounded_draft.evolve = _evolve
    return bounded_draft


def check_patterns(schema: Mapping[str, Any], where: str, *, is_unevaluated: bool) -> None:
    """Raise a ConfigurationError unless the patterns of a schema, without its subschemas, take
    linear time to match.
    """
    of_names = schema.get("patternProperties", ())
    patterns = list(of_names)
    if "pattern" in schema:
        patterns.append(schema["pattern"])
    for pattern in patterns:
        _, engine = _engine(pattern)
        if engine is None:
            raise ConfigurationError(
                f"{where} has a pattern that is no regular expression or too large to be matched "
                f"in bounded time: {label(pattern, 100)!r}"
            )
        # For `unevaluatedProperties`, the library matches with `re`.
        if is_unevaluated and pattern in of_names and re.search(r"[*+{(?|]", pattern):
            raise ConfigurationError(
                f"{where} has unevaluatedProperties and a pattern of names that repeats or "
                "branches; use additionalProperties instead"
            )


def _evolve(validator: Any, **changes: Any) -> Any:
    """Return a validator of a subschema, which is of the same draft whatever it says: only this one
    is bounded.

    This replaces the library's own `evolve`, and reads `_registry` and `_resolver`, which are its
    private names: it has no public way to keep a class and its registry. So pyproject.toml bounds
    its version, and `test_validator.py` says what to do when a new version has no such names.
    """
    spend(1)
    fields = {
        "schema": validator.schema,
        "registry": validator._registry,
        "_resolver": validator._resolver,
    }
    fields.update(changes)
    return type(validator)(**fields)


def _counted(name: str, check: Check, weights: dict[int, int]) -> Check:
    """Count the work of a check.

    Arguments:
        name: the keyword.
        check: the check of the keyword.
        weights: the sizes of what keywords have in the schema, by their ids; this fills it.
    """

    def counted(
        validator: Any,
        value: Any,
        instance: Any,
        schema: Mapping[str, Any],
    ) -> Errors:
        """Check a value, as the library calls it.

        Arguments:
            validator: checks subschemas.
            value: what the keyword has in the schema.
            instance: the value that is checked.
            schema: the schema around the keyword.
        """
        size = 0
        if isinstance(instance, list | dict):
            size = len(instance)
        if isinstance(value, list | tuple | Mapping) and id(value) not in weights:
            weights[id(value)] = len(str(value)) // 1_000
        if name == "const":
            size = len(json.dumps(instance))
        elif name == "enum":
            size = len(json.dumps(instance)) * len(value)
        elif name.startswith("unevaluated"):
            if size > MOST_UNEVALUATED:
                yield _fault(f"it must hold no more than {MOST_UNEVALUATED} values")
                return
            size *= size
        spend(weights.get(id(value), 0) + size // 100)
        for error in check(validator, value, instance, schema) or ():
            spend(len(error.message) // 1_000)
            yield error

    return counted


def _fault(words: str, context: list[ValidationError] | None = None) -> ValidationError:
    from jsonschema.exceptions import ValidationError

    return ValidationError(words, context=context or ())


# The checks below are called by the library, each with the validator, what the keyword has in the
# schema, the value that is checked, and the schema around the keyword.


def _unique(
    validator: Any,
    unique: Any,
    instance: Any,
    schema: Mapping[str, Any],
) -> Errors:
    """Check that the items of an array differ from each other.

    Arguments:
        validator, unique, instance, schema: see above.
    """
    from jsonschema_rs import is_valid

    if unique is True and isinstance(instance, list):
        spend(len(json.dumps(instance)) // 100)
        if not is_valid({"uniqueItems": True}, instance):
            yield _fault("its items must differ from each other")


def _some_of(
    validator: Any,
    alternatives: Any,
    instance: Any,
    schema: Mapping[str, Any],
    *,
    is_one: bool,
) -> Errors:
    """Check that one of the alternatives fits.

    Arguments:
        validator, alternatives, instance, schema: see above.
        is_one: whether no other one may fit.
    """
    misfits: list[ValidationError] = []
    fitting = 0
    for place, alternative in enumerate(alternatives):
        errors = validator.descend(instance, alternative, schema_path=place)
        faults = list(islice(errors, MOST_FAULTS))
        misfits += faults
        fitting += not faults
        if fitting and not is_one:
            return
    if not fitting:
        yield _fault("fits none of what it may be", misfits)
    elif fitting > 1:
        yield _fault(f"must fit one of what it may be, and fits {fitting}")


def _pattern(
    validator: Any,
    pattern: Any,
    instance: Any,
    schema: Mapping[str, Any],
) -> Errors:
    """Check that a pattern is found in a text.

    Arguments:
        validator, pattern, instance, schema: see above.
    """
    if isinstance(instance, str) and not _is_found(pattern, instance):
        yield _fault("does not match")


def _pattern_properties(
    validator: Any,
    patterns: Any,
    instance: Any,
    schema: Mapping[str, Any],
) -> Errors:
    """Check the members whose names match a pattern.

    Arguments:
        validator, patterns, instance, schema: see above.
    """
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, item in instance.items():
            if _is_found(pattern, name):
                yield from validator.descend(item, subschema, path=name, schema_path=pattern)


def _additional(
    validator: Any,
    allowed: Any,
    instance: Any,
    schema: Mapping[str, Any],
) -> Errors:
    """Check the members that have neither a name nor a pattern in the schema.

    Arguments:
        validator, allowed, instance, schema: see above.
    """
    if not isinstance(instance, dict):
        return
    names = schema.get("properties", ())
    patterns = schema.get("patternProperties", ())
    for name, item in instance.items():
        if name in names or any(_is_found(pattern, name) for pattern in patterns):
            continue
        if allowed is False:
            yield _fault(f"{label(name)!r} has neither a name nor a pattern of it")
            return
        yield from validator.descend(item, allowed, path=name)


_OWN: Final[Mapping[str, Check]] = {
    "uniqueItems": _unique,
    "anyOf": partial(_some_of, is_one=False),
    "oneOf": partial(_some_of, is_one=True),
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
}


def _is_found(pattern: str, text: str) -> bool:
    from jsonschema_rs import ValidationError, ValidationErrorKind

    units, engine = _engine(pattern)
    spend(1 + int(units * len(text)))
    try:
        engine.validate(text)
    except ValidationError as error:
        if isinstance(error.kind, ValidationErrorKind.BacktrackLimitExceeded):
            raise TooMuchWork from None
        return False
    return True


@lru_cache(maxsize=128)
def _engine(pattern: str) -> tuple[float, Any]:
    """Return the units that a pattern takes for a character at worst, and what matches it, or None.

    The engine works in time linear in the text and in the compiled pattern; looking around and back
    takes one that backtracks, up to a limit. The units are measured with patterns and texts that
    defeat its cache (`tests/fsm/replies/schemas/test_bounded.py`).
    """
    from jsonschema_rs import FancyRegexOptions, RegexOptions, validator_for

    # As other engines do, take the hyphen behind a class of characters for itself, in the brackets
    # of `[\w-.]`.
    text = re.sub(r"((?<!\\)(?:\\\\)*\\[wdsWDS])-", r"\1\\-", pattern)
    for units, options in (
        (0.25, RegexOptions(size_limit=1 << 14)),
        (1, RegexOptions(size_limit=1 << 18)),
        (1, FancyRegexOptions(size_limit=1 << 14, backtrack_limit=1_000)),
        (16, RegexOptions(size_limit=1 << 22)),
    ):
        try:
            return units, validator_for({"pattern": text}, pattern_options=options)
        except ValueError:
            continue
    return 0, None
