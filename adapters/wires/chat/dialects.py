"""The dialects of chat completions: one table of what each kind of server does differently.

For what is sent, the first row that fits a backend's URL and model and sets a field wins. What is received
may use the words of any row, whatever the URL: a proxy speaks for others, and self-hosted servers (vLLM, SGLang,
llama.cpp, LM Studio, Ollama) cannot be recognised by theirs. A new server is a new row.

Errors are read in `rungwise.fsm.failures`: what the codes of all servers mean, and the numbers that mean something in
the shape of one alone, stands in its `rules`, for an error is the same in every protocol and through every proxy. Each
row of words and codes is tried in `tests/adapters/wires/chat/words.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import evolve

from rungwise.adapters.wires.chat.dialect_rows import DIALECTS, CapField, Count, Dialect, Path, PrefillMode
from rungwise.fsm.call.conversation.reply import StopReason

__all__ = ["DIALECTS", "CapField", "Count", "Dialect", "Path", "PrefillMode"]

_USUAL: Final = Dialect()
_WRITTEN: Final = (
    *("cap_field", "prefill", "echoes", "id_length", "key_header", "less_reasoning", "lower_efforts"),
    *("longest_id", "tool_types", "part_types", "takes_other_tools"),
)


@lru_cache(maxsize=256)
def dialect_of(base_url: str, model: str) -> Dialect:
    """Return the dialect for a model at a URL."""
    try:
        parts = urlsplit(base_url)
        place = (parts.hostname or "", parts.path, model.lower())
    except ValueError:
        return _USUAL
    settings: dict[str, Any] = {}
    for row in DIALECTS:
        if row.fits(*place):
            for name in _WRITTEN:
                if getattr(row, name) != getattr(_USUAL, name):
                    settings.setdefault(name, getattr(row, name))
    return evolve(_USUAL, **settings)


def _path(names: str) -> Path:
    return tuple(names.split("."))


STOP_REASONS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {word: meaning for row in DIALECTS for meaning, words in row.finishes.items() for word in words.split()}
)
"""Every known finish reason, in lower case and without the prefix of gRPC enumerations."""

REASONING_FIELDS: Final = tuple(dict.fromkeys(name for row in DIALECTS for name in row.reasoning_fields.split()))
"""Fields that may hold reasoning. The first that has any counts: servers that fill several repeat it."""

FOREIGN_FIELDS: Final = frozenset(REASONING_FIELDS).union(*(row.own_fields.split() for row in DIALECTS))
"""Members of a message that one provider sends and others reject or cannot read."""

FOREIGN_PARTS: Final = tuple(dict.fromkeys(kind for row in DIALECTS for kind in row.own_parts.split()))

STEERING: Final = frozenset(name for row in DIALECTS for name in row.less_reasoning)
"""The parameters that control how much a model reasons."""

COUNTS: Final[Mapping[Count, tuple[Path, ...]]] = {
    count: tuple(_path(row.counts[count]) for row in DIALECTS if count in row.counts)
    for count in ("input", "output", "cache_read", "cache_creation", "cache_miss", "reasoning", "total")
}
"""Where a usage report holds each count; the first count above 0 wins."""

USAGE: Final[tuple[Path, ...]] = (("usage",), *(_path(row.usage_at) for row in DIALECTS if row.usage_at))
REFUSALS: Final[tuple[Path, ...]] = tuple(_path(row.refusal_at) for row in DIALECTS if row.refusal_at)
ERRORS: Final[tuple[tuple[Path, str | None], ...]] = tuple(
    (_path(where), what) for row in DIALECTS for where, what in row.error_at.items()
)

REFUSED: Final = frozenset(path[0] for path in REFUSALS)
"""Other members of a message or a choice than `refusal` that may hold a refusal."""


def found_at(path: Path, value: Any) -> Any:
    """Return the value at a path in JSON, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
