"""A mapping that cannot be changed, and unlike a mapping proxy can be copied, pickled and written as JSON."""

from __future__ import annotations

from typing import Any, NoReturn


class FrozenMap(dict[str, Any]):
    """Be a dict that refuses every change."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("this mapping cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMap, (dict(self),)
