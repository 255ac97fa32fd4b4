"""Every protocol by its name on the command line, and the module and class of its backends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from rungwise.adapters.wires.wire import Wire
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
"""The module and the class of each protocol's backends; the module's package declares the protocol as `WIRE`."""


def folder_of(api: str) -> str:
    """Return the name of a protocol's folder."""
    return APIS[api].split(".")[-2]


class _Wires(Mapping[str, Wire]):
    """Import a declaration when somebody asks for it."""

    def __getitem__(self, api: str) -> Wire:
        return _wire_of(api)

    def __iter__(self) -> Iterator[str]:
        return iter(APIS)

    def __len__(self) -> int:
        return len(APIS)


@cache
def _wire_of(api: str) -> Wire:
    wire: Wire = import_module(APIS[api].partition(":")[0].rpartition(".")[0]).WIRE
    return wire


WIRES: Final[Mapping[str, Wire]] = _Wires()
"""The declaration of each protocol, in the order of `APIS`."""


def backend_class(api: str) -> type[HttpBackend]:
    """Return the class of a protocol's backends.

    Arguments:
        api: one of `APIS`.

    Raises:
        ConfigurationError: a package that it needs is not installed.
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
