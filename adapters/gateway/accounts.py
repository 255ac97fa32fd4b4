"""What a request may cost that goes word for word to a backend: the account is of what is sent,
under whatever name a server reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rungwise.adapters.wires.plain.parts import list_of

CAPS: Final = frozenset(
    {
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxOutputTokens",
        "maxTokens",
        "max_new_tokens",
        "max_tokens_to_sample",
        "n_predict",
        "num_predict",
    }
)
"""The output caps of all protocols: a server may read another one than its own."""

ANSWERS: Final = frozenset(
    {"n", "best_of", "candidateCount", "candidate_count", "num_return_sequences"}
)
"""How many answers are written, each up to the cap."""

OTHER_MODELS: Final = ("models", "fallbacks", "fallback_models")
"""What names models beside the one that is asked."""


def cap_in(body: Mapping[str, Any]) -> int | None:
    """Return the most output tokens that a body asks for, in all of its answers; None if it does
    not say, or not in a form that every server reads alike.
    """
    most = []
    for names in (CAPS, ANSWERS):
        values = [value for name, value in _settings(body) if name in names and value is not None]
        if not all(type(value) is int and value > 0 for value in values):
            return None
        most.append(max(values, default=None))
    cap, answers = most
    return None if cap is None else cap * (answers or 1)


def models_in(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the models that a body names beside its own."""
    for name in OTHER_MODELS:
        yield from _texts(body.get(name))
    for tool in list_of(body.get("tools")):
        if isinstance(tool, Mapping):
            yield from _texts(tool.get("model"))


def _settings(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the members of a body, and of the objects in it."""
    for name, value in body.items():
        yield name, value
        if isinstance(value, Mapping):
            yield from value.items()


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, Mapping) else list_of(value)
    return [text for each in values for text in _texts(each)]
