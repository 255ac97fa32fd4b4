"""Where each protocol says what, as paths into the objects of its events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import field, frozen

from rungwise.adapters.provider.manners.events import Events, WireEvent

Path = tuple[str | int, ...]


def path(dotted: str) -> Path:
    """Return a path that is written with dots; digits are places in a list."""
    steps = dotted.split(".") if dotted else []
    return tuple([int(step) if step.isdigit() else step for step in steps])


def found(value: Any, where: Path) -> Any:
    """Return what stands at a path, or None."""
    for step in where:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def put(value: Any, where: Path, what: Any) -> None:
    """Write at a path; objects on the way that are missing are made."""
    for step in where[:-1]:
        value = value[step] if isinstance(step, int) else value.setdefault(step, {})
    value[where[-1]] = what


@frozen
class PiecePlace:
    """Say where pieces of one kind stand.

    Arguments:
        where: the path of a piece.
        item: the path of what tells the items of this kind apart; none for one item.
        mark: the path of a member that tells these pieces from others at the same path.
        marked: what stands there.
    """

    where: Path = field(converter=path)
    item: Path = field(default="", converter=path)
    mark: Path = field(default="", converter=path)
    marked: Any = None

    def piece_in(self, event: WireEvent) -> str:
        """Return the piece in an event; "" for none."""
        if self.mark and found(event.value, self.mark) != self.marked:
            return ""
        piece = found(event.value, self.where)
        return piece if isinstance(piece, str) else ""

    def item_of(self, event: WireEvent) -> Any:
        """Return the item that an event belongs to."""
        return found(event.value, self.item) if self.item else None

    def pieces(self, events: Events) -> Iterator[tuple[int, Any, str]]:
        """Yield the number of each event with a piece, its item, and the piece."""
        for number, event in enumerate(events):
            piece = self.piece_in(event)
            if piece:
                yield number, self.item_of(event), piece

    def wholes(self, events: Events) -> dict[Any, str]:
        """Return the whole text of each item."""
        texts: dict[Any, str] = defaultdict(str)
        for _, item, piece in self.pieces(events):
            texts[item] += piece
        return texts


Places = Mapping[str, PiecePlace]
"""Places by the protocol."""

_PART: Final = "candidates.0.content.parts.0"
_CALL: Final = "choices.0.delta.tool_calls.0"

TEXT: Final[Places] = {
    "openai": PiecePlace("choices.0.delta.content"),
    "responses": PiecePlace("delta", "output_index", "type", "response.output_text.delta"),
    "anthropic": PiecePlace("delta.text", "index"),
    "gemini": PiecePlace(f"{_PART}.text", "", f"{_PART}.thought"),
    "ollama": PiecePlace("message.content"),
    "bedrock": PiecePlace("delta.text", "contentBlockIndex"),
}
REASONING: Final[Places] = {
    "openai": PiecePlace("choices.0.delta.reasoning_content"),
    "responses": PiecePlace(
        "delta", "output_index", "type", "response.reasoning_summary_text.delta"
    ),
    "anthropic": PiecePlace("delta.thinking", "index"),
    "gemini": PiecePlace(f"{_PART}.text", "", f"{_PART}.thought", True),
    "ollama": PiecePlace("message.thinking"),
    "bedrock": PiecePlace("delta.reasoningContent.text", "contentBlockIndex"),
}
ARGUMENTS: Final[Places] = {
    "openai": PiecePlace(f"{_CALL}.function.arguments", f"{_CALL}.index"),
    "responses": PiecePlace(
        "delta", "output_index", "type", "response.function_call_arguments.delta"
    ),
    "anthropic": PiecePlace("delta.partial_json", "index"),
    "bedrock": PiecePlace("delta.toolUse.input", "contentBlockIndex"),
}
CALLS: Final[Mapping[str, Path]] = {
    "openai": path("choices.0.message.tool_calls"),
    "ollama": path("message.tool_calls"),
}
"""Where a message has its calls."""
CHUNK_CALL: Final = path(_CALL)
"""Where a chunk of a chat completion has its call."""
CHOICE: Final = path("choices.0")
FINISH: Final[Mapping[str, Path]] = {
    "openai": path("choices.0.finish_reason"),
    "gemini": path("candidates.0.finishReason"),
}
USAGE: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "openai": ("usage", ("completion_tokens", "completion_tokens_details")),
    "gemini": ("usageMetadata", ("candidatesTokenCount", "thoughtsTokenCount")),
}
"""The member with the counts, and those of the output among them."""
