"""Read a streamed interaction: what each event adds to which step.

A stream announces each step, adds to it and ends it, all under its index. The event that ends the
stream may hold all steps once more; then they decide. An output may hold texts and media in turn,
and its deltas do not say where one ends: so what is gathered here are texts, media, thoughts and
calls, in the order in which they come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import define, evolve, field

from rungwise.adapters.wires.counts import more_of
from rungwise.adapters.wires.draft import NATIVE, at_least, grown, raw_of
from rungwise.adapters.wires.interactions.plain import summary_of
from rungwise.adapters.wires.interactions.reply import (
    STOP_REASONS,
    UNFINISHED,
    contents_of,
    draft_of,
    error_in,
    error_of,
    failure_of,
    going_on,
    interaction_in,
    may_go_on,
    usage_of,
)
from rungwise.adapters.wires.interactions.steps import (
    CONTENT,
    StepBlock,
    StepCheckpoint,
    versions_of,
)
from rungwise.adapters.wires.json_text import arguments_of, input_in, weight_of
from rungwise.adapters.wires.plain.parts import block_in, list_of, mapping_of, text_in
from rungwise.adapters.wires.reading.alike_lines import AlikeLines, Piece
from rungwise.adapters.wires.reading.blocks import BlockDecoder, index_of
from rungwise.adapters.wires.reading.events import Events
from rungwise.adapters.wires.reading.sse import EventReader
from rungwise.fsm.replies.assembly.copies import Replays
from rungwise.fsm.replies.assembly.items import Names
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Part, ReasoningPart, TextPart, ToolCall
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.values.usage import Usage

_EVENT: Final = frozenset({"event_type", "index", "delta", "event_id", "type"})
"""All members of an event with a piece of text; its reader may add the type."""
_VOLATILE: Final = re.compile(rb'"event_id": ?"[^"\\]*"')
"""What differs in each event besides its text."""
_ID: Final = re.compile(rb'"event_id": ?"([^"\\]*)"')
_ABOUT: Final = ("id", "created", "model", "status", NATIVE, "service_tier", "error", "errors")
"""The members of an interaction that count, besides its steps and its usage."""
_MOST_STEPS: Final = 100_000
"""No reply has as many steps."""


@define(eq=False, repr=False)
class InteractionsDecoder(BlockDecoder):
    """Turn the bytes of one streamed interaction into deltas, and at its end into a reply."""

    EVENTS = Events(marks=frozenset({"event_type"}))
    BODIES = Events(marks=frozenset({"steps"}))
    ITEM = StepBlock
    KINDS = {"text": Text, "thought": Reasoning}  # noqa: RUF012 (never changed)
    CALLS = ("function_call",)
    STOP_REASONS = STOP_REASONS

    has_gap: bool = field(default=False, init=False)
    _is_rest: bool = field(default=False, init=False)
    # the last event before the response that goes on, until another one has come
    _behind: str | None = field(default=None, init=False)
    _alike: AlikeLines = field(init=False)  # with the last event that was not parsed
    _last: Any = field(default=None, init=False)  # the last one that was, if it came behind that
    _about: dict[str, Any] = field(factory=dict, init=False)  # the interaction, without its steps
    _report: Mapping[str, Any] = field(factory=dict, init=False)  # of the tokens so far
    _usage: Usage | None = field(default=None, init=False)  # the most that any report has counted
    _is_counted: bool = field(default=False, init=False)  # whether all of it has been counted
    _early: set[int] = field(factory=set, init=False)  # the steps that ended before they began
    _checkpoint: StepCheckpoint | None = field(default=None, init=False)
    _raw: object = field(default=None, init=False)  # the last event, for diagnosis
    _replays: Replays = field(factory=Replays, init=False)

    @property
    def generation(self) -> str | None:
        """Return the id of the interaction."""
        return text_in(self._about, "id") or None

    @property
    def cursor(self) -> str | None:
        """Return the id of the last event; None if it has none."""
        if found := _ID.search(self._alike.last):
            return found[1].decode()
        return text_in(self._last, "event_id") or None

    def reopen(self) -> None:
        """Go on behind the last event. No id says whether one is missing: the end must."""
        self._behind = self.cursor
        self._is_rest = True
        self._alike.forget()
        super().reopen()

    def _make_reader(self) -> EventReader:
        self._alike = AlikeLines(_VOLATILE)
        return EventReader(ignores_names=True, names_types=True, alike=self._alike)

    def piece_in(self, value: Any) -> Piece | None:
        """Return the text or reasoning of an event that holds nothing else.

        It comes with the index of its step. None if the event may hold more.
        """
        try:
            delta = value["delta"]
            index = value["index"]
            if value["event_type"] != "step.delta" or type(index) is not int:
                return None
            if len(delta) != 2 or not value.keys() <= _EVENT or self._behind is not None:
                return None
            self._last = value
            self._alike.last = b""
            if delta["type"] == "text":
                text = delta["text"]
                return ((Text, index), text) if isinstance(text, str) else None
            content = delta["content"]
            if delta["type"] != "thought_summary" or content.keys() != {"type", "text"}:
                return None
            text = content["text"]
            return ((Reasoning, index), text) if isinstance(text, str) else None
        except (KeyError, TypeError, AttributeError):
            return None

    def take_piece(self, kind: Any, text: str) -> None:
        """Take a piece, unless its event has come before."""
        if not self._replays.is_again(self.cursor or "", (kind, text)):
            super().take_piece(kind, text)

    def take_event(
        self,
        value: Mapping[str, Any],
        data: bytes,
        *,
        is_error: bool,
    ) -> None:
        """Take the object of any other event."""
        behind = self._behind
        self._behind = None
        if behind is not None and value.get("event_id") == behind:
            return  # it comes once more
        self._last = value
        self._alike.last = b""
        if self._replays.is_again(text_in(value, "event_id"), data):
            return
        kind = value.get("event_type") or value.get("type")
        if is_error or kind == "error" or (kind is None and value.get("error")):
            if mapping_of(value.get("error")):
                self.stop(failure_of(value["error"], self.headers))
            else:
                self.take_error(data)
        elif len(self.assembly.items.all) > _MOST_STEPS:
            self.take_broken()
        elif kind == "step.start":
            self._take_start(index_of(value.get("index")), block_in(value.get("step")), data)
        elif kind == "step.delta":
            self._take_delta(index_of(value.get("index")), block_in(value.get("delta")), data)
            if "metadata" in value:
                self._count(mapping_of(value["metadata"]).get("total_usage"))
        elif kind == "step.stop":
            index = index_of(value.get("index"))
            if self.assembly.items.at(index) is None:
                self._early.add(index)
                self.assembly.held += weight_of(data)
            self._end(index)
            self._count(value.get("usage"))
        elif kind == "interaction.created":
            self._take_created(mapping_of(value.get("interaction")))
        elif kind == "interaction.completed":
            interaction = mapping_of(value.get("interaction"))
            self._raw = raw_of(interaction, data)
            if self._raw is not None:
                self.assembly.held += weight_of(data)
            self._take_end(interaction)
        elif kind in ("interaction.status_update", "interaction.cancelled"):
            self._take_status(kind, value)
        else:
            self.letters_beside += len(data)

    # what the events add

    def _take_created(self, interaction: Mapping[str, Any]) -> None:
        """Take the announcement; one of another interaction is a gateway's that has asked again."""
        earlier = self._about.get("id", interaction.get("id"))
        if self.assembly.items.all and interaction.get("id") != earlier:
            self.start_over()
            self._early.clear()
            self._checkpoint = None
        self._doubts.announce(interaction.get("steps"))
        self._take_about(interaction)

    def _take_about(self, interaction: Mapping[str, Any]) -> None:
        """Take what an event says of the whole interaction."""
        self.started = True
        for name in _ABOUT:
            if interaction.get(name):
                self._about[name] = interaction[name]
        self._count(interaction.get("usage"))
        token = text_in(interaction, "continuation_token")
        last = self.assembly.items.all[-1:]
        is_in_call = any(block.kind in self.CALLS and not block.is_over for block in last)
        if token and not is_in_call:
            self._checkpoint = self._here(token)

    def _here(self, token: str) -> StepCheckpoint:
        """Return how far the reply has come."""
        self.assembly.flush()
        blocks = self.assembly.items.all
        letters = 0
        if blocks and blocks[-1].kind in self.KINDS:
            last = blocks[-1]
            letters = self.assembly.text_at((self.KINDS[last.kind], last.number)).size
        return StepCheckpoint(token, len(blocks), letters)

    def _count(self, usage: Any) -> None:
        """Take a report of the tokens so far."""
        if isinstance(usage, dict):
            self._report = grown(self._report, usage)
            self._usage = more_of(self._usage, usage_of(self._report, self._about))

    def _take_status(self, kind: str, value: Mapping[str, Any]) -> None:
        """Take a change of the status."""
        status = "cancelled" if kind == "interaction.cancelled" else text_in(value, "status")
        self._take_about({**value, "id": value.get("interaction_id"), "status": status})
        self.done = status in STOP_REASONS
        if status == "cancelled":
            self.finished = True

    def _take_end(self, interaction: Mapping[str, Any]) -> None:
        """Take the interaction at the end, which decides."""
        steps = list_of(interaction.get("steps"))
        self._checkpoint = None  # unless there is another one
        if steps:
            self._take_steps(steps)
        else:
            self.has_gap = self._is_rest
        self._take_about(interaction)
        error = error_in(steps)
        if error is not None:
            self._about.setdefault("error", error)
        if self._about.get("status") in UNFINISHED and not interaction.get("status"):
            del self._about["status"]
        self._is_counted = isinstance(interaction.get("usage"), dict)
        self.done = True
        self.finished = True

    def _take_start(
        self,
        index: int,
        step: Mapping[str, Any],
        data: bytes,
    ) -> None:
        """Take the announcement of a step, which may hold the beginning of it."""
        self.started = True
        if index in self._early and self.assembly.items.at(index) is not None:
            # its end came first, its pieces then: the stream is in no order
            self._doubts.written_at_end = 0
        kind = text_in(step, "type")
        self.assembly.held += weight_of(data)
        if kind == "model_output":
            self._take_output(index, step)
        elif kind == "thought":
            block = self._begin(index, kind, step)
            self._announce(block, summary_of(step))
        elif kind:
            block = self._begin(index, kind, step)
            self.assembly.unshown += len(text_in(step, "name"))

    def _take_output(self, index: int, step: Mapping[str, Any]) -> None:
        """Take what stands in the announcement of an output."""
        self._end(index)
        for text, cited, content in contents_of(step):
            if content is not None:
                self._begin(index, CONTENT, content)
                continue
            block = self._begin(index, "text")
            block.citations += cited
            self._announce(block, text)
        if step.get("error"):
            self._about["error"] = step["error"]

    def _take_delta(
        self,
        index: int,
        delta: Mapping[str, Any],
        data: bytes,
    ) -> None:
        """Take what is added to a step."""
        self.started = True
        kind = delta.get("type")
        if kind == "text" or (kind is None and text_in(delta, "text")):
            self.take_piece((Text, index), text_in(delta, "text"))
        elif kind == "thought_summary":
            self.take_piece((Reasoning, index), text_in(block_in(delta.get("content")), "text"))
        elif kind == "thought_signature":
            self._block(index, "thought").signature = delta.get("signature")
            self.letters_beside += len(data)
            self.assembly.held += len(data)
        elif kind == "arguments_delta":
            self._take_arguments(index, delta)
        elif kind == "text_annotation_delta":
            self._block(index, "text").citations += list_of(delta.get("annotations"))
            self.assembly.held += weight_of(data)
        else:
            self._take_other(index, delta)
            self.assembly.unshown += len(data)
            self.assembly.held += weight_of(data)

    def _take_arguments(self, index: int, delta: Mapping[str, Any]) -> None:
        """Take a piece of the arguments of a call."""
        block = self._call(index)
        if block is None:
            self.take_broken()  # arguments without a call
            return
        self.take_arguments(block, input_in(delta, "arguments"))

    def _take_other(self, index: int, delta: Mapping[str, Any]) -> None:
        """Take a picture or a piece of a recording, or what a tool of the server's does."""
        block = self.assembly.items.at(index)
        if block is None or not block.goes_on_with(delta):
            self._end(index)
            block = self._begin(index, CONTENT, delta)
        block.take(delta)

    def _take_steps(self, steps: Sequence[Any]) -> None:
        """Take the steps of the interaction at the end, and what they hold."""
        versions: list[tuple[str, str, Mapping[str, Any]]] = []
        for step in map(mapping_of, steps[:_MOST_STEPS]):
            versions += versions_of(step)
        names = [Names(kind, text_in(about, "id")) for kind, _, about in versions]
        blocks = self.assembly.items.settle(names)
        self.has_gap = self._is_rest and len(blocks) < len(self.assembly.items.all)
        for block, (kind, text, about) in zip(blocks, versions, strict=True):
            block.about = dict(about)
            block.citations = list_of(about.get("annotations")) or block.citations
            block.pieces.clear()
            if kind in self.KINDS:
                self.assembly.settle((self.KINDS[kind], block.number), text)
                block.signature = about.get("signature") or block.signature
            elif kind in self.CALLS:
                whole = arguments_of(input_in(about, "arguments"))
                self.assembly.settle_arguments(block, whole)
            self.assembly.items.become(block, kind)
            self.assembly.items.end(block)

    # the reply

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        parts = self.parts()
        token = ""
        if self._checkpoint is not None and (is_cut or may_go_on(self._about)):
            token = self._checkpoint.token
            if is_cut:
                parts = self._parts_before(self._checkpoint)
        usage = self._usage
        if usage is not None and not self._is_counted:
            usage = at_least(usage, parts)
        draft = draft_of(self._about, parts, usage)
        error = self.error
        if error is None and not draft.refusal:
            error = error_of(self._about, self.headers)
        reply = draft.reply(error=error, cut=is_cut, cause=cause, raw=self._raw)
        return going_on(reply, self._about, token)

    def parts(self) -> tuple[Part, ...]:
        """Return the parts so far, in the order of the steps."""
        return tuple(self._parts_of(self.assembly.items.in_order()))

    def _parts_of(self, blocks: Sequence[StepBlock]) -> Iterator[Part]:
        for block in blocks:
            kind = (self.KINDS.get(block.kind, Text), block.number)
            yield from block.parts(self.assembly.text_of(kind), self.provider)

    def _parts_before(self, checkpoint: StepCheckpoint) -> tuple[Part, ...]:
        """Return what came before a checkpoint; the rest comes again."""
        parts = [*self._parts_of(self.assembly.items.all[: checkpoint.blocks])]
        for place, part in enumerate(reversed(parts), 1):
            if isinstance(part, TextPart | ReasoningPart) and checkpoint.letters:
                parts[-place] = evolve(part, text=part.text[: checkpoint.letters])
                break
            if isinstance(part, ToolCall):
                break
        return tuple(parts)

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the interaction of a whole body."""
        return interaction_in(value, body, self.provider, self.headers)
