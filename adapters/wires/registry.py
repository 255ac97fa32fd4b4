"""Every protocol by its name, as the command line is given it; its module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from rungwise.fsm.errors import ConfigurationError

if TYPE_CHECKING:
    from rungwise.adapters.wires.http_backend import HttpBackend

APIS: Final[Mapping[str, str]] = {
    "openai": "rungwise.adapters.wires.chat.backend:OpenAIChat",
    "responses": "rungwise.adapters.wires.responses.backend:OpenAIResponses",
    "anthropic": "rungwise.adapters.wires.anthropic.backend:Anthropic",
    "gemini": "rungwise.adapters.wires.gemini.backend:Gemini",
    "ollama": "rungwise.adapters.wires.ollama.backend:Ollama",
    "bedrock": "rungwise.adapters.wires.bedrock.backend:Bedrock",
}
"""Where the backend of each protocol is: its module and its class."""


def backend_class(api: str) -> type[HttpBackend]:
    """Return the class of the backends that speak a protocol.

    Arguments:
        api: one of `APIS`.

    Raises:
        ConfigurationError: it needs a package that is not installed.
    """
    module, _, name = APIS[api].partition(":")
    try:
        kind: type[HttpBackend] = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "rungwise":
            raise
        raise ConfigurationError(
            f"{api} needs the package {error.name.split('.')[0]}: pip install 'rungwise[{api}]'"
        ) from None
    return kind
