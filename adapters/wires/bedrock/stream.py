"""Read a streamed reply of Converse: what its events add to it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import Factory, define, field

from rungwise.adapters.wires.anthropic.blocks import opaque_parts, text_parts, thinking_parts
from rungwise.adapters.wires.bedrock.events import FrameReader
from rungwise.adapters.wires.bedrock.plain import SERVERS
from rungwise.adapters.wires.bedrock.reply import STOP_REASONS, parts_of, reply_of, tool_call
from rungwise.adapters.wires.draft import classified, malformed, raw_of, stop_of, text_at
from rungwise.adapters.wires.json_text import HeldText, load, weight_of
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.blocks import Block, BlockDecoder, index_of
from rungwise.fsm.call.conversation.parts import Part
from rungwise.fsm.call.conversation.reply import Reasoning, Reply, Text
from rungwise.fsm.failures.failure import Failure


@define(eq=False)
class _ConverseBlock(Block):
    """Gather one block while it arrives."""

    signatures: list[str] = Factory(list)
    sealed: list[str] = Factory(list)
    input: HeldText = Factory(HeldText)

    def parts(self, text: str, provider: str) -> Iterator[Part]:
        if self.kind == "text":
            yield from text_parts(text, [*self.citations], provider)
        elif self.kind == "reasoningContent":
            yield from thinking_parts(text, "".join(self.signatures), provider)
            if self.sealed and self.is_whole:
                yield from opaque_parts({"reasoningContent": {"redactedContent": _joined(self.sealed)}}, provider)
        elif self.kind == "toolUse" and self.start.get("type") != SERVERS:
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
class ConverseDecoder(BlockDecoder[_ConverseBlock]):
    """Turn the bytes of one streamed reply into deltas, and at its end into a reply or a failure."""

    BLOCK = _ConverseBlock
    KINDS = {Text: "text", Reasoning: "reasoningContent"}  # noqa: RUF012 (never changed)
    STOP_REASONS = STOP_REASONS

    _usage: Any = field(default=None, init=False)

    def _make_reader(self) -> FrameReader:
        return FrameReader()

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

    # all other events

    def take_value(self, value: Mapping[str, Any], data: bytes, *, is_error: bool) -> None:
        """Take the object of any other event."""
        ((name, event),) = value.items()
        if not isinstance(event, dict):
            return
        index = index_of(event.get("contentBlockIndex"))
        if name == "messageStart":
            self.started = True
        elif name == "contentBlockStart":
            self._take_start(index, event.get("start"), data)
        elif name == "contentBlockDelta":
            self._take_delta(index, event.get("delta"), data)
        elif name == "contentBlockStop":
            self._end(index)
        elif name == "messageStop":
            self.started = True
            self._take_stop(event.get("stopReason"))
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
        block = self._begin(index, kind, members[kind])
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
            block.signatures.append(thought["signature"])
            self.letters_beside += len(thought["signature"])
        sealed = text_at(thought, "redactedContent")
        if sealed:
            block.sealed.append(sealed)
            self.letters_beside += len(sealed)

    # the reply

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
