"""Read a streamed reply of Converse: what its events add to it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import Factory, define, field

from rungwise.adapters.wires.anthropic.blocks import opaque_parts, text_parts, thinking_parts
from rungwise.adapters.wires.bedrock.events import FrameReader
from rungwise.adapters.wires.bedrock.reply import STOP_REASONS, parts_of, reply_of, tool_call
from rungwise.adapters.wires.draft import classified, malformed, raw_of, settled, stop_of, text_at
from rungwise.adapters.wires.json_text import HeldText, load, weight_of
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.decoding import Kind, StreamDecoder
from rungwise.fsm.call.conversation.parts import Part
from rungwise.fsm.call.conversation.reply import Reasoning, Reply, Text
from rungwise.fsm.failures.failure import Failure

_WEIGHT: Final = 1_000
"""The bytes that a block counts for, without its text."""
_KINDS: Final = {Text: "text", Reasoning: "reasoningContent"}


@define(eq=False)
class _ConverseBlock:
    """Gather one block while it arrives; the decoder holds its text."""

    place: int
    kind: str
    start: dict[str, Any] = Factory(dict)
    is_whole: bool = False
    signature: Any = None
    sealed: list[str] = Factory(list)
    citations: list[Any] = Factory(list)
    input: HeldText = Factory(HeldText)

    def parts(self, text: str, provider: str) -> Iterator[Part]:
        if self.kind == "text":
            yield from text_parts(text, [*self.citations], provider)
        elif self.kind == "reasoningContent":
            yield from thinking_parts(text, self.signature, provider)
            if self.sealed and self.is_whole:
                yield from opaque_parts({"reasoningContent": {"redactedContent": _joined(self.sealed)}}, provider)
        elif self.kind == "toolUse" and not self.start.get("type"):
            yield tool_call(self.start, self.input.getvalue() or ("{}" if self.is_whole else ""))
        elif self.kind == "toolUse" and self.is_whole:  # of a tool that the server runs
            try:
                input = load(self.input.getvalue().encode("utf-8", "replace") or b"{}")
            except ValueError:
                return
            yield from opaque_parts({"toolUse": {**self.start, "input": input}}, provider)
        elif self.kind == "toolResult" and self.is_whole:
            yield from opaque_parts({"toolResult": {**self.start, "content": self.citations}}, provider)


@define(eq=False, repr=False)
class ConverseDecoder(StreamDecoder):
    """Turn the bytes of one streamed reply into deltas, and at its end into a reply or a failure."""

    _usage: Any = field(default=None, init=False)
    _stop: object = field(default=None, init=False)
    _blocks: list[_ConverseBlock] = field(factory=list, init=False)
    _open: dict[object, _ConverseBlock] = field(factory=dict, init=False)
    _current: Kind | None = field(default=None, init=False)
    _held: int = field(default=0, init=False)

    def _make_reader(self) -> FrameReader:
        return FrameReader()

    @property
    def held_bytes(self) -> int:
        """Return roughly how many bytes are held, without the texts."""
        return self._held + _WEIGHT * len(self._blocks)

    def piece_in(self, value: Any) -> Piece | None:
        """Return the text or reasoning of an event that holds nothing else, with the index of its block."""
        event = value.get("contentBlockDelta")
        delta = event.get("delta") if isinstance(event, dict) else None
        if not isinstance(delta, dict) or len(delta) != 1 or type(event.get("contentBlockIndex")) is not int:
            return None
        if isinstance(delta.get("text"), str):
            return (Text, event["contentBlockIndex"]), delta["text"]
        thought = delta.get("reasoningContent")
        if isinstance(thought, dict) and len(thought) == 1 and isinstance(thought.get("text"), str):
            return (Reasoning, event["contentBlockIndex"]), thought["text"]
        return None

    def take_piece(self, kind: Kind, text: str) -> None:
        """Take a piece of the block that is open under this index."""
        if kind != self._current:
            self._flush()
            block = self._block(kind[1], _KINDS[kind[0]])
            self._current, self._kind = kind, (kind[0], block.place)
            self.started = True
        self._new.append(text)

    def _block(self, index: object, kind: str) -> _ConverseBlock:
        """Return the open block of an index, or a new block if none of that kind is open: few are announced."""
        block = self._open.get(index)
        if block is None or block.kind != kind:
            block = self._open[index] = _ConverseBlock(len(self._blocks), kind)
            self._blocks.append(block)
            current = self._current
            if current and current[1] == index and _KINDS[current[0]] != kind:
                self._current = None
        return block

    # all other events

    def take_value(self, value: Mapping[str, Any], data: bytes, *, is_error: bool) -> None:
        """Take the object of any other event."""
        ((name, event),) = value.items()
        if not isinstance(event, dict):
            return
        index = event.get("contentBlockIndex")
        index = index if type(index) is int else -1
        if name == "messageStart":
            self.started = True
        elif name == "contentBlockStart":
            self._take_start(index, event.get("start"), data)
        elif name == "contentBlockDelta":
            self._take_delta(index, event.get("delta"), data)
        elif name == "contentBlockStop":
            block = self._open.pop(index, None)
            self._current = None
            if block is not None:
                block.is_whole = True
        elif name == "messageStop":
            self.started = True
            self._stop = settled(self._stop, event.get("stopReason"), STOP_REASONS)
            self.done = stop_of(self._stop, STOP_REASONS)[0] is not None
        elif name == "metadata":  # which ends it
            self._usage = event.get("usage")
            self._held += weight_of(data)
            self.finished = self._stop is not None
        else:
            self.letters_beside += len(data)

    def _take_start(self, index: int, start: Any, data: bytes) -> None:
        members = start if isinstance(start, dict) else {}
        kind = next((name for name in ("toolUse", "toolResult") if isinstance(members.get(name), dict)), None)
        if kind is None:
            return
        self.started = True
        self._open.pop(index, None)
        block = self._block(index, kind)
        self._current = None
        block.start = members[kind]
        self.unshown += len(text_at(block.start, "name"))
        self._held += weight_of(data)

    def _take_delta(self, index: int, delta: Any, data: bytes) -> None:
        if not isinstance(delta, dict):
            return
        self.started = True
        call, thought, result = delta.get("toolUse"), delta.get("reasoningContent"), delta.get("toolResult")
        self._held += len(data)
        if isinstance(delta.get("text"), str):
            self.take_piece((Text, index), delta["text"])
        if isinstance(call, dict):
            piece = text_at(call, "input")
            self._block(index, "toolUse").input.write(piece)
            self.unshown += len(piece)
        if isinstance(thought, dict):
            self._take_thought(index, thought)
        if delta.get("citation"):
            self._held += weight_of(data)
            self._block(index, "text").citations.append(delta["citation"])
        if isinstance(result, list):
            self._held += weight_of(data)
            self._block(index, "toolResult").citations += result

    def _take_thought(self, index: int, thought: Mapping[str, Any]) -> None:
        if isinstance(thought.get("text"), str):
            self.take_piece((Reasoning, index), thought["text"])
        block = self._block(index, "reasoningContent")
        if isinstance(thought.get("signature"), str):
            block.signature = (block.signature or "") + thought["signature"]
            self.letters_beside += len(thought["signature"])
        sealed = text_at(thought, "redactedContent")
        if sealed:
            block.sealed.append(sealed)
            self.letters_beside += len(sealed)

    # the reply

    def parts(self) -> tuple[Part, ...]:
        """Return the parts so far, block by block."""
        parts: list[Part] = []
        for block in self._blocks:
            parts += block.parts(self.text_of(block.place), self.provider)
        return tuple(parts)

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        return reply_of(self.parts(), self._stop, self._usage, error=self.error, cut=is_cut, cause=cause)

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the reply of a whole body."""
        output, stop, error = value.get("output"), value.get("stopReason"), None
        message = output.get("message") if isinstance(output, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, list):
            if value.get("__type") or value.get("message"):
                error = classified(None, self.headers, body)
            elif not stop:
                return malformed("the body has no message")
            content = []
        parts = [part for block in content for part in parts_of(block, self.provider)]
        is_cut = stop_of(stop, STOP_REASONS)[0] is None
        return reply_of(parts, stop, value.get("usage"), error=error, cut=is_cut, raw=raw_of(value, body))


def _joined(pieces: list[str]) -> str:
    """Join pieces of base64."""
    try:
        return base64.b64encode(b"".join([base64.b64decode(piece, validate=True) for piece in pieces])).decode()
    except ValueError:
        return "".join(pieces)
