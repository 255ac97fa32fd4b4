"""The adapter for chat completions: OpenAI's own, and everything that speaks its protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from attrs import evolve, field, frozen

from rungwise.adapters.backend import PIECE, HttpRequest
from rungwise.adapters.capabilities import LEARNED
from rungwise.adapters.endpoint import (
    KEY_HEADERS,
    Endpoint,
    as_secret,
    check_headers,
    check_key,
    key_of_environment,
    key_problem,
    merged,
    read_url,
    shown_url,
)
from rungwise.adapters.wires.chat.dialects import CapField, Dialect, PrefillMode, dialect_of
from rungwise.adapters.wires.chat.reply import classified, read_reply
from rungwise.adapters.wires.chat.request import OTHER_CAP, refuse_reserved, write_body
from rungwise.adapters.wires.chat.shapes import CHAT, ChatShapes
from rungwise.adapters.wires.chat.stream import NO_END, ChatDecoder
from rungwise.adapters.wires.sse import is_event_stream, unframed
from rungwise.fsm.call.reply import Reply
from rungwise.fsm.call.request import CAP_PARAMETERS, MOST_TOKENS, Prices, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.failures.failure import Failure
from rungwise.fsm.tracebacks import built_without_locals
from rungwise.fsm.values.checks import is_flag, is_number, is_whole, must, must_be_one_of, or_none
from rungwise.fsm.values.fields import LONGEST_SECONDS
from rungwise.fsm.values.frozen_map import frozen_copy
from rungwise.fsm.values.secret import Secret, SecretMap, fingerprint

PATH: Final = "/chat/completions"


# Anything but a mapping is left to the validators.


def _parameters(value: Mapping[str, Any] | None) -> Any:
    return frozen_copy({} if value is None else value, "parameters")


def _headers(value: Mapping[str, str] | None) -> Mapping[str, str]:
    if value is None or isinstance(value, Mapping):
        return SecretMap(value or {})
    return value


def _check_text(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{attribute.name} must be a string with something in it")


def _check_headers(instance: object, attribute: Any, value: Any) -> None:
    check_headers(value, "headers")


def _check_parameters(instance: object, attribute: Any, value: Any) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ConfigurationError("parameters must be a mapping whose keys are strings")
    refuse_reserved(value, "parameters")
    for name in CAP_PARAMETERS:
        cap = value.get(name)
        if cap is not None and not is_whole(cap, 1, MOST_TOKENS):
            raise ConfigurationError(f"parameters[{name!r}] must be a whole number of tokens above 0")


def _optional(kind: type) -> Any:
    return must(f"of type {kind.__name__}, or None", or_none(lambda value: isinstance(value, kind)))


_SECONDS: Final = must(
    f"a number of seconds above 0, at most {LONGEST_SECONDS:,.0f}, or None",
    or_none(lambda value: is_number(value, 0, LONGEST_SECONDS) and value > 0),
)


@built_without_locals
@frozen
class OpenAIChat:
    """Speak chat completions with one model of one server.

    Arguments:
        model: the model id that is sent.
        api_key: the key, sent as a bearer token. None sends none, but for OpenAI's own host: its key is then taken
            from `OPENAI_API_KEY`, unless `headers` hold one or `api_key_required` is False. It is kept as a `Secret`,
            which only `str()` opens.
        base_url: the URL up to `/chat/completions`; a query such as `?api-version=...` is kept.
        name: what journals and errors call this backend; None is "<host>/<model>".
        headers: HTTP headers for each request to this backend; those of a `Request` win.
        parameters: fields for each body (`temperature`, ...); those of a `Request` win.
        cap_field: the field that holds the output cap in tokens; "auto" tells by the host.
        prefill: how a trailing assistant turn is continued; "auto" asks the capability table, which denies by default.
        echoes: whether the server repeats a continued assistant turn at the start of its answer; None asks the
            capability table, and then an echo is known by itself where it is long enough to be surely one.
        prices: what a million tokens cost.
        sends_finish_reason: whether the server ends each reply with a finish reason, as the protocol has it, so that a
            reply without one was cut on its way. Say False of a server that is known to send none.
        streams: whether the server can stream. Say False of one that cannot, or that streams only what it has written.
        first_token: seconds to wait for the first content of a stream; None asks the capability table, and then the
            policy.
        stall: seconds to wait between two pieces of content; None asks the policy.
        api_key_required: whether a missing key makes the backend unusable; None requires one except for local hosts.

    Raises:
        ConfigurationError: a field is not of its form.
    """

    model: str = field(validator=_check_text)
    api_key: str | Secret | None = field(
        default=None, kw_only=True, repr=False, converter=as_secret, validator=check_key
    )
    base_url: str = field(default="https://api.openai.com/v1", kw_only=True, repr=shown_url, validator=_check_text)
    _name: str | None = field(default=None, alias="name", kw_only=True, repr=False, validator=_optional(str))
    headers: Mapping[str, str] = field(
        default=None, kw_only=True, repr=False, hash=False, converter=_headers, validator=_check_headers
    )
    parameters: Mapping[str, Any] = field(
        default=None,
        kw_only=True,
        repr=False,
        hash=False,
        converter=_parameters,
        validator=_check_parameters,
    )
    cap_field: Literal["auto"] | CapField = field(
        default="auto", kw_only=True, validator=must_be_one_of(("auto", *get_args(CapField)))
    )
    prefill: Literal["auto"] | PrefillMode = field(
        default="auto", kw_only=True, validator=must_be_one_of(("auto", *get_args(PrefillMode)))
    )
    _echoes: bool | None = field(default=None, alias="echoes", kw_only=True, repr=False, validator=_optional(bool))
    prices: Prices | None = field(default=None, kw_only=True, validator=_optional(Prices))
    sends_finish_reason: bool = field(default=True, kw_only=True, validator=must("True or False", is_flag))
    _streams: bool = field(
        default=True, alias="streams", kw_only=True, repr=False, validator=must("True or False", is_flag)
    )
    _first_token: float | None = field(default=None, alias="first_token", kw_only=True, repr=False, validator=_SECONDS)
    stall: float | None = field(default=None, kw_only=True, repr=False, validator=_SECONDS)
    api_key_required: bool | None = field(default=None, kw_only=True, validator=_optional(bool))
    _endpoint: Endpoint = field(init=False, eq=False, repr=False)
    _dialect: Dialect = field(init=False, eq=False, repr=False)
    _key: Secret | None = field(init=False, eq=False, repr=False)
    _sent_headers: SecretMap = field(init=False, eq=False, repr=False)
    _identities: frozenset[tuple[str, str]] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        endpoint = read_url(self.base_url, PATH)
        key = as_secret(self.api_key)
        if key is None and self.api_key_required is not False and not self._has_key_header:
            key = key_of_environment(endpoint.origin)
        own = {"authorization": f"Bearer {key}"} if key and str(key).strip() else {}
        credentials = merged(own, self.headers)
        # Two keys for one model are two accounts, each with limits of its own.
        who = f"{self.model} ({fingerprint(credentials)})" if credentials else self.model
        object.__setattr__(self, "_endpoint", endpoint)
        object.__setattr__(self, "_dialect", self._chosen_dialect())
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_sent_headers", merged({"content-type": "application/json"}, credentials))
        object.__setattr__(self, "_identities", frozenset({(endpoint.place, who), (endpoint.root, who)}))

    @property
    def _has_key_header(self) -> bool:
        return any(name.lower() in KEY_HEADERS for name in self.headers)

    @property
    def name(self) -> str:
        """Name the backend in journals and errors."""
        return self._name or "/".join(filter(None, (self._endpoint.place, self.model)))

    @property
    def identities(self) -> frozenset[tuple[str, str]]:
        """Return what it has in common with a duplicate: its host or its base URL, each with the model.

        A key and headers stand beside the model as a number that only this process could have made of them.
        """
        return self._identities

    @property
    def places(self) -> frozenset[tuple[str, str]]:
        """Return what servers are known by, whatever the key: the host and the base URL, each with the model."""
        return frozenset(((self._endpoint.place, self.model), (self._endpoint.root, self.model)))

    @property
    def origin(self) -> str:
        """Return the scheme, the host and the port that its key and the headers of a request belong to."""
        return self._endpoint.origin

    @property
    def problem(self) -> str | None:
        """Say that the base URL is not an HTTP URL, or the key missing or a placeholder; None where neither is."""
        if self._endpoint.problem:
            return self._endpoint.problem
        required = not self._endpoint.is_local if self.api_key_required is None else self.api_key_required
        return key_problem(self._key) if required and not self._has_key_header else None

    @property
    def prefills(self) -> bool:
        """Tell whether a trailing assistant turn is continued, as far as anyone knows."""
        return self._dialect.prefill != "no" and not LEARNED.refuses_prefill(self.places | self.identities)

    @property
    def echoes(self) -> bool:
        """Tell whether a continued assistant turn is repeated at the start of the answer."""
        return self._dialect.echoes

    @property
    def streams(self) -> bool:
        """Tell whether replies can be streamed, as far as anyone knows."""
        return self._streams and not LEARNED.refuses_stream(self._identities)

    @property
    def first_token(self) -> float | None:
        """Return the seconds to wait for the first content, where they are not those of the policy."""
        return self._dialect.first_token if self._first_token is None else self._first_token

    @property
    def max_tokens(self) -> int | None:
        """Return the output cap among the backend's own parameters, in tokens."""
        caps = [self.parameters[name] for name in CAP_PARAMETERS if name in self.parameters]
        return caps[0] if caps and isinstance(caps[0], int) else None

    @property
    def expects_json(self) -> bool:
        """Tell whether the backend's own parameters ask for JSON."""
        return bool(CHAT.asks_for_json(self.parameters))

    @property
    def shapes(self) -> ChatShapes:
        """Return the form of chat completions."""
        return CHAT

    @property
    def provider(self) -> str:
        """Name whom a signature or an encrypted block of this backend's replies may go back to: the host, the model."""
        return f"{self._endpoint.place}/{self.model}"

    def _chosen_dialect(self) -> Dialect:
        """Return what is written to this server: what its URL and model tell, but for what the caller knows better."""
        dialect = dialect_of(self.base_url, self.model)
        cap = self.cap_field
        if cap == "auto":
            # A caller's parameters go to each backend of a chain; the backend's own tell what its server takes.
            own = [name for name in OTHER_CAP.values() if self.parameters.get(name) is not None]
            cap = own[0] if own else dialect.cap_field
        prefill = dialect.prefill if self.prefill == "auto" else self.prefill
        echoes = dialect.echoes if self._echoes is None else self._echoes
        return evolve(dialect, cap_field=cap, prefill=prefill, echoes=echoes)

    def encode(self, send: Send, *, stream: bool) -> HttpRequest:
        """Write the HTTP request of one attempt.

        Raises:
            ConfigurationError: a parameter or a header of the request is not of its form, or has no form in JSON.
        """
        headers = self._sent_headers
        if send.headers:
            check_headers(send.headers, "Request.headers")
            headers = merged(headers, send.headers)
        body = write_body(
            send,
            stream=stream,
            model=self.model,
            parameters=self.parameters,
            dialect=self._dialect,
            provider=self.provider,
        )
        return HttpRequest(f"{self._endpoint.root}{PATH}{self._endpoint.query}", headers, body)

    def decode(self, status: int, headers: Mapping[str, str], body: bytes) -> Reply | Failure:
        """Read a whole response, of any status."""
        if not 200 <= status < 300:
            return classified(status, headers, unframed(body))
        if is_event_stream(body):  # some proxies stream whatever was asked for
            decoder = self.decoder(headers)
            for start in range(0, len(body), PIECE):
                decoder.feed(body[start : start + PIECE])
            return decoder.close(NO_END)
        return read_reply(headers, body, sends_finish_reason=self.sends_finish_reason, provider=self.provider)

    def decoder(self, headers: Mapping[str, str]) -> ChatDecoder:
        """Start to read a streamed response of status 200."""
        return ChatDecoder(headers, self.sends_finish_reason, self.provider)
