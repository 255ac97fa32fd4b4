"""Read a reply of Ollama's chat, whole or streamed: its parts, its tokens and its tool calls.

A stream is JSON lines, each a message with what is new; the last one says `done` and counts the
tokens. Calls are never cut into pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.chat.dialects import STOP_REASONS
from rungwise.adapters.wires.counts import more_of
from rungwise.adapters.wires.draft import (
    Draft,
    classified,
    count_of,
    finish_in,
    malformed,
    raw_of,
    settled,
    stop_of,
)
from rungwise.adapters.wires.json_text import arguments_of, input_in, mended
from rungwise.adapters.wires.plain.parts import (
    block_in,
    blocks_in,
    mapping_of,
    text_in,
    text_of_blocks,
)
from rungwise.adapters.wires.provider_data import Aside, MediaSoFar
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.decoding import StreamDecoder
from rungwise.adapters.wires.reading.events import Events
from rungwise.adapters.wires.reading.ndjson import LineReader
from rungwise.fsm.replies.assembly.assembly import WEIGHT, Kind
from rungwise.fsm.replies.assembly.origin import FOREIGN_ROLES
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Part, ReasoningPart, TextPart, ToolCall
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.values.usage import Usage

RawCall = tuple[str, str, str]
"""A tool call as it came: its id, its name and its arguments."""


def usage_of(value: Mapping[str, Any]) -> Usage | None:
    """Return the tokens that a reply counts, or None if it counts none."""
    prompt = count_of(value.get("prompt_eval_count"))
    output = count_of(value.get("eval_count"))
    if not prompt and not output:
        return None
    return Usage(input_tokens=prompt, output_tokens=output)


def calls_in(message: Any) -> list[RawCall]:
    """Return the tool calls of a message; arguments that are objects become JSON text."""
    calls_here: list[RawCall] = []
    for call in blocks_in(mapping_of(message).get("tool_calls")):
        name = text_in(call.get("function"), "name") or text_in(call, "name")
        arguments = arguments_of(input_in(call, "arguments"))
        if name or arguments:
            calls_here.append((text_in(call, "id"), name, arguments))
    return calls_here


def _finish_in(value: Mapping[str, Any]) -> object:
    """Return the reason why a reply ended, beside its message or in it, or None."""
    finish = finish_in(value, "done_reason", STOP_REASONS)
    if finish is None:
        finish = finish_in(mapping_of(value.get("message")), "done_reason", STOP_REASONS)
    return finish


_KINDS: Final[Mapping[str, Kind]] = {
    "content": (Text, "content"),
    "thinking": (Reasoning, "thinking"),
}
"""The members of a message that hold text."""
_ABOUT: Final = frozenset({"model", "remote_model", "remote_host", "created_at", "message", "done"})
"""All members of a line with a piece of text."""
_MESSAGE: Final = frozenset({"role", "content", "thinking"})
"""All members of its message."""
_LISTS: Final = frozenset({"logprobs"})
_EVENTS: Final = Events(
    frozenset({"message"}),
    around=(("message", frozenset({"content", "thinking", "tool_calls"})),),
)


def _message_in(value: Mapping[str, Any]) -> Any:
    """Return the message of a line. A bare text is one only in a line that says whether it is the
    last; elsewhere it is that of an error. One of another role than the model's says nothing.
    """
    message = value.get("message", value.get("response"))
    if isinstance(message, list):
        message = block_in(message)
    if mapping_of(message).get("role") in FOREIGN_ROLES:
        message = {}
    return message if "done" in value or not isinstance(message, str) else None


def _text_in(value: Mapping[str, Any], message: Any) -> str:
    """Return the text of a line: that of its message, or its `response`, as `/api/generate` has
    it.
    """
    content = message.get("content") if isinstance(message, Mapping) else message
    return text_of_blocks(content or value.get("response"))


@define(eq=False, repr=False)
class OllamaDecoder(StreamDecoder):
    """Turn the lines of one streamed reply into deltas, and at its end into a reply."""

    EVENTS = BODIES = _EVENTS
    READS_EVENTS = False

    _calls: list[RawCall] = field(factory=list, init=False)
    _media: MediaSoFar = field(factory=MediaSoFar, init=False)
    _aside: Aside = field(factory=Aside, init=False)
    _finish: object = field(default=None, init=False)  # the server's word for why it ended
    _usage: Usage | None = field(default=None, init=False)
    _model: object = field(default=None, init=False)
    _created: object = field(default=None, init=False)  # when it was written

    @property
    def size(self) -> int:
        """Return roughly how many bytes are held."""
        return super().size + self._media.size

    def _make_reader(self) -> LineReader:
        return LineReader()

    def piece_in(self, value: Any) -> Piece | None:
        """Return the piece of a line that holds nothing but text or reasoning, as most do."""
        if (
            not isinstance(value, dict)
            or not self.started
            or value.get("done") is not False
            or not value.keys() <= _ABOUT
        ):
            return None
        message = value.get("message")
        if not isinstance(message, dict) or not message.keys() <= _MESSAGE:
            return None
        if message.get("role") in FOREIGN_ROLES:
            return None
        text = message.get("content")
        thought = message.get("thinking")
        if text and thought:
            return None
        if text and isinstance(text, str):
            return _KINDS["content"], text
        if thought and isinstance(thought, str):
            return _KINDS["thinking"], thought
        return None

    def take_event(
        self,
        value: Mapping[str, Any],
        data: bytes,
        *,
        is_error: bool,
    ) -> None:
        """Take the object of any other line."""
        message = _message_in(value)
        is_last = value.get("done") is True
        if is_last and self._came(message):
            message = {}
        if isinstance(message, dict | str) or is_last:
            self._take_message(value, message)
        elif not value.get("error"):
            self.letters_beside += len(data)
        if isinstance(value.get("logprobs"), list):
            self.assembly.held += self._aside.take({"logprobs": value["logprobs"]}, grows=_LISTS)
        if finish := _finish_in(value):
            self._finish = settled(self._finish, finish, STOP_REASONS)
        self._usage = more_of(self._usage, usage_of(value))
        if value.get("error"):
            self.stop(classified(None, self.headers, data))
        elif is_last:
            self.done = True
            # some servers say it with every line
            self.finished = self._finish is not None or self._usage is not None

    def _came(self, message: Any) -> bool:
        """Tell whether the last message is the whole reply over again.

        One call alone may be meant twice; only with another one, or with a text, it is not.
        """
        calls = calls_in(message)
        text = text_in(message, "content")
        if not calls or calls != self._calls or not (text or len(calls) > 1):
            return False
        return text == self.assembly.text_of(_KINDS["content"])

    def _take_message(self, value: Mapping[str, Any], message: Any) -> None:
        """Take what is new of the reply."""
        self.started = True
        if self._model is None:
            self._model = value.get("model")
            self._created = value.get("created_at")
        if thought := text_in(message, "thinking"):
            self.take_piece(_KINDS["thinking"], thought)
        if text := _text_in(value, message):
            is_thought = mapping_of(message).get("thinking") is True
            self.take_piece(_KINDS["thinking" if is_thought else "content"], text)
        self._media.take(mapping_of(message), self.provider)
        calls = calls_in(message) or calls_in(value)
        if self._lists.is_all(calls, lambda call: call):
            self._calls.clear()
            self.assembly.unshown = 0
        for call in calls:
            self._calls.append(call)
            letters = sum(map(len, call))
            self.assembly.held += letters + WEIGHT
            self.assembly.unshown += letters

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        text = self.assembly.text_of(_KINDS["content"])
        reasoning = self.assembly.text_of(_KINDS["thinking"])
        draft = self._draft(text, reasoning, self._calls)
        raw = self._aside.members or None
        return draft.reply(
            error=self.error,
            cut=is_cut,
            cause=cause,
            raw=raw,
        )

    def _draft(
        self,
        text: str,
        reasoning: str,
        calls: Iterable[RawCall],
    ) -> Draft:
        """Return the draft of a reply."""
        parts: list[Part] = []
        if reasoning:
            parts.append(ReasoningPart(reasoning, provider=self.provider))
        parts += self._media.parts
        if text:
            parts.append(TextPart(text))
        for id, name, arguments in mended([*calls]):
            parts.append(ToolCall(id, name, arguments, provider=self.provider))
        about = [str(self._model), str(self._created), str(self._usage), text, reasoning]
        return Draft(
            parts=parts,
            # The server has few words of its own; the words that it passes on may be anybody's.
            stop=stop_of(self._finish, STOP_REASONS),
            usage=self._usage,
            model=self._model,
            is_ordered=False,
            about=about,
        )

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the reply of a whole body."""
        error = classified(None, self.headers, body) if value.get("error") else None
        message = _message_in(value)
        is_done = value.get("done") is True
        if not isinstance(message, dict | str) and not error and not is_done:
            return malformed("the body has neither a message nor an end")
        self._model = value.get("model")
        self._created = value.get("created_at")
        self._finish = _finish_in(value)
        self._usage = usage_of(value)
        self._media.take(mapping_of(message), self.provider)
        text = mended(_text_in(value, message))
        reasoning = mended(text_in(message, "thinking"))
        draft = self._draft(text, reasoning, calls_in(message) or calls_in(value))
        return draft.reply(error=error, cut=not is_done, raw=raw_of(value, body))
