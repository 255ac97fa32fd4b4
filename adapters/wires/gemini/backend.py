"""The backend for generateContent: Google's Gemini API, Vertex AI, and servers that speak their protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from attrs import evolve, frozen

from rungwise.adapters.wires.endpoint import Endpoint, read_url
from rungwise.adapters.wires.form import Form
from rungwise.adapters.wires.gemini.parameters import RESERVED, lost_effort, lost_parameters, refuse_own, traits_of
from rungwise.adapters.wires.gemini.request import GeminiBody
from rungwise.adapters.wires.gemini.shapes import GEMINI, form_for
from rungwise.adapters.wires.gemini.stream import GeminiDecoder
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.fsm.call.conversation.request import Request
from rungwise.fsm.values.secret import Secret, hides_arguments

_METHOD: Final = re.compile(r"/models/[^/?#]*:(?:streamGenerateContent|generateContent)/?(?=[?#]|$)")


@hides_arguments
@frozen
class Gemini(HttpBackend):
    """Speak generateContent with one model of Google's.

    On Vertex AI, `base_url` is "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/publishers/google",
    and the access token goes into `headers={"authorization": "Bearer ..."}`; `api_key` is left out, as it is sent as
    `x-goog-api-key`, which accepts no token.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`. A model may be
    named with its collection, such as "tunedModels/mine". Parameters of the `generationConfig` may stand in it or by
    themselves.

    Arguments:
        base_url: the URL up to `/models/...`; it may also end in `/models/NAME:generateContent`.
        api_key: the key of the Gemini API.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://generativelanguage.googleapis.com/v1beta"
    PATH = ""
    API = "gemini"
    WRITER = GeminiBody
    DECODER = GeminiDecoder
    FORM = GEMINI
    RESERVED = RESERVED
    REFUSES = (refuse_own,)

    def _read_endpoint(self) -> Endpoint:
        endpoint = read_url(_METHOD.sub("", self.base_url), self.PATH)
        # `alt` is added when a stream is requested.
        rest = [(name, value) for name, value in parse_qsl(endpoint.query[1:]) if name != "alt"]
        return evolve(endpoint, query=f"?{urlencode(rest)}" if rest else "")

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol does not support, each with the reason."""
        return lost_parameters(parameters)

    @property
    def shapes(self) -> Form:
        """Return the form for this model."""
        return form_for(self.model)

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        effort = self._parameters_of(request).get("reasoning_effort")
        return {**super()._unsupported(request), **lost_effort(effort, traits_of(self.model))}

    def _credentials(self, key: Secret) -> dict[str, str]:
        return {"x-goog-api-key": key.reveal()}

    def _url(self, *, stream: bool) -> str:
        model = self.model if "/" in self.model else f"models/{self.model}"
        method, query = ("streamGenerateContent", "alt=sse") if stream else ("generateContent", "")
        query = "&".join(filter(None, (query, self._endpoint.query[1:])))
        return f"{self._endpoint.root}/{quote(model, safe='/@-_.')}:{method}{'?' if query else ''}{query}"
