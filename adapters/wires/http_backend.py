"""A backend over HTTP: what goes to the model of an `HttpLink`, and how its replies are read."""

# Annotations are not strings here, as in `http_link.py`.
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from attrs import frozen

from rungwise.adapters.wires import endpoint
from rungwise.adapters.wires.backend import PIECE, HttpRequest
from rungwise.adapters.wires.draft import NO_END, classified, described
from rungwise.adapters.wires.form import Body, Form
from rungwise.adapters.wires.http_link import HttpLink
from rungwise.adapters.wires.json_text import dump, is_event_stream, unframed
from rungwise.adapters.wires.learned import LEARNED
from rungwise.adapters.wires.losses import in_words, losses
from rungwise.adapters.wires.plain.parameters import known_parameters, translated
from rungwise.adapters.wires.reading.decoding import StreamDecoder
from rungwise.adapters.wires.registry import APIS
from rungwise.fsm.call.chain.lessons import NO_LESSONS, Lessons
from rungwise.fsm.call.chain.link import AsksBy, Link
from rungwise.fsm.call.conversation.parameters import COMMON_PARAMETERS
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, Request, Send
from rungwise.fsm.replies.failures.failure import FORMAT_PARAMETER, Failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.schemas.narrowed import narrowed
from rungwise.fsm.values.checks import Called, by_name

ARGUMENTS: Final = by_name(
    {
        "it is called api_key here": "key token",
        "it is called base_url here": "api_base azure_endpoint endpoint url",
        "it is called headers here": "default_headers extra_headers",
        "it is called parameters here": "extra_body model_kwargs model_settings",
        "it goes into base_url, as in https://host/openai/v1?api-version=...": "api_version",
        "it is a header, as in headers={'openai-organization': ...}": "organization project",
        "give it to each call, or the backend parameters={...}": "max_completion_tokens "
        "max_output_tokens max_tokens reasoning_effort response_format seed stop system "
        "temperature top_p",
        "say it in a policy, as in Policy(timeouts=Timeouts(total=30))": "request_timeout timeout",
        "say it in a policy, as in Policy(limits=Limits(retries=2))": "max_retries num_retries "
        "retries",
        "only OpenAIResponses and GeminiInteractions can be asked in the background": "background",
        "give it to the Client": "async_http http http_client observer policy",
    }
)
"""Where the arguments belong that the models of other libraries have."""

_FORCES_TOOL: Final = Request(
    "any", tool_choice={"type": "function", "function": {"name": "answer"}}
)
_ASKS_JSON: Final = Request(
    "any", response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}
)
"""Two requests that each ask for one thing, to see whether `_unsupported` would leave it out.

What else they say does not matter, and they are never sent."""


@frozen
class HttpBackend(HttpLink, Called):
    """Speak to one model of one server over HTTP; each protocol is a subclass.

    Arguments:
        model: the model id that is sent.
        api_key: the key. None sends none, except to a known provider's own host: then the key is
            taken from the environment variable that this provider's own client reads, unless
            `headers` hold one or `api_key_required` is False. It is hidden everywhere. A function,
            async for async calls, is called for each request and once more after a 401; if it
            raises, the attempt fails. Keep a token while it is valid. Of a list of keys or
            functions, the first is used, and the next if that one is rejected, spent or limited.
        base_url: the URL up to the path of the protocol; a query is kept.
        name: the backend's name in journals and errors; None is "<host>/<model>".
        headers: HTTP headers for each request to this backend; those of a `rungwise.core.Request`
            win.
        parameters: fields for each body, in this protocol's form; those of a
            `rungwise.core.Request` win.
        capabilities: what you know of this model and server; it overrides the capability table.
        prices: what a million tokens cost.
        quota: how many requests and tokens a minute, and how many requests at once, it may receive
            with one key.
        streams: whether the server can stream. Use False if it cannot, or if it streams only
            finished replies.
        first_token: seconds to wait for the first content of a stream, whatever the policy says;
            None asks the policy.
        stall: seconds to wait between two pieces of content; None asks the policy.
        api_key_required: whether a missing key makes the backend unusable; None requires one except
            for local hosts.
        learns: whether later calls in this process remember what the server rejected.

    Raises:
        ConfigurationError: a field is malformed.
    """

    _INSTEAD = by_name(
        {
            "make a rungwise.Client of the backend, which has it": "acall astream aturn call check "
            "stream stream_turn turn"
        }
    )

    DECODER: ClassVar[type[StreamDecoder]]
    """What reads its replies."""
    FORM: ClassVar[Form]
    """The form of its conversations."""

    # what a protocol declares

    @abstractmethod
    def _body(self, send: Send, *, stream: bool) -> Body:
        """Return the JSON body of one attempt."""

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol lacks, each with the reason."""
        return {}

    def _bars_prefill(self, parameters: Mapping[str, Any]) -> bool:
        """Tell whether parameters keep the model from continuing an assistant turn."""
        return False

    def _owner(self, send: Send) -> str:
        """Name the provider whose own parts of earlier replies may go out; "" if none may."""
        return "" if send.unsigned else self.provider

    def _read(self, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
        """Read the whole body of a response with a status of success."""
        return self.decoder(headers).whole(body)

    def decoder(self, headers: Mapping[str, str]) -> StreamDecoder:
        """Start to read a streamed response of status 200."""
        return self.DECODER(headers, self.provider)

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        """Return the common parameters of a request that are left out, each with the reason."""
        parameters = self._parameters_of(request)
        common: dict[str, Any] = {}
        for name in COMMON_PARAMETERS & parameters.keys():
            if parameters[name] is not None:
                common[name] = parameters[name]
        return self.lost_parameters(common)

    def _parameters_of(self, request: Request | Send) -> dict[str, Any]:
        """Return the parameters of the backend and of a request; the latter win."""
        return {**self.parameters, **request.parameters}

    def keeps_for(self, send: Send) -> bool:
        """Tell whether the provider is asked to keep the reply to a request."""
        return self.background and self._parameters_of(send).get("store") is not False

    # what the core and the drivers ask

    @property
    def known_parameters(self) -> frozenset[str]:
        """Return the names of the parameters that this server is known to take."""
        return known_parameters(self.API)

    def taken(
        self, parameters: Mapping[str, Any], first: Link
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Return the parameters of a request in this protocol's words, and why others are lost.

        Arguments:
            parameters: those of the request.
            first: the first backend of the chain, in whose words most of them are.
        """
        if parameters.keys() <= COMMON_PARAMETERS:
            return parameters, {}
        if self.API not in APIS:
            return super().taken(parameters, first)
        api = getattr(first, "API", "")
        return translated(
            parameters,
            api=self.API,
            first=api,
            known=self.known_parameters,
            of_first=getattr(first, "known_parameters", ()),
            own=self.parameters,
        )

    def lost(self, request: Request, *, is_portable: bool = False) -> tuple[str, ...]:
        """Return what this protocol leaves out of a request, in a short sentence each.

        Arguments:
            request: what the caller asks.
            is_portable: whether its messages may hold other providers' own parts.
        """
        unsupported = self._unsupported(request)
        form = self.shapes
        json_format = in_words(self._parameters_of(request), unsupported, form, frozenset())
        return losses(
            request, unsupported, form, json_format, provider=self.provider, is_portable=is_portable
        )

    def refused(self, request: Request) -> tuple[str, ...]:
        """Return what of a request the server is known to refuse, in a short sentence each."""
        return ()

    def lost_behind(self, request: Request) -> tuple[str, ...]:
        """Return the same for a request that was written for the first backend of the chain."""
        return self.lost(request, is_portable=True)

    def in_words(
        self, request: Request, dropped: frozenset[str] = frozenset()
    ) -> Mapping[str, Any] | None:
        """Return the `response_format` that the prompt must ask for, if any."""
        return in_words(
            self._parameters_of(request), self._unsupported(request), self.shapes, dropped
        )

    def asks_by(
        self,
        schema: Mapping[str, Any],
        parameters: Mapping[str, Any],
        tools: Sequence[Any],
    ) -> tuple[AsksBy, Mapping[str, Any], bool]:
        """Return how to ask for an answer that fits a schema.

        The server holds the model to the schema if it can; else the model is made to call a tool
        with these arguments; else the prompt asks for it.

        Arguments:
            schema: the JSON Schema of the answer.
            parameters: those of the request.
            tools: those of the request.

        Returns:
            The way, the schema to send, and whether it can be strict.
        """
        form = self.FORM
        narrow = narrowed(schema, form.refused_keywords)
        is_expressible = not form.needs_closed or (narrow.is_closed and not narrow.is_recursive)
        goes_with_tools = form.has_schema_beside_tools or not tools
        is_held = self.capabilities.json_schema is True and is_expressible and goes_with_tools
        if is_held and FORMAT_PARAMETER not in self._unsupported(_ASKS_JSON):
            return "schema", narrow.schema, narrow.is_strict
        every = {**self.parameters, **parameters}
        may_force = self.capabilities.tools is True and not tools and "tools" not in every
        # A model that thinks can be made neither to prefill nor to call.
        may_force = may_force and not self._bars_prefill(every)
        if may_force and not self._unsupported(_FORCES_TOOL):
            return "tool", narrow.schema, False
        return "words", schema, False

    @property
    def prefills(self) -> bool:
        """Tell whether the model is known to continue a trailing assistant turn."""
        return self.prefills_with({})

    def prefills_with(self, parameters: Mapping[str, Any]) -> bool:
        """Tell the same for a request with these parameters."""
        if self.capabilities.prefill is not True:
            return False
        return not self._bars_prefill({**self.parameters, **parameters})

    @property
    def echoes(self) -> bool:
        """Tell whether the server repeats a continued assistant turn at the start of its answer."""
        return False

    @property
    def hides_cuts(self) -> bool:
        """Tell whether the server calls a reply whole that its output cap has cut."""
        return self.capabilities.hides_cuts is True

    @property
    def lessons(self) -> Lessons:
        """Return what this process learned from the server; a call asks once, when it begins."""
        return LEARNED.of(self.places | self.account | self.door) if self.learns else NO_LESSONS

    @property
    def thinks_for(self) -> float | None:
        """Return how long the model thinks in silence, if it does.

        In seconds from the head of a response to its first content.
        """
        return self.capabilities.first_token

    @property
    def max_tokens(self) -> int | None:
        """Return the output cap among the backend's own parameters, in tokens."""
        for name in CAP_PARAMETERS:
            if name in self.parameters:
                cap = self.parameters[name]
                return cap if isinstance(cap, int) else None
        return None

    @property
    def expects_json(self) -> bool:
        """Tell whether the backend's own parameters ask for JSON."""
        return bool(self.FORM.asks_for_json(self.parameters))

    @property
    def shapes(self) -> Form:
        """Return the form of its conversations."""
        return self.FORM

    def differs(self, send: Send, other: Send) -> bool:
        """Tell whether the bodies of two attempts differ, or one of them is not streamed."""
        if "stream" in other.dropped - send.dropped:
            return True
        return self._body(send, stream=True) != self._body(other, stream=True)

    def encode(self, send: Send, *, stream: bool) -> HttpRequest:
        """Write the HTTP request of one attempt.

        Raises:
            ConfigurationError: a parameter or a header of the request is malformed, or has no JSON
                form.
        """
        if self.pool:
            # mypy does not bind `Self` in a field that is inherited
            keyed = cast(HttpBackend, self.pool[send.key])
            return keyed.encode(send, stream=stream)
        if callable(self.api_key):
            with endpoint.asking_for_key():
                key = self.api_key()
            return self.with_key(key).encode(send, stream=stream)
        headers = self._sent_headers
        if send.headers:
            endpoint.check_headers(send.headers, "Request.headers")
            headers = endpoint.merged(headers, send.headers)
        self.refuse_reserved(send.parameters, "Request.parameters")
        url = self._url(stream=stream)
        body = self._body(send, stream=stream)
        return HttpRequest(url, headers, dump(body))

    def decode(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply | Failure:
        """Read a whole response, of any status."""
        if not 200 <= status < 300:
            return classified(status, headers, unframed(body))
        if is_event_stream(body):  # some proxies stream even if nobody asked for it
            return self._read_stream(headers, body)
        return described(self._read(headers, body), headers, body)

    def _read_stream(self, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
        decoder = self.decoder(headers)
        for start in range(0, len(body), PIECE):
            decoder.feed(body[start : start + PIECE])
        return decoder.close(NO_END)
