"""Rungwise's outside: wire formats, the fallback chain, and the client that runs calls over httpx.

The names are imported when they are first used: the command line and the pytest plugin live in this package as well,
and most of what they do needs no HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.backend import Backend, Decoder, HttpRequest
    from adapters.cancellation import Cancellation
    from adapters.client import Client
    from adapters.openai_chat import OpenAIChat
    from adapters.provider import EmbeddedProvider, ReceivedRequest
    from adapters.script import Script, ScriptedReply
    from adapters.streams import AsyncStream, Stream

__all__ = [
    "AsyncStream",
    "Backend",
    "Cancellation",
    "Client",
    "Decoder",
    "EmbeddedProvider",
    "HttpRequest",
    "OpenAIChat",
    "ReceivedRequest",
    "Script",
    "ScriptedReply",
    "Stream",
]

_MODULES = {
    "backend": ("Backend", "Decoder", "HttpRequest"),
    "cancellation": ("Cancellation",),
    "client": ("Client",),
    "openai_chat": ("OpenAIChat",),
    "provider": ("EmbeddedProvider", "ReceivedRequest"),
    "script": ("Script", "ScriptedReply"),
    "streams": ("AsyncStream", "Stream"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'adapters' has no attribute {name!r}")
    value = getattr(import_module(f"adapters.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
