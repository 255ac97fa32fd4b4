"""Keys and headers that show their text only on request."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, Final, NoReturn, Self, TypeVar

K = TypeVar("K", bound=type)

HIDDEN: Final = "***"

_SALT: Final = os.urandom(32)


class _Shared:
    """Return itself in place of a copy."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Secret(_Shared):
    """Hold a key. Only `reveal` returns it; `str` and `repr` are `***`.

    It is not a `str`: tools that print variables (tracebacks, error trackers, `rich`) show strings
    as they are.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the key. Write it into a header on the same line; keep it in no variable."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._text.strip())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Secret, str)):
            return NotImplemented
        from secrets import compare_digest  # loads OpenSSL, and few programs compare keys

        text = other._text if isinstance(other, Secret) else other
        return compare_digest(_bytes(self._text), _bytes(text))

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled: build its backend where you use it")


class SecretMap(_Shared, Mapping[str, str]):
    """Hold headers that cannot change. `str` and `repr` show the names and `***` for each value.

    It is not a `dict`: tools that print variables look into those by themselves.
    """

    __slots__ = ("_values",)

    def __init__(self, *layers: Mapping[str, str]) -> None:
        self._values: dict[str, str] = {}
        for layer in layers:
            self._values.update(layer._values if isinstance(layer, SecretMap) else layer)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def shows(self, word: str) -> bool:
        """Tell whether a word is a part of a value, or has a whole one in it that is no mere
        flag.
        """
        pieces = [piece for value in self._values.values() for piece in value.split()]
        return any(word in piece or (len(piece) >= 8 and piece in word) for piece in pieces)

    def __repr__(self) -> str:
        return f"SecretMap({', '.join(f'{name}={HIDDEN}' for name in self._values)})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._values:
            raise TypeError(
                "headers are not pickled, they may hold keys: pass them where you use them"
            )
        return SecretMap, ()


NO_HEADERS: Final = SecretMap()


def fingerprint(headers: Mapping[str, str], salt: bytes | None = None) -> str:
    """Return a number that identifies these headers and does not reveal them.

    Arguments:
        headers: the headers; the case of their names does not count.
        salt: with one, the number is the same in every process; None keeps it to this process.
    """
    from hashlib import blake2b  # loads OpenSSL as well

    key = _SALT if salt is None else salt
    pairs = SecretMap({name.lower(): value for name, value in headers.items()})
    digest = blake2b(_bytes(repr(sorted(pairs.items()))), key=key, digest_size=6)
    return digest.hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def hides_arguments(kind: K) -> K:
    """Keep the arguments of a class out of the traceback when its construction fails: a key may be
    among them.
    """
    construct: Callable[..., None] = kind.__init__  # type: ignore[misc]

    @wraps(construct)
    def constructed(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            construct(self, *args, **kwargs)
            return
        except Exception as raised:
            error = raised.with_traceback(None)
        # the frame of this function stays in the traceback, and printers show its variables
        self = None
        args = ()
        kwargs = {}
        error.__context__ = None
        raise error from None

    kind.__init__ = constructed  # type: ignore[misc]
    return kind


def drop_frames(error: BaseException, outer: BaseException | None) -> None:
    """Take the tracebacks off an exception of the HTTP layer and its causes, whose frames hold
    header bytes.

    What the caller was already handling, `outer`, keeps its own.
    """
    seen = {id(outer)}
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += [other for other in (each.__cause__, each.__context__) if other is not None]
            if isinstance(each, BaseExceptionGroup):
                waiting += each.exceptions
