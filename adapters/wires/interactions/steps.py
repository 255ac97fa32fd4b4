"""What a streamed interaction is gathered in: texts, thoughts, calls, and whatever else comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from rungwise.adapters.wires.interactions.plain import summary_of
from rungwise.adapters.wires.interactions.reply import (
    ECHOED,
    call_of,
    content_parts,
    contents_of,
    parts_of_step,
    text_parts,
    thought_parts,
)
from rungwise.adapters.wires.plain.parts import text_in
from rungwise.adapters.wires.provider_data import joined_base64
from rungwise.adapters.wires.reading.blocks import Block
from rungwise.fsm.replies.parts import Part

CONTENT: Final = "content"
"""The kind of what an output holds besides text."""
_TEXTS: Final = ("text", "thought")
_IN_PIECES: Final = ("audio", "video")
"""What comes in pieces of base64."""


@define(eq=False)
class StepBlock(Block):
    """Gather a text, a thought, a call, or anything else of a step."""

    pieces: list[str] = field(factory=list, init=False)  # of a recording, in base64

    def parts(self, text: str, provider: str) -> Iterator[Part]:
        """Yield its parts; `text` is its text or reasoning."""
        if self.kind == "text":
            yield from text_parts(text, self.citations, provider)
        elif self.kind == "thought":
            yield from thought_parts(self._thought(text), text, provider)
        elif self.kind == "function_call":
            yield call_of(self.about, self.input, provider)
        elif self.kind == CONTENT:
            if len(self.pieces) > 1:
                self.about["data"] = joined_base64(self.pieces)
            yield from content_parts(self.about, provider)
        elif self.is_over:  # half a step cannot be sent back
            yield from parts_of_step({**self.about, "type": self.kind}, provider)

    def goes_on_with(self, delta: Mapping[str, Any]) -> bool:
        """Tell whether a delta adds to this: to a recording, or to what a server's tool does."""
        if self.is_over or self.kind in _TEXTS:
            return False
        kind = delta.get("type")
        return self.kind != CONTENT or (kind in _IN_PIECES and kind == self.about.get("type"))

    def take(self, delta: Mapping[str, Any]) -> None:
        """Take what a delta adds."""
        if self.kind == CONTENT:
            self.pieces.append(text_in(delta, "data"))
            return
        for name, value in delta.items():
            if name != "type":
                self.about[name] = value

    def _thought(self, text: str) -> Mapping[str, Any]:
        """Return a thought as the server would send it whole."""
        if summary_of(self.about) == text and not self.signature:
            return self.about
        summary = [{"type": "text", "text": text}] if text else []
        signature = self.signature or self.about.get("signature")
        return {**self.about, "type": "thought", "signature": signature, "summary": summary}


@frozen
class StepCheckpoint:
    """Hold the token from which a reply can go on, and how far it had come by then."""

    token: str
    blocks: int
    letters: int  # those of the text of the last of them


def versions_of(step: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the kind, the text and the members of each thing that a whole step holds."""
    kind = text_in(step, "type")
    if kind == "model_output":
        for text, cited, content in contents_of(step):
            if content is None:
                yield "text", text, {"annotations": cited}
            else:
                yield CONTENT, "", content
    elif kind not in ECHOED:
        yield kind, summary_of(step), step
