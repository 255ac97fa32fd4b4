"""Documents that are almost valid, so that they pass a reader's first checks."""

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from support.texts import places

NUMBERS = (
    0,
    -1,
    1,
    2,
    True,
    0.5,
    5e-324,
    1e-9,
    1e10,
    1e12,
    1e308,
    -0.0,
    10**6,
    2**31,
    2**53,
    2**63 - 1,
    2**64 - 1,
)
WORDS = (
    "",
    " ",
    "\n",
    "call",
    "answered",
    "await",
    "fallback",
    "done",
    "9" * 400,
    "\ud800",
    "a" * 500,
    "{reasoning}",
)
ODD = st.sampled_from(
    (*NUMBERS, *WORDS, None, False, [], {}, [[]], [None], {"": None}, {"a": {"b": []}})
)


def deep(levels: int) -> Any:
    """Nest lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def at(document: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at the end of a path."""
    for key in path:
        document = document[key]
    return document


def text_of(value: Any) -> str:
    """Write a value as text, also an integer with more digits than Python writes."""
    try:
        return str(value)
    except ValueError:
        return "9" * 5000


RETYPED: tuple[Callable[[Any], Any], ...] = (
    text_of,
    lambda value: [value],
    lambda value: {"value": value},
    lambda value: list(value) if isinstance(value, (str, dict)) else None,
    lambda value: float(value) if isinstance(value, int) and abs(value) < 1 << 1000 else 7,
    lambda value: -value if isinstance(value, (int, float)) else not value,
    lambda value: value + value if isinstance(value, (str, list)) else {},
)


@st.composite
def spoilt(draw: st.DrawFn, document: Any, odd: st.SearchStrategy[Any] = ODD) -> Any:
    """Generate documents that differ from a valid one in a few places."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        ways = list(places(document))
        if not ways:
            return document
        path = draw(st.sampled_from(ways))
        inner = at(document, path[:-1])
        key = path[-1]
        change = draw(
            st.sampled_from(("replace", "replace", "retype", "remove", "repeat", "move", "add"))
        )
        if change == "replace":
            inner[key] = copy.deepcopy(draw(odd))
        elif change == "retype":
            inner[key] = draw(st.sampled_from(RETYPED))(inner[key])
        elif change == "remove":
            del inner[key]
        elif change == "repeat" and isinstance(inner, list):
            inner.insert(key, copy.deepcopy(inner[key]))
        elif change == "move":
            inner[key] = copy.deepcopy(at(document, draw(st.sampled_from(ways))))
        elif isinstance(inner, dict):
            inner[draw(st.sampled_from(("", "colour", "name", "retries", "usage")))] = (
                copy.deepcopy(draw(odd))
            )
    return document


def is_clear(error: Exception, begins: str) -> None:
    """Check that an error is one short line and names its subject."""
    assert str(error).startswith(begins)
    assert len(str(error)) < 1_000
    assert len(str(error).splitlines()) == 1
