"""Read a streamed reply that comes in blocks: what the decoders of such protocols share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from attrs import define, field

from rungwise.adapters.wires.draft import settled, stop_of
from rungwise.adapters.wires.json_text import arguments_of, input_in
from rungwise.adapters.wires.reading.decoding import StreamDecoder
from rungwise.fsm.replies.assembly.assembly import Kind
from rungwise.fsm.replies.assembly.items import Item
from rungwise.fsm.replies.parts import Part
from rungwise.fsm.replies.reply import Reasoning, StopReason, Text


@define(eq=False)
class Block(Item, ABC):
    """Gather one block while it arrives; the assembly holds its text."""

    signature: Any = field(default=None, init=False)  # of reasoning
    citations: list[Any] = field(factory=list, init=False)  # of text
    comes_as_text: bool = field(default=False, init=False)  # reasoning under the name of a text

    @property
    def input(self) -> str:
        """Return the arguments of a call as JSON text; an empty object if it brought none.

        Some servers send them with its start [AntSeed/antseed#15]; an empty piece adds nothing.
        """
        text = self.arguments.text or arguments_of(input_in(self.about, "input") or None)
        if not text and self.is_over:
            text = "{}"
        return text

    @abstractmethod
    def parts(self, text: str, provider: str) -> Iterator[Part]:
        """Yield its parts; `text` is its text or reasoning."""


@define(eq=False, repr=False)
class BlockDecoder(StreamDecoder):
    """Put the pieces of a streamed reply into blocks; each protocol is a subclass."""

    KINDS: ClassVar[Mapping[str, type[Text] | type[Reasoning]]]
    """The kinds of the blocks that hold text and reasoning."""
    CALLS: ClassVar[tuple[str, ...]]
    """The kinds of the blocks that hold arguments."""
    STOP_REASONS: ClassVar[Mapping[str, StopReason]]
    """The meaning of each finish reason."""

    _stop: object = field(default=None, init=False)  # the finish reason so far
    _current: Kind | None = field(default=None, init=False)  # of the last piece
    _place: Kind = field(default=(Text, None), init=False)  # and where it belongs

    def start_over(self) -> None:
        """Forget what has come of the reply."""
        super().start_over()
        self._current = None

    def take_piece(self, kind: Kind, text: str) -> None:
        """Take a piece of the block that is open under this index."""
        if kind != self._current:
            index: Any = kind[1]
            open_block: Any = self.assembly.items.at(index)
            is_call = open_block and open_block.kind in self.CALLS and not open_block.is_over
            if is_call and kind[0] is Text:
                self.take_arguments(open_block, text)  # under the name of a text
                return
            holds = kind[0]
            if holds is Text and self._is_thinking(open_block):
                open_block.comes_as_text = True
                holds = Reasoning
            [name] = [name for name, each in self.KINDS.items() if each is holds]
            block = self._block(index, name)
            self._current = kind
            self._place = (holds, block.number)
            self.started = True
        self.assembly.piece(self._place, text)

    def _is_thinking(self, block: Any) -> bool:
        """Tell whether a block was announced as reasoning, and its texts are that.

        They are, unless it had brought reasoning under its own name before the first one.
        """
        if block is None or block.is_over or self.KINDS.get(block.kind) is not Reasoning:
            return False
        return block.comes_as_text or not self.assembly.text_of((Reasoning, block.number))

    def _block(self, index: Any, kind: str) -> Any:
        """Return the open block of an index, or a new one if none of that kind is open.

        Not every block is announced.
        """
        block = self.assembly.items.at(index)
        if block is None or block.is_over or block.kind != kind:
            return self._begin(index, kind)
        return block

    def _begin(self, index: Any, kind: str, start: Mapping[str, Any] | None = None) -> Any:
        """Begin a block; `start` is what its announcement holds."""
        self._current = None
        block = self.assembly.items.begin(kind, index=index)
        block.about = dict(start or {})
        return block

    def _announce(self, block: Any, text: str) -> None:
        """Take the text that stands in the announcement of a block."""
        if text:
            self.assembly.announce((self.KINDS[block.kind], block.number), text)

    def _text_of(self, block: Any) -> str:
        """Return the text of a block so far; "" for one that holds none."""
        kind = self.KINDS.get(block.kind)
        return "" if kind is None else self.assembly.text_of((kind, block.number))

    def _call(self, index: Any) -> Any:
        """Return the call that a piece of arguments belongs to, or None if there is none.

        Some gateways count the pieces of a call otherwise than its beginning
        [Wei-Shaw/sub2api#4294, vercel/ai#11771].
        """
        items = self.assembly.items
        block = items.at(index)
        if block is not None and not block.is_over and block.kind not in self.KINDS:
            return block
        return items.open_of(*self.CALLS)

    def _end(self, index: Any) -> None:
        """End the block that is open under an index."""
        self._current = None
        block = self.assembly.items.at(index)
        if block is not None:
            self.assembly.items.end(block)

    def _take_stop(self, reason: object) -> None:
        """Take a finish reason; a proxy may send a second one."""
        self.take_finish()
        self._stop = settled(self._stop, reason, self.STOP_REASONS)
        self.done = stop_of(self._stop, self.STOP_REASONS)[0] is not None

    def parts(self) -> tuple[Part, ...]:
        """Return the parts so far, block by block."""
        parts: list[Part] = []
        for block in self.assembly.items.all:
            kind = (self.KINDS.get(block.kind, Text), block.number)
            text = self.assembly.text_of(kind)
            parts += block.parts(text, self.provider)
        return tuple(parts)


def index_of(value: object) -> int:
    """Return the index of a block; -1 for anything that is not an index."""
    return value if type(value) is int else -1
