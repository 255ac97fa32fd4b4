"""The backend for decisions: typed questions go out, and answers with probabilities come back."""

# Annotations are not strings here, as in `http_link.py`.
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from attrs import field, frozen

from rungwise.adapters.wires import endpoint
from rungwise.adapters.wires.backend import Backend
from rungwise.adapters.wires.capabilities.capability import DECISIONS, is_shape
from rungwise.adapters.wires.chat.reply import usage_of
from rungwise.adapters.wires.decisions.openai import OpenAIShape
from rungwise.adapters.wires.decisions.sglang import SGLangShape
from rungwise.adapters.wires.decisions.shape import (
    NO_USAGE_REPORTED,
    BlockedError,
    NoAnswersError,
    Shape,
)
from rungwise.adapters.wires.decisions.system_one import GeminiShape, SystemOneShape
from rungwise.adapters.wires.draft import classified, malformed
from rungwise.adapters.wires.form import Body
from rungwise.adapters.wires.http_backend import ARGUMENTS, HttpBackend
from rungwise.adapters.wires.json_text import as_json, object_in
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.adapters.wires.responses.shapes import RESPONSES
from rungwise.adapters.wires.responses.stream import ResponsesDecoder
from rungwise.fsm.call.chain.for_backend import QUESTIONS
from rungwise.fsm.call.conversation.parameters import COMMON_PARAMETERS
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, Request, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.failures.bare import is_bare_error
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.checks import explains_names, must
from rungwise.fsm.values.secret import Secret, hides_arguments

_EVERY: Final[tuple[type[Shape], ...]] = (OpenAIShape, GeminiShape, SystemOneShape, SGLangShape)
SHAPES: Final[Mapping[str, Shape]] = {shape.NAME: shape() for shape in _EVERY}
"""The shapes by the names that capabilities use."""

_OTHER_PATHS: Final[Mapping[str, str]] = {"openrouter.ai": "/api/alpha/decisions"}
"""Where a host has its endpoint elsewhere than its shape says, from the root of the host on."""

_KEPT: Final = (
    "model",
    "api_key",
    "base_url",
    "name",
    "headers",
    "prices",
    "quota",
    "api_key_required",
    "learns",
)
"""The options that the endpoint for decisions shares with the backend for conversations."""


_NEVER_SENT: Final = COMMON_PARAMETERS | frozenset(CAP_PARAMETERS)
"""The parameters that no endpoint for decisions takes."""


@hides_arguments
@explains_names(ARGUMENTS)
@frozen
class Decisions(HttpBackend):
    """Ask an endpoint for decisions of one model of one server.

    A chain for `rungwise.Client.decide` may hold any backend. One whose capabilities name an
    endpoint for decisions is asked there by itself; so you need this class for models alone that
    do nothing else. It takes the arguments of every backend: see
    `rungwise.adapters.wires.http_backend.HttpBackend`.

    Arguments:
        shape: how the server takes and answers questions: "openai" (also vLLM), "gemini",
            "systemone" or "sglang". None is the one that is known of the host or the model, else
            "openai".

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL = "https://api.openai.com/v1"
    PATH = "/decisions"
    API = "decisions"
    DECODER = ResponsesDecoder
    FORM = RESPONSES
    RESERVED: ClassVar[Mapping[str, str]] = {
        "model": "give it to the backend",
        "input": "give it to client.decide",
        "state": "give it to client.decide",
    }

    shape: str | None = field(
        default=None,
        kw_only=True,
        validator=must(f"one of {', '.join(DECISIONS)}, or None", is_shape),
    )
    streams: bool = field(default=False, init=False, repr=False)

    @classmethod
    def beside(cls, backend: Backend) -> Backend:
        """Return the endpoint for decisions of a backend; the backend itself if none is known."""
        shape = backend.capabilities.decisions
        if shape is None or not isinstance(backend, HttpBackend) or isinstance(backend, cls):
            return backend
        options: dict[str, Any] = {name: getattr(backend, name) for name in _KEPT}
        return cls(**options, shape=shape)

    @property
    def measures(self) -> bool:
        """Tell that its answers come with probabilities."""
        return True

    @property
    def _shape(self) -> Shape:
        return SHAPES[self.shape or self.capabilities.decisions or "openai"]

    def _read_endpoint(self) -> endpoint.Endpoint:
        return endpoint.read_url(self.base_url, "/decisions")

    def _url(self, *, stream: bool) -> str:
        host = urlsplit(self.origin).hostname or ""
        if host in _OTHER_PATHS:
            return f"{self.origin}{_OTHER_PATHS[host]}"
        return f"{self.root}{self._shape.PATH}{self._endpoint.query}"

    def _credentials(self, key: Secret) -> dict[str, str]:
        if self.shape == "gemini" and not endpoint.is_token(key):
            return {"x-goog-api-key": key.reveal()}
        return super()._credentials(key)

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters, none of which decisions take."""
        return dict.fromkeys(parameters, "decisions take no such parameter")

    def in_words(
        self, request: Request, dropped: frozenset[str] = frozenset()
    ) -> Mapping[str, Any] | None:
        """Return None: the questions say all that is asked."""
        return None

    def _body(self, send: Send, *, stream: bool) -> Body:
        parameters = self._parameters_of(send)
        questions = parameters.pop(QUESTIONS, None)
        if questions is None:
            raise ConfigurationError(
                f"{self.name} answers decisions only: ask it with client.decide(input, questions)"
            )
        body = self._shape.body(self.model, send, questions)
        for name, value in parameters.items():
            if name not in _NEVER_SENT and name not in send.dropped:
                body[name] = value
        return body

    def _read(self, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
        value = object_in(body)
        shape = self._shape
        report = mapping_of(value.get("usage"))
        usage = usage_of(shape.usage_in(report)) or NO_USAGE_REPORTED
        model = value.get("model")
        if not isinstance(model, str):
            model = None
        try:
            answers = shape.answers_in(value)
        except NoAnswersError:
            if is_bare_error(value):
                return classified(None, headers, body)
            return malformed("the body holds no answers")
        except BlockedError as blocked:
            return Reply(
                usage=usage,
                model=model,
                stop_reason="content_filter",
                stop_raw=str(blocked.args[0]),
            )
        return Reply(as_json(answers), usage=usage, model=model, stop_reason="stop")
