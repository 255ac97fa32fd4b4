"""Requests beside model calls that a chain serves: embeddings, and counts of tokens.

Each goes to the first backend of its chain that speaks its protocol, as a call that tries again and
never asks another model: vectors and counts of two models cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import orjson
from attrs import evolve, frozen

from rungwise.adapters.client import Client
from rungwise.adapters.gateway.answers import Problem
from rungwise.adapters.gateway.forwarded import Forward
from rungwise.adapters.wires.backend import HttpRequest
from rungwise.adapters.wires.http_backend import HttpBackend
from rungwise.adapters.wires.plain.parts import list_of, mapping_of
from rungwise.fsm.call.chain.prices import Prices
from rungwise.fsm.call.conversation.request import Send
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import OpaquePart
from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import Usage

COUNTERS: Final = ("retries", "resends", "rotations")
"""The counters of the rungs that ask the same model."""
LEAST_CAP: Final = 1
"""The output tokens that are reserved: there are none, and budgets want a cap."""
_FREE: Final = Prices(0, 0)
_COUNTS: Final = ("prompt_tokens", "promptTokenCount", "prompt_eval_count")


@frozen
class Kind:
    """Tell requests of one kind.

    Arguments:
        apis: the protocols of the backends that have it.
        pattern: finds in a path what stands behind the base URL, and the model if it is there.
        is_free: whether providers take nothing for it.
    """

    apis: tuple[str, ...]
    pattern: re.Pattern[str]
    is_free: bool = False

    def model_in(self, path: str, body: Mapping[str, Any]) -> str:
        """Return the model that a request names."""
        found = self.pattern.search(path)
        assert found is not None
        return str(found.groupdict().get("model") or body.get("model") or "")

    def backend_of(self, client: Client) -> HttpBackend:
        """Return the first backend that has it, or raise a Problem."""
        for each in client.chain:
            if isinstance(each, HttpBackend) and each.API in self.apis:
                return each
        wanted = " or ".join(self.apis)
        raise Problem.saying(404, f"no backend of the chain has this, for none speaks {wanted}")

    def at(self, path: str, model: str) -> str:
        """Return what stands behind the base URL of a backend for one of its models."""
        found = self.pattern.search(path)
        assert found is not None
        tail = found["tail"]
        method = found.groupdict().get("method")
        return tail if method is None else f"/models/{quote(model, safe='')}:{method}"


_GEMINI: Final = r"/v1beta(?P<tail>/models/(?P<model>[^/]+):(?P<method>{}))$"
KINDS: Final = (
    Kind(("openai", "responses"), re.compile(r"/v1(?P<tail>/embeddings)$")),
    Kind(("anthropic",), re.compile(r"/v1(?P<tail>/messages/count_tokens)$"), is_free=True),
    Kind(("gemini",), re.compile(_GEMINI.format("embedContent|batchEmbedContents"))),
    Kind(("gemini",), re.compile(_GEMINI.format("countTokens")), is_free=True),
    Kind(("ollama",), re.compile(r"(?P<tail>/api/embed)$")),
)


def kind_of(path: str) -> Kind | None:
    """Return of what kind a POST to a path is; None if it is of none."""
    return next((kind for kind in KINDS if kind.pattern.search(path)), None)


class PassedOn(Forward):
    """Stand for a backend that gets a request beside model calls.

    Arguments:
        backend: the backend.
        kind: of the request.
        path: of the request.
        body: of the request, as JSON was read.
        model: the model that is asked.
    """

    def __init__(
        self, backend: HttpBackend, kind: Kind, path: str, body: Mapping[str, Any], model: str
    ) -> None:
        sent = orjson.dumps(_with_model(body, model, is_gemini=backend.API == "gemini"))
        super().__init__(backend, sent, streams=False, cap=LEAST_CAP)
        self.body = sent
        self._other = None if model == backend.model else model  # which may have its own price
        self._kind = kind
        self._place = kind.at(path, model)
        if kind.is_free:
            self.prices = _FREE

    def encode(self, send: Send, *, stream: bool) -> HttpRequest:
        """Write the request, to its own place below the base URL."""
        request = super().encode(send, stream=False)
        _, mark, query = request.url.partition("?")
        root: str = self.root
        return evolve(request, url=f"{root}{self._place}{mark}{query}")

    def decode(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply | Failure:
        """Read a whole response; what it holds is for the program alone."""
        read = super().decode(status, headers, body)
        if not 200 <= status < 300:
            return read
        answer = [OpaquePart(self.provider, None, is_answer=True)]
        return Reply(parts=answer, usage=self._usage_in(body), stop_reason="stop")

    def _usage_in(self, body: bytes) -> Usage:
        """Return what a provider says that it has counted."""
        try:
            found = mapping_of(orjson.loads(body))
        except orjson.JSONDecodeError:
            found = {}
        for inner in ("usage", "usageMetadata"):
            found = {**found, **mapping_of(found.get(inner))}
        for name in _COUNTS:
            count = found.get(name)
            if type(count) is int and 0 < count < 10**12 and not self._kind.is_free:
                return Usage(input_tokens=count, model=self._other)
        return Usage()


def _with_model(body: Mapping[str, Any], model: str, *, is_gemini: bool) -> dict[str, Any]:
    """Return a body with another model, wherever it names one."""
    if not is_gemini:
        return {**body, "model": model}
    renamed = dict(body)
    if "model" in body:
        renamed["model"] = f"models/{model}"
    if "requests" in body:
        requests = [mapping_of(each) for each in list_of(body["requests"])]
        renamed["requests"] = [{**each, "model": f"models/{model}"} for each in requests]
    if "generateContentRequest" in body:
        inner = mapping_of(body["generateContentRequest"])
        renamed["generateContentRequest"] = {**inner, "model": f"models/{model}"}
    return renamed
