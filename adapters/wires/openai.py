"""Speak to a model in whichever of OpenAI's two protocols it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from rungwise.adapters.wires.chat.backend import OpenAIChat
from rungwise.adapters.wires.chat.dialects import dialect_of
from rungwise.adapters.wires.responses.backend import OpenAIResponses

_OWN: Final = re.compile(r"(.+\.)?openai\.com")
"""OpenAI's own hosts, which serve every model that reasons in both protocols."""


def OpenAI(  # noqa: N802 # it stands for the classes whose backends it returns
    model: str, *, base_url: str = OpenAIChat.DEFAULT_URL, **options: Any
) -> OpenAIChat | OpenAIResponses:
    """Return a backend for a model of OpenAI's, or of a server that speaks its protocols.

    It speaks Responses to models that take tools only there, and at OpenAI's own hosts to all that
    reason; else chat completions. At any other host, a client asks in the other protocol if the
    server does not take the first (404, 405, or an error that says so), and remembers that for the
    process. The backend that speaks Responses, and each that stands in, says so in its name.

    Arguments:
        model: the model id that is sent.
        base_url: the URL up to the path of the protocol; a query is kept.
        options: those that `rungwise.OpenAIChat` and `rungwise.OpenAIResponses` share; `parameters`
            should be such as both protocols know.

    Raises:
        ConfigurationError: an option is malformed.
    """
    try:
        return _chosen(model, base_url, options)
    except Exception as raised:
        error = raised.with_traceback(None)
    options = {}  # printers of tracebacks show it, and it may hold a key
    error.__context__ = None
    raise error from None


def _chosen(model: str, base_url: str, options: Mapping[str, Any]) -> OpenAIChat | OpenAIResponses:
    """Return the backend of the protocol that fits the model; see `OpenAI`."""
    chat = OpenAIChat(model, base_url=base_url, **options)
    is_own = _OWN.fullmatch(urlsplit(chat.origin).hostname or "") is not None
    options = {**options, "has_stand_in": not is_own}
    needs_responses = dialect_of(base_url, model).effort_with_tools is not None
    if needs_responses or (is_own and chat.capabilities.reasoning is True):
        responses = OpenAIResponses(model, base_url=base_url, **options)
        return responses if responses.is_named else responses.named_by_protocol()
    return OpenAIChat(model, base_url=base_url, **options)
