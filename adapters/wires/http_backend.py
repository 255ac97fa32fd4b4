"""What all backends over HTTP share: a URL, a key, parameters, and what is known of the model
there.
"""

# Annotations are not strings here: subclasses in other modules have these fields, and tools that
# read their signatures could not resolve the types there.
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from attrs import Factory, evolve, field, frozen

from rungwise.adapters.wires import endpoint
from rungwise.adapters.wires.backend import PIECE, Backend, HttpRequest
from rungwise.adapters.wires.capabilities.capability import Capabilities
from rungwise.adapters.wires.capabilities.table import capabilities_of
from rungwise.adapters.wires.draft import NO_END, classified, described
from rungwise.adapters.wires.endpoint import (
    as_headers,
    as_parameters,
    check_header_field,
    check_parameters,
)
from rungwise.adapters.wires.form import Body, Form
from rungwise.adapters.wires.json_text import dump
from rungwise.adapters.wires.learned import LEARNED
from rungwise.adapters.wires.losses import in_words, losses
from rungwise.adapters.wires.reading.decoding import StreamDecoder
from rungwise.adapters.wires.reading.sse import is_event_stream, unframed
from rungwise.fsm.call.chain.lessons import NO_LESSONS, Lessons
from rungwise.fsm.call.chain.link import AsksBy
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.parameters import COMMON_PARAMETERS
from rungwise.fsm.call.conversation.request import CAP_PARAMETERS, Request, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.quota import Quota
from rungwise.fsm.replies.failures.failure import FORMAT_PARAMETER, Failure
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.replies.schemas.narrowed import narrowed
from rungwise.fsm.values.checks import is_flag, must
from rungwise.fsm.values.secret import Secret, SecretMap, fingerprint

KeyFunction = Callable[[], str | Awaitable[str]]
"""Return the key for the next request."""

_FORCES_TOOL = Request("?", tool_choice={"type": "function", "function": {"name": "answer"}})
_ASKS_JSON = Request(
    "?", response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}
)


@frozen
class HttpBackend(Backend, ABC):
    """Speak to one model of one server over HTTP; each protocol is a subclass.

    Arguments:
        model: the model id that is sent.
        api_key: the key. None sends none, except to a known provider's own host: then the key is
            taken from the environment variable that this provider's own client reads, unless
            `headers` hold one or `api_key_required` is False. It is hidden everywhere. A function,
            async for async calls, is called for each request and once more after a 401; if it
            raises, the attempt fails. Keep a token while it is valid. Of a list of keys or
            functions, the first is used, and the next where that one is rejected, spent or limited.
        base_url: the URL up to the path of the protocol; a query is kept.
        name: the backend's name in journals and errors; None is "<host>/<model>".
        headers: HTTP headers for each request to this backend; those of a `rungwise.core.Request`
        win. parameters: fields for each body, in this protocol's form; those of a
        `rungwise.core.Request` win. capabilities: what you know of this model and server; it
        overrides the capability table.
        prices: what a million tokens cost.
        quota: how many requests and tokens a minute, and how many requests at once, it may receive
        with one key. streams: whether the server can stream. Use False if it cannot, or if it
        streams only finished replies. first_token: seconds to wait for the first content of a
        stream, whatever the policy says; None asks the policy. stall: seconds to wait between two
        pieces of content; None asks the policy.
        api_key_required: whether a missing key makes the backend unusable; None requires one except
        for local hosts. learns: whether later calls in this process remember what the server
        rejected.

    Raises:
        ConfigurationError: a field is malformed.
    """

    DEFAULT_URL: ClassVar[str]
    """The provider's own."""
    PATH: ClassVar[str]
    """The path after the base URL; a base URL may also include it."""
    API: ClassVar[str]
    """The protocol's name on the command line and in the registry."""
    DECODER: ClassVar[type[StreamDecoder]]
    """What reads its replies."""
    FORM: ClassVar[Form]
    """The form of its conversations."""
    RESERVED: ClassVar[Mapping[str, str]]
    """Parameters that callers cannot set, and what to do instead."""
    REFUSES: ClassVar[tuple[Callable[[Mapping[str, Any], str], None], ...]] = ()
    """What refuses others, such as those for several answers, with a ConfigurationError that says
    where they are.
    """

    model: str = field(validator=endpoint.check_text)
    api_key: str | Secret | KeyFunction | Sequence[str | Secret | KeyFunction] | None = field(
        default=None,
        kw_only=True,
        repr=False,
        converter=endpoint.as_secret,
        validator=endpoint.check_key,
    )
    base_url: str = field(
        default=Factory(lambda backend: backend.DEFAULT_URL, takes_self=True),
        kw_only=True,
        repr=endpoint.shown_url,
        validator=endpoint.check_text,
    )
    _name: str | None = field(
        default=None, alias="name", kw_only=True, repr=False, validator=endpoint.optional(str)
    )
    headers: Mapping[str, str] = field(
        default=None,
        kw_only=True,
        repr=False,
        hash=False,
        converter=as_headers,
        validator=check_header_field,
    )
    parameters: Mapping[str, Any] = field(
        default=None,
        kw_only=True,
        repr=False,
        hash=False,
        converter=as_parameters,
        validator=check_parameters,
    )
    _own_capabilities: Capabilities | None = field(
        default=None,
        alias="capabilities",
        kw_only=True,
        repr=False,
        validator=endpoint.optional(Capabilities),
    )
    prices: Prices | None = field(default=None, kw_only=True, validator=endpoint.optional(Prices))
    quota: Quota | None = field(
        default=None, kw_only=True, repr=False, validator=endpoint.optional(Quota)
    )
    streams: bool = field(
        default=True, kw_only=True, repr=False, validator=must("True or False", is_flag)
    )
    first_token: float | None = field(
        default=None, kw_only=True, repr=False, validator=endpoint.SECONDS
    )
    stall: float | None = field(default=None, kw_only=True, repr=False, validator=endpoint.SECONDS)
    api_key_required: bool | None = field(
        default=None, kw_only=True, validator=endpoint.optional(bool)
    )
    learns: bool = field(
        default=True, kw_only=True, repr=False, validator=must("True or False", is_flag)
    )
    _endpoint: endpoint.Endpoint = field(init=False, eq=False, repr=False)
    _key: Secret | None = field(init=False, eq=False, repr=False)
    _sent_headers: SecretMap = field(init=False, eq=False, repr=False)
    _renewed: deque[SecretMap] = field(
        init=False, eq=False, repr=False, factory=lambda: deque(maxlen=4)
    )
    identities: frozenset[tuple[str, str]] = field(init=False, eq=False, repr=False)
    """What identifies duplicates: host or base URL, model, and a fingerprint of the key and
    headers.
    """
    pool: tuple[Self, ...] = field(init=False, eq=False, repr=False)
    """This backend with each of its keys, if it has several."""
    keys: int = field(init=False, eq=False, repr=False)
    places: frozenset[tuple[str, str]] = field(init=False, eq=False, repr=False)
    """What identifies the server, whatever the key: the host and the base URL, each with the model.
    """
    provider: str = field(init=False, eq=False, repr=False)
    """The owner of signatures and encrypted blocks in its replies: protocol, host and model, since
    some hosts serve a model in several protocols, each with its own form of signatures."""
    capabilities: Capabilities = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        keys = self.api_key if isinstance(self.api_key, tuple) else ()
        self._set(pool=tuple([evolve(self, api_key=key) for key in keys]), keys=len(keys) or 1)
        url = self._read_endpoint()
        key = (
            None
            if self.renews_key
            else self.pool[0]._key
            if self.pool
            else endpoint.as_secret(self.api_key)
        )
        if self.api_key is None and self.api_key_required is not False and not self._has_key_header:
            key = endpoint.key_of_environment(url.origin)
        credentials = endpoint.merged(self._credentials(key) if key else {}, self.headers)
        known = {**credentials, "key of": str(id(self.api_key))} if self.renews_key else credentials
        # Two keys for one model are two accounts, each with its own limits.
        who = f"{self.model} ({fingerprint(known)})" if known else self.model
        own = self._own_capabilities or Capabilities()
        self._set(
            _endpoint=url,
            _key=key,
            _sent_headers=endpoint.merged(
                {"content-type": "application/json"}, self._own_headers(), credentials
            ),
            identities=frozenset(
                {(url.place, who), (url.root, who)}.union(*(each.identities for each in self.pool))
            ),
            places=frozenset(((url.place, self.model), (url.root, self.model))),
            provider=f"{self.API}:{url.place}/{self.model}",
            capabilities=own.or_else(capabilities_of(self.API, self.base_url, self.model)),
        )

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def _has_key_header(self) -> bool:
        return any(name.lower() in endpoint.KEY_HEADERS for name in self.headers)

    # what a protocol declares

    @abstractmethod
    def _body(self, send: Send, *, stream: bool) -> Body:
        """Return the JSON body of one attempt."""

    def _own_headers(self) -> dict[str, str]:
        """Return the headers that the protocol requires in every request."""
        return {}

    @classmethod
    def refuse_reserved(cls, parameters: Mapping[str, Any], where: str) -> None:
        """Refuse parameters that callers cannot set, with a ConfigurationError."""
        for name, instead in cls.RESERVED.items():
            if name in parameters:
                raise ConfigurationError(f"{where} cannot set {name!r}: {instead}")
        for refuse in cls.REFUSES:
            refuse(parameters, where)

    @classmethod
    def lost_parameters(cls, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the common parameters that this protocol does not support, each with the
        reason.
        """
        return {}

    def _bars_prefill(self, parameters: Mapping[str, Any]) -> bool:
        """Tell whether parameters keep the model from continuing an assistant turn."""
        return False

    def _credentials(self, key: Secret) -> dict[str, str]:
        """Return the headers that carry the key."""
        return {"authorization": f"Bearer {key.reveal()}"}

    def _read_endpoint(self) -> endpoint.Endpoint:
        return endpoint.read_url(self.base_url, self.PATH)

    def _url(self, *, stream: bool) -> str:
        return f"{self._endpoint.root}{self.PATH}{self._endpoint.query}"

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
        common = {name: parameters[name] for name in COMMON_PARAMETERS & parameters.keys()}
        return self.lost_parameters(
            {name: value for name, value in common.items() if value is not None}
        )

    def _parameters_of(self, request: Request | Send) -> dict[str, Any]:
        """Return the parameters of the backend and of a request; the latter win."""
        return {**self.parameters, **request.parameters}

    # what the core and the drivers ask

    def lost(self, request: Request, *, is_portable: bool = False) -> tuple[str, ...]:
        """Return what this protocol leaves out of a request, in a short sentence each."""
        unsupported = self._unsupported(request)
        form = self.shapes
        json_format = in_words(self._parameters_of(request), unsupported, form, frozenset())
        return losses(
            request, unsupported, form, json_format, provider=self.provider, is_portable=is_portable
        )

    def lost_behind(self, request: Request) -> tuple[str, ...]:
        """Return the same for a request that was written for another backend, the first of the
        chain.
        """
        return self.lost(request, is_portable=True)

    def in_words(
        self, request: Request, dropped: frozenset[str] = frozenset()
    ) -> Mapping[str, Any] | None:
        """Return the `response_format` that the prompt must ask for, if any."""
        return in_words(
            self._parameters_of(request), self._unsupported(request), self.shapes, dropped
        )

    def asks_by(
        self, schema: Mapping[str, Any], parameters: Mapping[str, Any], tools: Sequence[Any]
    ) -> tuple[AsksBy, Mapping[str, Any], bool]:
        """Return how to ask for an answer that fits a schema, the schema to send, and whether it
        can be strict.
        """
        known = self.capabilities
        form = self.FORM
        narrow = narrowed(schema, self.FORM.refused_keywords)
        is_held = (narrow.is_closed and not narrow.is_recursive) or not form.needs_closed
        is_held = is_held and (form.has_schema_beside_tools or not tools)
        if (
            known.json_schema is True
            and is_held
            and FORMAT_PARAMETER not in self._unsupported(_ASKS_JSON)
        ):
            return "schema", narrow.schema, narrow.is_strict
        every = {**self.parameters, **parameters}
        may_force = known.tools is True and not tools and "tools" not in every
        # A model that thinks can be made neither to prefill nor to call.
        if may_force and not self._bars_prefill(every) and not self._unsupported(_FORCES_TOOL):
            return "tool", narrow.schema, False
        return "words", schema, False

    @property
    def name(self) -> str:
        """Name the backend in journals and errors."""
        return self._name or "/".join(filter(None, (self._endpoint.place, self.model)))

    @property
    def digest(self) -> str:
        """Return what identifies the backend with its key in every process; it reveals neither."""
        return fingerprint(
            {**self._sent_headers, "at": f"{self.root} {self.model}"}, salt=b"rungwise"
        )

    @property
    def root(self) -> str:
        """Return the base URL in its normal form, without a query."""
        return self._endpoint.root

    @property
    def is_local(self) -> bool:
        """Tell whether the host is loopback, private, or has a name that no public host has."""
        return self._endpoint.is_local

    def question(self, url: str) -> HttpRequest:
        """Write a request for a page at the backend's own origin, with its key.

        Raises:
            ConfigurationError: the page is elsewhere.
        """
        if not url.startswith(f"{self.origin}/"):
            raise ConfigurationError("a page must be at the origin of the backend")
        return HttpRequest(
            url, SecretMap(self._sent_headers, {"accept-encoding": "identity"}), b"", "GET"
        )

    @property
    def origin(self) -> str:
        """Return the scheme, host and port that the key and the headers of a request may go to."""
        return self._endpoint.origin

    @property
    def renews_key(self) -> bool:
        """Tell whether a function is asked for the key before each request."""
        return all(each.renews_key for each in self.pool) if self.pool else callable(self.api_key)

    def with_key(self, key: object) -> Self:
        """Return this backend with what its function has returned; a ConfigurationError if that is
        no key.
        """
        endpoint.check_returned(key)
        keyed = evolve(self, api_key=key)
        self._renewed.append(keyed._sent_headers)
        return keyed

    def is_secret(self, word: str) -> bool:
        """Tell whether a word is the key or the value of a header, or a part of one."""
        known = any(headers.shows(word) for headers in (self._sent_headers, *self._renewed))
        return known or any(each.is_secret(word) for each in self.pool)

    @property
    def problem(self) -> str | None:
        """Say why the backend cannot be used: its URL is not HTTP, or its key is missing or a
        placeholder; or None.
        """
        if self._endpoint.problem:
            return self._endpoint.problem
        if self.pool:
            return next((each.problem for each in self.pool if each.problem), None)
        required = (
            not self._endpoint.is_local if self.api_key_required is None else self.api_key_required
        )
        is_fine = not required or self._has_key_header or self.renews_key
        return (
            None
            if is_fine
            else endpoint.key_problem(self._key, endpoint.variables_of(self._endpoint.origin))
        )

    @property
    def prefills(self) -> bool:
        """Tell whether the model is known to continue a trailing assistant turn."""
        return self.prefills_with({})

    def prefills_with(self, parameters: Mapping[str, Any]) -> bool:
        """Tell the same for a request with these parameters."""
        return self.capabilities.prefill is True and not self._bars_prefill(
            {**self.parameters, **parameters}
        )

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
        return LEARNED.of(self.places | self.identities) if self.learns else NO_LESSONS

    @property
    def thinks_for(self) -> float | None:
        """Return the seconds from the head of a response to its first content, if the model thinks
        in silence.
        """
        return self.capabilities.first_token

    @property
    def max_tokens(self) -> int | None:
        """Return the output cap among the backend's own parameters, in tokens."""
        caps = [self.parameters[name] for name in CAP_PARAMETERS if name in self.parameters]
        return caps[0] if caps and isinstance(caps[0], int) else None

    @property
    def expects_json(self) -> bool:
        """Tell whether the backend's own parameters ask for JSON."""
        return bool(self.FORM.asks_for_json(self.parameters))

    @property
    def shapes(self) -> Form:
        """Return the form of its conversations."""
        return self.FORM

    def encode(self, send: Send, *, stream: bool) -> HttpRequest:
        """Write the HTTP request of one attempt.

        Raises:
            ConfigurationError: a parameter or a header of the request is malformed, or has no JSON
                form.
        """
        if self.pool:
            return self.pool[send.key].encode(send, stream=stream)
        if callable(self.api_key):
            with endpoint.asking_for_key():
                key = self.api_key()
            return self.with_key(key).encode(send, stream=stream)
        headers = self._sent_headers
        if send.headers:
            endpoint.check_headers(send.headers, "Request.headers")
            headers = endpoint.merged(headers, send.headers)
        self.refuse_reserved(send.parameters, "Request.parameters")
        return HttpRequest(self._url(stream=stream), headers, dump(self._body(send, stream=stream)))

    def decode(self, status: int, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
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
