"""What the answer of a call is: its body, its error, its headers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.client import Client
from rungwise.adapters.gateway.answers import (
    PREFIX,
    HttpResponse,
    Problem,
    ended,
    headers_of,
    text_of,
    without_keys,
)
from rungwise.adapters.gateway.fields import Asked
from rungwise.adapters.gateway.forwarded import ENCODING, Forward
from rungwise.adapters.gateway.languages.language import AnswerRequest, Completion, SpokenLanguage
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.replies.parts import CommentaryPart, reasoning_of

LOGGER: Final = logging.getLogger("rungwise")

Keep = Callable[[str, Result], object]
"""Keep the result of a call, by its id."""


def keys_of(client: Client) -> Iterator[str]:
    """Yield the keys of a client's backends, which no answer may hold."""
    for backend in client.chain:
        yield from backend.secret_words


@define(eq=False)
class AnswerWriter:
    """Write the answer of one request from what its call brings.

    Arguments:
        language: the protocol of the request.
        request: what the answer repeats of it.
        client: runs the call.
        asked: the request as a call takes it.
        options: for the call.
        hold: whether streamed text waits until it is final.
        keep: called with the result once the call has ended; None for nobody.
        forward: the one backend that gets the request word for word; None for the chain.
        ping: the seconds of silence after which a stream says that it lives; None for never.
        caller: who asks, for the journal; "" for nobody in particular.
    """

    language: SpokenLanguage
    request: AnswerRequest
    client: Client
    asked: Asked
    options: dict[str, Any]
    hold: bool
    keep: Keep | None
    forward: Forward | None = None
    ping: float | None = None
    caller: str = ""
    _is_kept: bool = field(default=False, init=False)

    def _keep_once(self, result: Result | None) -> None:
        """Keep a result once; None for a call that has none."""
        if result is not None and self.keep is not None and not self._is_kept:
            self._is_kept = True
            result.journal.setting.caller = self.caller or None
            self.keep(self.request.call_id, result)

    def whole(self, result: Result) -> HttpResponse:
        """Return a whole answer."""
        headers = self.headers(result)
        if self.forward is not None:
            return self._raw(headers)
        # the text of a decision is what its language writes
        is_decision = self.language.api == "decisions"
        is_json_wanted = self.asked.returns is not None and not is_decision
        reasoning, commentary = self.reasoning_and_commentary(result)
        answer = Completion(
            text=text_of(result, is_json_wanted=is_json_wanted),
            reasoning=reasoning,
            commentary=commentary,
            model=self.model_of(result.backend),
        )
        answer = ended(answer, result, self.language)
        return HttpResponse(200, headers, self.language.whole(answer, self.request))

    def model_of(self, backend: str) -> str:
        """Return the model of a backend, which not every reply says."""
        return next((each.model for each in self.client.chain if each.name == backend), "")

    def shown(self, reasoning: str, backend: str) -> str:
        """Return the reasoning of a backend, or "" if the program expects none.

        Anthropic's SDKs expect it where the request asks for it, or where Anthropic itself answers.
        """
        if self.language.api != "anthropic" or self.request.body.get("thinking") is not None:
            return reasoning
        for each in self.client.chain:
            if each.name == backend and getattr(each, "API", None) == "anthropic":
                return reasoning
        return ""

    def reasoning_and_commentary(self, result: Result) -> tuple[str, str]:
        """Return the reasoning of a result, and its commentary if that is something else here."""
        if not (self.language.has_phases and result.commentary):
            return self.shown(result.reasoning, result.backend), ""
        parts = result.message.parts
        thoughts = [part for part in parts if not isinstance(part, CommentaryPart)]
        return reasoning_of(thoughts), result.commentary

    def failed(self, error: Exception) -> HttpResponse:
        """Return the answer to a call that raised: a refusal in its protocol's form, or an
        error.
        """
        result = error.result if isinstance(error, CallError) else None
        problem = self.problem(error)
        if self.forward is not None and self.forward.received:
            return self._raw(self.headers(result))
        if problem is None and result is not None:
            return self.whole(result)
        assert problem is not None
        headers = None if result is None else self.headers(result)
        return problem.response(self.language, headers)

    def _raw(self, headers: dict[str, str]) -> HttpResponse:
        """Return the answer of a backend word for word; of an error, without its key."""
        assert self.forward is not None
        headers |= {**self.forward.waits, "content-type": self.forward.content_type}
        status = self.forward.status or 200
        body = self.forward.received
        if status >= 400:
            body = without_keys(body.decode(ENCODING), self.client.chain).encode(ENCODING)
        return HttpResponse(status, headers, body)

    def problem(self, error: Exception) -> Problem | None:
        """Return what an error is for the program; None for a refusal that is a reply."""
        if isinstance(error, ConfigurationError):
            return Problem.saying(400, self.language.called(str(error)))
        if not isinstance(error, CallError):
            LOGGER.exception("a call broke", exc_info=error)
            return Problem.saying(500, f"the call broke ({type(error).__name__})", code="broken")
        is_reply = error.result.outcome == "refused" and error.result.journal.last.reason is None
        return None if is_reply else Problem.of(error, self.client.chain)

    def headers(self, result: Result | None) -> dict[str, str]:
        """Return the headers of the response, and keep the result of a call that has ended."""
        id = self.request.call_id
        self._keep_once(result)
        headers = {
            "content-type": "application/json",
            "x-request-id": id,
            **headers_of(result, id, is_forwarded=self.forward is not None),
        }
        if self.forward is not None:
            headers[f"{PREFIX}outcome"] = "forwarded"
        return headers
