"""The backend for Anthropic's Messages, and for servers that speak its protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from attrs import field, frozen

from rungwise.adapters.wires.anthropic.parameters import Generation, budget_in, generation_of, lost_parameters, thinks
from rungwise.adapters.wires.anthropic.request import RESERVED, AnthropicBody, late_system
from rungwise.adapters.wires.anthropic.shapes import ANTHROPIC
from rungwise.adapters.wires.anthropic.stream import AnthropicDecoder
from rungwise.adapters.wires.endpoint import is_header_text, is_token
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.secret import Secret, hides_arguments

VERSION: Final = "2023-06-01"
BASE_CAP: Final = 4096
"""The default output cap in tokens: the API requires one, and a continuation can raise it."""


def _as_names(value: Iterable[str] | str) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Iterable) else value


def _check_names(instance: object, attribute: Any, value: Any) -> None:
    names = value if isinstance(value, tuple) else (None,)
    if not all(isinstance(each, str) and each.strip() and is_header_text(each) for each in names):
        raise ConfigurationError("beta must be a list of the names of beta features, as in the anthropic-beta header")


@hides_arguments
@frozen
class Anthropic(HttpBackend):
    """Speak Anthropic's Messages with one model.

    System messages are sent separately. The API requires an output cap: if neither the call nor `parameters` set one,
    it is 4096 tokens plus the reasoning budget in `parameters`, but never more than the model is known to write.
    A reasoning budget that would fill the cap gets half of it, and none under a cap of 1024 tokens. Reasoning is left
    out of a request that forces a tool, and of one in a tool loop that another provider began without it.

    For Claude on Google's Vertex AI, `base_url` is
    "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/publishers/anthropic", and `api_key`
    a function that returns an access token. On Azure, it is "https://RESOURCE.services.ai.azure.com/anthropic/v1", with
    a key, or a function that returns Entra's token.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`. The URL ends
    before `/messages`.

    Arguments:
        api_key: the key, sent as `x-api-key`; as a bearer token on Vertex AI, and if it is Entra's.
        beta: the beta features to ask for.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://api.anthropic.com/v1"
    PATH = "/messages"
    API = "anthropic"
    WRITER = AnthropicBody
    DECODER = AnthropicDecoder
    FORM = ANTHROPIC
    RESERVED = RESERVED

    beta: tuple[str, ...] = field(default=(), kw_only=True, converter=_as_names, validator=_check_names)

    @property
    def _generation(self) -> Generation:
        return generation_of(self.model)

    @property
    def max_tokens(self) -> int:
        """Return the output cap that is sent if the caller gives none, in tokens."""
        cap = super().max_tokens or BASE_CAP + budget_in(self.parameters)
        return min(cap, self.capabilities.largest_output or cap)

    def _bars_prefill(self, parameters: Mapping[str, Any]) -> bool:
        return thinks(parameters, self._generation) or bool(self.FORM.asks_for_json(parameters))

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        most, own_cap = self.max_tokens, super().max_tokens
        losses = lost_parameters(self._parameters_of(request), self._generation, request.max_tokens or most)
        if request.max_tokens is None and own_cap is not None and own_cap > most:
            losses[f"max_tokens above {most}"] = f"it is sent as {most}"
        return losses

    def _credentials(self, key: Secret) -> dict[str, str]:
        if self._is_on_vertex or is_token(key):
            return super()._credentials(key)
        return {"x-api-key": key.reveal()}

    @property
    def _is_on_vertex(self) -> bool:
        return urlsplit(self.base_url).path.rstrip("/").endswith("/publishers/anthropic")

    def _url(self, *, stream: bool) -> str:
        if not self._is_on_vertex:
            return super()._url(stream=stream)
        method = "streamRawPredict" if stream else "rawPredict"
        return f"{self._endpoint.root}/models/{quote(self.model, safe='@-_.')}:{method}{self._endpoint.query}"

    def _own_headers(self) -> dict[str, str]:
        beta = {"anthropic-beta": ",".join(self.beta)} if self.beta else {}
        return beta if self._is_on_vertex else {"anthropic-version": VERSION, **beta}  # there the body has it

    def _writing(self, send: Send) -> Mapping[str, Any]:
        cap = send.max_tokens or self.max_tokens
        places = {"is_on_vertex": self._is_on_vertex, "system_turns": self.capabilities.system_turns is True}
        return {"generation": self._generation, "cap": cap, **places}

    def lost(self, request: Request, *, is_portable: bool = False) -> tuple[str, ...]:
        """Return what this model does not get of a request, in a short sentence each."""
        roles = [self.FORM.role_of(message) for message in request.messages]
        late = late_system(roles) if self.capabilities.system_turns else set()
        begins = next((index for index, role in enumerate(roles) if role != "system"), len(roles))
        moves = any(role == "system" and index > begins and index not in late for index, role in enumerate(roles))
        lost = super().lost(request, is_portable=is_portable)
        return (*lost, "system messages between the turns: they go to the front") if moves else lost
