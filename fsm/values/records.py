"""The classes that a program loads to make calls, built by attrs with less to compile.

A record is one that is handed on, and never changed.
"""

from __future__ import annotations

from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from attrs import define, frozen
    from attrs import frozen as record
else:

    def _with_one_repr(build: Any) -> Any:
        """Return a decorator of attrs' that leaves out the `__repr__`: to compile one is a quarter of a class."""

        def decorate(kind: Any = None, **options: Any) -> Any:
            if kind is None:
                return lambda kind: decorate(kind, **options)
            if "repr" not in options and "__repr__" not in vars(kind):
                kind.__repr__ = _shown  # which attrs takes for the class's own
            return build(kind, **options)

        return decorate

    define, frozen = _with_one_repr(attrs.define), _with_one_repr(attrs.frozen)

    # The type checkers refuse every change already, and a frozen object takes twice as long to build.
    record = define

__all__ = ["define", "frozen", "record"]


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
