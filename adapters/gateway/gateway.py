"""Read the requests that programs wrote for a provider, and choose what answers them: a chain, or
one backend alone.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

import orjson
from attrs import evolve, field, frozen

from rungwise.adapters.client import Client
from rungwise.adapters.client_decisions import asking_decisions
from rungwise.adapters.gateway.accounts import cap_in, models_in
from rungwise.adapters.gateway.answers import PREFIX, Problem
from rungwise.adapters.gateway.call import GatewayCall
from rungwise.adapters.gateway.fields import Asked
from rungwise.adapters.gateway.forwarded import Forward
from rungwise.adapters.gateway.languages import CHAT, DECISIONS, LANGUAGES
from rungwise.adapters.gateway.languages.language import AnswerRequest, SpokenLanguage
from rungwise.adapters.gateway.reading import read
from rungwise.adapters.gateway.serving.beside import COUNTERS, PassedOn, kind_of
from rungwise.adapters.gateway.serving.callers import ANYONE, Caller
from rungwise.adapters.gateway.writing import LOGGER, Keep
from rungwise.adapters.tools.beats import must_be_ping
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_flag, must
from rungwise.fsm.values.label import label
from rungwise.fsm.values.secret import SecretMap

SPOKEN: Final = tuple(each for each in LANGUAGES if isinstance(each, SpokenLanguage))
PASSED_ON: Final = ("traceparent", "tracestate", "anthropic-beta", "anthropic-version")
"""The headers that the first backend gets: those of tracing, betas and the version."""
ANY: Final = "*"
"""The chain for every model without one of its own."""


def chains_of(client: Client | Mapping[str, Client]) -> Mapping[str, Client]:
    """Return clients by the model that selects them."""
    chains: dict[str, Client] = {}
    if isinstance(client, Client):
        chains = {ANY: client}
    elif isinstance(client, Mapping):
        chains = dict(client)
    if not chains or not all(isinstance(each, Client) for each in chains.values()):
        raise ConfigurationError(
            "give a Client, or Clients by the name of a model, with '*' for every other model, not "
            f"{type(client).__name__}"
        )
    return chains


@frozen(eq=False)
class Gateway:
    """Answer requests."""

    chains: Mapping[str, Client] = field(converter=chains_of)  # by the model that selects them
    # whether text waits until it is final
    hold: bool = field(default=False, validator=must("True or False", is_flag))
    keep: Keep | None = None
    # the seconds of silence after which a stream says that it lives; None for never
    ping: float | None = field(default=None, validator=must_be_ping)

    def language(self, path: str) -> SpokenLanguage | None:
        """Return the protocol of a POST to this path; None if it is no model call."""
        return next((each for each in (DECISIONS, *SPOKEN) if each.speaks(path)), None)

    def takes(self, path: str) -> bool:
        """Tell whether a POST to this path is answered: a model call, or what stands beside it."""
        return self.language(path) is not None or kind_of(path) is not None

    def read(
        self,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float | None = None,
        caller: Caller = ANYONE,
    ) -> GatewayCall:
        """Read a request, and return the call that answers it.

        Arguments:
            path: of its URL.
            query: of its URL, without the question mark.
            headers: with names in lower case.
            body: the whole body.
            timeout: seconds for which the program waits for a whole answer; None for any time.
            caller: who asks.

        Raises:
            Problem: it is not of the form of its protocol, or nobody can answer it, or not for this
                caller.
        """
        language = self.language(path)
        if language is None:
            return self._beside(path, headers, body, caller)
        parsed = _object_in(body)
        request = language.read_request(path, parsed, secrets.randbits(60))
        request = evolve(request, created=int(time.time()))
        if language.api == "gemini" and request.streams and "alt=sse" not in query:
            raise Problem.saying(400, "give ?alt=sse to stream; a JSON array is not written here")
        client = self._client_for(request.model, body, caller)
        try:
            # streams have the clocks of the policy
            wait = None if request.streams else timeout
            options = _options_in(headers, client, wait, caller)
            return self._call_of(language, request, client, options, body, caller)
        except ConfigurationError as error:
            raise Problem.saying(400, language.called(str(error))) from None
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            # whatever its JSON held
            LOGGER.info("a request could not be read: %s", type(error).__name__)
            raise Problem.saying(400, "the request is not of the form of its protocol") from None

    def _beside(
        self, path: str, headers: Mapping[str, str], body: bytes, caller: Caller
    ) -> GatewayCall:
        """Return the call of a request beside model calls; takes what `read` does."""
        kind = kind_of(path)
        if kind is None:
            raise Problem.saying(404, f"there is no {label(path)} here")
        parsed = _object_in(body)
        model = kind.model_in(path, parsed)
        client = self._client_for(model, body, caller)
        backend = kind.backend_of(client)
        try:
            limits = _options_in(headers, client, None, caller)
            if kind.is_free or model in self.chains:
                model = backend.model
            elif caller.needs_prices or client.policy.budget.money is not None:
                _check_models(client, {"models": model})
            beside = PassedOn(backend, kind, path, parsed, model)
        except (ConfigurationError, TypeError, ValueError) as error:
            raise Problem.saying(400, str(error)) from None
        near = [each for each in SPOKEN if each.api == backend.API]
        request = AnswerRequest(model, False, parsed, secrets.randbits(60), int(time.time()))
        call = self._new_call(
            caller,
            language=near[0] if near else CHAT,
            request=request,
            client=client,
            asked=Asked(),
            options=limits,
            hold=False,
        )
        return call.forwarded(beside, beside.body, counters=COUNTERS)

    def _client_for(
        self,
        model: str,
        body: bytes,
        caller: Caller,
    ) -> Client:
        """Return the client that answers for a model, or raise a Problem.

        Arguments:
            model: as the request names it.
            body: of the request.
            caller: who asks.
        """
        client = self.chains.get(model) or self.chains.get(ANY)
        if client is not None:
            caller.check(client, model, self.chains)
            return client
        what = "name a model"
        if model in str(body):  # else it is the default of a protocol
            what = f"there is no model {label(model)!r}"
        raise Problem.saying(
            404, f"{what}; there are: {', '.join(sorted(caller.allowed(self.chains)))}"
        )

    def _call_of(
        self,
        language: SpokenLanguage,
        request: AnswerRequest,
        client: Client,
        limits: dict[str, Any],
        body: bytes,
        caller: Caller,
    ) -> GatewayCall:
        """Return the call that answers a request.

        Arguments:
            language: the protocol of the request.
            request: what was read of it.
            client: runs the call.
            limits: the options that its headers ask for.
            body: the request itself, for what the chain cannot express.
            caller: who asks.
        """
        budget = limits.get("policy", client.policy).budget
        if budget.money is not None or caller.needs_prices:
            _check_models(client, request.body)
        if language is DECISIONS:
            client = asking_decisions(client)
        speaks = [_speaks(each, language) for each in client.chain]
        asked = read(language.api, request.body, is_own=speaks[0], may_forward=any(speaks))
        shown = request  # what the answer repeats
        if language.api == "responses":
            shown = evolve(request, body={**request.body, "store": False})
        hold = self.hold or _may_be_declined(client, request.body)
        call = self._new_call(
            caller,
            language=language,
            request=shown,
            client=client,
            asked=asked,
            options={**asked.options, **limits},
            hold=hold,
        )
        if asked.unknown:
            return self._forwarded(call, request, body)
        return call

    def _new_call(self, caller: Caller, **about: Any) -> GatewayCall:
        """Return a call for a caller; takes the arguments of a `GatewayCall`."""
        return GatewayCall(keep=self.keep, ping=self.ping, caller=caller.name, **about)

    def _forwarded(
        self,
        call: GatewayCall,
        request: AnswerRequest,
        body: bytes,
    ) -> GatewayCall:
        """Return the call that goes word for word to the first backend of its protocol."""
        names = ", ".join(label(name) for name in dict.fromkeys(call.asked.unknown))
        own = (each for each in call.client.chain if _speaks(each, call.language))
        backend = next(own, None)
        if not isinstance(backend, HttpBackend):
            raise Problem.saying(
                400,
                f"no backend of the chain speaks this protocol, and only one could take: {names}",
            )
        LOGGER.warning(
            "forwarded to %s without the ladder, which cannot express: %s", backend.name, names
        )
        _check_models(call.client, request.body)
        sent = dict(request.body)
        if call.language.api != "gemini":  # which has it in the path
            sent["model"] = backend.model  # whose price the budget knows
        body = orjson.dumps(sent)  # of two members of one name, the one that was read
        cap = cap_in(sent, call.language.cap_in(sent))
        return call.forwarded(Forward(backend, body, streams=request.streams, cap=cap), body)


def _object_in(body: bytes) -> dict[str, Any]:
    """Return the object in a body, or raise a Problem."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem.saying(400, f"the body is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise Problem.saying(400, "the body must be a JSON object")
    return parsed


def _may_be_declined(
    client: Client,
    body: Mapping[str, Any],
) -> bool:
    """Tell whether a provider may ask another model by itself, and take back what one has begun."""
    asked = [body, *[link.parameters for link in client.chain]]
    return any("fallbacks" in each for each in asked)


def _speaks(backend: Any, language: SpokenLanguage) -> bool:
    """Tell whether a backend speaks a protocol; one of the user's own has no name for its own."""
    return getattr(backend, "API", None) == language.api


def _check_models(client: Client, body: Mapping[str, Any]) -> None:
    """Raise a ConfigurationError for a model whose price the chain does not know."""
    allowed = {getattr(each, "model", None) for each in client.chain}
    prices = [each.prices for each in client.chain if each.prices is not None]
    for model in models_in(body):
        is_priced = any(each.model_named(model) is not None for each in prices)
        if model not in allowed and not is_priced:
            raise ConfigurationError(
                f"{label(model)!r} is no model of the chain: leave it out, "
                "or name its prices in the `models` of a backend's Prices"
            )


def _options_in(
    headers: Mapping[str, str], client: Client, timeout: float | None, caller: Caller
) -> dict[str, Any]:
    """Return the options of a call that the headers of its request ask for.

    Its deadline and budget can only lower those of the policy.

    Arguments:
        headers: of the request.
        client: runs the call.
        timeout: seconds for which the program waits; None for any time.
        caller: who asks.
    """
    passed = {name: headers[name] for name in headers if name in PASSED_ON}
    options: dict[str, Any] = {"headers": SecretMap(passed), "within": caller.within}
    budget = client.policy.budget
    seconds = _number(headers, f"{PREFIX}deadline", budget.seconds)
    money = _number(headers, f"{PREFIX}budget", budget.money)
    limits = [each for each in (seconds, timeout) if each is not None]
    if limits:
        options["deadline"] = client.runtime.deadlines.wall_clock() + min(limits)
    if money is not None:
        options["policy"] = evolve(client.policy, budget=evolve(budget, money=money))
    return options


def _number(headers: Mapping[str, str], name: str, most: float | None) -> float | None:
    """Return the number in a header, which must be above 0 and at most `most`; None without it."""
    if name not in headers:
        return None
    try:
        value = float(headers[name])
    except ValueError:
        value = 0.0
    if not 0 < value <= (most or 1e9):
        limit = f", at most the policy's {most:g}" if most else ""
        raise ConfigurationError(f"{name} must be a number above 0{limit}")
    return value
