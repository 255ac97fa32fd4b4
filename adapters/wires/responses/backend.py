"""The backend for OpenAI's Responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.wires.chat.dialects import Dialect, dialect_of
from rungwise.adapters.wires.chat.discovery import DiscoverableBackend
from rungwise.adapters.wires.responses.request import LOST, RESERVED, ReasoningSupport, ResponsesBody
from rungwise.adapters.wires.responses.shapes import RESPONSES
from rungwise.adapters.wires.responses.stream import ResponsesDecoder
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.values.secret import hides_arguments

REASONS: Final = re.compile(
    r"\bo[1-9]|\bgpt-(?:[5-9]|\d\d)(?!.*chat)|\bcodex|grok-[4-9](?!.*non-reasoning)|deep-research"
)
"""The models that reason and give it encrypted. Others reject to be asked for it ("Encrypted content is not supported
with this model", 400)."""


@hides_arguments
@frozen
class OpenAIResponses(DiscoverableBackend):
    """Speak OpenAI's Responses with one model of one server.

    The provider stores nothing: each request carries the conversation, with the encrypted reasoning of this
    model's own turns. Set the parameter `previous_response_id` to continue a stored response instead; then
    pass only the new messages, and the response is stored too, unless `store` says otherwise. The other backends
    of the chain know only the messages that you pass.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`. The URL ends
    before `/responses`; a query such as `?api-version=...` is kept.

    Arguments:
        server: what `Client.discover` learned about the server.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://api.openai.com/v1"
    PATH = "/responses"
    API = "responses"
    WRITER = ResponsesBody
    DECODER = ResponsesDecoder
    FORM = RESPONSES
    RESERVED = RESERVED

    _dialect: Dialect = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._set(_dialect=dialect_of(self.base_url, self.model))

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol does not support, each with the reason."""
        return {name: why for name, why in LOST.items() if parameters.get(name) is not None}

    @property
    def _support(self) -> ReasoningSupport:
        own = None if self._own_capabilities is None else self._own_capabilities.reasoning
        effort = self.capabilities.reasoning
        # A model that reasons may have an effort that cannot be set, as Grok 4 has.
        reasons = (effort is True or REASONS.search(self.model.lower()) is not None) if own is None else own
        return ReasoningSupport(reasons, reasons and effort is not False, self._dialect.lower_efforts)

    def _writing(self, send: Send) -> Mapping[str, Any]:
        return {"support": self._support}
