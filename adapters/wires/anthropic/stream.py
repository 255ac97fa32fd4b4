"""Read a message, whole or streamed: its blocks, stop reason, tokens, and what each event adds.

A stream is `message_start`; for each block `content_block_start`, deltas and `content_block_stop`,
all with its index; then `message_delta` with the stop reason and the tokens; `message_stop`. Other
servers of the protocol leave out starts and stops, or begin blocks with text in them. So a delta
begins a block if none of its kind is open, and a stop reason alone makes a message whole.

Rungwise does not know every type of block. One that it does not know is kept as it came, for its
provider, and the texts in its deltas are gathered by the member that holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.anthropic.events import DELTAS, EVENT, EVENTS, INPUT, type_of
from rungwise.adapters.wires.anthropic.usage import usage_of
from rungwise.adapters.wires.counts import more_of
from rungwise.adapters.wires.draft import (
    COMMON,
    Draft,
    at_least,
    count_of,
    finish_in,
    grown,
    malformed,
    raw_of,
    stop_of,
)
from rungwise.adapters.wires.json_text import arguments_of, input_in, load, mended, weight_of
from rungwise.adapters.wires.plain.parts import block_in, blocks_in, mapping_of, text_in
from rungwise.adapters.wires.provider_data import citations_of, copy_if_sendable, media_parts
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.blocks import Block, BlockDecoder, index_of
from rungwise.adapters.wires.reading.events import Events
from rungwise.adapters.wires.unread import TWICE, owned
from rungwise.fsm.replies.assembly.origin import FOREIGN_ROLES
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall
from rungwise.fsm.replies.reply import Reasoning, Reply, StopReason, Text
from rungwise.fsm.replies.text.held import HeldText
from rungwise.fsm.values.usage import Usage

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    **COMMON,
    "stop_sequence": "stop",
    "pause_turn": "paused",
    # beta: the turn waits behind a summary, which goes back like a paused turn
    "compaction": "paused",
    "refusal": "content_filter",
    "model_context_window_exceeded": "overflow",
}

CITATIONS: Final = "citations"
"""The member of a text that holds its sources."""

FALLBACK: Final = "fallback"
"""The block where the server has asked another model: what stands before it was declined."""

_CALL_EXTRAS: Final = ("caller", "toolset_name")
"""Members of a tool call that only Anthropic has."""


def parts_of(block: Any, provider: str) -> Iterator[Part]:
    """Yield the parts of one whole block; nothing if it is not a block."""
    if not isinstance(block, dict):
        return
    kind = _KINDS.get(str(block.get("type")), block.get("type"))
    if kind == "text":
        yield from text_parts(text_in(block, "text"), block.get(CITATIONS), provider)
    elif kind == "thinking":
        yield from thinking_parts(text_in(block, "thinking"), block.get("signature"), provider)
    elif kind == "tool_use":
        id = mended(text_in(block, "id"))
        name = mended(text_in(block, "name") or text_in(block.get("function"), "name"))
        arguments = mended(arguments_of(input_in(block, "input")))
        extras = {member: block[member] for member in _CALL_EXTRAS if block.get(member)}
        yield ToolCall(id, name, arguments, copy_if_sendable(extras) or {}, provider)
    elif isinstance(kind, str):
        yield from opaque_parts(block, provider)


def text_parts(text: str, citations: Any, provider: str) -> Iterator[Part]:
    """Yield a text, then its sources."""
    if text:
        yield TextPart(str(mended(text)))
        yield from citations_of(citations, provider)


def thinking_parts(text: str, signature: Any, provider: str) -> Iterator[Part]:
    """Yield reasoning; signed reasoning is yielded even without text."""
    if isinstance(signature, str) and signature:
        yield ReasoningPart(str(mended(text)), mended(signature), provider)
    elif text:
        yield ReasoningPart(str(mended(text)))


def opaque_parts(block: Mapping[str, Any], provider: str) -> Iterator[Part]:
    """Yield what is a picture or a recording in a block, or the block for its provider alone."""
    if media := media_parts(block, provider):
        yield from media
        return
    copied = copy_if_sendable(block)
    if copied is not None:
        yield OpaquePart(provider, copied)


_KINDS: Final = {"output_text": "text", "reasoning": "thinking"}
"""Other types of blocks, with the usual ones."""


@define(eq=False)
class _MessageBlock(Block):
    """Gather one block of a message."""

    texts: dict[str, HeldText] = field(factory=dict, init=False)  # of a kind that is not known

    def parts(self, text: str, provider: str) -> Iterator[Part]:
        block = {**self.about, "type": self.kind}
        if self.kind == "text":
            block |= {"text": text, CITATIONS: self.citations}
        elif self.kind == "thinking":
            block |= {"thinking": text, "signature": self.signature}
        elif self.kind == "tool_use":
            block["input"] = self.input
        elif self.is_over:
            for name, buffer in self.texts.items():
                block[name] = buffer.getvalue()
            if self.arguments.size:
                with suppress(ValueError):
                    block["input"] = load(self.arguments.text.encode())
        else:  # half a block cannot be sent back
            return iter(())
        return parts_of(block, provider)


@define(eq=False, repr=False)
class AnthropicDecoder(BlockDecoder):
    """Turn the bytes of one streamed message into deltas, and at its end into a reply."""

    ITEM = _MessageBlock
    KINDS = {"text": Text, "thinking": Reasoning}  # noqa: RUF012 (never changed)
    CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
    EVENTS = EVENTS
    BODIES = Events(frozenset({"stop_reason"}))
    STOP_REASONS = STOP_REASONS

    _message: dict[str, Any] = field(factory=dict, init=False)  # its id and model, or all of it
    _announced: int = field(default=0, init=False)  # blocks that came with its announcement
    _report_so_far: Mapping[str, Any] = field(factory=dict, init=False)  # of the tokens
    _usage: Usage | None = field(default=None, init=False)  # what it came to
    _is_counted: bool = field(default=False, init=False)  # whether the output has been counted
    _details: object = field(default=None, init=False)  # why it refused

    def piece_in(self, value: Any) -> Piece | None:
        """Return the text or reasoning of an event that holds nothing else.

        It comes with the index of its block. None if the event may hold more.
        """
        if not isinstance(value, dict) or value.keys() != EVENT:
            return None
        delta = value["delta"]
        index = value["index"]
        if value["type"] != "content_block_delta" or type(index) is not int:
            return None
        if not isinstance(delta, dict) or len(delta) != 2:
            return None
        kind = delta.get("type")
        if not isinstance(kind, str) or kind not in DELTAS:
            return None
        name, event_type = DELTAS[kind]
        text = delta.get(name)
        return ((event_type, index), text) if isinstance(text, str) else None

    def take_event(self, value: Mapping[str, Any], data: bytes, *, is_error: bool) -> None:
        """Take the object of any other event."""
        kind = value.get("type")
        if is_error or kind == "error" or value.get("error"):
            self.take_error(data)
        elif kind == "message_start":
            self._take_start(value.get("message"), data)
        elif kind == "content_block_start":
            block = block_in(value.get("content_block"), type="text")
            self._take_block(value.get("index"), block, data)
        elif kind == "content_block_delta":
            self._take_delta(value.get("index"), block_in(value.get("delta")), data)
        elif kind == "content_block_stop":
            self._take_whole_block(value)
            self._end(index_of(value.get("index")))
        elif kind == "message_delta":
            self._take_end_of_message(value, data)
        elif kind == "message_stop":
            self._take_any_stop(value, value.get("message"))
            self._take_missing(value.get("message") or value)
            self._doubts.announce(mapping_of(value.get("message")).get("content"))
            self.started = self.finished = self.done = True
        elif kind != "ping":
            self.letters_beside += len(data)

    def _take_start(self, message: Any, data: bytes) -> None:
        """Take the announcement of the message; some servers put whole blocks into it.

        One of another message, in the midst of one, is a gateway's that has asked again.
        """
        if not isinstance(message, dict):
            return
        earlier = self._message.get("id", message.get("id"))
        if self.assembly.items.all and not self.done and message.get("id", earlier) != earlier:
            self.start_over()
        self._doubts.is_own = message.get("role") not in FOREIGN_ROLES
        self.started = True
        about = {}
        for name in ("id", "model"):
            if isinstance(message.get(name), str):
                about[name] = message[name]
        self._message = about
        self.assembly.held += weight_of(data)
        self._report(message.get("usage"))
        for index, block in enumerate(blocks_in(message.get("content"), type="text")):
            self._take_block(index, block, b"")
            self._end(index)
        self._announced = len(self.assembly.items.all)
        self._doubts.announce(message.get("content"))

    def _is_announced(self, block: _MessageBlock) -> bool:
        """Tell whether a block came with the announcement of the message, and nothing since."""
        return block.is_over and len(self.assembly.items.all) == self._announced

    def _take_missing(self, message: Any) -> None:
        """Take the blocks of a message that stands whole at its end, if none of their kind came."""
        had = {block.kind for block in self.assembly.items.all}
        for block in blocks_in(mapping_of(message).get("content"), type="text"):
            if _KINDS.get(str(block.get("type")), block.get("type")) not in had:
                self._take_block(-1, block, b"")
                self._end(-1)

    def _report(self, usage: Any) -> None:
        """Take a report of the tokens so far."""
        if not isinstance(usage, dict):
            return
        # What was counted before a compaction stands again in `iterations`.
        earlier = {} if usage.get("iterations") else self._report_so_far
        self._report_so_far = grown(earlier, usage)
        self._usage = more_of(self._usage, usage_of(self._report_so_far, self._message))

    def _take_block(self, index: object, start: Mapping[str, Any], data: bytes) -> None:
        """Take the announcement of a block, which may hold the beginning of it."""
        if not isinstance(start.get("type"), str):
            return
        self.started = True
        here = self.assembly.items.at(index_of(index))
        is_repeated = here is not None and self._is_announced(here)
        kind = _KINDS.get(start["type"], start["type"])
        if is_repeated or kind == FALLBACK:
            announced = self._doubts.announced
            self.start_over()
            self._announced = 0
            self._doubts.announced = announced if is_repeated else []
        elif here is not None and not here.is_over and here.kind == kind and self._text_of(here):
            self._doubts.why = TWICE
        block = self._begin(index_of(index), kind, start)
        if block.kind in self.KINDS:
            block.about = {"type": block.kind}
            block.signature = start.get("signature")
            if isinstance(start.get(CITATIONS), list):
                block.citations += start[CITATIONS]
            self._announce(block, text_in(start, block.kind))
        elif block.kind == "tool_use":
            self.assembly.unshown += len(text_in(start, "name"))
        elif block.kind == "redacted_thinking":
            self.letters_beside += len(text_in(start, "data"))
        self.assembly.held += weight_of(data)

    def _take_delta(self, index: object, delta: Mapping[str, Any], data: bytes) -> None:
        """Take what is added to a block."""
        self.started = True
        kind = delta.get("type") or type_of(delta)
        if isinstance(kind, str) and kind in DELTAS:
            name, event_type = DELTAS[kind]
            if isinstance(delta.get(name), str):
                self.take_piece((event_type, index_of(index)), delta[name])
                return
        if kind == "input_json_delta":
            self._take_input(index_of(index), delta)
            return
        block = self.assembly.items.at(index_of(index))
        if block is None or block.is_over:
            self.letters_beside += len(data)
        elif kind == "signature_delta":
            block.signature = delta.get("signature")
            self.letters_beside += len(data)
            self.assembly.held += len(data)
        elif kind == "citations_delta":
            block.citations.append(delta.get("citation"))
            self.assembly.held += weight_of(data)
        elif block.kind in self.KINDS:  # a delta of another name
            text = text_in(delta, "text", block.kind, "content")
            self.take_piece((self.KINDS[block.kind], index_of(index)), text)
        else:  # a delta of a provider's own block, such as a compaction
            for name, text in delta.items():
                if name != "type" and isinstance(text, str):
                    block.texts.setdefault(name, HeldText()).write(text)
                    self.assembly.unshown += len(text)
            self.assembly.held += weight_of(data)

    def _take_input(self, index: int, delta: Mapping[str, Any]) -> None:
        """Take a piece of the input of a tool."""
        block = self._call(index)
        if block is None:
            self.take_broken()  # arguments without a call
            return
        piece = delta.get(INPUT)
        if piece is None:
            piece = input_in(delta, "text")
        self.take_arguments(block, piece)

    def _take_whole_block(self, value: Mapping[str, Any]) -> None:
        """Take a block that some gateway repeats at its end, where no piece of it has come."""
        block = self.assembly.items.at(index_of(value.get("index")))
        whole = value.get("content_block")
        if block is None or block.is_over or not isinstance(whole, dict):
            return
        if block.kind in self.KINDS:
            kind = (self.KINDS[block.kind], block.number)
            self.assembly.settle(kind, text_in(whole, block.kind))
        elif not block.arguments.size and whole.get("input"):
            block.about["input"] = whole["input"]

    def _take_any_stop(self, *places: Any) -> None:
        """Take the stop reason of the first of some places that has one."""
        for place in places:
            reason = None
            if isinstance(place, Mapping):
                reason = finish_in(place, "stop_reason", STOP_REASONS)
            if reason is not None:
                self._take_stop(reason)
                return

    def _take_end_of_message(self, value: Mapping[str, Any], data: bytes) -> None:
        """Take the stop reason and the tokens of the message."""
        self.started = True
        delta = value.get("delta")
        if isinstance(delta, dict):
            self._take_any_stop(delta, value)
            self._details = delta.get("stop_details") or self._details
            self.assembly.held += len(data)
        usage = value.get("usage")
        if isinstance(usage, dict):
            self._is_counted = bool(count_of(usage.get("output_tokens")) or usage.get("iterations"))
            self._report(usage)

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        parts = self.parts()
        usage = self._usage
        # before the end the provider has counted only the prompt
        if usage is not None and not self._is_counted:
            usage = at_least(usage, parts)
        return self._draft(parts, usage).reply(error=self.error, cut=is_cut, cause=cause)

    def _draft(self, parts: Sequence[Part], usage: Usage | None) -> Draft:
        """Return the draft of a reply."""
        stop = stop_of(self._stop, STOP_REASONS)
        refusal = ""
        if stop[0] == "content_filter":
            refusal = str(mended(text_in(self._details, "explanation", "category")))
        return Draft(
            parts=parts,
            stop=stop,
            usage=usage,
            model=self._message.get("model"),
            refusal=refusal,
            about=self._message.get("id"),
            made_up="toolu_",
        )

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the message of a whole body."""
        if value.get("error") or value.get("type") == "error":
            self.take_error(body)
        self._message = value
        self._stop = finish_in(value, "stop_reason", STOP_REASONS)
        self._details = value.get("stop_details")
        content = blocks_in(value.get("content"), type="text")
        is_empty = not content and not isinstance(value.get("content"), list)
        if is_empty and not self.error and not self._stop:
            return malformed("the body has no content")
        parts: list[Part] = []
        for block in content:
            if block.get("type") == FALLBACK:
                parts.clear()
            parts += parts_of(block, self.provider)
        usage = usage_of(mapping_of(value.get("usage")), value)
        draft = self._draft(parts, usage)
        reply = draft.reply(error=self.error, raw=raw_of(value, body))
        return owned(reply, value.get("role"))
