"""Read a response, whole or streamed: its items, why it ended, its usage, and what each event
adds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from rungwise.adapters.wires.chat.reply import usage_of
from rungwise.adapters.wires.draft import Draft, classified, malformed, raw_of, stop_of
from rungwise.adapters.wires.json_text import HeldText, as_json, mended, weight_of
from rungwise.adapters.wires.plain.parts import list_of, mapping_of, text_in
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.decoding import Kind, StreamDecoder
from rungwise.adapters.wires.reading.sse import EventReader
from rungwise.adapters.wires.responses.items import (
    CUSTOM,
    Slot,
    contents_of,
    envelope_of,
    parts_of_items,
    write,
)
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import ToolCall
from rungwise.fsm.replies.reply import Reasoning, Reply, StopReason, Text

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "completed": "stop",
    "incomplete": "length",  # where nobody says why
    "max_output_tokens": "length",
    "max_messages": "length",
    "steered": "length",
    "content_filter": "content_filter",
    "failed": "error",
    "cancelled": "error",
}
"""The values of `status`, and of `incomplete_details.reason`, which says more.

`queued` and `in_progress` are missing: such a response has not ended.
"""


def draft_of(response: Mapping[str, Any], items: Sequence[Any], provider: str) -> Draft:
    """Return the draft of a reply."""
    usage = response.get("usage")
    parts, refusal = parts_of_items(items, provider)
    status = response.get("status")
    if status in ("incomplete", "completed"):
        status = mapping_of(response.get("incomplete_details")).get("reason") or status
    reason, word = stop_of(status, STOP_REASONS)
    written = [
        item
        for item in items
        if mapping_of(item).get("type") in ("message", "function_call", CUSTOM)
    ]
    if reason == "stop" and any(item.get("status") == "incomplete" for item in written):
        reason = "length"
    if reason == "stop" and any(isinstance(part, ToolCall) for part in parts):
        reason = "tool_calls"
    return Draft(
        parts=parts,
        stop=(reason, word),
        usage=usage_of(usage) if isinstance(usage, dict) else None,
        model=response.get("model"),
        refusal=refusal,
        about=[response.get("id"), response.get("created_at")],
    )


def error_of(response: Mapping[str, Any], headers: Mapping[str, str]) -> Failure | None:
    """Return the error that a response holds, or None."""
    error = response.get("error")
    return classified(None, headers, as_json({"error": error}).encode()) if error else None


_VOLATILE: Final = re.compile(rb'"(?:sequence_number": ?\d+|obfuscation": ?"[^"\\]*")')
"""The number of an event, and the padding that hides how long its text is."""
_WEIGHT: Final = 500
"""The bytes that an item counts for, without its text."""
_LARGEST_INDEX: Final = 100_000
_ENDS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""The events that end a stream, with the status that each means."""

# Whose texts these are: (visible or not, the place in the item, the member that says which place it
# is).
_PLACES: Final[Mapping[str, tuple[type[Text] | type[Reasoning], str, str]]] = {
    "response.output_text": (Text, "text", "content_index"),
    "response.reasoning_summary_text": (Reasoning, "summary", "summary_index"),
    "response.reasoning_text": (Reasoning, "content", "content_index"),
}
_DELTAS: Final = {f"{name}.delta": place for name, place in _PLACES.items()}
_WHOLES: Final = {f"{name}.done": place for name, place in _PLACES.items()}
_ARGUMENTS: Final = {
    "response.function_call_arguments.delta": ("function_call", "delta"),
    "response.custom_tool_call_input.delta": (CUSTOM, "delta"),
    "response.function_call_arguments.done": ("function_call", "arguments"),
    "response.custom_tool_call_input.done": (CUSTOM, "input"),
}
"""The events of arguments: what calls they belong to, and the member that holds them."""


@define(eq=False, repr=False)
class ResponsesDecoder(StreamDecoder):
    """Turn the bytes of one streamed response into deltas, and at its end into a reply or a
    failure.

    Whole items and the response at its end replace what came in deltas; what is new in them is
    handed out.
    """

    IS_DONE_AT_END = False

    _slots: dict[int, Slot] = field(factory=dict, init=False)
    _places_of: dict[str, int] = field(factory=dict, init=False)  # where the item of an id stands
    _response: dict[str, Any] = field(factory=dict, init=False)
    _raw: object = field(default=None, init=False)

    def _make_reader(self) -> EventReader:
        return EventReader(ignores_names=True, volatile=_VOLATILE)

    def piece_in(self, value: Any) -> Piece | None:
        """Return the piece of an event that holds one piece of text, or of a call's arguments, and
        nothing else.
        """
        try:
            name = value["type"]
            text = value["delta"]
            at = value["output_index"]
            slot = self._slots.get(at) if type(at) is int else None
            if slot is None or type(text) is not str or not text:
                return None
            if name in _ARGUMENTS:
                return (at, text) if _ARGUMENTS[name][1] == "delta" else None
            kind, key, place = _DELTAS[name]
            index = value[place]
            if type(index) is int and not value.get("logprobs") and (key, index) in slot.places:
                return (kind, (at, key, index)), text
        except (KeyError, TypeError, AttributeError):
            pass
        return None

    def take_piece(self, kind: Kind | int, text: str) -> None:
        """Take a piece of the text, of the reasoning, or of the arguments of the call at this
        index.
        """
        if isinstance(kind, int):
            self.unshown += write(self._slots[kind].written, text, is_whole=False)
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
                self._held += 0 if self._raw is None else weight_of(data)
            self._take_response(kind, value["response"])
        elif kind in _ENDS:
            self._take_response(kind, {})
        else:
            # what a tool of the provider's does; what the model writes there is paid for like any
            # other text
            self.letters_beside += len(text_in(value, "delta"))

    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together."""
        items = [
            self._slots[at].whole(at, self.text_of, is_over=self.done) for at in sorted(self._slots)
        ]
        draft = draft_of(
            self._response, [item for item in items if item is not None], self.provider
        )
        error = self.error or error_of(self._response, self.headers)
        return draft.reply(error=error, cut=is_cut, cause=cause, raw=self._raw)

    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the response of a whole body."""
        output = value.get("output")
        status = text_in(value, "status")
        if not (isinstance(output, list) or value.get("error") or status):
            return malformed("the body is no response")
        draft = draft_of(value, list_of(output), self.provider)
        return draft.reply(
            error=error_of(value, self.headers), cut=not status, raw=raw_of(value, body)
        )

    @property
    def held_bytes(self) -> int:
        """Return roughly how many bytes are held, without the texts."""
        return self._held + self.unshown

    # where things belong

    def _slot(self, value: Mapping[str, Any], kind: str = "") -> tuple[int, Slot]:
        """Return the item of an event, by its index or its id, or else the last one."""
        at = value.get("output_index")
        id = text_in(value, "item_id")
        if type(at) is not int:
            at = (
                self._places_of.get(id, max(self._slots, default=0))
                if id
                else max(self._slots, default=0)
            )
        slot = self._slots.get(at)
        if slot is None:
            self.started = True
            slot = self._slots[at] = Slot(
                {"type": kind, **({"id": id} if id else {})} if kind else {}
            )
            self._held += _WEIGHT
            if id:
                self._places_of[id] = at
        return at, slot

    def _place(self, at: int, slot: Slot, key: str, index: Any) -> tuple[int, str, int]:
        index = _index(index)
        if (key, index) not in slot.places:
            slot.places[key, index] = None
            self._held += _WEIGHT
        return at, key, index

    # what the events add

    def _take_text(self, name: str, value: Mapping[str, Any]) -> None:
        event_type, key, member = _DELTAS.get(name) or _WHOLES[name]
        at, slot = self._slot(value, "message" if event_type is Text else "reasoning")
        place = self._place(at, slot, key, value.get(member))
        if name in _DELTAS:
            if piece := text_in(value, "delta"):
                self.take_piece((event_type, place), piece)
        else:
            self._settle((event_type, place), text_in(value, "text"))
        self._keep_logprobs(slot, place[2], value, is_whole=name in _WHOLES)

    def _settle(self, kind: Kind, text: str) -> None:
        """Take a whole text: hand out what is new; if it differs from what came before, it replaces
        that.
        """
        if not text.strip():
            return
        self._flush()
        buffer = self.texts.get(kind[1])
        size = 0 if buffer is None else buffer.tell()
        # A text of less than half the size is not compared, so that the work stays proportional to
        # the input.
        before = self.text_of(kind[1]) if 2 * len(text) >= size else None
        text = str(mended(text))
        if before is None or not text.startswith(before):
            self.set_text(kind[1], text)
        elif len(text) > len(before):
            self.take_piece(kind, text[len(before) :])

    def _keep_logprobs(
        self, slot: Slot, index: int, value: Mapping[str, Any], *, is_whole: bool
    ) -> None:
        logprobs = value.get("logprobs")
        if not isinstance(logprobs, list) or not logprobs:
            return
        self._held += weight_of(as_json(logprobs).encode())
        if is_whole:
            slot.logprobs[index] = logprobs
        else:
            slot.logprobs.setdefault(index, []).extend(logprobs)

    def _take_arguments(self, name: str, value: Mapping[str, Any]) -> None:
        kind, member = _ARGUMENTS[name]
        _, slot = self._slot(value, kind)
        text = text_in(value, member)
        if member == "delta" or text:
            self.unshown += write(slot.written, text, is_whole=member != "delta")

    def _take_refusal(self, value: Mapping[str, Any]) -> None:
        _, slot = self._slot(value, "message")
        index = _index(value.get("content_index"))
        if index not in slot.refusals:
            slot.refusals[index] = HeldText()
            self._held += _WEIGHT
        whole = text_in(value, "refusal")
        self.unshown += write(
            slot.refusals[index], whole or text_in(value, "delta"), is_whole=bool(whole)
        )

    def _take_content(self, value: Mapping[str, Any]) -> None:
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
        at, slot = self._slot(value, "reasoning")
        *_, index = self._place(at, slot, "summary", value.get("summary_index"))
        if index and any(key == "summary" and place < index for key, place in slot.places):
            self._flush()
            self._out.append(Reasoning("\n\n"))  # as the reply joins them

    def _take_annotation(self, value: Mapping[str, Any]) -> None:
        _, slot = self._slot(value, "message")
        if isinstance(value.get("annotation"), dict):
            slot.annotations.setdefault(_index(value.get("content_index")), []).append(
                value["annotation"]
            )
            self._held += weight_of(as_json(value["annotation"]).encode())

    def _take_item(self, value: Mapping[str, Any], *, is_final: bool) -> None:
        item = value.get("item")
        if not isinstance(item, dict):
            return
        at, slot = self._slot({"item_id": item.get("id"), **value})
        if isinstance(item.get("id"), str):
            self._places_of[item["id"]] = at
        self._take_edition(at, slot, item, is_final=is_final)

    def _take_edition(self, at: int, slot: Slot, item: dict[str, Any], *, is_final: bool) -> None:
        """Take the latest version of an item: its texts join those of the deltas, the rest replaces
        the old item.
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
                    self._settle(
                        (Reasoning, self._place(at, slot, key, index)), text_in(part, "text")
                    )
        elif kind in ("function_call", CUSTOM):
            name = (
                "function_call_arguments" if kind == "function_call" else "custom_tool_call_input"
            )
            self._take_arguments(f"response.{name}.done", {**item, "output_index": at})
        self._held += (weight := weight_of(as_json(item).encode())) - slot.weight
        slot.weight = weight
        slot.item = item
        slot.is_final = is_final or slot.is_final

    def _take_response(self, name: str, response: dict[str, Any]) -> None:
        self.started = True
        status = _ENDS.get(name)
        if status is not None:
            for at, item in enumerate(list_of(response.get("output"))):
                if isinstance(item, dict):
                    place = self._places_of.get(text_in(item, "id"), at)
                    self._take_edition(*self._slot({"output_index": place}), item, is_final=True)
        self._response |= {
            key: response[key]
            for key in ("id", "created_at", "model", "status", "incomplete_details", "usage")
            if response.get(key) is not None
        }
        if status is None:
            return
        if text_in(response, "status") in ("", "queued", "in_progress"):
            self._response["status"] = status
        self.error = error_of(response, self.headers)
        self.done = self.finished = True


def _index(value: Any) -> int:
    """Return an index in an item; 0 for anything that is not an index."""
    return value if type(value) is int and 0 <= value <= _LARGEST_INDEX else 0
