"""Read a streamed response: what each event adds to which item.

Deltas come first, then the whole text, the whole part, the whole item and at last the whole
response, each of which repeats what came before. Some servers leave some of them out, so each is
taken as the latest version of what it repeats: what is new in it is handed out, what differs
replaces the old. Which item an event belongs to is up to the assembly's `Items`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, evolve, field

from rungwise.adapters.wires.chat.reply import usage_of
from rungwise.adapters.wires.counts import more_of
from rungwise.adapters.wires.draft import malformed, raw_of
from rungwise.adapters.wires.json_text import arguments_of, as_json, input_in, weight_of
from rungwise.adapters.wires.plain.parts import block_in, list_of, text_in, text_of_blocks
from rungwise.adapters.wires.reading.alike_lines import AlikeLines, Piece
from rungwise.adapters.wires.reading.decoding import StreamDecoder
from rungwise.adapters.wires.reading.events import Events
from rungwise.adapters.wires.reading.numbered import NumberedReader
from rungwise.adapters.wires.responses.events import (
    ARGUMENTS,
    DELTAS,
    ENDS,
    EVENTS,
    WHOLES,
    name_by_shape,
    output_index,
)
from rungwise.adapters.wires.responses.items import (
    CUSTOM,
    TEXTS,
    ResponseItem,
    contents_of,
    envelope_of,
    items_in,
    items_of,
)
from rungwise.adapters.wires.responses.reply import (
    STOP_REASONS,
    UNFINISHED,
    about_of,
    draft_of,
    error_of,
    unfinished,
)
from rungwise.fsm.replies.assembly.assembly import Kind
from rungwise.fsm.replies.assembly.gathered import GatheredText
from rungwise.fsm.replies.assembly.items import Names
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply
from rungwise.fsm.values.usage import Usage

_PADDING: Final = re.compile(rb'"obfuscation": ?"[^"\\]*"')
"""What hides how long the text of an event is."""
_WEIGHT: Final = 500
"""The bytes that an item counts for, without its text."""
_LARGEST_INDEX: Final = 100_000
"""No reply has as many items, or as many parts in an item."""


@define(eq=False, repr=False)
class ResponsesDecoder(StreamDecoder):
    """Turn the bytes of one streamed response into deltas, and at its end into a reply."""

    ITEM = ResponseItem
    EVENTS = EVENTS
    BODIES = Events(frozenset({"output", "output_text"}))

    _events: NumberedReader = field(init=False)
    _response: dict[str, Any] = field(factory=dict, init=False)  # without its items
    _most: Usage | None = field(default=None, init=False)  # that any version has counted
    _raw: object = field(default=None, init=False)  # the last event, for diagnosis

    @property
    def generation(self) -> str | None:
        """Return the id of the response."""
        return text_in(self._response, "id") or None

    @property
    def cursor(self) -> str | None:
        """Return the number of the last event."""
        return self._events.last

    @property
    def has_gap(self) -> bool:
        """Tell whether an event is missing of a stream that goes on."""
        return self._events.has_gap

    def _make_reader(self) -> NumberedReader:
        self._events = NumberedReader(
            ignores_names=True, names_types=True, alike=AlikeLines(_PADDING)
        )
        return self._events

    def piece_in(self, value: Any) -> Piece | None:
        """Return the piece of an event that holds one piece of text, or of a call's arguments.

        None if it may hold more.
        """
        try:
            name = value["type"]
            text = value["delta"]
            at = value["output_index"]
            if type(at) is not int or type(text) is not str or not text:
                return None
            item = self.assembly.items.known(value.get("item_id"), at)
            if name in ARGUMENTS:
                return (item, text) if ARGUMENTS[name][1] == "delta" else None
            key, place = DELTAS[name]
            index = value[place]
            if type(index) is not int or value.get("logprobs"):
                return None
            return (item.kind_of(key, index), text) if (key, index) in item.places else None
        except (KeyError, TypeError, AttributeError):
            return None

    def take_piece(self, kind: Kind | ResponseItem, text: str) -> None:
        """Take a piece of text, or of the arguments of a call."""
        if isinstance(kind, ResponseItem):
            self.assembly.arguments(kind, text)
            return
        super().take_piece(kind, text)

    def take_event(self, value: Mapping[str, Any], data: bytes, *, is_error: bool) -> None:
        """Take the object of any other event."""
        kind = value.get("type")
        at = value.get("output_index")
        if type(at) is int and not 0 <= at <= _LARGEST_INDEX:
            self.stop(malformed("an item stands where no reply has one"))
            return
        if is_error or kind == "error" or (kind is None and value.get("error")):
            self.take_error(data)
        elif not isinstance(kind, str):
            self.letters_beside += len(data)
        elif kind in DELTAS or kind in WHOLES:
            self._take_text(kind, value)
        elif kind in ARGUMENTS:
            self._take_arguments(kind, value)
        elif kind in ("response.refusal.delta", "response.refusal.done"):
            self._take_refusal(value)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._take_item(value, is_final=kind.endswith("done"))
        elif kind in ("response.content_part.added", "response.content_part.done"):
            self._take_content(value)
        elif kind == "response.reasoning_summary_part.added":
            self._begin_thought(value)
        elif kind == "response.output_text.annotation.added":
            self._take_annotation(value)
        elif isinstance(value.get("response"), dict):
            if kind == "response.created" and self.assembly.items.all:
                self.start_over()
                self._events.forget()
            if kind == "response.created":
                self._doubts.announce(value["response"].get("output"))
            if kind in ENDS:
                self._raw = raw_of(value["response"], data)
                if self._raw is not None:
                    self.assembly.held += weight_of(data)
            self._take_response(kind, value["response"])
        elif kind in ENDS:
            self._take_response(kind, dict(value))
        else:
            # what a tool of the provider's does; what the model writes there is paid for like any
            # other text
            self.letters_beside += len(text_in(value, "delta"))

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        items = []
        for each in self.assembly.items.in_order():
            item = each.whole(self.assembly.text_of, is_done=self.done)
            if item is not None:
                items.append(item)
        draft = draft_of(self._response, items, self.provider)
        draft = evolve(draft, usage=more_of(self._most, draft.usage))
        error = self.error or error_of(self._response, self.headers)
        return draft.reply(error=error, cut=is_cut, cause=cause, raw=self._raw)

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the response of a whole body."""
        output = value.get("output")
        status = text_in(value, "status")
        is_response = status in STOP_REASONS or status in UNFINISHED or "output_text" in value
        if not (isinstance(output, list) or value.get("error") or is_response):
            return malformed("the body is no response")
        draft = draft_of(value, items_in(value), self.provider)
        error = error_of(value, self.headers) or unfinished(value, draft)
        return draft.reply(error=error, raw=raw_of(value, body))

    # where things belong

    def name_of(self, value: Mapping[str, Any]) -> str:
        """Return the name of an event whose own is not known, or ""."""
        return name_by_shape(value, self.assembly.items)

    def _item(self, value: Mapping[str, Any], kind: str, *, begins: bool = False) -> Any:
        """Return the item of an event; see `Items.find`."""
        self.started = True
        index = output_index(value)
        id = text_in(value, "item_id")
        item = self.assembly.items.find(kind, id=id, index=index, begins=begins)
        if item is None:
            item = self.assembly.items.begin(kind, id=id, index=index)
            self._events.forget()  # the same names may be those of another item now
        return item

    def _kind(self, item: ResponseItem, key: str, index: Any) -> Kind:
        """Return the kind of a text in an item; see `ResponseItem.kind_of`."""
        index = _index(index)
        if (key, index) not in item.places:
            item.places[key, index] = None
            self.assembly.held += _WEIGHT
        return item.kind_of(key, index)

    # what the events add

    def _take_text(self, name: str, value: Mapping[str, Any], *, is_over: bool = True) -> None:
        """Take a piece of a text, or the whole of it.

        Arguments:
            name: of the event.
            value: the event.
            is_over: whether the whole of it ends the text; else, it announces it.
        """
        is_whole = name in WHOLES
        key, member = WHOLES[name] if is_whole else DELTAS[name]
        item = self._item(value, "message" if key == "text" else "reasoning")
        index = _index(value.get(member))
        kind = self._kind(item, key, index)
        if is_whole:
            self._take_whole(kind, text_of_blocks(value.get("text")), is_over=is_over)
        elif piece := text_of_blocks(value.get("delta") or value.get("text")):
            self.take_piece(kind, piece)
        self._keep_logprobs(item, index, value, is_whole=is_whole)

    def _take_whole(self, kind: Kind, text: str, *, is_over: bool) -> None:
        """Take a whole text, which its pieces may say once more if it is not over."""
        if is_over:
            self.assembly.settle(kind, text)
        elif text:
            self.assembly.announce(kind, text, is_settled=True)

    def _keep_logprobs(
        self, item: ResponseItem, index: int, value: Mapping[str, Any], *, is_whole: bool
    ) -> None:
        """Keep the log probabilities in an event.

        Arguments:
            item: the item.
            index: the part of it that they belong to.
            value: the event.
            is_whole: whether they are those of the whole text; otherwise they are appended.
        """
        logprobs = value.get("logprobs")
        if not isinstance(logprobs, list) or not logprobs:
            return
        self.assembly.held += weight_of(as_json(logprobs).encode())
        if is_whole:
            item.logprobs[index] = logprobs
        else:
            item.logprobs.setdefault(index, []).extend(logprobs)

    def _take_arguments(self, name: str, value: Mapping[str, Any]) -> None:
        """Take a piece of the arguments of a call, or the whole of them."""
        kind, member = ARGUMENTS[name]
        item = self._item(value, kind)
        if member == "delta":
            self.take_arguments(item, input_in(value, member))
        else:
            self.assembly.settle_arguments(item, arguments_of(input_in(value, member)))

    def _take_refusal(self, value: Mapping[str, Any]) -> None:
        """Take a piece of a refusal, or the whole of it."""
        item = self._item(value, "message")
        index = _index(value.get("content_index"))
        if index not in item.refusals:
            item.refusals[index] = GatheredText()
            self.assembly.held += _WEIGHT
        self.assembly.refuse(item.refusals[index], text_in(value, "refusal"), is_whole=True)
        self.assembly.refuse(item.refusals[index], text_in(value, "delta"))

    def _take_content(self, value: Mapping[str, Any]) -> None:
        """Take a part of a message as it begins or ends."""
        part = block_in(value.get("part"), type="output_text")
        kind = part.get("type")
        if kind == "refusal" and text_in(part, "refusal"):
            self._take_refusal({**value, "refusal": part["refusal"]})
        elif kind in ("output_text", "reasoning_text"):
            members = {"text": part.get("text"), "logprobs": part.get("logprobs")}
            is_over = value.get("type") == "response.content_part.done"
            self._take_text(f"response.{kind}.done", {**value, **members}, is_over=is_over)

    def _begin_thought(self, value: Mapping[str, Any]) -> None:
        """Begin a part of a summary, behind a blank line if another one stands before it."""
        item = self._item(value, "reasoning")
        index = _index(value.get("summary_index"))
        self._kind(item, "summary", index)
        if index and any(key == "summary" and place < index for key, place in item.places):
            self.assembly.separate(Reasoning("\n\n"))  # as the reply joins them

    def _take_annotation(self, value: Mapping[str, Any]) -> None:
        item = self._item(value, "message")
        annotation = value.get("annotation")
        if isinstance(annotation, dict):
            index = _index(value.get("content_index"))
            item.annotations.setdefault(index, []).append(annotation)
            self.assembly.held += weight_of(as_json(annotation).encode())

    def _take_item(self, value: Mapping[str, Any], *, is_final: bool) -> None:
        """Take an item as it begins or ends."""
        for about in items_of(value.get("item")):
            id = text_in(about, "id")
            kind = text_in(about, "type")
            index = output_index(value)
            item = self._item({**value, "item_id": id}, kind, begins=not is_final)
            if item.is_another(about, index, self.assembly.text_of):
                item = self.assembly.items.begin(kind, id=id, index=index)
            self.assembly.items.name(item, id)
            self._take_version(item, about, is_final=is_final)

    def _take_version(
        self,
        item: ResponseItem,
        version: dict[str, Any],
        *,
        is_final: bool,
    ) -> None:
        """Take the latest version of an item.

        Its texts join those of the deltas, and the rest replaces the old version.

        Arguments:
            item: the item.
            version: what it is now.
            is_final: whether it is done.
        """
        kind = text_in(version, "type")
        if item.kind not in ("", kind) and item.is_over:
            return  # another item under the same index: the first one was whole
        if kind == "message":
            for index, part in enumerate(contents_of(version)):
                if part.get("type") in TEXTS:
                    text = text_in(part, "text")
                    self._take_whole(self._kind(item, "text", index), text, is_over=is_final)
            version = envelope_of(version)
        elif kind == "reasoning":
            for key in ("summary", "content"):
                for index, part in enumerate(list_of(version.get(key))):
                    text = text_in(part, "text")
                    self._take_whole(self._kind(item, key, index), text, is_over=is_final)
        else:
            arguments = arguments_of(input_in(version, "input" if kind == CUSTOM else "arguments"))
            self.assembly.settle_arguments(item, arguments)
        weight = weight_of(as_json(version).encode())
        self.assembly.held += weight - item.weight
        item.weight = weight
        item.about = version
        item.call_id = text_in(version, "call_id")
        item.name = text_in(version, "name")
        self.assembly.items.become(item, kind)
        if is_final:
            self.assembly.items.end(item)

    def _take_output(self, output: list[Any]) -> None:
        """Take the items of the response at the end."""
        versions = output[:_LARGEST_INDEX]
        names = [
            Names(*[text_in(version, name) for name in ("type", "id", "call_id", "name")])
            for version in versions
        ]
        items = self.assembly.items.settle(names)
        for item, version in zip(items, versions, strict=True):
            self._take_version(item, version, is_final=True)

    def _take_response(self, name: str, response: dict[str, Any]) -> None:
        """Take the latest version of the response, and end with it if the event says so."""
        self.started = True
        status = ENDS.get(name)
        if status is not None:
            self._take_output(items_in(response))
        self._response |= about_of(response)
        if isinstance(response.get("usage"), dict):
            self._most = more_of(self._most, usage_of(response["usage"], response))
        if status is None:
            return
        if text_in(response, "status") in ("", *UNFINISHED):
            self._response["status"] = status
        self.error = error_of(response, self.headers)
        self.done = self.finished = True


def _index(value: Any) -> int:
    """Return an index in an item; 0 for anything that is not an index."""
    return value if type(value) is int and 0 <= value <= _LARGEST_INDEX else 0
