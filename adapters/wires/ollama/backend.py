"""The backend for Ollama's native chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.adapters.wires.ollama.request import RESERVED, OllamaBody, lost_parameters, refuse_options
from rungwise.adapters.wires.ollama.shapes import OLLAMA
from rungwise.adapters.wires.ollama.stream import OllamaDecoder
from rungwise.fsm.call.conversation.reply import Reply
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.values.secret import hides_arguments


@hides_arguments
@frozen
class Ollama(HttpBackend):
    """Speak Ollama's own chat with one model of one server.

    A prompt that exceeds the model's context (`num_ctx`, 4096 tokens by default on small machines) is not an error for
    the server: it silently drops the oldest messages, or continues in a shifted context. Set the
    option `num_ctx` to what your conversations need, or the parameters `truncate` and `shift` to False, with which
    recent servers answer with an error that leads to a compaction.

    The variable OLLAMA_HOST is not read: for the server it is the address to listen on, such as 0.0.0.0.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`. The URL ends
    before `/api/chat`. Options such as `num_ctx` may stand in the parameters themselves or under `options`. Whether a
    trailing assistant turn is continued depends on the template of the model, so only `capabilities` can allow it.

    Arguments:
        api_key: the key for ollama.com or a proxy, sent as a bearer token; your own server needs none.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "http://localhost:11434"
    PATH = "/api/chat"
    API = "ollama"
    WRITER = OllamaBody
    DECODER = OllamaDecoder
    FORM = OLLAMA
    RESERVED = RESERVED
    REFUSES = (refuse_options,)

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol does not support, each with the reason."""
        return lost_parameters(parameters)

    def _read(self, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
        if b"\n" in body.strip():  # streamed even if nobody asked for it, or one object in many lines
            return self._read_stream(headers, body)
        return super()._read(headers, body)
