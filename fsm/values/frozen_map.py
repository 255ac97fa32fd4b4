"""Values that cannot be changed: copies that stand for what somebody gave us, as it was when it was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from math import isfinite
from typing import Any, NoReturn

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import note, short

DEEPEST = 200
"""How deep what a caller gives may be nested: with what is put around it, JSON writers take no more than 254."""


class FrozenMap(dict[str, Any]):
    """Hold values by name as a dict that refuses every change; unlike a mapping proxy it can be copied and pickled."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("this mapping cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMap, (dict(self),)


class FrozenList(list[Any]):
    """Hold values as a list that refuses every change; unlike a tuple it equals the list that it was made of."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("this list cannot be changed")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # pyright: ignore[reportAssignmentType]
    append = extend = insert = remove = sort = _refuse  # pyright: ignore[reportAssignmentType]
    clear = pop = reverse = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


class _TooDeep(Exception):
    pass


class _NotFinite(Exception):
    pass


_UNCHANGING = frozenset({str, int, bool, type(None)})


def frozen_copy(value: Any, where: str) -> Any:
    """Copy every mapping, list, tuple and dataclass within `value`; texts, however long, are shared and not copied.

    A tuple of any kind becomes a plain one, and a dataclass the mapping that JSON makes of it.

    Arguments:
        value: what a caller gave.
        where: what the error calls it.

    Raises:
        ConfigurationError: it is nested too deeply, or holds itself.
    """
    try:
        return _frozen(value, DEEPEST)
    except _TooDeep:
        fault = f"it is nested more than {DEEPEST} deep, or holds itself"
        raise ConfigurationError(f"{where} has no form in JSON: {fault}") from None


def sendable_copy(value: Any, where: str) -> Any:
    """Copy as `frozen_copy` does what is to be sent, and refuse numbers that no JSON has.

    Arguments:
        value: what a caller gave.
        where: what the error calls it; the place within it is said behind that, and nothing of what stands there.

    Raises:
        ConfigurationError: it is nested too deeply, holds itself, or holds a number that is not finite.
    """
    try:
        return _frozen(value, DEEPEST, is_sent=True)
    except (_TooDeep, _NotFinite):
        place = f"{where}{_path_to_no_number(frozen_copy(value, where))}"
        raise ConfigurationError(f"{note(place)} has no form in JSON: it is not a finite number") from None


def sendable_copies(values: Iterable[Any], where: str) -> tuple[Any, ...]:
    """Copy as `sendable_copy` does; the error names the place among the values."""
    try:
        return tuple([_frozen(value, DEEPEST, is_sent=True) for value in values])
    except (_TooDeep, _NotFinite):
        return tuple([sendable_copy(value, f"{where}[{index}]") for index, value in enumerate(values)])


def _frozen(value: Any, depth: int, *, is_sent: bool = False) -> Any:
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if isinstance(value, float):
        if is_sent and not isfinite(value):
            raise _NotFinite
        return value
    if not depth:
        raise _TooDeep
    depth -= 1
    if kind is dict or isinstance(value, Mapping):
        copy = FrozenMap(value)
        for key, item in value.items():
            if type(item) is not str:  # most are, and one call for each would be most of the cost
                dict.__setitem__(copy, key, _frozen(item, depth, is_sent=is_sent))
        return copy
    if isinstance(value, list):
        return FrozenList([_frozen(item, depth, is_sent=is_sent) for item in value])
    if isinstance(value, tuple):
        return tuple([_frozen(item, depth, is_sent=is_sent) for item in value])
    if hasattr(kind, "__dataclass_fields__"):
        names = [field.name for field in fields(value) if not field.name.startswith("_") and hasattr(value, field.name)]
        return FrozenMap({name: _frozen(getattr(value, name), depth, is_sent=is_sent) for name in names})
    return value


def _path_to_no_number(value: Any) -> str | None:
    """Return where in a copy the first number stands that is not finite, as one would write it in Python."""
    if isinstance(value, float):
        return None if isfinite(value) else ""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, item in inner:
        path = _path_to_no_number(item)
        if path is not None:
            return f"[{short(key)}]{path}"
    return None


def thawed(value: Any) -> Any:
    """Copy what `frozen_copy` returned into plain dicts and lists, for somebody who may change them."""
    if isinstance(value, dict):
        return {key: thawed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thawed(item) for item in value]
    return tuple([thawed(item) for item in value]) if type(value) is tuple else value
