"""What a request may cost that goes word for word to a backend: the account is of what is sent,
under whatever name a server reads it.

A server may read other names than its protocol has, in another case, or deeper in the body. So
whatever looks like a cap may raise the account. Only the cap at the protocol's own place makes one,
for a server need not read any other.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final

# Names as `_folded` returns them.
_CAPS: Final = frozenset(
    {
        "budgettokens",
        "maxcompletiontokens",
        "maxlength",
        "maxnewtokens",
        "maxoutputtokens",
        "maxtokens",
        "maxtokenstosample",
        "npredict",
        "numpredict",
    }
)
_ANSWERS: Final = frozenset({"n", "bestof", "candidatecount", "ncmpl", "numreturnsequences"})
_MODELS: Final = frozenset(
    {
        "contextwindowfallbacks",
        "fallbackmodels",
        "fallbacks",
        "model",
        "models",
        "preset",
    }
)
_OPAQUE: Final = frozenset(
    {
        "contents",
        "input",
        "inputschema",
        "instructions",
        "labels",
        "messages",
        "metadata",
        "parameters",
        "schema",
        "system",
    }
)
"""What holds no settings: the conversation, schemas, and notes of the program."""


def cap_in(body: Mapping[str, Any], own: object) -> int | None:
    """Return the most output tokens that a body asks for, in all of its answers; None if it does
    not say, or not in a form that every server reads alike.

    Arguments:
        body: of the request.
        own: the cap at the place of its protocol.
    """
    most = [own]
    answers: list[Any] = [1]
    for name, value in _settings(body):
        if name in _CAPS and value is not None:
            most.append(value)
        elif name in _ANSWERS and value is not None:
            answers.append(value)
    if not all(type(each) is int and each > 0 for each in (*most, *answers)):
        return None
    cap: int = max(most) * max(answers)  # type: ignore[type-var]
    return cap


def models_in(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the models that a body names beside its own."""
    for name, value in _settings({**body, "model": None}):
        if name in _MODELS:
            yield from _texts(value)


def _settings(body: Any) -> Iterator[tuple[str, Any]]:
    """Yield the members of a body and of all that is in it, by their folded names."""
    todo = [body]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo += each
        elif isinstance(each, Mapping):
            for name, value in each.items():
                folded = _folded(name)
                if folded not in _OPAQUE:
                    yield folded, value
                    todo.append(value)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().replace("_", "")


def _texts(value: Any) -> Iterator[str]:
    """Yield a text, or those in a list; objects in it are looked at by themselves."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            yield each
