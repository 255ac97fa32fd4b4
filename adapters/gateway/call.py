"""Run the call of one request, in a thread or in an event loop, and write its answer in the
request's protocol.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from attrs import define, evolve, field

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
from rungwise.adapters.gateway.forwarded import ENCODING, Forward
from rungwise.adapters.gateway.languages.language import AnswerRequest, Completion, SpokenLanguage
from rungwise.adapters.gateway.reading import Asked
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.errors import ConfigurationError, IllegalEvent
from rungwise.fsm.replies.reply import Discard, Reasoning, Text
from rungwise.fsm.values.usage import NO_USAGE

LOGGER: Final = logging.getLogger("rungwise")
_TAKEN_BACK: Final = (
    "streamed text has to be taken back; hold=True, or --hold, waits for text that is final"
)
TAKEN_BACK: Final = Problem.saying(503, _TAKEN_BACK, code="discarded")

Keep = Callable[[str, Result], object]
"""Keep the result of a call, by its id."""


@define(eq=False)
class GatewayCall:
    """Run the call of one request, and write its answer."""

    language: SpokenLanguage
    request: AnswerRequest
    client: Client
    asked: Asked
    options: dict[str, Any]
    hold: bool
    keep: Keep | None
    forward: Forward | None = None
    _is_kept: bool = field(default=False, init=False)

    def forwarded(self, forward: Forward, body: bytes) -> GatewayCall:
        """Return the call that goes word for word to one backend."""
        client = copy.copy(self.client)
        # which shares its connections and clocks
        client.runtime = self.client.runtime.with_chain((forward,), stream_calls=forward.streams)
        options = {
            name: each for name, each in self.options.items() if name in ("deadline", "headers")
        }
        if forward.cap is not None:
            options["max_tokens"] = forward.cap
        policy = self.options.get("policy") or client.policy
        # nothing is tried again
        options["policy"] = evolve(policy, limits=Limits(**dict.fromkeys(policy.limits, 0)))
        options["input_tokens"] = max(1, len(body) // 3)
        return evolve(
            self, forward=forward, client=client, asked=Asked("forwarded"), options=options
        )

    # in a thread, and in an event loop

    def run(self) -> HttpResponse:
        """Run the call in this thread; a streamed answer begins with its first piece."""
        if self.request.streams:
            pump = Pump(self)
            return pump.response(pieces := self._pieces(pump), next(pieces, None))
        try:
            return self.whole(
                self.client.call(self.asked.messages, returns=self.asked.returns, **self.options)
            )
        except Exception as error:
            return self.failed(error)

    def _pieces(self, pump: Pump) -> Iterator[bytes]:
        stream = None
        try:
            stream = self.client.stream(
                self.asked.messages, returns=self.asked.returns, **self.options
            )
            with stream:
                for event in stream:
                    if piece := pump.take(event):
                        yield piece
                    if pump.is_over:
                        return
        except Exception as error:
            if piece := pump.fail(error):
                yield piece
        finally:
            self._keep_end_of(stream)

    async def arun(self) -> HttpResponse:
        """Run the call in this event loop."""
        if self.request.streams:
            pump = Pump(self)
            return pump.response(pieces := self._apieces(pump), await anext(pieces, None))
        try:
            return self.whole(
                await self.client.acall(
                    self.asked.messages, returns=self.asked.returns, **self.options
                )
            )
        except Exception as error:
            return self.failed(error)
        except BaseException as error:  # the program went away
            self._kept(getattr(error, "result", None))
            raise

    async def _apieces(self, pump: Pump) -> AsyncIterator[bytes]:
        stream = None
        try:
            stream = self.client.astream(
                self.asked.messages, returns=self.asked.returns, **self.options
            )
            async with stream:
                async for event in stream:
                    if piece := pump.take(event):
                        yield piece
                    if pump.is_over:
                        return
        except Exception as error:
            if piece := pump.fail(error):
                yield piece
        finally:
            self._keep_end_of(stream)

    def _keep_end_of(self, stream: Any) -> None:
        """Keep the result of a stream that was left before its end."""
        if stream is not None and not self._is_kept:
            with suppress(IllegalEvent):
                self._kept(stream.result)

    def _kept(self, result: Result | None) -> None:
        if result is not None and self.keep is not None and not self._is_kept:
            self._is_kept = True
            self.keep(self.request.call_id, result)

    # what the answer is

    def whole(self, result: Result) -> HttpResponse:
        """Return a whole answer."""
        headers = self.headers(result)
        if self.forward is not None:
            return self._raw(headers)
        text = text_of(result, is_json_wanted=self.asked.returns is not None)
        model = self.model_of(result.backend)
        reasoning = self.shown(result.reasoning, result.backend)
        answer = ended(
            Completion(text=text, reasoning=reasoning, model=model), result, self.language
        )
        return HttpResponse(200, headers, self.language.whole(answer, self.request))

    def model_of(self, backend: str) -> str:
        """Return the model of a backend, which not every reply says."""
        return next((each.model for each in self.client.chain if each.name == backend), "")

    def shown(self, reasoning: str, backend: str) -> str:
        """Return the reasoning of a backend, if the program expects any: Anthropic's SDKs do where
        it was asked for.
        """
        own = any(
            each.name == backend and getattr(each, "API", None) == "anthropic"
            for each in self.client.chain
        )
        is_expected = (
            self.language.api != "anthropic" or own or self.request.body.get("thinking") is not None
        )
        return reasoning if is_expected else ""

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
        return problem.response(self.language, None if result is None else self.headers(result))

    def _raw(self, headers: dict[str, str]) -> HttpResponse:
        assert self.forward is not None
        headers["content-type"], body = self.forward.content_type, self.forward.received
        status = self.forward.status or 200
        if status >= 400:
            body = without_keys(body.decode(ENCODING), self.client.chain).encode(ENCODING)
        return HttpResponse(status, headers, body)

    def problem(self, error: Exception) -> Problem | None:
        """Return what an error is for the program; None for a refusal that is a reply."""
        if isinstance(error, ConfigurationError):
            return Problem.saying(400, str(error))
        if not isinstance(error, CallError):
            LOGGER.exception("a call broke", exc_info=error)
            return Problem.saying(500, f"the call broke ({type(error).__name__})", code="broken")
        is_reply = error.result.outcome == "refused" and error.result.journal.last.reason is None
        return None if is_reply else Problem.of(error, self.client.chain)

    def headers(self, result: Result | None) -> dict[str, str]:
        """Return the headers of the response, and keep the result of a call that has ended."""
        id = self.request.call_id
        self._kept(result)
        headers = {"content-type": "application/json", "x-request-id": id, **headers_of(result, id)}
        if self.forward is not None:
            headers[f"{PREFIX}outcome"] = "forwarded"
        return headers


@define(eq=False)
class Pump:
    """Make the bytes of a stream from the events of a call.

    Nothing is written before the first piece of text, so that a call that fails early has its
    status. What was written stays the beginning of the answer: if it must be taken back, the stream
    ends with an error.
    """

    call: GatewayCall
    is_over: bool = False
    # the response of a call that ended before anything was written
    early: HttpResponse | None = None
    _is_begun: bool = False
    _backend: str = ""
    _stream: Any = None
    _answer: Completion = field(factory=Completion)
    _text: list[str] = field(factory=list)
    _thoughts: list[str] = field(factory=list)

    def response(self, pieces: Any, first: bytes | None) -> HttpResponse:
        """Return the response, once its first piece has come."""
        call = self.call
        if first is None:
            return self.early or call.failed(RuntimeError("the stream has no end"))
        headers = call.headers(None)
        headers["content-type"] = call.forward.content_type if call.forward else "text/event-stream"
        return HttpResponse(
            200, {**headers, "cache-control": "no-store"}, Rest(first, pieces, self)
        )

    def take(self, event: object) -> bytes:
        """Take an event, and return what is to be written."""
        match event:
            case Step() if event.event == "sent":
                self._backend = event.backend
                self._change(model=self.call.model_of(event.backend))
            case Text() if self.call.forward is not None:
                self._is_begun = True
                return event.text.encode(ENCODING)
            case Text():
                self._text.append(event.text)
                return b"" if self._holds else self._written("text", event.text)
            case Reasoning() if not self.call.shown(event.text, self._backend):
                pass
            case Reasoning():
                self._thoughts.append(event.text)
                return b"" if self._holds else self._written("reasoning", event.text)
            case Discard() if self._holds:
                self._text = ["".join(self._text).removesuffix(event.text)]
            case Discard():
                self.is_over = True
                return self.broken_off(TAKEN_BACK)
            case Result():
                return self._end(event)
        return b""

    def fail(self, error: Exception) -> bytes:
        """End the stream of a call that raised."""
        call, problem = self.call, self.call.problem(error)
        self.is_over = True
        if problem is None and isinstance(error, CallError):
            return self._end(error.result)
        if not self._is_begun:
            self.early = call.failed(error)
            return b""
        call.headers(error.result if isinstance(error, CallError) else None)
        return self.broken_off(problem or Problem.saying(500, "the call broke"))

    @property
    def _holds(self) -> bool:
        returns = self.call.asked.returns
        return self.call.hold or (returns is not None and returns.get("type") != "object")

    def _change(self, **changes: Any) -> None:
        self._answer = evolve(self._answer, **changes)
        if self._stream is not None:
            self._stream.answer = self._answer

    def _written(self, name: str, piece: str) -> bytes:
        return self._begun() + b"".join(getattr(self._stream, name)(piece))

    def _begun(self) -> bytes:
        """Begin the answer, unless it has begun; one that was forwarded has its own beginning."""
        if self._stream is not None:
            return b""
        call = self.call
        self._answer = evolve(self._answer, usage=call.language.counts(NO_USAGE))
        self._stream = call.language.stream(self._answer, call.request)
        is_begun = self._is_begun
        self._is_begun = True
        return b"" if is_begun else b"".join(self._stream.begin())

    def _end(self, result: Result) -> bytes:
        """Write what is missing of the answer, and its end."""
        call = self.call
        self.is_over = True
        about = call.headers(result)
        if call.forward is not None:
            cut = Problem.saying(503, "the provider's stream was cut", code="interrupted")
            return b"" if result.outcome == "done" else b"\n\n" + self.broken_off(cut)
        text = text_of(result, is_json_wanted=call.asked.returns is not None)
        gathered = "".join(self._text)
        if self._holds:
            gathered = ""
            written = self._begun()
            thoughts = call.shown(result.reasoning, result.backend)
            written += self._written("reasoning", thoughts) if thoughts else b""
        else:
            thoughts = "".join(self._thoughts)
            written = self._begun()
            text = text if text.startswith(gathered) else gathered
        rest = text[len(gathered) :]
        written += self._written("text", rest) if rest else b""
        self._change(text=text, reasoning=thoughts)
        self._answer = self._stream.answer = ended(self._answer, result, call.language)
        if self._answer.refusal:
            written += b"".join(self._stream.refusal([self._answer.refusal]))
        for each in self._answer.tool_calls:
            written += b"".join(self._stream.call(each, [each.arguments]))
        # Our headers go into a comment, for the head has gone long ago; Google's SDK takes a
        # comment for JSON.
        ours = [f": {name}: {value}\n" for name, value in about.items() if name.startswith(PREFIX)]
        comment = "".join([*ours, "\n"]).encode() if call.language.api != "gemini" else b""
        return written + comment + b"".join(self._stream.end())

    def broken_off(self, problem: Problem) -> bytes:
        """Return the error that ends the stream."""
        self._change(
            text="".join(self._text), reasoning="".join(self._thoughts), error_event=problem.event()
        )
        return self._begun() + b"".join(self._stream.end())


@define(eq=False)
class Rest:
    """Iterate over a first piece and those that follow, in a thread or in an event loop, and close
    them.
    """

    _first: bytes | None
    _pieces: Any
    pump: Pump

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        first = self._first
        self._first = None
        return next(self._pieces) if first is None else first

    def close(self) -> None:
        """End the call."""
        self._pieces.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        first = self._first
        self._first = None
        return await anext(self._pieces) if first is None else first

    async def aclose(self) -> None:
        """End the call."""
        await self._pieces.aclose()
