"""Keys and headers as values that show themselves to nobody but the code that writes them onto the wire."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn, Self

_SALT: Final = os.urandom(32)


class _Shared:
    """Return itself wherever a copy is asked for."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Secret(_Shared):
    """Hold a key; `str()` is the one way to it, and every `repr` hides it.

    It is not a `str` itself: what prints variables for people (tracebacks, error trackers, `rich`) cuts and shows
    strings without asking them.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(...)"

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Secret, str)):
            return NotImplemented
        from secrets import compare_digest  # which loads OpenSSL, and few programs compare keys

        return compare_digest(self._text.encode("utf-8", "surrogatepass"), _bytes(str(other)))

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled: make its backend where it is used")


class SecretMap(_Shared, Mapping[str, str]):
    """Hold headers that cannot be changed, and whose `repr` shows no value.

    It is not a `dict`: what prints variables looks into those by itself.
    """

    __slots__ = ("_values",)

    def __init__(self, *layers: Mapping[str, str]) -> None:
        self._values = {name: value for layer in layers for name, value in layer.items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"SecretMap({', '.join(f'{name}=...' for name in self._values)})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._values:
            raise TypeError("headers are not pickled, they may hold keys: give them where they are used")
        return SecretMap, ()


NO_HEADERS: Final = SecretMap()


def fingerprint(headers: Mapping[str, str]) -> str:
    """Return what tells these headers from others in this process, and nobody anything outside of it."""
    from hashlib import blake2b  # likewise

    told = repr(sorted((name.lower(), value) for name, value in headers.items()))
    return blake2b(_bytes(told), key=_SALT, digest_size=6).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
