"""What a protocol is to whoever answers in it: its paths, and how it writes an answer, whole or
piece by piece.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson
from attrs import define, frozen

from rungwise.adapters.wires.plain.parts import list_of
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.values.usage import Usage

CREATED: Final = 1_750_000_000  # fixed, so that `cut_after` cuts at the same place in every run
DEFAULT_MODEL: Final = "embedded"
CHARACTERS_PER_TOKEN: Final = 4
SIGNATURE: Final = "c2lnbmVkIGJ5IHRoZSBlbWJlZGRlZCBwcm92aWRlcg=="
"""The default signature of reasoning, in protocols that sign it."""


@frozen
class AnswerRequest:
    """Hold what matters of a request."""

    model: str
    streams: bool
    body: Mapping[str, Any]
    number: int  # for the ids in the answer
    created: int = CREATED  # seconds since 1970

    @property
    def call_id(self) -> str:
        """Return the id of its call, which the journal has too."""
        return f"{self.number:016x}"


@frozen(kw_only=True)
class Completion:
    """Hold what is written: a reply of a script, or the result of a call."""

    text: str = ""
    reasoning: str = ""  # comes before the text
    reasoning_field: str = "reasoning_content"  # of chat completions
    commentary: str = ""  # comes before the text, too, in a protocol that has phases
    signature: str | None = None  # of the reasoning; "" makes one up, None leaves it unsigned
    refusal: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    # in the words of chat completions; "" for none, None for the one that fits
    finish: str | None = None
    model: str = ""  # "" for the requested one
    # as the protocol has it; {} for no report, None counts 4 characters a token
    usage: Mapping[str, Any] | None = None
    error_event: Mapping[str, Any] | None = None  # ends the answer
    error_status: int = 500  # that which the error would have as a response
    # whether the last chunk of chat completions has a whole message, or which
    final_message: bool | str | None = None
    chunk_size: int = 12  # characters of text in one piece of a stream
    done: bool = True  # whether a stream has its end

    @property
    def finish_reason(self) -> str | None:
        """Return the finish reason on the wire, None for none."""
        if self.finish is None:
            return "tool_calls" if self.tool_calls else "stop"
        return self.finish or None

    @property
    def finish_or_refusal(self) -> str | None:
        """Return the finish reason in a protocol in which a refusal is one."""
        if self.refusal and self.finish is None:
            return "content_filter"
        return self.finish_reason


@define(eq=False)
class AnswerStream(ABC):
    """Write one answer as a stream, piece by piece; each method yields the bytes to send."""

    request: AnswerRequest
    answer: Completion  # what is known of it: its model, its signature and its usage may come later

    @abstractmethod
    def begin(self) -> Iterator[bytes]:
        """Begin the answer."""

    @abstractmethod
    def reasoning(self, piece: str) -> Iterator[bytes]:
        """Add reasoning."""

    def commentary(self, piece: str) -> Iterator[bytes]:
        """Add commentary, in a protocol that has phases."""
        return iter(())

    @abstractmethod
    def text(self, piece: str) -> Iterator[bytes]:
        """Add visible text."""

    def refusal(self, pieces: Iterable[str]) -> Iterator[bytes]:
        """Add a refusal, where it is more than a finish reason."""
        return iter(())

    @abstractmethod
    def call(self, call: ToolCall, pieces: Iterable[str]) -> Iterator[bytes]:
        """Add a tool call, its arguments in pieces."""

    @abstractmethod
    def end(self) -> Iterator[bytes]:
        """End the answer: by its error, or by its finish reason and usage."""


class Language(ABC):
    """Write answers in one protocol; each protocol is a subclass."""

    api: str = ""  # its name on the command line
    stream_type = "text/event-stream"
    paths: str | tuple[str, ...] = ()  # how the path of a request ends
    has_phases = False  # whether commentary is something else than reasoning
    conversation = "messages"  # the member of a request's body that holds it
    caps: tuple[str, ...] = ("max_tokens",)
    """The members that may hold the output cap; a dot stands between an object and its member."""

    def speaks(self, path: str) -> bool:
        """Tell whether a POST to this path, without its query, is a request in this protocol."""
        return path.endswith(self.paths)

    def called(self, fault: str) -> str:
        """Return what is wrong with a request, with its own name for the messages."""
        return re.sub(r"^(the )?messages\b", rf"\1{self.conversation}", fault)

    def cap_in(self, body: Mapping[str, Any]) -> object:
        """Return the output cap in a request's body, or None."""
        for name in self.caps:
            place, _, member = name.rpartition(".")
            fields = body.get(place) if place else body
            if isinstance(fields, Mapping) and fields.get(member) is not None:
                return fields[member]
        return None

    def read_request(
        self,
        path: str,
        body: Mapping[str, Any],
        number: int,
    ) -> AnswerRequest:
        """Return what matters of a request."""
        model = str(body.get("model") or DEFAULT_MODEL)
        is_streaming = body.get("stream") is True
        return AnswerRequest(model, is_streaming, body, number)

    def listing(self, path: str, models: Iterable[str]) -> Any:
        """Return the answer to a GET of this path as JSON, or None if this protocol has no such
        path.
        """
        return None

    @abstractmethod
    def error(self, fields: Mapping[str, Any] | None, status: int) -> bytes:
        """Return the body of an error."""

    @abstractmethod
    def whole(self, answer: Completion, request: AnswerRequest) -> bytes:
        """Return the body of an answer that is not streamed."""

    @abstractmethod
    def events(self, answer: Completion, request: AnswerRequest) -> Iterator[bytes]:
        """Yield the pieces of a stream as they are sent."""


class SpokenLanguage(Language):
    """A protocol in which the gateway answers, too: it can write an answer while it comes."""

    ping: bytes = b":\n\n"
    """What says in a stream that it lives, and that its readers skip: a comment."""

    @abstractmethod
    def counts(self, usage: Usage) -> dict[str, Any]:
        """Return token counts in this protocol's form."""

    @abstractmethod
    def stream(self, answer: Completion, request: AnswerRequest) -> AnswerStream:
        """Begin to write an answer that is streamed."""

    def events(self, answer: Completion, request: AnswerRequest) -> Iterator[bytes]:
        """Yield the pieces of a stream as they are sent."""
        stream = self.stream(answer, request)
        size = answer.chunk_size
        yield from stream.begin()
        for piece in split(answer.reasoning, size):
            yield from stream.reasoning(piece)
        for piece in split(answer.text, size):
            yield from stream.text(piece)
        yield from stream.refusal(split(answer.refusal, size))
        for call in answer.tool_calls:
            yield from stream.call(call, split(call.arguments, size))
        yield from stream.end()


def event(value: object, name: str = "") -> bytes:
    """Return an event of a stream; bytes are written unchanged."""
    data = value if isinstance(value, bytes) else orjson.dumps(value)
    head = b"event: %b\n" % name.encode() if name else b""
    return head + b"data: " + data + b"\n\n"


def split(text: str, size: int) -> Iterator[str]:
    """Yield a text in pieces of this many characters."""
    return (text[start : start + size] for start in range(0, len(text), size))


def characters(content: object) -> int:
    """Count the characters of text in some content, at any depth."""
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list):
        return sum(map(characters, content))
    if isinstance(content, Mapping):
        return sum(characters(content.get(name)) for name in ("text", "content", "parts", "output"))
    return 0


def tokens(count: int) -> int:
    """Return the tokens of this many characters."""
    return -(-count // CHARACTERS_PER_TOKEN)


def estimated(answer: Completion, prompt: object) -> Usage:
    """Return the usage of a whole answer and of the content before it, both counted here."""
    written = len(answer.text) + len(answer.reasoning) + len(answer.refusal)
    for call in answer.tool_calls:
        written += len(call.name) + len(call.arguments)
    return Usage(
        input_tokens=tokens(characters(prompt)),
        output_tokens=tokens(written),
        reasoning_tokens=tokens(len(answer.reasoning)),
    )


def billed_beside(usage: Usage) -> dict[str, Any]:
    """Return what is billed beside tokens, as Anthropic and OpenRouter write it."""
    members: dict[str, Any] = {}
    if usage.cost is not None:
        members["cost"] = usage.cost
    if usage.units:
        counts = {f"{name}_requests": count for name, count in usage.units.items()}
        members["server_tool_use"] = counts
    return members


def input_of(arguments: str) -> Any:
    """Return the arguments as an object; anything else is sent as text."""
    try:
        value = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError:
        return arguments
    return value if isinstance(value, dict) else arguments


def contents_of(body: Mapping[str, Any]) -> list[Any]:
    """Return the contents of the messages in a request."""
    messages = list_of(body.get("messages"))
    return [one.get("content") for one in messages if isinstance(one, Mapping)]
