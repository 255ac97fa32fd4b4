"""The protocols that the embedded provider speaks, a file for each."""

from importlib import import_module
from importlib.util import find_spec
from typing import Final

from rungwise.adapters.gateway.languages.chat import LANGUAGE as CHAT
from rungwise.adapters.gateway.languages.decisions import LANGUAGE as DECISIONS
from rungwise.adapters.gateway.languages.language import Language
from rungwise.adapters.wires.registry import APIS, folder_of

__all__ = ["CHAT", "DECISIONS", "LANGUAGES", "language_of"]

_MODULES = [f"{__package__}.{folder_of(api)}" for api in reversed(tuple(APIS))]
LANGUAGES: Final[tuple[Language, ...]] = tuple(
    import_module(name).LANGUAGE for name in _MODULES if find_spec(name)
)
"""Chat completions come last: their `/models` would answer for any other protocol's."""


def language_of(path: str) -> Language | None:
    """Return the protocol of a POST to this path, or None."""
    path = path.partition("?")[0]
    every = (DECISIONS, *LANGUAGES)
    return next((language for language in every if language.speaks(path)), None)
