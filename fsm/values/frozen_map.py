"""Values that cannot change: copies of what a caller passed in, as it was at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from math import isfinite
from types import NoneType
from typing import Any, NoReturn

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import note
from rungwise.fsm.values.patterns import Pattern

_NAME = Pattern(r"[A-Za-z_]{1,24}")
DEEPEST = 200
"""How deep what a caller gives may be nested: with what is put around it, JSON writers take no more
than 254.
"""


class FrozenMap(dict[str, Any]):
    """Hold values by name as a dict that refuses every change; unlike a mapping proxy, it can be
    copied and pickled.
    """

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("this mapping cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMap, (dict(self),)


class FrozenList(list[Any]):
    """Hold values as a list that refuses every change; unlike a tuple, it equals the list that it
    was made from.
    """

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("this list cannot be changed")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # pyright: ignore[reportAssignmentType]
    append = extend = insert = remove = sort = _refuse  # pyright: ignore[reportAssignmentType]
    clear = pop = reverse = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


class _NotJson(Exception):
    """A value is nested too deeply, or has no form in JSON."""


_UNCHANGING = frozenset({str, int, bool, type(None)})
_NOT_FINITE = "it is not a finite number"


def frozen_copy(value: Any, where: str) -> Any:
    """Copy every mapping, list, tuple and dataclass within `value`; texts, however long, are shared
    and not copied.

    Any kind of tuple becomes a plain one, and a dataclass becomes the mapping that JSON makes of
    it.

    Raises:
        ConfigurationError: it is nested too deeply, or holds itself.
    """
    try:
        return _frozen(value, DEEPEST)
    except _NotJson:
        fault = f"it is nested more than {DEEPEST} deep, or holds itself"
        raise ConfigurationError(f"{where} has no form in JSON: {fault}") from None


def sendable_copy(value: Any, where: str) -> Any:
    """Copy a value that will be sent, as `frozen_copy` does, and refuse what JSON does not have.

    Raises:
        ConfigurationError: it is nested too deeply, holds itself, or holds what has no form in
            JSON: a number that is not finite, a value of another type, a key that is no text. It
            says where, but never what stands there.
    """
    try:
        return _frozen(value, DEEPEST, is_sent=True)
    except _NotJson:
        path, fault = _fault_in(frozen_copy(value, where)) or ("", "it changes while it is read")
        raise ConfigurationError(f"{note(where + path)} has no form in JSON: {fault}") from None


def sendable_copies(
    values: Iterable[Any], where: str, *, uncopied: type | tuple[type, ...] = ()
) -> tuple[Any, ...]:
    """Copy as `sendable_copy` does, but for types that cannot change; the error names the place
    among the values.
    """
    values = tuple(values)
    copies = []
    try:
        for one in values:
            copies.append(one if isinstance(one, uncopied) else _frozen(one, DEEPEST, is_sent=True))
    except _NotJson:
        # the error names the place, which is looked for only now
        copies = [
            one if isinstance(one, uncopied) else sendable_copy(one, f"{where}[{index}]")
            for index, one in enumerate(values)
        ]
    return tuple(copies)


def _frozen(value: Any, depth: int, *, is_sent: bool = False) -> Any:
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if isinstance(value, float):
        if is_sent and not isfinite(value):
            raise _NotJson
        return value
    if not depth:
        raise _NotJson
    depth -= 1
    if kind is dict or isinstance(value, Mapping):
        copy = FrozenMap(value)
        for key, item in value.items():
            if is_sent and type(key) is not str and not isinstance(key, str):
                raise _NotJson
            if type(item) is not str:  # most are, and one call for each would be most of the cost
                dict.__setitem__(copy, key, _frozen(item, depth, is_sent=is_sent))
        return copy
    if isinstance(value, list):
        return FrozenList([_frozen(item, depth, is_sent=is_sent) for item in value])
    if isinstance(value, tuple):
        return tuple([_frozen(item, depth, is_sent=is_sent) for item in value])
    if hasattr(kind, "__dataclass_fields__"):
        from dataclasses import fields  # which are loaded where there are any

        names = [
            field.name
            for field in fields(value)
            if not field.name.startswith("_") and hasattr(value, field.name)
        ]
        return FrozenMap(
            {name: _frozen(getattr(value, name), depth, is_sent=is_sent) for name in names}
        )
    if is_sent and not _is_written(value):
        raise _NotJson
    return value


def _is_written(value: Any) -> bool:
    """Tell whether orjson can write a value; subclasses count."""
    from datetime import date, time  # of which most requests hold none
    from uuid import UUID

    if isinstance(value, Enum):
        return _is_written(value.value)
    return isinstance(value, (str, int, float, NoneType, date, time, UUID))


def _fault_in(value: Any) -> tuple[str, str] | None:
    """Return the place of the first value in a copy that has no form in JSON, as in Python, and
    what is wrong.
    """
    if isinstance(value, float) and not isfinite(value):
        return "", _NOT_FINITE
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    elif not _is_written(value):
        return "", f"it is of type {type(value).__name__}"
    for key, item in items:
        if isinstance(value, dict) and not isinstance(key, str):
            return "", f"a key is of type {type(key).__name__}, and no text"
        fault = _fault_in(item)
        if fault is not None:
            path, what = fault
            return f"[{_shown(key)}]{path}", what
    return None


def _shown(key: str | int) -> str:
    """Return a key as a path shows it: a key that is not a name may be part of the conversation."""
    return repr(key) if isinstance(key, int) or _NAME.fullmatch(key) else "…"


def thawed(value: Any) -> Any:
    """Copy what `frozen_copy` returned into plain dicts and lists, which may be changed."""
    if isinstance(value, dict):
        return {key: thawed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thawed(item) for item in value]
    if type(value) is tuple:
        return tuple([thawed(item) for item in value])
    return value
