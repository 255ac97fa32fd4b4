"""Read a streamed reply that comes block by block, each under its index: what Messages and Converse share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

from attrs import Factory, define, field

from rungwise.adapters.wires.draft import settled, stop_of
from rungwise.adapters.wires.reading.decoding import Kind, StreamDecoder
from rungwise.fsm.call.conversation.parts import Part
from rungwise.fsm.call.conversation.reply import Reasoning, StopReason, Text

_WEIGHT: Final = 1_000
"""The bytes that a block counts for, without its text."""


@define(eq=False)
class Block(ABC):
    """Gather one block while it arrives; the decoder holds its text."""

    place: int
    kind: str
    start: dict[str, Any] = Factory(dict)
    is_whole: bool = False
    signature: Any = None
    citations: list[Any] = Factory(list)

    @abstractmethod
    def parts(self, text: str, provider: str) -> Iterator[Part]:
        """Yield its parts; `text` is its text or reasoning."""


B = TypeVar("B", bound=Block)


@define(eq=False, repr=False)
class BlockDecoder(StreamDecoder, Generic[B]):
    """Put the pieces of a streamed reply into blocks; each protocol is a subclass."""

    BLOCK: ClassVar[type[Any]]
    """The class of its blocks."""
    KINDS: ClassVar[Mapping[type[Text] | type[Reasoning], str]]
    """The kinds of the blocks that hold text and reasoning."""
    STOP_REASONS: ClassVar[Mapping[str, StopReason]]
    """The meaning of each finish reason."""

    _stop: object = field(default=None, init=False)
    _blocks: list[B] = field(factory=list, init=False)
    _open: dict[object, B] = field(factory=dict, init=False)
    _current: Kind | None = field(default=None, init=False)
    _held: int = field(default=0, init=False)

    @property
    def held_bytes(self) -> int:
        """Return roughly how many bytes are held, without the texts."""
        return self._held + _WEIGHT * len(self._blocks)

    def take_piece(self, kind: Kind, text: str) -> None:
        """Take a piece of the block that is open under this index."""
        if kind != self._current:
            self._flush()
            block = self._block(kind[1], self.KINDS[kind[0]])
            self._current, self._kind = kind, (kind[0], block.place)
            self.started = True
        self._new.append(text)

    def _block(self, index: object, kind: str) -> B:
        """Return the open block of an index, or a new block if none of that kind is open: not all are announced."""
        block = self._open.get(index)
        return self._begin(index, kind) if block is None or block.kind != kind else block

    def _begin(self, index: object, kind: str, start: Mapping[str, Any] | None = None) -> B:
        """Begin a block; `start` is what its announcement holds."""
        block: B = self.BLOCK(len(self._blocks), kind, dict(start or {}))
        self._blocks.append(block)
        self._open[index] = block
        self._current = None
        return block

    def _end(self, index: object) -> None:
        """End the block of an index."""
        block = self._open.pop(index, None)
        self._current = None
        if block is not None:
            block.is_whole = True

    def _take_stop(self, reason: object) -> None:
        """Take the finish reason."""
        self._stop = settled(self._stop, reason, self.STOP_REASONS)
        self.done = stop_of(self._stop, self.STOP_REASONS)[0] is not None

    def parts(self) -> tuple[Part, ...]:
        """Return the parts so far, block by block."""
        parts: list[Part] = []
        for block in self._blocks:
            parts += block.parts(self.text_of(block.place), self.provider)
        return tuple(parts)


def index_of(value: object) -> int:
    """Return the index of a block; -1 for anything that is not an index."""
    return value if type(value) is int else -1
