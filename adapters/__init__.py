"""Rungwise's outside: wire formats, the fallback chain, and the client that runs calls over httpx."""

from adapters.backend import Backend, Decoder, HttpRequest
from adapters.cancellation import Cancellation
from adapters.client import AsyncStream, Client, Stream
from adapters.openai_chat import OpenAIChat
from adapters.provider import EmbeddedProvider, ReceivedRequest
from adapters.script import Script, ScriptedReply

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
