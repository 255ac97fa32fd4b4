"""The backend for Amazon Bedrock's Converse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from attrs import evolve, field, frozen

from rungwise.adapters.wires.anthropic.parameters import Generation, generation_of
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.adapters.wires.bedrock import KEYS
from rungwise.adapters.wires.bedrock.parameters import lost_parameters, thinks
from rungwise.adapters.wires.bedrock.request import RESERVED, ConverseBody
from rungwise.adapters.wires.bedrock.shapes import CONVERSE, lost_marks, marks_tools
from rungwise.adapters.wires.bedrock.signing import Account
from rungwise.adapters.wires.bedrock.stream import ConverseDecoder
from rungwise.adapters.wires.endpoint import as_secret, check_key, merged
from rungwise.adapters.wires.fields import optional
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.adapters.wires.plain.parts import mapping_of
from rungwise.fsm.call.conversation.request import Request, Send
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.secret import Secret, fingerprint, hides_arguments


def _check_secret(instance: object, attribute: Any, value: Any) -> None:
    check_key(instance, attribute, value, where=attribute.name)


@hides_arguments
@frozen
class Bedrock(HttpBackend):
    """Speak Converse with one model of Amazon Bedrock; it needs `pip install 'rungwise[bedrock]'`.

    Requests are signed with the given credentials, or else with those that AWS's own tools would find in the
    environment, their files and the machine. A Bedrock API key takes precedence over the latter; it signs nothing.
    Credentials found that way go to AWS's own hosts only; other hosts get given credentials, or those of a `profile`.

    It takes the arguments of every backend: see `rungwise.adapters.wires.http_backend.HttpBackend`. A model is also
    an inference profile or an ARN.

    Arguments:
        base_url: the default is the service in the region.
        api_key: a Bedrock API key, sent as a bearer token; None takes `AWS_BEARER_TOKEN_BEDROCK` from
            the environment, for AWS's own hosts.
        region: None reads AWS's own configuration, such as `AWS_REGION`; not needed if `base_url` is given and
            nothing is signed.
        profile: a profile in AWS's own files; None is the default one.
        access_key_id, secret_access_key, session_token: credentials to sign with.

    Raises:
        ConfigurationError: a field is malformed, there is no region, or botocore is not installed.
    """

    DEFAULT_URL = "https://bedrock-runtime.amazonaws.com"
    PATH = "/model"
    API = "bedrock"
    WRITER = ConverseBody
    DECODER = ConverseDecoder
    FORM = CONVERSE
    RESERVED = RESERVED

    region: str | None = field(default=None, kw_only=True, validator=optional(str))
    profile: str | None = field(default=None, kw_only=True, repr=False, validator=optional(str))
    access_key_id: Secret | None = field(
        default=None, kw_only=True, repr=False, converter=as_secret, validator=_check_secret
    )
    secret_access_key: Secret | None = field(
        default=None, kw_only=True, repr=False, converter=as_secret, validator=_check_secret
    )
    session_token: Secret | None = field(
        default=None, kw_only=True, repr=False, converter=as_secret, validator=_check_secret
    )
    _account: Account | None = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if bool(self.access_key_id) is not bool(self.secret_access_key):
            raise ConfigurationError("access_key_id and secret_access_key are given together, or not at all")
        account = Account.from_environment(self.region, self.profile, signs=False)
        self._set(region=account.region)
        if self.base_url == self.DEFAULT_URL:
            account.needs_region()
            self._set(base_url=f"https://{account.host}")
        key, secret = self.access_key_id, self.secret_access_key
        if key and secret and self.api_key is None:
            self._set(api_key=Secret(""))  # so that no key in the environment takes precedence
        super().__attrs_post_init__()
        has_key = self._key or self.renews_key or self._has_key_header
        if key and secret:
            account = Account.from_keys(account.region, key, secret, self.session_token)
        elif not has_key and (self.profile is not None or KEYS.origins.fullmatch(self._endpoint.origin)):
            account = Account.from_environment(account.region, self.profile, signs=True)
        signs = account.credentials is not None and not self._key
        if signs:
            account.needs_region()
        self._set(_account=account if signs else None)
        if signs and key:
            who = f"{self.model} ({fingerprint(merged({'access-key-id': key.reveal()}, self.headers))})"
            self._set(_identities=frozenset({(self._endpoint.place, who), (self._endpoint.root, who)}))

    @classmethod
    def refuse_reserved(cls, parameters: Mapping[str, Any], where: str) -> None:
        """Refuse reserved parameters, and an output cap under another name, with a ConfigurationError."""
        super().refuse_reserved(parameters, where)
        if "maxTokens" in mapping_of(parameters.get("inferenceConfig")):
            raise ConfigurationError(f"{where} cannot set 'inferenceConfig.maxTokens': it is called 'max_tokens'")
        for name in ("max_tokens", "maxTokens", "max_gen_len", "max_new_tokens", "maxTokenCount"):
            if name in mapping_of(parameters.get("additionalModelRequestFields")):
                problem = f"{where} cannot set 'additionalModelRequestFields.{name}'"
                raise ConfigurationError(f"{problem}: it is called 'max_tokens', among the parameters themselves")

    @property
    def _generation(self) -> Generation | None:
        return generation_of(self.model) if "claude" in self.model.lower() else None

    @property
    def problem(self) -> str | None:
        """Say why the backend cannot be used, such as missing credentials; None if it can."""
        if self._account is not None:
            return self._endpoint.problem
        problem = super().problem
        if problem is not None and problem.startswith("api_key is missing"):
            return (
                "credentials are missing: give api_key, or access_key_id and secret_access_key, or set AWS's own up, "
                "which go to AWS's own hosts"
            )
        return problem

    def _bars_prefill(self, parameters: Mapping[str, Any]) -> bool:
        return thinks(parameters, self._generation) or bool(self.FORM.asks_for_json(parameters))

    def _unsupported(self, request: Request) -> Mapping[str, str]:
        return lost_parameters(self._parameters_of(request), self._generation, request.max_tokens or self.max_tokens)

    def lost(self, request: Request, *, is_portable: bool = False) -> tuple[str, ...]:
        """Return what this model does not get of a request, in a short sentence each."""
        losses = super().lost(request, is_portable=is_portable)
        return (*losses, *lost_marks(request, self.model, self.capabilities.caches))

    def _url(self, *, stream: bool) -> str:
        method = "converse-stream" if stream else "converse"
        return f"{self._endpoint.root}{self.PATH}/{quote(self.model, safe='')}/{method}{self._endpoint.query}"

    def encode(self, send: Send, *, stream: bool) -> HttpRequest:
        """Write the HTTP request of one attempt, signed at this time.

        Raises:
            ConfigurationError: a parameter or a header of the request is malformed, or has no JSON form.
        """
        request = super().encode(send, stream=stream)
        if self._account is None or any(name.lower() == "authorization" for name in request.headers):
            return request
        signed = self._account.signed(request.url, {"content-type": request.headers["content-type"]}, request.body)
        return evolve(request, headers=merged(request.headers, signed))

    def _writing(self, send: Send) -> Mapping[str, Any]:
        marks = self.capabilities.caches
        return {
            "generation": self._generation,
            "cap": send.max_tokens or self.max_tokens,
            "takes_marks": marks,
            "marks_tools": marks_tools(self.model, marks),
        }
