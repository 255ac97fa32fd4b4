"""Read a streamed reply: what the decoders of all protocols share.

`StreamDecoder` gathers text. `BlockDecoder` is for the protocols whose replies come in indexed
blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

from attrs import Factory, define, field

from rungwise.adapters.wires.backend import Decoder
from rungwise.adapters.wires.draft import (
    NO_END,
    classified,
    described,
    malformed,
    settled,
    stop_of,
)
from rungwise.adapters.wires.json_text import HalfHolder, HeldText, as_json, load, mended
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.sse import EventReader, StreamReader
from rungwise.fsm.replies.failures.bare import is_bare_error
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.parts import Part
from rungwise.fsm.replies.reply import Reasoning, Reply, StopReason, Text
from rungwise.fsm.replies.text.growth import GrowingText

Kind = tuple[type[Text] | type[Reasoning], Hashable]
"""The kind of a piece of text: visible or not, and the block of the reply that it belongs to."""

SPARE: Final = 8192
"""Characters of possible non-text (signatures, a server's own lines) that are not counted."""


@define(eq=False, repr=False)
class StreamDecoder(Decoder):
    """Turn the bytes of one streamed reply into deltas, and at its end into a reply or a failure.

    A protocol says in `piece_in` which events hold only a piece of text, in `take_value` what any
    other event adds, in `reply` how all of it becomes a reply, and in `read_object` what a whole
    body is. Texts grow in blocks, each under the key that its pieces name; a block is there from
    its first piece on, in that order.
    """

    IS_DONE_AT_END: ClassVar[bool] = True
    """Whether a stream that says it is over is complete; else only a finish reason makes it so."""

    # the response's headers, for the classification of an error inside the stream
    headers: Mapping[str, str]
    provider: str = ""  # whose reply it is
    finished: bool = field(default=False, init=False)
    unshown: int = field(default=0, init=False)
    """Characters of the reply that no delta has shown: those of tool calls and refusals."""
    letters_beside: int = field(default=0, init=False)
    """Characters that came besides the reply, such as those of other candidates."""
    started: bool = field(default=False, init=False)
    """Whether anything of a reply has come."""
    done: bool = field(default=False, init=False)
    """Whether the stream has said that it is over."""
    was_stopped: bool = field(default=False, init=False)
    """Whether an error ended it, even if behind the end of the reply."""
    error: Failure | None = field(default=None, init=False)
    texts: dict[Hashable, HeldText] = field(factory=dict, init=False)
    """The text of each block so far.

    Pieces of it may end in half a surrogate pair; what is handed out never does.
    """
    _reader: StreamReader = field(init=False)
    _out: list[Text | Reasoning] = field(factory=list, init=False)  # deltas to return
    _new: list[str] = field(factory=list, init=False)  # pieces of one kind, not yet a delta
    _kind: Kind = field(default=(Text, None), init=False)  # their kind
    _halves: dict[Kind, HalfHolder] = field(factory=dict, init=False)
    _growths: dict[Kind, GrowingText] = field(factory=dict, init=False)
    _letters: int = field(default=0, init=False)  # characters in `texts`
    _held: int = field(default=0, init=False)  # bytes held besides; see `held_bytes`

    def __attrs_post_init__(self) -> None:
        self._reader = self._make_reader()

    def _make_reader(self) -> StreamReader:
        return EventReader(ignores_names=True)

    # what a protocol says

    @abstractmethod
    def piece_in(self, value: Any) -> Piece | None:
        """Return the text and `Kind` of an event that holds nothing but a piece of text.

        None if it may hold more.
        """

    @abstractmethod
    def take_value(
        self,
        value: Mapping[str, Any],
        data: bytes,
        *,
        is_error: bool,
    ) -> None:
        """Take the object of any other event."""

    @abstractmethod
    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together.

        Arguments:
            is_cut: whether it broke off before its end.
            cause: what cut it, if that is known.
        """

    def whole(self, body: bytes) -> Reply | Failure:
        """Read a whole body with a status of success, which may also come instead of a stream."""
        try:
            value = load(body)
        except ValueError:
            return malformed("the body is not JSON, or too much of it")
        if isinstance(value, dict):
            reply = self.read_object(value, body)
            is_unread = isinstance(reply, Failure) and reply.reason == "malformed"
            if is_unread and is_bare_error(value):
                return classified(None, self.headers, body)
            return reply
        return self.read_other(value, body)

    @abstractmethod
    def read_object(self, value: dict[str, Any], body: bytes) -> Reply | Failure:
        """Read the JSON object of a whole body."""

    def read_other(self, value: object, body: bytes) -> Reply | Failure:
        """Read a whole body that is JSON and no object."""
        return malformed("the body is not a JSON object")

    @property
    def held_bytes(self) -> int:
        """Return roughly how many bytes tool calls and the provider's own blocks take up."""
        return self._held

    @property
    def letters_within(self) -> int:
        """Return how many characters of text are held."""
        return self._letters

    @property
    def written_beside(self) -> int:
        """Return the characters that are not part of the reply, beyond a spare amount.

        The spare amount is for what may be no text at all.
        """
        return max(0, self.letters_beside - SPARE)

    # what the drivers ask

    @property
    def is_stream(self) -> bool:
        """Tell whether the body so far is a stream, whatever its content type."""
        return self._reader.is_stream or (self._reader.has_fields and not self._reader.plain)

    @property
    def beside(self) -> int:
        """Return the characters that came besides the deltas."""
        plain = self._reader.plain
        if plain and not plain[:100].lstrip().startswith((b"{", b"[")):
            # not a reply; a JSON body may be one, and is read at its end
            return self.written_beside + max(0, len(plain) - SPARE)
        return self.written_beside

    @property
    def size(self) -> int:
        """Return roughly how many bytes are held."""
        return self._reader.size + self.letters_within + self.held_bytes

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Take bytes cut anywhere and return what they add; adjacent pieces are one delta."""
        if self.finished:
            return []
        self._reader.feed(data, self)
        if self._new:
            self._flush()
        if self.finished:
            self._release()
        out = self._out
        self._out = []
        return out

    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Return the reply, or why there is none.

        Arguments:
            failure: what cut the transport, if anything did.
        """
        self._reader.close(self)
        self._flush()
        self._release()
        if not self.started and not self.error:
            cut = None if failure is NO_END else failure
            plain = bytes(self._reader.plain)
            is_readable = cut is None or cut.reason != "malformed"
            if plain and not self._reader.is_stream and is_readable:
                whole = described(self.whole(plain), self.headers, plain)
                if cut is None or isinstance(whole, Reply) or whole.reason != "malformed":
                    return whole
            elif self.done:
                return malformed("the stream has no reply in it")
        if self.done:
            return self.reply(is_cut=False, cause=None)
        return self.reply(is_cut=True, cause=failure)

    # what the reader hands over

    def take_piece(self, kind: Kind, text: str) -> None:
        """Take a piece of the text or of the reasoning."""
        if kind != self._kind:
            self._flush()
            self._kind = kind
        self._new.append(text)

    def take_error(self, data: bytes) -> None:
        """End at an error from the provider."""
        self.stop(classified(None, self.headers, data))

    def take_broken(self) -> None:
        """End because a piece of the reply is lost."""
        self.stop(malformed("an event of the stream is not JSON, or too much of it"))

    def take_stray(self, line: bytes, value: Mapping[str, Any] | None) -> None:
        """Count data that is not an event; end at an error outside of the events."""
        self.letters_beside += len(line)
        if value is not None and (value.get("error") or is_bare_error(value)):
            self.take_error(as_json(value).encode())

    def take_end(self) -> None:
        """End when the stream says so."""
        self.finished = True
        self.done = self.done or self.IS_DONE_AT_END

    def stop(self, error: Failure) -> None:
        """End at an error; the reply ignores an error after its end."""
        if not self.done:
            self.error = error
        self.finished = self.was_stopped = True

    # what protocols use

    def text_of(self, key: Hashable) -> str:
        """Return the text of a block, without halves of surrogate pairs."""
        self._flush()
        buffer = self.texts.get(key)
        if buffer is None:
            return ""
        text = buffer.getvalue()
        for event_type in (Text, Reasoning):
            growth = self._growths.get((event_type, key))
            if growth is not None:
                text = growth.once(text)
        return str(mended(text))

    def set_text(self, key: Hashable, text: str) -> None:
        """Replace the text of a block by the provider's final version of it."""
        self._flush()
        if key in self.texts:
            self._letters -= self.texts[key].tell()
        buffer = HeldText()
        self._letters += buffer.write(text)
        self.texts[key] = buffer

    def _flush(self) -> None:
        """Make the pieces of one kind a delta, and add them to the text of their block."""
        if not self._new:
            return
        kind = self._kind
        growth = self._growths.get(kind)
        if growth is None:
            growth = self._growths[kind] = GrowingText()
        text = growth.new_in(self._new)
        self._new.clear()
        self._write(kind, text)

    def _release(self) -> None:
        """Hand out what was held: nothing followed that would tell what it is."""
        for kind, growth in self._growths.items():
            if rest := growth.end():
                self._write(kind, rest)

    def _write(self, kind: Kind, text: str) -> None:
        """Add to the text of a block, and hand it out."""
        buffer = self.texts.get(kind[1])
        if buffer is None:
            buffer = self.texts[kind[1]] = HeldText()
        self._letters += buffer.write(text)
        if self._reader.has_halves:
            text = self._halves.setdefault(kind, HalfHolder()).feed(text)
        if text:
            self._out.append(kind[0](text))


_WEIGHT: Final = 1_000
"""The bytes that a block counts for, without its text."""


@define(eq=False)
class Block(ABC):
    """Gather one block while it arrives; the decoder holds its text."""

    place: int  # in the reply, from 0
    kind: str  # the protocol's word for what it holds
    start: dict[str, Any] = Factory(dict)  # what announced it
    is_whole: bool = False  # whether the stream has ended it
    signature: Any = None  # of reasoning
    citations: list[Any] = Factory(list)  # of text

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

    _stop: object = field(default=None, init=False)  # the finish reason so far
    _blocks: list[B] = field(factory=list, init=False)  # in the order in which they began
    _open: dict[object, B] = field(factory=dict, init=False)  # by the provider's index
    _current: Kind | None = field(default=None, init=False)  # of the last piece

    def take_piece(self, kind: Kind, text: str) -> None:
        """Take a piece of the block that is open under this index."""
        if kind != self._current:
            self._flush()
            block = self._block(kind[1], self.KINDS[kind[0]])
            self._current = kind
            self._kind = (kind[0], block.place)
            self.started = True
        self._new.append(text)

    def _block(self, index: object, kind: str) -> B:
        """Return the open block of an index, or a new one if none of that kind is open.

        Not every block is announced.
        """
        block = self._open.get(index)
        if block is None or block.kind != kind:
            return self._begin(index, kind)
        return block

    def _begin(
        self,
        index: object,
        kind: str,
        start: Mapping[str, Any] | None = None,
    ) -> B:
        """Begin a block; `start` is what its announcement holds."""
        block: B = self.BLOCK(len(self._blocks), kind, dict(start or {}))
        self._blocks.append(block)
        self._held += _WEIGHT
        self._open[index] = block
        self._current = None
        return block

    def _end(self, index: object) -> None:
        """End the block that is open under an index."""
        block = self._open.pop(index, None)
        self._current = None
        if block is not None:
            block.is_whole = True

    def _take_stop(self, reason: object) -> None:
        """Take a finish reason; a proxy may send a second one."""
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
