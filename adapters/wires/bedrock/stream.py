"""Read a reply of Converse, whole or streamed: its blocks, stop reason, tokens, and events.

A block has no type: the name of its only member says what it holds. Blocks of text and reasoning
are not announced, so their first delta begins them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.anthropic.stream import opaque_parts, text_parts, thinking_parts
from rungwise.adapters.wires.bedrock.events import FrameReader, error_body
from rungwise.adapters.wires.bedrock.plain import SERVERS
from rungwise.adapters.wires.counts import billed, lifetimes, more_of
from rungwise.adapters.wires.draft import (
    COMMON,
    Draft,
    classified,
    count_of,
    finish_in,
    known_word,
    malformed,
    raw_of,
    stop_of,
)
from rungwise.adapters.wires.json_text import arguments_of, input_in, load, mended, weight_of
from rungwise.adapters.wires.plain.parts import (
    block_in,
    blocks_in,
    is_marked_as_thought,
    mapping_of,
    text_in,
    text_of_blocks,
)
from rungwise.adapters.wires.provider_data import joined_base64
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.blocks import Block, BlockDecoder, index_of
from rungwise.adapters.wires.reading.events import Events
from rungwise.adapters.wires.unread import owned
from rungwise.fsm.replies.assembly.origin import FOREIGN_ROLES
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Part, ToolCall
from rungwise.fsm.replies.reply import Reasoning, Reply, StopReason, Text
from rungwise.fsm.values.usage import Usage

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    **COMMON,
    "stop_sequence": "stop",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "model_context_window_exceeded": "overflow",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
_TAKEN: Final = frozenset(
    {
        "text",
        "toolUse",
        "reasoningContent",
        "toolResult",
        "citation",
    }
)
"""The members of a delta that are read as what they are; any other belongs to a picture."""
_FAILED: Final = ("malformed_model_output", "malformed_tool_use")
"""The server could not read what the model wrote; another attempt may succeed."""


def usage_of(
    raw: Mapping[str, Any],
    around: Mapping[str, Any],
) -> Usage | None:
    """Return the tokens of a reply, or None if there are none.

    Only the total shows whether the input includes cached tokens.
    """
    total_input = count_of(raw.get("inputTokens"))
    output = count_of(raw.get("outputTokens"))
    read = count_of(raw.get("cacheReadInputTokens"))
    by_lifetime, long = lifetimes(raw)
    created = max(count_of(raw.get("cacheWriteInputTokens")), by_lifetime)
    agrees = count_of(raw.get("totalTokens")) == total_input + output
    if not agrees or read + created > total_input:
        total_input += read + created  # counted beside the input
    if not total_input and not output:
        return None
    usage = Usage(
        input_tokens=total_input,
        output_tokens=output,
        cache_read_tokens=read,
        cache_creation_tokens=created,
        cache_creation_long_tokens=long,
    )
    return billed(usage, raw, around)


def _usage_in(value: Mapping[str, Any]) -> Usage | None:
    """Return the tokens that a body or an event reports."""
    return usage_of(mapping_of(value.get("usage")), value)


def parts_of(block: Any, provider: str) -> Iterator[Part]:
    """Yield the parts of one whole block; nothing if it is not a block."""
    if not isinstance(block, dict) or not block:
        return
    call = block.get("toolUse")
    cited = block.get("citationsContent")
    reasoning = mapping_of(block.get("reasoningContent")).get("reasoningText")
    if "text" in block and is_marked_as_thought(block):
        yield from thinking_parts(text_in(block, "text"), None, provider)
    elif "text" in block:
        yield from text_parts(text_of_blocks(block["text"]), None, provider)
    elif isinstance(call, dict) and call.get("type") != SERVERS:
        id = mended(text_in(call, "toolUseId"))
        name = mended(text_in(call, "name"))
        yield ToolCall(id, name, mended(arguments_of(input_in(call, "input"))))
    elif isinstance(reasoning, dict):
        yield from thinking_parts(text_in(reasoning, "text"), reasoning.get("signature"), provider)
    elif isinstance(cited, dict):
        text = text_of_blocks(cited.get("content"))
        yield from text_parts(text, cited.get("citations"), provider)
    else:
        yield from opaque_parts(block, provider)


@define(eq=False)
class _ConverseBlock(Block):
    """Gather one block of a reply."""

    signatures: list[str] = field(factory=list, init=False)  # pieces of that of reasoning
    sealed: list[str] = field(factory=list, init=False)  # of encrypted reasoning, in base64

    def parts(self, text: str, provider: str) -> Iterator[Part]:
        if self.kind == "text":
            yield from text_parts(text, self.citations, provider)
        elif self.kind == "reasoningContent":
            yield from thinking_parts(text, "".join(self.signatures), provider)
            if self.sealed and self.is_over:
                reasoning = {"redactedContent": joined_base64(self.sealed)}
                yield from opaque_parts({"reasoningContent": reasoning}, provider)
        elif self.kind == "toolUse" and self.about.get("type") != SERVERS:
            yield from parts_of({"toolUse": {**self.about, "input": self.input}}, provider)
        elif self.kind == "toolUse" and self.is_over:  # of a tool that the server runs
            try:
                value = load(self.arguments.text.encode() or b"{}")
            except ValueError:
                return
            yield from opaque_parts({"toolUse": {**self.about, "input": value}}, provider)
        elif self.kind == "toolResult" and self.is_over:
            result = {**self.about, "content": self.citations}
            yield from opaque_parts({"toolResult": result}, provider)
        elif self.is_over:  # a picture, or what is yet to be invented
            yield from opaque_parts({self.kind: self._joined()}, provider)

    def _joined(self) -> dict[str, Any]:
        """Return a block of any other kind, whose data may have come in pieces."""
        block = dict(self.about)
        for piece in self.citations:
            block |= piece
        pieces = [text_in(mapping_of(piece.get("source")), "bytes") for piece in self.citations]
        if any(pieces):
            block["source"] = {"bytes": joined_base64(pieces)}
        return block


@define(eq=False, repr=False)
class ConverseDecoder(BlockDecoder):
    """Turn the bytes of one streamed reply into deltas, and at its end into a reply."""

    ITEM = _ConverseBlock
    KINDS = {"text": Text, "reasoningContent": Reasoning}  # noqa: RUF012 (never changed)
    CALLS = ("toolUse",)
    READS_EVENTS = False
    BODIES = Events(frozenset({"stopReason"}))
    STOP_REASONS = STOP_REASONS

    _usage: Usage | None = field(default=None, init=False)  # as the provider has counted

    def _make_reader(self) -> FrameReader:
        return FrameReader()

    def piece_in(self, value: Any) -> Piece | None:
        """Return the text or reasoning of an event that holds nothing else.

        It comes with the index of its block. None if the event may hold more.
        """
        event = value.get("contentBlockDelta")
        if not isinstance(event, dict):
            return None
        delta = event.get("delta")
        index = event.get("contentBlockIndex")
        if type(index) is not int or not isinstance(delta, dict) or len(delta) != 1:
            return None
        if isinstance(delta.get("text"), str):
            return (Text, index), delta["text"]
        thought = delta.get("reasoningContent")
        if isinstance(thought, dict) and len(thought) == 1 and isinstance(thought.get("text"), str):
            return (Reasoning, index), thought["text"]
        return None

    def take_event(
        self,
        value: Mapping[str, Any],
        data: bytes,
        *,
        is_error: bool,
    ) -> None:
        """Take the object of any other event."""
        ((name, event),) = value.items()
        if not isinstance(event, dict):
            return
        index = index_of(event.get("contentBlockIndex"))
        if name == "messageStart":
            if self.assembly.items.all and not self.done:
                self.start_over()  # a gateway has asked again
            self._doubts.is_own = event.get("role") not in FOREIGN_ROLES
            self._doubts.announce(event.get("content"))
            self.started = True
        elif name == "contentBlockStart":
            self._take_start(index, block_in(event.get("start") or event), data)
        elif name == "contentBlockDelta":
            self._take_delta(index, event.get("delta") or event, data)
        elif name == "contentBlockStop":
            self._end(index)
        elif name == "messageStop":
            self.started = True
            self._take_stop(finish_in(event, "stopReason", STOP_REASONS))
            self.done = True
        elif name == "metadata":  # which ends it
            self._usage = more_of(self._usage, _usage_in(event))
            self.assembly.held += weight_of(data)
            self.finished = self.done
        elif name.endswith("Exception"):  # which gateways may frame as any other event
            self.take_error(error_body(name, data, None))
        else:
            self.letters_beside += len(data)

    def _take_start(
        self,
        index: int,
        start: Mapping[str, Any],
        data: bytes,
    ) -> None:
        """Begin a block that is announced, such as a call, a picture, or a server tool's result.

        A text needs no announcement; one may bring it all the same.
        """
        for kind, about in start.items():
            if kind in self.KINDS:
                self.started = True
                self._announce(self._begin(index, kind), text_of_blocks(about))
            elif isinstance(about, dict):
                self.started = True
                block = self._begin(index, kind, about)
                self.assembly.unshown += len(text_in(block.about, "name"))
                self.assembly.held += weight_of(data)
                return

    def _take_delta(
        self,
        index: int,
        delta: Any,
        data: bytes,
    ) -> None:
        """Take what is added to a block."""
        if not isinstance(delta, dict):
            delta = block_in(delta)
        self.started = True
        call = delta.get("toolUse")
        thought = delta.get("reasoningContent")
        result = delta.get("toolResult")
        self.assembly.held += len(data)
        if "text" in delta:
            self.take_piece((Text, index), text_of_blocks(delta["text"]))
        if isinstance(call, dict):
            block = self._call(index)
            if block is None:
                self.take_broken()  # arguments without a call
                return
            self.take_arguments(block, input_in(call, "input"))
        if isinstance(thought, dict):
            self._take_thought(index, thought)
        if delta.get("citation"):
            self.assembly.held += weight_of(data)
            self._block(index, "text").citations.append(delta["citation"])
        if isinstance(result, list):
            self.assembly.held += weight_of(data)
            self._block(index, "toolResult").citations += result
        for kind in delta.keys() - _TAKEN:
            if isinstance(delta[kind], dict):
                self._block(index, kind).citations.append(delta[kind])

    def _take_thought(self, index: int, thought: Mapping[str, Any]) -> None:
        """Take reasoning: its text, a piece of its signature, or encrypted reasoning."""
        if isinstance(thought.get("text"), str):
            self.take_piece((Reasoning, index), thought["text"])
        block = self._block(index, "reasoningContent")
        if isinstance(thought.get("signature"), str):
            block.signatures.append(thought["signature"])
            self.letters_beside += len(thought["signature"])
        sealed = text_in(thought, "redactedContent")
        if sealed:
            block.sealed.append(sealed)
            self.letters_beside += len(sealed)

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        return self._reply(self.parts(), cut=is_cut, cause=cause)

    def _reply(
        self,
        parts: Sequence[Part],
        *,
        cut: bool,
        cause: Failure | None = None,
        raw: object = None,
    ) -> Reply | Failure:
        """Make the reply.

        Arguments:
            parts: its parts.
            cut: whether it broke off before its end.
            cause: what cut it, if that is known.
            raw: the body, for diagnosis.
        """
        stop = stop_of(self._stop, STOP_REASONS)
        error = self.error
        if known_word(stop[1] or "", STOP_REASONS) in _FAILED and error is None:
            message = "the server could not read the reply"
            error = Failure(
                "failed_generation",
                status=200,
                code=stop[1],
                message=message,
            )
            parts = [part for part in parts if not isinstance(part, ToolCall)]
        about = self._usage and self._usage.total_tokens
        # no reply names its model
        draft = Draft(
            parts=parts,
            stop=stop,
            usage=self._usage,
            about=about,
            made_up="toolu_",
        )
        return draft.reply(error=error, cut=cut, cause=cause, raw=raw)

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the reply of a whole body."""
        self._stop = finish_in(value, "stopReason", STOP_REASONS)
        self._usage = _usage_in(value)
        message = block_in(block_in(value.get("output")).get("message"))
        content = blocks_in(message.get("content"))
        if not content and not isinstance(message.get("content"), list):
            if value.get("__type") or value.get("message"):
                self.error = classified(None, self.headers, body)
            elif not self._stop:
                return malformed("the body has no message")
        parts: list[Part] = []
        for block in content:
            parts += parts_of(block, self.provider)
        reply = self._reply(parts, cut=False, raw=raw_of(value, body))
        return owned(reply, message.get("role"))
