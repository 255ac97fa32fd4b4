"""The classes that a program loads to make calls, built by attrs with less to compile.

A record is one that is handed on, and never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, eq
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from attrs import define, frozen
    from attrs import frozen as record
else:

    def _with_methods_of_ours(build: Any) -> Any:
        """Return a decorator of attrs' that leaves out `__repr__`, `__eq__` and `__hash__`: half of what it compiles.

        Values that are compared or hashed by the ten thousand say `eq=True`, and have their own ones compiled.
        """

        def decorate(kind: Any = None, **options: Any) -> Any:
            if kind is None:
                return lambda kind: decorate(kind, **options)
            if "repr" not in options and "__repr__" not in vars(kind):
                kind.__repr__ = _shown  # which attrs takes for the class's own
            if "eq" in options or not vars(kind).keys().isdisjoint(("__eq__", "__hash__")):
                return build(kind, **options)
            is_frozen = build is attrs.frozen or kind.__hash__ is _hash
            return _with_equality(build(kind, eq=False, **options), is_frozen)

        return decorate

    define, frozen = _with_methods_of_ours(attrs.define), _with_methods_of_ours(attrs.frozen)

    # The type checkers refuse every change already, and a frozen object takes twice as long to build.
    record = define

__all__ = ["define", "draft_of", "frozen", "record"]


def draft_of(kind: type) -> Callable[[], Any]:
    """Return what makes a value of a frozen class that is still open: `draft.__class__ = kind` closes it.

    A field at a time, one of twenty fields is built in an eighth of the time that the `__init__` of its class takes,
    which gets past the lock for each of them and is handed its arguments in a mapping. Every field must be set.

    Arguments:
        kind: a frozen class whose fields stand in slots.
    """
    opened = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__, "__init__": object.__init__}
    return type(f"{kind.__name__}Draft", (kind,), {"__slots__": (), **opened})


@recursive_repr()
def _shown(self: object) -> str:
    """Write a value as attrs does."""
    built = next(kind for kind in type(self).__mro__ if vars(kind).get("__repr__") is _shown)  # it may be a base
    told = [f"{field.name}={_value(self, field)}" for field in attrs.fields(built) if field.repr is not False]
    return f"{type(self).__qualname__.rpartition('>.')[2]}({', '.join(told)})"


def _value(instance: object, field: attrs.Attribute[Any]) -> str:
    value = getattr(instance, field.name) if field.init else getattr(instance, field.name, attrs.NOTHING)
    write: Any = field.repr  # True, or a function
    return repr(value) if write is True else str(write(value))


def _with_equality(kind: Any, is_frozen: bool) -> Any:
    """Compare the values of a class by their fields, as attrs does, and hash them if they cannot change."""
    compared = [field for field in attrs.fields(kind) if field.eq]
    hashed = [field for field in compared if field.hash is not False]
    # With the class's name among them, the getters return tuples however few fields there are.
    kind._compared = attrgetter("__class__.__qualname__", *(field.name for field in compared))
    kind._hashed = attrgetter("__class__.__qualname__", *(field.name for field in hashed))
    kind.__eq__, kind.__hash__ = _equal, _hash if is_frozen else None
    return kind


def _equal(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented  # type: ignore[no-any-return]
    return all(map(eq, self._compared(self), self._compared(other)))  # not as tuples, in which nan equals itself


def _hash(self: Any) -> int:
    return hash(self._hashed(self))
