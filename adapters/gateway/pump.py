"""The bytes of a stream, made from the events of a call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from attrs import define, evolve, field

from rungwise.adapters.gateway.answers import (
    PREFIX,
    HttpResponse,
    Problem,
    ended,
    header_of_losses,
    text_of,
)
from rungwise.adapters.gateway.forwarded import ENCODING
from rungwise.adapters.gateway.handed import HandedText
from rungwise.adapters.gateway.languages.language import Completion
from rungwise.adapters.gateway.withholding import Withholding
from rungwise.adapters.gateway.writing import AnswerWriter, keys_of
from rungwise.fsm.call.run.result import CallError, Result
from rungwise.fsm.engine.journal.record import Step
from rungwise.fsm.replies.reply import Commentary, Discard, Reasoning, Text
from rungwise.fsm.values.usage import NO_USAGE

STREAMED: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""The headers that keep those between from keeping a stream, or a part of one."""
_LEFT_OUT: Final = "left out: "
"""How a step begins its note of what its backend does not get."""
_TAKEN_BACK: Final = (
    "streamed text has to be taken back; hold=True, or --hold, waits for text that is final"
)
TAKEN_BACK: Final = Problem.saying(503, _TAKEN_BACK, code="discarded")


@define(eq=False)
class Pump:
    """Make the bytes of a stream from the events of a call.

    Nothing is written before the first piece of text, so that a call that fails early has its
    status. What was written stays the beginning of the answer: if it is taken back and does not
    come again, the stream ends with an error.
    """

    call: AnswerWriter
    is_over: bool = False
    # the response of a call that ended before anything was written
    early: HttpResponse | None = None
    _is_begun: bool = False
    _has_head: bool = False  # whether the head of the response has gone out, with a ping
    _is_between: bool = True  # whether what was forwarded so far ends with an event
    _backend: str = ""
    _lost: list[str] = field(factory=list)  # what the backends so far did not get
    _stream: Any = None
    _answer: Completion = field(factory=Completion)
    _text: list[str] = field(factory=list)  # that is held until it is final
    _handed: HandedText = field(factory=HandedText)  # that is not
    _thoughts: list[str] = field(factory=list)
    _comments: list[str] = field(factory=list)
    # a key that a backend repeats may come in several pieces, and would leave in several events
    _withheld: dict[str, Withholding] = field(init=False)

    @_withheld.default
    def _nothing_withheld(self) -> dict[str, Withholding]:
        names = (
            "reasoning",
            "commentary",
            "text",
        )
        return {name: Withholding(keys_of(self.call.client)) for name in names}

    def response(self, pieces: Any, first: bytes | None) -> HttpResponse:
        """Return the response, once its first piece has come."""
        call = self.call
        if first is None:
            return self.early or call.failed(RuntimeError("the stream has no end"))
        headers = call.headers(None)
        headers["content-type"] = "text/event-stream"
        if call.forward is not None and call.forward.status is not None:
            headers["content-type"] = call.forward.content_type
        headers |= STREAMED
        headers |= header_of_losses(self._lost)
        return HttpResponse(200, headers, Rest(first, pieces, self))

    def take(self, event: object) -> bytes:
        """Take an event, and return what is to be written."""
        match event:
            case Step() if event.event == "sent":
                if event.note and event.note.startswith(_LEFT_OUT):
                    self._lost.append(event.note.removeprefix(_LEFT_OUT))
                self._backend = event.backend
                self._change(model=self.call.model_of(event.backend))
            case Text() if self.call.forward is not None:
                self._is_begun = True
                self._is_between = event.text.endswith(("\n\n", "\n\r\n"))
                return event.text.encode(ENCODING)
            case Text() if self._holds:
                self._text.append(event.text)
            case Text():
                piece = self._handed.add(event.text)
                return self._too_much() if piece is None else self._without_keys("text", piece)
            case Commentary() if self.call.language.has_phases:
                self._comments.append(event.text)
                if not self._answer.commentary:
                    self._change(commentary=event.text)
                return b"" if self._holds else self._without_keys("commentary", event.text)
            case Reasoning() if not self.call.shown(event.text, self._backend):
                pass
            case Reasoning():
                self._thoughts.append(event.text)
                return b"" if self._holds else self._without_keys("reasoning", event.text)
            case Discard() if self._holds:
                self._text = ["".join(self._text).removesuffix(event.text)]
            case Discard() if self.call.forward is not None:
                return self._too_much()
            case Discard():
                self._handed.take_back(event.text)
            case Result():
                return self._end(event)
        return b""

    def ping(self) -> bytes:
        """Return what says that the stream lives; nothing within an event.

        From here on the head has gone out, so an error can only be an event.
        """
        self._has_head = True
        return self.call.language.ping if self._is_between else b""

    def fail(self, error: Exception) -> bytes:
        """End the stream of a call that raised."""
        call = self.call
        problem = call.problem(error)
        self.is_over = True
        if problem is None and isinstance(error, CallError):
            return self._end(error.result)
        if not (self._is_begun or self._has_head):
            self.early = call.failed(error)
            return b""
        call.headers(error.result if isinstance(error, CallError) else None)
        return self.broken_off(problem or Problem.saying(500, "the call broke"))

    @property
    def _holds(self) -> bool:
        """Tell whether text waits until it is final: a value that is no object comes in one of
        ours, which the program must not see.
        """
        returns = self.call.asked.returns
        return self.call.hold or (returns is not None and returns.get("type") != "object")

    @property
    def _given(self) -> str:
        """Return the text that the program has, or has had held back for it."""
        return "".join(self._text) if self._holds else self._handed.text

    def _too_much(self) -> bytes:
        """End the stream of a program that has text which had to be taken back."""
        self.is_over = True
        return self.broken_off(TAKEN_BACK)

    def _change(self, **changes: Any) -> None:
        """Change what is known of the answer, also for the stream that is being written."""
        self._answer = evolve(self._answer, **changes)
        if self._stream is not None:
            self._stream.answer = self._answer

    def _without_keys(self, name: str, piece: str) -> bytes:
        """Write a piece of text or reasoning, but for what may be the beginning of a key."""
        written = b""
        for other, withheld in self._withheld.items():
            if other != name:
                written += self._written(other, withheld.end())
        return written + self._written(name, self._withheld[name].feed(piece))

    def _rest(self) -> bytes:
        """Write what was taken for the beginning of a key."""
        rests = [(name, each.end()) for name, each in self._withheld.items()]
        return b"".join(self._written(name, rest) for name, rest in rests)

    def _written(self, name: str, piece: str) -> bytes:
        """Write a piece of text or reasoning, behind the beginning of the answer."""
        if not piece:
            return b""
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
        headers = call.headers(result)
        if call.forward is not None:
            if result.outcome == "done":
                return b""
            cut = Problem.saying(503, "the provider's stream was cut", code="interrupted")
            return b"\n\n" + self.broken_off(cut)
        if self._handed.is_ahead and not self._text_of(result).startswith(self._handed.text):
            return self._too_much()
        written = self._missing(result)
        self._answer = self._stream.answer = ended(self._answer, result, call.language)
        if self._answer.refusal:
            written += b"".join(self._stream.refusal([self._answer.refusal]))
        for each in self._answer.tool_calls:
            written += b"".join(self._stream.call(each, [each.arguments]))
        return written + self._comment(headers) + b"".join(self._stream.end())

    def _missing(self, result: Result) -> bytes:
        """Write the reasoning and text of a result that are not written yet."""
        call = self.call
        text = self._text_of(result)
        written = self._begun()
        if self._holds:
            sent = ""
            reasoning, commentary = call.reasoning_and_commentary(result)
            written += self._written("reasoning", reasoning)
            written += self._written("commentary", commentary)
        else:
            sent = self._handed.text
            reasoning = "".join(self._thoughts)
            commentary = "".join(self._comments)
            if not text.startswith(sent):
                text = sent  # what a program has is always the beginning of the answer
        written += self._without_keys("text", text[len(sent) :]) + self._rest()
        self._change(text=text, reasoning=reasoning, commentary=commentary)
        return written

    def _text_of(self, result: Result) -> str:
        return text_of(result, is_json_wanted=self.call.asked.returns is not None)

    def _comment(self, headers: Mapping[str, str]) -> bytes:
        """Write our headers as a comment, for the head of the response has gone long ago.

        Google's SDK would take a comment for JSON.
        """
        if self.call.language.api == "gemini":
            return b""
        lines = [
            f": {name}: {value}\n" for name, value in headers.items() if name.startswith(PREFIX)
        ]
        return "".join([*lines, "\n"]).encode()

    def broken_off(self, problem: Problem) -> bytes:
        """Return the error that ends the stream."""
        self._change(
            text=self._given,
            reasoning="".join(self._thoughts),
            commentary="".join(self._comments),
            error_event=problem.event(),
            error_status=problem.status,
        )
        return self._begun() + self._rest() + b"".join(self._stream.end())


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
