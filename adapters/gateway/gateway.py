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
from rungwise.adapters.gateway.answers import PREFIX, Problem
from rungwise.adapters.gateway.call import LOGGER, GatewayCall, Keep
from rungwise.adapters.gateway.forwarded import Forward
from rungwise.adapters.gateway.languages import LANGUAGES
from rungwise.adapters.gateway.languages.language import AnswerRequest, SpokenLanguage
from rungwise.adapters.gateway.reading import read
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.label import label
from rungwise.fsm.values.secret import SecretMap

SPOKEN: Final = tuple(each for each in LANGUAGES if isinstance(each, SpokenLanguage))
ANY: Final = "*"
"""The chain for every model without one of its own."""


def chains_of(client: Client | Mapping[str, Client]) -> Mapping[str, Client]:
    """Return clients by the model that selects them."""
    chains = (
        {ANY: client}
        if isinstance(client, Client)
        else dict(client)
        if isinstance(client, Mapping)
        else {}
    )
    if not chains or not all(isinstance(each, Client) for each in chains.values()):
        raise ConfigurationError(
            "give a Client, or Clients by the name of a model, with '*' for every other model"
        )
    return chains


@frozen(eq=False)
class Gateway:
    """Answer requests."""

    chains: Mapping[str, Client] = field(converter=chains_of)  # by the model that selects them
    hold: bool = False  # whether text waits until it is final
    keep: Keep | None = None

    def language(self, path: str) -> SpokenLanguage | None:
        """Return the protocol of a POST to this path; None if it is no model call."""
        return next((each for each in SPOKEN if each.speaks(path)), None)

    def read(
        self,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        timeout: float | None = None,
    ) -> GatewayCall:
        """Read a request, or raise a Problem: it is not of its form, or nobody can answer it.

        The headers have names in lower case; the program waits for a whole answer for `timeout`
        seconds.
        """
        language = self.language(path)
        if language is None:
            raise Problem.saying(404, f"there is no {label(path)} here")
        try:
            parsed = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise Problem.saying(400, f"the body is not JSON: {error}") from None
        if not isinstance(parsed, dict):
            raise Problem.saying(400, "the body must be a JSON object")
        asked_now = language.read_request(path, parsed, secrets.randbits(60))
        request = evolve(asked_now, created=int(time.time()))
        if language.api == "gemini" and request.streams and "alt=sse" not in query:
            raise Problem.saying(400, "give ?alt=sse to stream; a JSON array is not written here")
        client = self.chains.get(request.model) or self.chains.get(ANY)
        if client is None:
            model = (
                f"there is no model {label(request.model)!r}"
                if request.model in str(body)
                else "name a model"
            )
            raise Problem.saying(404, f"{model}; there are: {', '.join(sorted(self.chains))}")
        try:
            options = _options_in(headers, client, None if request.streams else timeout)
            return self._call_of(language, request, client, options, body)
        except ConfigurationError as error:
            raise Problem.saying(400, str(error)) from None
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            # whatever its JSON held
            LOGGER.info("a request could not be read: %s", type(error).__name__)
            raise Problem.saying(400, "the request is not of the form of its protocol") from None

    def _call_of(
        self,
        language: SpokenLanguage,
        request: AnswerRequest,
        client: Client,
        limits: dict[str, Any],
        body: bytes,
    ) -> GatewayCall:
        first = client.chain[0]
        asked = read(language.api, request.body, is_own=getattr(first, "API", None) == language.api)
        options = {**asked.options, **limits}
        body_shown = (
            {**request.body, "store": False} if language.api == "responses" else request.body
        )
        shown = evolve(request, body=body_shown)  # what the answer repeats
        call = GatewayCall(language, shown, client, asked, options, self.hold, self.keep)
        if not asked.unknown:
            if asked.left_out:
                LOGGER.info(
                    "left out for a backend of another protocol: %s", ", ".join(asked.left_out)
                )
            return call
        names = ", ".join(label(name) for name in dict.fromkeys(asked.unknown))
        own = (each for each in client.chain if getattr(each, "API", None) == language.api)
        if not isinstance(backend := next(own, None), HttpBackend):
            raise Problem.saying(
                400,
                f"no backend of the chain speaks this protocol, and only one could take: {names}",
            )
        LOGGER.warning(
            "forwarded to %s without the ladder, which cannot express: %s", backend.name, names
        )
        if request.model in self.chains and request.model != ANY and "model" in request.body:
            body = orjson.dumps({**request.body, "model": backend.model})
        cap = _cap(language, request.body)
        return call.forwarded(Forward(backend, body, streams=request.streams, cap=cap), body)


def _cap(language: SpokenLanguage, body: Mapping[str, Any]) -> int | None:
    """Return the most output tokens that a body asks for, in all of its answers."""
    cap = language.cap_in(body)
    config = body.get("generationConfig")
    many = (
        body.get("n")
        or (config.get("candidateCount") if isinstance(config, Mapping) else None)
        or 1
    )
    return max(1, cap) * max(1, many) if isinstance(cap, int) and isinstance(many, int) else None


def _options_in(
    headers: Mapping[str, str], client: Client, timeout: float | None
) -> dict[str, Any]:
    """Return the options in the headers of a request: its deadline and budget only lower the
    policy's.
    """
    # to the first backend: of tracing, and betas
    passed = ("traceparent", "tracestate", "anthropic-beta")
    options: dict[str, Any] = {
        "headers": SecretMap({name: each for name, each in headers.items() if name in passed})
    }
    budget = client.policy.budget
    seconds = _number(headers, f"{PREFIX}deadline", budget.seconds)
    money = _number(headers, f"{PREFIX}budget", budget.money)
    if ends := [each for each in (seconds, timeout) if each is not None]:
        options["deadline"] = client.runtime.deadlines.wall_clock() + min(ends)
    if money is not None:
        options["policy"] = evolve(client.policy, budget=evolve(budget, money=money))
    return options


def _number(headers: Mapping[str, str], name: str, most: float | None) -> float | None:
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
