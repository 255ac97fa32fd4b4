"""Gather one item of a streamed response from what its events bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

from rungwise.adapters.wires.composing import text_at
from rungwise.adapters.wires.reading.held_text import HeldText
from rungwise.adapters.wires.responses.items import CUSTOM, contents_of, thoughts_in


def write(held: HeldText, said: str, *, is_whole: bool) -> int:
    """Add to what a model writes, and return by how many characters that has grown.

    Arguments:
        held: what was written before.
        said: what comes.
        is_whole: whether that takes the place of what was written before.
    """
    size = held.tell()
    if is_whole:
        held.seek(0)
        held.truncate()
    held.write(said)
    return held.tell() - size


@define(eq=False)
class Slot:
    """Hold one item on its way.

    Arguments:
        item: what is known of it, but for the texts of a message.
        is_final: whether it is done.
        weight: how many bytes, about, it takes up.
        written: the arguments of a call.
        refusals: what was said of a refusal in each part of a message.
        annotations: those of each part.
        logprobs: likewise.
        places: its texts, in the order of their coming: the member that they are in, and the index there.
    """

    item: dict[str, Any] = field(factory=dict)
    is_final: bool = False
    weight: int = 0
    written: HeldText = field(factory=HeldText)
    refusals: dict[int, HeldText] = field(factory=dict)
    annotations: dict[int, list[Any]] = field(factory=dict)
    logprobs: dict[int, list[Any]] = field(factory=dict)
    places: dict[tuple[str, int], None] = field(factory=dict)

    @property
    def kind(self) -> str:
        """Return the type of the item, "" where nobody said."""
        return text_at(self.item, "type")

    def whole(self, at: int, text_of: Callable[[Any], str], *, is_over: bool) -> dict[str, Any] | None:
        """Return the item as far as it has come; None of what nobody could go on from before it is done.

        Arguments:
            at: its place among the items.
            text_of: returns the text at such a place, a member and an index there.
            is_over: whether the response has come to its end, which some servers do not say of each item.
        """
        item = self.item if self.is_final or is_over else {**self.item, "status": "incomplete"}
        if self.kind == "message":
            return {**item, "content": self._contents(at, text_of)}
        if self.kind in ("function_call", CUSTOM):
            said = "input" if self.kind == CUSTOM else "arguments"
            return {**item, said: self.written.getvalue()} if self.written.tell() else item
        if self.kind == "reasoning":
            return {**item, **self._thoughts(at, text_of)}
        return item if self.is_final else None

    def _contents(self, at: int, text_of: Callable[[Any], str]) -> list[dict[str, Any]]:
        known = contents_of(self.item)
        places = {*range(len(known)), *self.refusals, *(index for key, index in self.places if key == "text")}
        contents = []
        for index in sorted(places):
            part = known[index] if index < len(known) else {}
            if index in self.refusals:
                part = {"type": "refusal", "refusal": self.refusals[index].getvalue()}
            elif part.get("type", "output_text") == "output_text":
                beside = {"annotations": self.annotations.get(index), "logprobs": self.logprobs.get(index)}
                told = {name: value for name, value in beside.items() if value}
                said = {name: value for name, value in part.items() if value or name not in told}
                text = text_of((at, "text", index))
                part = {"type": "output_text", "annotations": [], **told, **said, "text": text}
            contents.append(part)
        return contents

    def _thoughts(self, at: int, text_of: Callable[[Any], str]) -> dict[str, Any]:
        """Return the members of reasoning that the item itself does not hold."""
        told: dict[str, Any] = {}
        for key, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
            places = sorted(index for name, index in self.places if name == key)
            if places and not any(thoughts_in(self.item, key)):
                told[key] = [{"type": kind, "text": text_of((at, key, index))} for index in places]
        return told
