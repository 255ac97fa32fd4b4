"""Read a message, whole or streamed: its blocks, stop reason, tokens, and what each event adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import Factory, define, field

from rungwise.adapters.wires.draft import (
    Draft,
    arguments_of,
    at_least,
    count_of,
    grown,
    malformed,
    raw_of,
    stop_of,
)
from rungwise.adapters.wires.json_text import HeldText, load, mended, weight_of
from rungwise.adapters.wires.plain.parts import list_of, mapping_of, text_in
from rungwise.adapters.wires.provider_data import citations_of, copy_if_sendable
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.decoding import Block, BlockDecoder, index_of
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import OpaquePart, Part, ReasoningPart, TextPart, ToolCall
from rungwise.fsm.replies.reply import Reasoning, Reply, StopReason, Text
from rungwise.fsm.values.usage import Usage

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "pause_turn": "paused",
    # beta: the turn waits behind a summary, which goes back like a paused turn
    "compaction": "paused",
    "refusal": "content_filter",
    "model_context_window_exceeded": "overflow",
}

CITATIONS: Final = "citations"
"""The member of a text that holds its sources."""

_CALL_EXTRAS: Final = ("caller", "toolset_name")
"""Members of a tool call that only Anthropic has."""

Counts = Mapping[str, Any]


def usage_of(reports: Sequence[Counts]) -> Usage | None:
    """Return the tokens of a reply, or None if the provider counted none; of its reports, later
    ones win.

    Cached tokens are counted beside the input, and a compaction beside everything: all is paid for,
    and added up here.
    """
    report_so_far: dict[str, Any] = {}
    for report in reports:
        report_so_far |= {name: value for name, value in report.items() if value is not None}
    passes = [each for each in list_of(report_so_far.get("iterations")) if isinstance(each, dict)]
    own = [each for each in passes if each.get("type") == "message"] or [report_so_far]
    counted = [
        *map(_counts, own),
        *[_counts(each) for each in passes if each.get("type") == "compaction"],
    ]
    fresh, output, read, created = (sum(numbers) for numbers in zip(*counted, strict=True))
    reasoning = count_of(
        mapping_of(report_so_far.get("output_tokens_details")).get("thinking_tokens")
    )
    if not fresh + read + created and not output:
        return None
    return Usage(
        input_tokens=fresh + read + created,
        output_tokens=output,
        cache_read_tokens=read,
        cache_creation_tokens=created,
        reasoning_tokens=min(reasoning, output),
    )


def _counts(usage: Counts) -> tuple[int, int, int, int]:
    created = count_of(usage.get("cache_creation_input_tokens"))
    by_lifetime = usage.get("cache_creation")
    if not created and isinstance(by_lifetime, dict):
        created = sum(map(count_of, by_lifetime.values()))
    read = count_of(usage.get("cache_read_input_tokens"))
    return count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens")), read, created


def parts_of(block: Any, provider: str) -> Iterator[Part]:
    """Yield the parts of one whole block; nothing if it is not a block."""
    if not isinstance(block, dict):
        return
    kind = block.get("type")
    if kind == "text":
        yield from text_parts(text_in(block, "text"), block.get(CITATIONS), provider)
    elif kind == "thinking":
        yield from thinking_parts(text_in(block, "thinking"), block.get("signature"), provider)
    elif kind == "tool_use":
        extras = {name: block[name] for name in _CALL_EXTRAS if block.get(name)}
        id, name, arguments = mended(
            [text_in(block, "id"), text_in(block, "name"), arguments_of(block.get("input"))]
        )
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
    signature = mended(signature) if isinstance(signature, str) and signature else None
    if text or signature:
        yield ReasoningPart(str(mended(text)), signature, provider if signature else "")


def opaque_parts(block: Mapping[str, Any], provider: str) -> Iterator[Part]:
    """Yield a block that only its provider can read."""
    copied = copy_if_sendable(block)
    if copied is not None:
        yield OpaquePart(provider, copied)


_EVENT: Final = frozenset({"type", "index", "delta"})
_DELTAS: Final[Mapping[object, tuple[str, type[Text] | type[Reasoning]]]] = {
    "text_delta": ("text", Text),
    "thinking_delta": ("thinking", Reasoning),
}


@define(eq=False)
class _MessageBlock(Block):
    texts: dict[str, HeldText] = Factory(dict)

    def add(self, name: str, text: str) -> None:
        self.texts.setdefault(name, HeldText()).write(text)

    @property
    def input(self) -> str:
        """Return the input as JSON text; a complete call without input has an empty object."""
        text = self.texts["partial_json"].getvalue() if "partial_json" in self.texts else ""
        return text or ("{}" if self.is_whole else "")

    def parts(self, text: str, provider: str) -> Iterator[Part]:
        block = {**self.start, "type": self.kind}
        if self.kind == "text":
            block |= {"text": text, CITATIONS: self.citations}
        elif self.kind == "thinking":
            block |= {"thinking": text, "signature": self.signature}
        elif self.kind == "tool_use":
            # some servers send it at once
            if "partial_json" in self.texts or not self.start.get("input"):
                block["input"] = self.input
        elif self.is_whole:
            block |= {
                name: buffer.getvalue()
                for name, buffer in self.texts.items()
                if name != "partial_json"
            }
            if "partial_json" in self.texts:
                with suppress(ValueError):
                    block["input"] = load(self.input.encode("utf-8", "replace"))
        else:  # half a block cannot be sent back
            return iter(())
        return parts_of(block, provider)


@define(eq=False, repr=False)
class AnthropicDecoder(BlockDecoder[_MessageBlock]):
    """Turn the bytes of one streamed message into deltas, and at its end into a reply or a
    failure.
    """

    BLOCK = _MessageBlock
    KINDS = {Text: "text", Reasoning: "thinking"}  # noqa: RUF012 (never changed)
    STOP_REASONS = STOP_REASONS
    IS_DONE_AT_END = False

    _message: dict[str, Any] = field(factory=dict, init=False)
    _reports: list[dict[str, Any]] = field(factory=list, init=False)
    _is_counted: bool = field(default=False, init=False)
    _details: object = field(default=None, init=False)

    def piece_in(self, value: Any) -> Piece | None:
        """Return the text or reasoning of an event that holds nothing else, with the index of its
        block.
        """
        if (
            not isinstance(value, dict)
            or value.keys() != _EVENT
            or value["type"] != "content_block_delta"
        ):
            return None
        delta = value["delta"]
        index = value["index"]
        if not isinstance(delta, dict) or type(index) is not int or len(delta) != 2:
            return None
        name, kind = (
            _DELTAS.get(delta.get("type"), ("", Text))
            if isinstance(delta.get("type"), str)
            else ("", Text)
        )
        text = delta.get(name)
        return ((kind, index), text) if isinstance(text, str) else None

    def take_value(self, value: Mapping[str, Any], data: bytes, *, is_error: bool) -> None:
        """Take the object of any other event."""
        kind = value.get("type")
        if is_error or kind == "error":
            self.take_error(data)
        elif kind == "message_start":
            self._take_start(value.get("message"), data)
        elif kind == "content_block_start":
            self._take_block(value.get("index"), value.get("content_block"), data)
        elif kind == "content_block_delta":
            self._take_delta(value.get("index"), value.get("delta"), data)
        elif kind == "content_block_stop":
            self._end(index_of(value.get("index")))
        elif kind == "message_delta":
            self._take_end_of_message(value, data)
        elif kind == "message_stop":
            self.started = self.finished = True
        elif kind != "ping":
            self.letters_beside += len(data)

    def _take_start(self, message: Any, data: bytes) -> None:
        if not isinstance(message, dict):
            return
        self.started = True
        self._message = {
            name: message[name] for name in ("id", "model") if isinstance(message.get(name), str)
        }
        self._held += weight_of(data)
        self._report(message.get("usage"))
        for index, block in enumerate(list_of(message.get("content"))):
            self._take_block(index, block, b"")
            opened = self._open.pop(index, None)
            if opened is not None:
                opened.is_whole = True

    def _report(self, usage: Any) -> None:
        if isinstance(usage, dict):
            # What was counted before a compaction stands again in `iterations`.
            self._reports = [
                grown(
                    self._reports[0] if self._reports and not usage.get("iterations") else {}, usage
                )
            ]

    def _take_block(self, index: object, start: Any, data: bytes) -> None:
        if not isinstance(start, dict) or not isinstance(start.get("type"), str):
            return
        self.started = True
        self._flush()
        block = self._begin(index_of(index), start["type"], start)
        if block.kind in self.KINDS.values():
            text = text_in(start, block.kind)
            block.start = {"type": block.kind}
            block.signature = start.get("signature")
            if isinstance(start.get(CITATIONS), list):
                block.citations += start[CITATIONS]
            if text:
                self.take_piece(
                    (Text if block.kind == "text" else Reasoning, index_of(index)), text
                )
                self._flush()
        elif block.kind == "tool_use":
            self.unshown += len(text_in(start, "name"))
        elif block.kind == "redacted_thinking":
            self.letters_beside += len(text_in(start, "data"))
        self._held += weight_of(data)

    def _take_delta(self, index: object, delta: Any, data: bytes) -> None:
        if not isinstance(delta, dict):
            return
        self.started = True
        kind = delta.get("type")
        if isinstance(kind, str) and kind in _DELTAS:
            name, event_type = _DELTAS[kind]
            if isinstance(delta.get(name), str):
                self.take_piece((event_type, index_of(index)), delta[name])
                return
        block = self._open.get(index_of(index))
        if block is None:
            self.letters_beside += len(data)
        elif kind == "input_json_delta":
            piece = text_in(delta, "partial_json")
            block.add("partial_json", piece)
            self.unshown += len(piece)
            self._held += len(piece)
        elif kind == "signature_delta":
            block.signature = delta.get("signature")
            self.letters_beside += len(data)
            self._held += len(data)
        elif kind == "citations_delta":
            block.citations.append(delta.get("citation"))
            self._held += weight_of(data)
        else:  # a delta of a provider's own block, such as a compaction
            for name, text in delta.items():
                if name != "type" and isinstance(text, str):
                    block.add(name, text)
                    self.unshown += len(text)
            self._held += weight_of(data)

    def _take_end_of_message(self, value: Mapping[str, Any], data: bytes) -> None:
        self.started = True
        delta = value.get("delta")
        if isinstance(delta, dict):
            if delta.get("stop_reason") is not None:
                self._take_stop(delta["stop_reason"])
                self._details = delta.get("stop_details") or self._details
            self._held += len(data)
        usage = value.get("usage")
        if isinstance(usage, dict):
            self._is_counted = bool(count_of(usage.get("output_tokens")) or usage.get("iterations"))
            self._report(usage)

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        parts = self.parts()
        usage = usage_of(self._reports) if self._reports else None
        # before the end the provider has counted only the prompt
        if usage is not None and not self._is_counted:
            usage = at_least(usage, parts)
        return self._draft(parts, usage).reply(error=self.error, cut=is_cut, cause=cause)

    def _draft(self, parts: Sequence[Part], usage: Usage | None) -> Draft:
        reason = stop_of(self._stop, STOP_REASONS)
        details = self._details
        refused = reason[0] == "content_filter"
        return Draft(
            parts=parts,
            stop=reason,
            usage=usage,
            model=self._message.get("model"),
            refusal=str(mended(text_in(details, "explanation") or text_in(details, "category")))
            if refused
            else "",
            about=self._message.get("id"),
            made_up="toolu_",
        )

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the message of a whole body."""
        if value.get("error") or value.get("type") == "error":
            self.take_error(body)
        self._message, self._stop, self._details = (
            value,
            value.get("stop_reason"),
            value.get("stop_details"),
        )
        content = value.get("content")
        usage = value.get("usage")
        if not isinstance(content, list):
            if not self.error and not self._stop:
                return malformed("the body has no content")
            content = []
        parts = [part for block in content for part in parts_of(block, self.provider)]
        draft = self._draft(parts, usage_of([usage]) if isinstance(usage, dict) else None)
        is_cut = stop_of(self._stop, STOP_REASONS)[0] is None
        return draft.reply(error=self.error, cut=is_cut, raw=raw_of(value, body))
