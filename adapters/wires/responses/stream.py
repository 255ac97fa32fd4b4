"""Read a streamed response: what each event adds to which item.

Deltas come first, then the whole text, the whole part, the whole item and at last the whole
response, each of which repeats what came before. Some servers leave some of them out, so each is
taken as the latest version of what it repeats: what is new in it is handed out, what differs
replaces the old. Which item an event belongs to is up to `Items`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.draft import NATIVE, malformed, raw_of
from rungwise.adapters.wires.json_text import HeldText, as_json, mended, weight_of
from rungwise.adapters.wires.plain.parts import list_of, text_in
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.decoding import Kind, StreamDecoder
from rungwise.adapters.wires.reading.sse import EventReader
from rungwise.adapters.wires.responses.identity import Items
from rungwise.adapters.wires.responses.items import (
    CUSTOM,
    Slot,
    contents_of,
    envelope_of,
    write,
)
from rungwise.adapters.wires.responses.reply import STOP_REASONS, draft_of, error_of
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text

_VOLATILE: Final = re.compile(rb'"(?:sequence_number": ?\d+|obfuscation": ?"[^"\\]*")')
"""The number of an event, and the padding that hides how long its text is."""
_WEIGHT: Final = 500
"""The bytes that an item counts for, without its text."""
_LARGEST_INDEX: Final = 100_000
"""No reply has as many items, or as many parts in an item."""
_ENDS: Final = {
    "response.completed": "completed",
    "response.done": "completed",  # a gateway's name for it [jlcodes99/cockpit-tools#2328]
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""The events that end a stream, with the status that each means."""

_PLACES: Final[Mapping[str, tuple[type[Text] | type[Reasoning], str, str]]] = {
    "response.output_text": (Text, "text", "content_index"),
    "response.reasoning_summary_text": (Reasoning, "summary", "summary_index"),
    "response.reasoning_text": (Reasoning, "content", "content_index"),
}
"""The events of texts: visible or not, the key of the text in its item, and the member of the event
that holds its index there."""
_DELTAS: Final = {f"{name}.delta": place for name, place in _PLACES.items()}
_WHOLES: Final = {f"{name}.done": place for name, place in _PLACES.items()}
_ABOUT: Final = ("id", "created_at", "model", "status", "incomplete_details", NATIVE, "usage")
"""The members of a response that count, besides its items and its error."""
_ARGUMENTS: Final = {
    "response.function_call_arguments.delta": ("function_call", "delta"),
    "response.custom_tool_call_input.delta": (CUSTOM, "delta"),
    "response.function_call_arguments.done": ("function_call", "arguments"),
    "response.custom_tool_call_input.done": (CUSTOM, "input"),
}
"""The events of arguments: what calls they belong to, and the member that holds them."""


@define(eq=False, repr=False)
class ResponsesDecoder(StreamDecoder):
    """Turn the bytes of one streamed response into deltas, and at its end into a reply."""

    IS_DONE_AT_END = False

    _items: Items = field(factory=Items, init=False)
    _response: dict[str, Any] = field(factory=dict, init=False)  # without its items
    _raw: object = field(default=None, init=False)  # the last event, for diagnosis

    def _make_reader(self) -> EventReader:
        return EventReader(ignores_names=True, volatile=_VOLATILE)

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
            number = self._items.known(value.get("item_id"), at)
            slot = self._items.slots[number]
            if name in _ARGUMENTS:
                return (number, text) if _ARGUMENTS[name][1] == "delta" else None
            kind, key, place = _DELTAS[name]
            index = value[place]
            if type(index) is not int or value.get("logprobs"):
                return None
            if (key, index) not in slot.places:
                return None
            return (kind, (number, key, index)), text
        except (KeyError, TypeError, AttributeError):
            return None

    def take_piece(self, kind: Kind | int, text: str) -> None:
        """Take a piece of text, or of the arguments of the call at this index."""
        if isinstance(kind, int):
            self.unshown += write(self._items.slots[kind].written, text, is_whole=False)
            return
        super().take_piece(kind, text)

    def take_value(self, value: Mapping[str, Any], data: bytes, *, is_error: bool) -> None:
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
        elif kind in _DELTAS or kind in _WHOLES:
            self._take_text(kind, value)
        elif kind in _ARGUMENTS:
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
            if kind in _ENDS:
                self._raw = raw_of(value["response"], data)
                if self._raw is not None:
                    self._held += weight_of(data)
            self._take_response(kind, value["response"])
        elif kind in _ENDS:
            self._take_response(kind, {})
        else:
            # what a tool of the provider's does; what the model writes there is paid for like any
            # other text
            self.letters_beside += len(text_in(value, "delta"))

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        items = []
        for number in self._items.in_order():
            item = self._items.slots[number].whole(number, self.text_of, is_over=self.done)
            if item is not None:
                items.append(item)
        draft = draft_of(self._response, items, self.provider)
        error = self.error or error_of(self._response, self.headers)
        return draft.reply(error=error, cut=is_cut, cause=cause, raw=self._raw)

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the response of a whole body."""
        output = value.get("output")
        status = text_in(value, "status")
        is_response = status in STOP_REASONS or status in ("queued", "in_progress")
        if not (isinstance(output, list) or value.get("error") or is_response):
            return malformed("the body is no response")
        draft = draft_of(value, list_of(output), self.provider)
        error = error_of(value, self.headers)
        return draft.reply(error=error, cut=not status, raw=raw_of(value, body))

    @property
    def held_bytes(self) -> int:
        """Return roughly how many bytes are held, without the texts."""
        return self._held + self.unshown + _WEIGHT * len(self._items.slots)

    # where things belong

    def _slot(
        self, value: Mapping[str, Any], kind: str, *, begins: bool = False
    ) -> tuple[int, Slot]:
        """Return the item of an event, and its number; see `Items.of`."""
        self.started = True
        return self._items.of(value, kind, begins=begins)

    def _place(self, at: int, slot: Slot, key: str, index: Any) -> tuple[int, str, int]:
        """Return the place of a text in the response, which is its key among the texts.

        Arguments:
            at: the number of its item.
            slot: the item.
            key: what the text is there: "text", "summary" or "content".
            index: its index among those, as the event says.
        """
        index = _index(index)
        if (key, index) not in slot.places:
            slot.places[key, index] = None
            self._held += _WEIGHT
        return at, key, index

    # what the events add

    def _take_text(self, name: str, value: Mapping[str, Any]) -> None:
        """Take a piece of a text, or the whole of it."""
        is_whole = name in _WHOLES
        event_type, key, member = _WHOLES[name] if is_whole else _DELTAS[name]
        at, slot = self._slot(value, "message" if event_type is Text else "reasoning")
        place = self._place(at, slot, key, value.get(member))
        if is_whole:
            self._settle((event_type, place), text_in(value, "text"))
        elif piece := text_in(value, "delta"):
            self.take_piece((event_type, place), piece)
        self._keep_logprobs(slot, place[2], value, is_whole=is_whole)

    def _settle(self, kind: Kind, text: str) -> None:
        """Take a whole text, and hand out what is new in it.

        If it differs from what came before, it replaces that.
        """
        if not text.strip():
            return
        self._flush()
        if kind in self._growths:
            self._growths[kind].settle()
        buffer = self.texts.get(kind[1])
        size = 0 if buffer is None else buffer.tell()
        before = None
        # A text of less than half the size is not compared, so that the work stays proportional to
        # the input.
        if 2 * len(text) >= size:
            before = self.text_of(kind[1])
        text = str(mended(text))
        if before is None or not text.startswith(before):
            self.set_text(kind[1], text)
        elif len(text) > len(before):
            self.take_piece(kind, text[len(before) :])

    def _keep_logprobs(
        self, slot: Slot, index: int, value: Mapping[str, Any], *, is_whole: bool
    ) -> None:
        """Keep the log probabilities in an event.

        Arguments:
            slot: the item.
            index: the part of it that they belong to.
            value: the event.
            is_whole: whether they are those of the whole text; otherwise they are appended.
        """
        logprobs = value.get("logprobs")
        if not isinstance(logprobs, list) or not logprobs:
            return
        self._held += weight_of(as_json(logprobs).encode())
        if is_whole:
            slot.logprobs[index] = logprobs
        else:
            slot.logprobs.setdefault(index, []).extend(logprobs)

    def _take_arguments(self, name: str, value: Mapping[str, Any]) -> None:
        """Take a piece of the arguments of a call, or the whole of them."""
        kind, member = _ARGUMENTS[name]
        _, slot = self._slot(value, kind)
        text = text_in(value, member)
        if member == "delta" or text:
            self.unshown += write(slot.written, text, is_whole=member != "delta")

    def _take_refusal(self, value: Mapping[str, Any]) -> None:
        """Take a piece of a refusal, or the whole of it."""
        _, slot = self._slot(value, "message")
        index = _index(value.get("content_index"))
        if index not in slot.refusals:
            slot.refusals[index] = HeldText()
            self._held += _WEIGHT
        buffer = slot.refusals[index]
        whole = text_in(value, "refusal")
        if whole:
            self.unshown += write(buffer, whole, is_whole=True)
        else:
            self.unshown += write(buffer, text_in(value, "delta"), is_whole=False)

    def _take_content(self, value: Mapping[str, Any]) -> None:
        """Take a part of a message as it begins or ends."""
        part = value.get("part")
        if not isinstance(part, dict):
            return
        kind = part.get("type")
        if kind == "refusal" and text_in(part, "refusal"):
            self._take_refusal({**value, "refusal": part["refusal"]})
        elif kind in ("output_text", "reasoning_text"):
            members = {"text": part.get("text"), "logprobs": part.get("logprobs")}
            self._take_text(f"response.{kind}.done", {**value, **members})

    def _begin_thought(self, value: Mapping[str, Any]) -> None:
        """Begin a part of a summary, behind a blank line if another one stands before it."""
        at, slot = self._slot(value, "reasoning")
        *_, index = self._place(at, slot, "summary", value.get("summary_index"))
        if index and any(key == "summary" and place < index for key, place in slot.places):
            self._flush()
            self._out.append(Reasoning("\n\n"))  # as the reply joins them

    def _take_annotation(self, value: Mapping[str, Any]) -> None:
        _, slot = self._slot(value, "message")
        annotation = value.get("annotation")
        if isinstance(annotation, dict):
            index = _index(value.get("content_index"))
            slot.annotations.setdefault(index, []).append(annotation)
            self._held += weight_of(as_json(annotation).encode())

    def _take_item(self, value: Mapping[str, Any], *, is_final: bool) -> None:
        """Take an item as it begins or ends."""
        item = value.get("item")
        if not isinstance(item, dict):
            return
        about = {**value, "item_id": item.get("id")}
        number, slot = self._slot(about, text_in(item, "type"), begins=not is_final)
        self._items.name(number, text_in(item, "id"))
        self._take_edition(number, slot, item, is_final=is_final)

    def _take_edition(self, at: int, slot: Slot, item: dict[str, Any], *, is_final: bool) -> None:
        """Take the latest version of an item.

        Its texts join those of the deltas, and the rest replaces the old item.

        Arguments:
            at: its number.
            slot: where it is gathered.
            item: the version.
            is_final: whether it is done.
        """
        kind = item.get("type")
        if slot.kind not in ("", kind) and slot.is_final:
            return  # another item under the same index: the first one was whole
        if kind == "message":
            for index, part in enumerate(contents_of(item)):
                if part.get("type") == "output_text":
                    place = self._place(at, slot, "text", index)
                    self._settle((Text, place), text_in(part, "text"))
            item = envelope_of(item)
        elif kind == "reasoning":
            for key in ("summary", "content"):
                for index, part in enumerate(list_of(item.get(key))):
                    place = self._place(at, slot, key, index)
                    self._settle((Reasoning, place), text_in(part, "text"))
        elif text := text_in(item, "input" if kind == CUSTOM else "arguments"):
            self.unshown += write(slot.written, text, is_whole=True)
        weight = weight_of(as_json(item).encode())
        self._held += weight - slot.weight
        slot.weight = weight
        slot.item = item
        slot.is_final = is_final or slot.is_final

    def _take_output(self, output: list[Any]) -> None:
        """Take the items of the response at the end."""
        items = [item for item in output[:_LARGEST_INDEX] if isinstance(item, dict)]
        for number, item in zip(self._items.settled(items), items, strict=True):
            self._take_edition(number, self._items.slots[number], item, is_final=True)

    def _take_response(self, name: str, response: dict[str, Any]) -> None:
        """Take the latest version of the response, and end with it if the event says so."""
        self.started = True
        status = _ENDS.get(name)
        if status is not None:
            self._take_output(list_of(response.get("output")))
        for key in _ABOUT:
            if response.get(key) is not None:
                self._response[key] = response[key]
        if status is None:
            return
        if text_in(response, "status") in ("", "queued", "in_progress"):
            self._response["status"] = status
        self.error = error_of(response, self.headers)
        self.done = self.finished = True


def _index(value: Any) -> int:
    """Return an index in an item; 0 for anything that is not an index."""
    return value if type(value) is int and 0 <= value <= _LARGEST_INDEX else 0
