"""Take texts and JSON documents apart."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

Cut = TypeVar("Cut", str, bytes)


def cut(text: Cut, places: Sequence[int]) -> list[Cut]:
    """Cut a text at some places; numbers beyond its end wrap around."""
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the paths to all parts of a document."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))
