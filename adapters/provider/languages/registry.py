"""All the protocols of the embedded provider; which one is meant shows in the path."""

from __future__ import annotations

from typing import Final

from rungwise.adapters.provider.languages.anthropic import Messages
from rungwise.adapters.provider.languages.chat import ChatCompletions
from rungwise.adapters.provider.languages.converse import Converse
from rungwise.adapters.provider.languages.gemini import Gemini
from rungwise.adapters.provider.languages.language import Language
from rungwise.adapters.provider.languages.ollama import OllamaChat
from rungwise.adapters.provider.languages.responses import Responses

CHAT: Final = ChatCompletions()
LANGUAGES: Final[tuple[Language, ...]] = (Gemini(), Messages(), OllamaChat(), Responses(), Converse(), CHAT)


def language_of(path: str) -> Language | None:
    """Return the protocol of a POST to this path, or None where there is none."""
    path = path.partition("?")[0]
    return next((language for language in LANGUAGES if language.speaks(path)), None)
