"""Which variable of the environment holds whose key, and the one place that each key is sent to."""

from __future__ import annotations

import os
from typing import Final

from attrs import field

from rungwise.adapters.wires.endpoint import as_secret, check_key
from rungwise.fsm.values.patterns import Pattern
from rungwise.fsm.values.records import frozen
from rungwise.fsm.values.secret import Secret


def _origin(host: str) -> Pattern:
    return Pattern(rf"https://(?:{host})")


@frozen
class KeyPlace:
    """Hold where a provider's key belongs.

    Arguments:
        origin: what the whole scheme and host of a URL must match, without a port of its own.
        variables: the variables that hold the key; the first that is set counts.
    """

    origin: Pattern = field(converter=_origin)
    variables: tuple[str, ...]


KEY_PLACES: Final = (
    KeyPlace(r"([a-z0-9-]+\.)*openai\.com", ("OPENAI_API_KEY",)),
    KeyPlace(r"[a-z0-9-]+\.(openai|cognitiveservices|services\.ai)\.azure\.com", ("AZURE_OPENAI_API_KEY",)),
    KeyPlace(r"([a-z0-9-]+\.)*(anthropic|claude)\.com", ("ANTHROPIC_API_KEY",)),
    KeyPlace(r"bedrock-runtime[a-z0-9.-]*\.amazonaws\.com(\.cn)?", ("AWS_BEARER_TOKEN_BEDROCK",)),
    KeyPlace(r"generativelanguage\.googleapis\.com", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    KeyPlace(r"(www\.)?ollama\.com", ("OLLAMA_API_KEY",)),
    KeyPlace(r"api\.deepseek\.com", ("DEEPSEEK_API_KEY",)),
    KeyPlace(r"([a-z0-9-]+\.)*mistral\.ai", ("MISTRAL_API_KEY",)),
    KeyPlace(r"api\.moonshot\.(ai|cn)", ("MOONSHOT_API_KEY",)),
    KeyPlace(r"dashscope[a-z-]*\.aliyuncs\.com", ("DASHSCOPE_API_KEY",)),
    KeyPlace(r"api\.groq\.com", ("GROQ_API_KEY",)),
    KeyPlace(r"api\.cerebras\.ai", ("CEREBRAS_API_KEY",)),
    KeyPlace(r"openrouter\.ai", ("OPENROUTER_API_KEY",)),
    KeyPlace(r"([a-z0-9-]+\.)*x\.ai", ("XAI_API_KEY",)),
    KeyPlace(r"api\.z\.ai", ("ZAI_API_KEY", "Z_AI_API_KEY")),
    KeyPlace(r"api\.minimax(i)?\.(io|com|chat)", ("MINIMAX_API_KEY",)),
    KeyPlace(r"api\.together\.(xyz|ai)", ("TOGETHER_API_KEY",)),
    KeyPlace(r"api\.fireworks\.ai", ("FIREWORKS_API_KEY",)),
)
"""Each provider's own client reads the variable that stands here."""


def variables_of(origin: str) -> tuple[str, ...]:
    """Return the variables that may hold the key for a place; none for a place that no provider owns, or without TLS.

    Arguments:
        origin: its scheme and host, with the port where that is not the scheme's own.
    """
    return next((place.variables for place in KEY_PLACES if place.origin.fullmatch(origin)), ())


def key_of_environment(origin: str) -> Secret | None:
    """Return the key that the environment holds for a provider, to its own host alone, and over TLS alone.

    Raises:
        ConfigurationError: the variable holds what no header can hold.
    """
    for variable in variables_of(origin):
        key: Secret | None = as_secret(os.environ.get(variable))
        check_key(None, None, key, where=variable)
        if key and str(key).strip():
            return key
    return None
