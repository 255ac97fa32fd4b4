"""Put a streamed reply together: its items, its texts, and what may be shown of them by now.

The decoders of all protocols translate events into what stands here; what an item is, what is new
in a text, and what wins where two say the same, is decided here and in `items`, `gathered` and
`arguments`, once. What is no part of the reply, or is in it twice, is decided in `origin`, `lists`,
`copies` and `order`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic

from attrs import Factory, define, field

from rungwise.fsm.replies.assembly.gathered import GatheredText
from rungwise.fsm.replies.assembly.items import I, Items
from rungwise.fsm.replies.reply import Reasoning, Text
from rungwise.fsm.replies.text.held import HalfHolder

Kind = tuple[type[Text] | type[Reasoning], Hashable]
"""The kind of a piece of text: visible or not, and the place in the reply that it belongs to."""

WEIGHT: Final = 1_000
"""The bytes that an item counts for, without what it holds: so empty ones are bounded, too."""


@define(eq=False)
class Assembly(Generic[I]):
    """Gather one reply while it arrives.

    Texts grow under the kinds that their pieces name; one is there from its first piece on.
    """

    make: Callable[[str], I]
    """Returns an item of a kind, such as a message, a call or a block."""
    items: Items[I] = field(
        default=Factory(lambda self: Items(self.make), takes_self=True), init=False
    )
    texts: dict[Kind, GatheredText] = field(factory=dict, init=False)
    refusal: GatheredText = field(factory=GatheredText, init=False)
    """The refusal, in a protocol where there is one for the whole reply."""
    letters: int = field(default=0, init=False)
    """Characters of its texts."""
    unshown: int = field(default=0, init=False)
    """Characters that no delta shows: those of tool calls and refusals."""
    held: int = field(default=0, init=False)
    """Roughly how many bytes all else takes up."""
    has_halves: bool = field(default=False, init=False)
    """Whether a piece may end in half a surrogate pair from now on."""
    is_doubled: bool = field(default=False, init=False)
    """Whether each piece of a text came twice, once nothing follows any more."""
    _out: list[Text | Reasoning] = field(factory=list, init=False)  # deltas to return
    _new: list[str] = field(factory=list, init=False)  # pieces of one kind, not yet a delta
    _kind: Kind = field(default=(Text, None), init=False)  # their kind
    _halves: dict[Kind, HalfHolder] = field(factory=dict, init=False)

    @property
    def size(self) -> int:
        """Return roughly how many bytes are held."""
        return WEIGHT * len(self.items.all) + self.written + self.held

    @property
    def written(self) -> int:
        """Return how many characters of it have come, whether they are shown or not."""
        return self.letters + self.unshown

    @property
    def letters_of_answer(self) -> int:
        """Return how many characters of the answer have come, in its texts and its calls."""
        self.flush()
        texts = [gathered.size for kind, gathered in self.texts.items() if kind[0] is Text]
        return sum(texts) + self.unshown

    def piece(self, kind: Kind, text: str) -> None:
        """Take a piece of a text."""
        if kind != self._kind:
            self.flush()
            self._kind = kind
        self._new.append(text)

    def arguments(self, item: I, piece: str) -> None:
        """Take a piece of the arguments of a call."""
        item.arguments.add(piece)
        self.unshown += len(piece)

    def settle_arguments(self, item: I, whole: str) -> None:
        """Take the arguments of a call as its protocol sends them behind their pieces."""
        self.unshown -= item.arguments.size
        item.arguments.settle(whole)
        self.unshown += item.arguments.size

    def refuse(
        self,
        refusal: GatheredText,
        piece: str,
        *,
        is_whole: bool = False,
    ) -> None:
        """Take a piece of a refusal, or all of it.

        Arguments:
            refusal: what came of it so far.
            piece: what comes now.
            is_whole: whether that is all of it, as its protocol sends it behind the pieces.
        """
        if not piece:
            return
        self.unshown -= refusal.size
        if is_whole:
            refusal.settle(piece)
        else:
            refusal.add([piece])
        self.unshown += refusal.size

    def settle(self, kind: Kind, text: str) -> None:
        """Take a text as its protocol sends it behind its pieces: it decides.

        What is new in it is shown.
        """
        self.flush()
        if not text:
            return
        gathered = self.text_at(kind)
        self.letters -= gathered.size
        new = gathered.settle(text)
        self.letters += gathered.size
        self._show(kind, new)

    def announce(self, kind: Kind, text: str, *, is_settled: bool = False) -> None:
        """Take a text that stands in the announcement of its item.

        Arguments:
            kind: of the text.
            text: the text.
            is_settled: whether the protocol sends the whole text behind its pieces.
        """
        self.flush()
        gathered = self.text_at(kind)
        if gathered.size:
            self.settle(kind, text)
            return
        new = gathered.announce(text, is_settled=is_settled)
        self.letters += len(new)
        self._show(kind, new)

    def separate(self, delta: Text | Reasoning) -> None:
        """Show what stands between two texts of the reply, and is part of neither."""
        self.flush()
        self._out.append(delta)

    def deltas(self) -> list[Text | Reasoning]:
        """Return what may be shown since the last time; adjacent pieces are one delta."""
        self.flush()
        out = self._out
        self._out = []
        return out

    def flush(self) -> None:
        """Add the pieces of one kind to their text, and make a delta of them."""
        if not self._new:
            return
        kind = self._kind
        new = self.text_at(kind).add(self._new)
        self._new = []
        self.letters += len(new)
        self._show(kind, new)

    def release(self) -> None:
        """Show what was held back: nothing follows that would tell what it is."""
        self.flush()
        for kind, gathered in self.texts.items():
            new = gathered.end()
            self.is_doubled = self.is_doubled or gathered.is_doubled
            self.letters += len(new)
            self._show(kind, new)

    def text_at(self, kind: Kind) -> GatheredText:
        """Return where a text is gathered."""
        gathered = self.texts.get(kind)
        if gathered is None:
            gathered = self.texts[kind] = GatheredText()
        return gathered

    def text_of(self, kind: Kind) -> str:
        """Return a text so far, without halves of surrogate pairs; "" if nothing of it came."""
        self.flush()
        gathered = self.texts.get(kind)
        return "" if gathered is None else gathered.text

    def _show(self, kind: Kind, text: str) -> None:
        if self.has_halves:
            holder = self._halves.setdefault(kind, HalfHolder())
            text = holder.feed(text)
        if text:
            self._out.append(kind[0](text))
