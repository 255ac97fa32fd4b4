"""A backend's place: the URL, the keys, and what identifies it.

`HttpLink` holds the settings of every backend over HTTP and what follows from them. `HttpBackend`
adds the conversation.
"""

# Annotations are not strings here: subclasses in other modules have these fields, and tools that
# read their signatures could not resolve the types there.
import json
from abc import ABC
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Self
from urllib.parse import quote

from attrs import Factory, evolve, field, frozen

from rungwise.adapters.wires import endpoint
from rungwise.adapters.wires.backend import Backend, HttpRequest
from rungwise.adapters.wires.capabilities.capability import Capabilities
from rungwise.adapters.wires.capabilities.table import capabilities_of
from rungwise.adapters.wires.endpoint import (
    as_headers,
    as_parameters,
    check_header_field,
    check_parameters,
)
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.health.quota import Quota
from rungwise.fsm.values.checks import is_flag, must
from rungwise.fsm.values.secret import Secret, SecretMap, fingerprint

KeyFunction = Callable[[], str | Awaitable[str]]
"""Return the key for the next request."""


@frozen
class HttpLink(Backend, ABC):
    """Hold where a backend is, and with which key; its subclass says what the arguments are."""

    DEFAULT_URL: ClassVar[str]
    """The provider's own."""
    PATH: ClassVar[str]
    """The path after the base URL; a base URL may also include it."""
    API: ClassVar[str]
    """The protocol's name on the command line and in the registry."""
    RESERVED: ClassVar[Mapping[str, str]]
    """Parameters that callers cannot set, and what to do instead."""
    background = False
    AFTER: ClassVar[str] = ""
    """The parameter that says behind which event a reply goes on that the provider keeps."""
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
    stall: float | None = field(
        default=None,
        kw_only=True,
        repr=False,
        validator=endpoint.SECONDS,
    )
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
    """What identifies duplicates: the account, the protocol, and a fingerprint of the parameters.
    """
    account: frozenset[tuple[str, str]] = field(init=False, eq=False, repr=False)
    """Host or base URL, each with the model and a fingerprint of key and headers."""
    pool: tuple[Self, ...] = field(init=False, eq=False, repr=False)
    """This backend with each of its keys, if it has several."""
    keys: int = field(init=False, eq=False, repr=False)
    places: frozenset[tuple[str, str]] = field(init=False, eq=False, repr=False)
    """What identifies the server, whatever the key: host and base URL, each with the model."""
    provider: str = field(init=False, eq=False, repr=False)
    """The owner of signatures and encrypted blocks in its replies: protocol, host and model.

    Some hosts serve a model in several protocols, each with its own form of signatures."""
    capabilities: Capabilities = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        pool = []
        if isinstance(self.api_key, tuple):
            pool = [evolve(self, api_key=key) for key in self.api_key]
        self._set(pool=tuple(pool), keys=len(pool) or 1)
        url = self._read_endpoint()
        key = self._key_for(url.origin)
        credentials = endpoint.merged(self._credentials(key) if key else {}, self.headers)
        own_headers = {"content-type": "application/json", **self._own_headers()}
        self._set(_endpoint=url, _key=key, _sent_headers=endpoint.merged(own_headers, credentials))
        account = self._account_at(url, credentials)
        for keyed in self.pool:
            account |= keyed.account
        self._set_account(account)
        capabilities = capabilities_of(self.API, self.base_url, self.model)
        if self._own_capabilities is not None:
            capabilities = self._own_capabilities.or_else(capabilities)
        places = frozenset(((url.place, self.model), (url.root, self.model)))
        provider = f"{self.API}:{url.place}/{self.model}"
        self._set(places=places, provider=provider, capabilities=capabilities)

    def _set(self, **values: Any) -> None:
        """Set fields of this frozen object that follow from the others."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _key_for(self, origin: str) -> Secret | None:
        """Return the key that is known beforehand.

        None if a function is asked for it, or if there is none.
        """
        if self.renews_key:
            return None
        if self.pool:
            return self.pool[0]._key
        if self.api_key is not None:
            key: Secret = endpoint.as_secret(self.api_key)
            return key
        if self.api_key_required is False or self._has_key_header:
            return None
        return endpoint.key_of_environment(origin)

    def _account_at(
        self, url: endpoint.Endpoint, credentials: Mapping[str, str]
    ) -> frozenset[tuple[str, str]]:
        """Return the account, without the other keys of the pool.

        Two keys for one model are two accounts, each with its own limits. Of a function that
        returns keys, only its identity is known.
        """
        account = dict(credentials)
        if self.renews_key:
            account["key of"] = str(id(self.api_key))
        who = self.model
        if account:
            who = f"{self.model} ({fingerprint(account)})"
        return frozenset({(url.place, who), (url.root, who)})

    def _set_account(self, account: frozenset[tuple[str, str]]) -> None:
        """Set the account, and the identities that follow from it."""
        sends = self.API
        if self.parameters:
            text = json.dumps(self.parameters, sort_keys=True, default=repr)
            sends = f"{sends} {fingerprint({'parameters': text})}"
        identities = frozenset((where, f"{who}, {sends}") for where, who in account)
        self._set(account=account, identities=identities)

    @property
    def _has_key_header(self) -> bool:
        return any(name.lower() in endpoint.KEY_HEADERS for name in self.headers)

    # what a protocol declares

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

    def _credentials(self, key: Secret) -> dict[str, str]:
        """Return the headers that carry the key."""
        return {"authorization": f"Bearer {key.reveal()}"}

    def _read_endpoint(self) -> endpoint.Endpoint:
        return endpoint.read_url(self.base_url, self.PATH)

    def _url(self, *, stream: bool) -> str:
        """Return the URL of a request."""
        return f"{self._endpoint.root}{self.PATH}{self._endpoint.query}"

    # what the core and the drivers ask

    @property
    def name(self) -> str:
        """Name the backend in journals and errors."""
        if self._name:
            return self._name
        place = self._endpoint.place
        return f"{place}/{self.model}" if place else self.model

    @property
    def is_named(self) -> bool:
        """Tell whether the caller gave it its name."""
        return self._name is not None

    @property
    def digest(self) -> str:
        """Return what identifies the backend with its key in every process; it reveals neither."""
        about = {**self._sent_headers, "at": f"{self.root} {self.model}"}
        return fingerprint(about, salt=b"rungwise")

    @property
    def root(self) -> str:
        """Return the base URL in its normal form, without a query."""
        return self._endpoint.root

    @property
    def origin(self) -> str:
        """Return the scheme, host and port that the key and the headers of a request may go to."""
        return self._endpoint.origin

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
        headers = SecretMap(self._sent_headers, {"accept-encoding": "identity"})
        return HttpRequest(url, headers, b"", "GET")

    def rest_of(self, generation: str, after: str | None) -> HttpRequest:
        """Write the request for a reply that the provider keeps.

        Arguments:
            generation: the id of the reply.
            after: the event behind which its stream goes on; "" for the whole stream once more,
                None for the whole as it stands.
        """
        query = self._endpoint.query
        if after is not None:
            joint = "&" if query else "?"
            query = f"{query}{joint}stream=true"
        if after:
            query += f"&{self.AFTER}={quote(after, safe='')}"
        return self.question(self._reply_url(generation) + query)

    def given_up(self, generation: str) -> HttpRequest:
        """Write the request that ends a reply that the provider goes on with."""
        url = f"{self._reply_url(generation)}/cancel{self._endpoint.query}"
        return evolve(self.question(url), method="POST")

    def _reply_url(self, generation: str) -> str:
        """Return the URL of a reply that the provider keeps."""
        return f"{self.root}{self.PATH}/{quote(generation, safe='')}"

    @property
    def renews_key(self) -> bool:
        """Tell whether a function is asked for the key before each request."""
        if self.pool:
            return all(each.renews_key for each in self.pool)
        return callable(self.api_key)

    def with_key(self, key: object) -> Self:
        """Return this backend with what its function has returned.

        Raises:
            ConfigurationError: that is no key.
        """
        endpoint.check_returned(key)
        keyed = evolve(self, api_key=key)
        self._renewed.append(keyed._sent_headers)
        return keyed

    def is_secret(self, word: str) -> bool:
        """Tell whether a word is the key or the value of a header, or a part of one."""
        if any(headers.shows(word) for headers in (self._sent_headers, *self._renewed)):
            return True
        return any(each.is_secret(word) for each in self.pool)

    @property
    def secret_words(self) -> frozenset[str]:
        """Return its keys, for whoever must keep them out of what others read."""
        found: set[str] = set()
        for headers in (self._sent_headers, *self._renewed):
            for name, value in headers.items():
                if name.lower() in endpoint.KEY_HEADERS:
                    found.update(value.split()[-1:])
        for each in self.pool:
            found |= each.secret_words
        return frozenset(found)

    @property
    def problem(self) -> str | None:
        """Say why the backend cannot be used, or return None.

        Its URL is not HTTP, or its key is missing or a placeholder.
        """
        if self._endpoint.problem:
            return self._endpoint.problem
        if self.pool:
            return next((each.problem for each in self.pool if each.problem), None)
        is_required = self.api_key_required
        if is_required is None:
            is_required = not self._endpoint.is_local
        if not is_required or self._has_key_header or self.renews_key:
            return None
        return endpoint.key_problem(self._key, endpoint.variables_of(self._endpoint.origin))
