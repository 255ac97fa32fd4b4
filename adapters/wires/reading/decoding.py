"""Read a streamed reply: what the decoders of all protocols share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Final

from attrs import define, field

from rungwise.adapters.wires.counts import COUNTING, counted, counted_in, more_of
from rungwise.adapters.wires.draft import NO_END, classified, described, malformed
from rungwise.adapters.wires.json_text import arguments_of, as_json
from rungwise.adapters.wires.reading.alike_lines import Piece
from rungwise.adapters.wires.reading.events import BodyDecoder, Events
from rungwise.adapters.wires.reading.lines import StreamReader
from rungwise.adapters.wires.reading.sse import EventReader
from rungwise.adapters.wires.unread import (
    GARBLED,
    MAY_HOLD_A_CALL,
    MIXED,
    ODD,
    TROUBLE,
    TWICE,
    UNREAD_PIECE,
    Doubts,
    holds_a_text,
    is_garbled,
    object_within,
    tells_of_trouble,
)
from rungwise.fsm.replies.assembly.assembly import Assembly, Kind
from rungwise.fsm.replies.assembly.items import Item
from rungwise.fsm.replies.assembly.lists import CallLists
from rungwise.fsm.replies.assembly.origin import Origin
from rungwise.fsm.replies.failures.bare import is_bare_error
from rungwise.fsm.replies.failures.failure import Failure
from rungwise.fsm.replies.reply import Reasoning, Reply, Text
from rungwise.fsm.values.usage import Usage

SPARE: Final = 8192
"""Characters of possible non-text (signatures, a server's own lines) that are not counted."""


@define(eq=False, repr=False)
class StreamDecoder(BodyDecoder):
    """Turn the bytes of one streamed reply into deltas, and at its end into a reply or a failure.

    A protocol says in `piece_in` which events hold only a piece of text, in `take_event` what any
    other event adds, and in `reply` how all of it becomes a reply. Texts grow in blocks, each under
    the key that its pieces name, in the order of their first pieces.
    """

    ITEM: ClassVar[type[Any]] = Item
    """The class of its items."""

    EVENTS: ClassVar[Events] = Events()
    """What the events of its streams look like."""

    ENDS_IN_DONE: ClassVar[bool] = False
    """Whether `[DONE]` is the terminal event of the protocol; gateways add it to any stream."""

    finished: bool = field(default=False, init=False)
    unshown: int = field(default=0, init=False)
    letters_beside: int = field(default=0, init=False)
    """Characters that came besides the reply, such as those of other candidates."""
    started: bool = field(default=False, init=False)
    """Whether anything of a reply has come."""
    done: bool = field(default=False, init=False)
    """Whether the stream has said that it is over."""
    was_stopped: bool = field(default=False, init=False)
    """Whether an error ended it, even if behind the end of the reply."""
    error: Failure | None = field(default=None, init=False)
    _counts: Usage | None = field(default=None, init=False)  # the tokens that any event counted
    _counted_at: int = field(default=0, init=False)  # the characters that had come by then
    _has_finish: bool = field(default=False, init=False)  # whether this event says why it ended
    _doubts: Doubts = field(factory=Doubts, init=False)
    _origin: Origin = field(factory=Origin, init=False)
    _lists: CallLists = field(factory=CallLists, init=False)
    _reader: StreamReader = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = self._make_reader()

    def _make_reader(self) -> StreamReader:
        return EventReader(ignores_names=True, names_types=True)

    @cached_property
    def assembly(self) -> Assembly[Any]:
        """Return the reply so far; a whole body needs none."""
        return Assembly(self.ITEM)

    # what a protocol says

    @abstractmethod
    def piece_in(self, value: Any) -> Piece | None:
        """Return the text and `Kind` of an event that holds nothing but a piece of text.

        None if it may hold more.
        """

    @abstractmethod
    def take_event(
        self,
        value: Mapping[str, Any],
        data: bytes,
        *,
        is_error: bool,
    ) -> None:
        """Take the object of any other event."""

    def name_of(self, value: Mapping[str, Any]) -> str:
        """Return the name of an event whose own is not known, by what has come before; or ""."""
        return ""

    @abstractmethod
    def reply(self, *, is_cut: bool, cause: Failure | None) -> Reply | Failure:
        """Put the reply together.

        Arguments:
            is_cut: whether it broke off before its end.
            cause: what cut it, if that is known.
        """

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
        return self._reader.size + self.assembly.size

    def feed(self, data: bytes) -> list[Text | Reasoning]:
        """Take bytes cut anywhere and return what they add; adjacent pieces are one delta."""
        if self.finished:
            return []
        self._reader.feed(data, self)
        if self.finished:
            self.assembly.release()
        deltas = self.assembly.deltas()
        self.unshown = self.assembly.unshown
        if self._reader.copies is not None:
            self.unshown += self._reader.copies.held  # which are no silence
        return deltas

    def close(self, failure: Failure | None = None) -> Reply | Failure:
        """Return the reply, or why there is none.

        Arguments:
            failure: what cut the transport, if anything did.
        """
        self._reader.close(self)
        self.assembly.release()
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
        if not self.done or (self._doubts.ends_everywhere and failure is not None):
            return self.reply(is_cut=True, cause=failure)
        reply = self.reply(is_cut=False, cause=None)
        if isinstance(reply, Failure):
            return reply
        self._look_back()
        reply = self._doubts.applied_to(reply, self.assembly.written)
        return counted(reply, self._counts, is_all=self._counted_at == self.assembly.written)

    def _look_back(self) -> None:
        """Note what leaves the reply in doubt now that all of it has come."""
        copies = self._reader.copies
        is_unclear = self._lists.is_unclear or (copies is not None and copies.is_unclear)
        if is_unclear or self.assembly.is_doubled:
            self._doubts.why = TWICE
        if self._origin.changes > 1 and self._origin.is_mixed(self.assembly.letters_of_answer):
            self._doubts.why = MIXED

    # what the reader hands over

    def take_piece(self, kind: Kind, text: str) -> None:
        """Take a piece of the text or of the reasoning."""
        self.assembly.piece(kind, text)

    def take_value(self, value: Any, data: bytes, *, is_error: bool) -> None:
        """Take an event, or the events in a value, and note its tokens and the calls in it."""
        if is_error and not isinstance(value, dict):
            self.take_error(data)
            return
        if self.assembly.has_halves and is_garbled(data):
            self._doubts.why = GARBLED
        if odd := ODD.search(data):
            if odd.lastgroup:
                self._doubts.has_thoughts = True
            else:
                self._doubts.why = UNREAD_PIECE
        events = [value]
        if not is_error and not self.EVENTS.is_usual(value):
            events = self._events_in(value, data)
        for event in events:
            if self.finished:
                return
            self.take_event(event, data, is_error=is_error)
            if self._has_finish:
                self._has_finish = False
                self.assembly.flush()
                self._doubts.take_finish(self.assembly.written)
            if MAY_HOLD_A_CALL.search(data):
                self._doubts.look_at(event)
            if not COUNTING.isdisjoint(event):
                self._count(event)

    def _events_in(self, value: Any, data: bytes) -> list[Mapping[str, Any]]:
        """Return the events in a value that is none as it stands, each under its name."""
        named: list[Mapping[str, Any]] = []
        for event in self.EVENTS.events_in(value):
            if not self.EVENTS.is_usual(event) and (name := self.name_of(event)):
                event = {**event, "type": name}
            if not self.EVENTS.is_own(event) and holds_a_text(event):
                self._doubts.why = UNREAD_PIECE
            named.append(event)
        if not named:
            self.take_stray(data, None)
        return named

    def _count(self, value: Mapping[str, Any]) -> None:
        """Note the tokens that an event counts."""
        if found := counted_in(value):
            self.assembly.flush()
            self._counts = more_of(self._counts, found)
            if found.output_tokens:
                self._counted_at = self.assembly.written

    def take_arguments(self, item: Item, piece: Any) -> None:
        """Take a piece of the arguments of a call, which some servers send as an object."""
        if not isinstance(piece, str):
            item.arguments.has_objects = item.arguments.has_objects or piece is not None
            piece = arguments_of(piece)
        self.assembly.arguments(item, piece)

    def take_id(self, id: Any) -> None:
        """Note the id of the reply that an event names, before what it adds; see `Origin`."""
        if id == self._origin.id:
            self._origin.lasts = True
        elif id and isinstance(id, str) and not self._origin.says_nothing:
            self._origin.take(id, self.assembly.letters_of_answer if self.started else 0)
            self._reader.forget()  # events like those under the earlier id would not be looked at

    def take_finish(self) -> None:
        """Note that this event says why the reply has ended: no piece belongs behind it."""
        self._has_finish = True

    def take_error(self, data: bytes) -> None:
        """End at an error from the provider."""
        self.stop(classified(None, self.headers, data))

    def take_broken(self) -> None:
        """End because a piece of the reply is lost."""
        self.stop(malformed("an event of the stream is not JSON, or too much of it"))

    def take_stray(self, line: bytes, value: Mapping[str, Any] | None) -> None:
        """Count data that is not an event; end at an error outside of the events."""
        self.letters_beside += len(line)
        self.look_for_trouble(line)
        if value is not None and (value.get("error") or is_bare_error(value)):
            self.take_error(as_json(value).encode())

    def look_for_trouble(self, line: bytes) -> None:
        """Note whether data amid the reply is an error in words: what follows may lack a piece.

        So it is if the data is an event itself, in a line that no server sends.
        """
        if self.started and tells_of_trouble(line):
            self._doubts.why = TROUBLE
        value = None if self._doubts.why else object_within(line)
        if value is not None and self.EVENTS.is_usual(value):
            self._doubts.why = UNREAD_PIECE

    def start_over(self) -> None:
        """Forget what has come: the server says it once more, and it was paid for all the same."""
        self.letters_beside += self.assembly.written
        has_halves = self.assembly.has_halves
        self.assembly = Assembly(self.ITEM)
        self.assembly.has_halves = has_halves
        self._doubts = Doubts()

    def reopen(self) -> None:
        """Go on with the same reply behind its last event."""
        self._reader.reopen()

    def take_halves(self) -> None:
        """Note that strings may hold half a surrogate pair from now on."""
        self.assembly.has_halves = True

    def take_end(self) -> None:
        """End when the stream says so."""
        self.finished = True
        self.done = self.done or self.ENDS_IN_DONE

    def stop(self, error: Failure) -> None:
        """End at an error; the reply ignores an error after its end."""
        if not self.done:
            self.error = error
        self.finished = self.was_stopped = True
