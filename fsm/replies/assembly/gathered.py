"""Gather one text of a reply while it arrives.

Theory
------

Every protocol sends what is new. Some servers send all the text so far in each event
[QwenLM/qwen-code#3896, tashfeenahmed/freellmapi#1007], or all of it once more at the end
[openclaw/openclaw#142888]. No event says which, and some bytes can be either: "ha", "haha" is
"hahaha" in pieces and "haha" in snapshots. Then the protocol's own reading holds, for a text that
repeats itself by nature must never be shortened.

A snapshot begins with all the text before it. The first pieces of an ordinary text nearly never do
that twice in a row, and not with thirty characters. So a piece that does it is held until the next
one decides, and `ENOUGH` characters in three growing pieces make a server of snapshots. A piece
that is too long to be held is handed out; if it turns out to be a snapshot, the text no longer has
it, and the end of the call takes back what was shown. Any other piece makes a server of pieces, for
good: from then on nothing is looked at, nor held.

What is once more at the end is one piece that is all the text before it, in two pieces or more: a
line that stands there twice comes in two pieces, and stays. Such a piece is held until another one
follows; if none does, it is no part of the text.

A text that stands in the announcement of its item, where protocols have none, is its first piece or
all of it, which the pieces say once more [LiteLLM 1.95, in front of chat models]. So pieces are
held as long as they say what the announcement said: `announce`.

Some servers send every piece twice [openclaw/openclaw#1284]. A text may be such by itself, so it is
not shortened. But if each of its pieces, from the first to the last, comes twice, `DIFFERENT` ones
and `ENOUGH` characters at least, that is doubt: `is_doubled`. So is a text whose first pieces are
snapshots but for their ends, such as a cursor or a word that was revised; one whose last piece is
nearly all the text over again; one that is the same text twice, as
of a server that has begun again, unless that text repeats itself anyway; and one whose first piece
begins with what its announcement said, if that is too short to be no coincidence.

A protocol that sends the whole text behind its pieces decides all of this: `settle`. A piece that
comes behind that and is some of it was late.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, Literal

from attrs import define, field

from rungwise.fsm.replies.text.contents import without_halves
from rungwise.fsm.replies.text.held import HeldText
from rungwise.fsm.replies.text.stitching import MINIMUM_ECHO

ENOUGH: Final = 30
"""Characters of a text that are no coincidence."""
DIFFERENT: Final = 4
"""Different pieces, each of them twice, that are none either."""
SHORTEST: Final = 5
"""The fewest characters of a piece that the next one may revise."""
SHORTEST_COPY: Final = 24
"""The fewest characters of a piece that may be the text over again: `ENOUGH`, some left out."""
NEARLY: Final = 0.75
"""The share of its words that makes a piece nearly a copy of the text."""
FEWEST: Final = 5
"""The fewest words of such a piece."""
MOST_LATE: Final = 64
"""The most pieces behind a whole text that are looked for in it."""
MOST_HELD: Final = 64
"""The most characters of a piece that is held until the next one comes."""

Sends = Literal["pieces", "pieces twice", "snapshots", "not known"]


@define(eq=False)
class GatheredText:
    """Gather one text, and return what is new in what arrives of it."""

    sends: Sends = field(default="not known", init=False)
    comes_in_messages: bool = field(default=False, init=False)
    is_doubled: bool = field(default=False, init=False)
    """Whether what came may be in the text twice, once nothing follows any more."""
    _text: HeldText = field(factory=HeldText, init=False)
    # While it is not known what the server sends:
    _latest: str = field(default="", init=False)  # what the next snapshot would begin with
    _grown: int = field(default=0, init=False)  # pieces in a row that may be snapshots
    _held: list[str] = field(factory=list, init=False)  # those of them that were not handed out
    _first: int = field(default=0, init=False)  # characters of the first piece
    _copy: str = field(default="", init=False)  # a piece that is all of the text over again
    _announced: str = field(default="", init=False)  # the text that pieces may say once more
    _late: int = field(default=0, init=False)  # pieces behind the whole text that are looked for
    _again: int = field(default=0, init=False)  # characters that they have said of it
    # While each piece comes twice:
    _due: str = field(default="", init=False)  # the piece that is due once more; "" for none
    _pairs: int = field(default=0, init=False)  # different pieces that came twice
    _twin: str = field(default="", init=False)  # the last one of them
    _growing: int = field(default=0, init=False)  # pieces in a row that grew but for their ends
    _is_again: bool = field(default=False, init=False)  # whether the last one is nearly a copy
    _opening: str = field(default="", init=False)  # a short announcement, until a piece comes
    _is_opened_twice: bool = field(default=False, init=False)  # whether that piece begins with it

    @property
    def size(self) -> int:
        """Return the number of characters so far."""
        return self._text.tell()

    @property
    def text(self) -> str:
        """Return the text so far."""
        held = [*self._held, self._announced[: self._again]]
        return without_halves(self._text.getvalue() + "".join(held))

    def announce(
        self,
        text: str,
        *,
        is_settled: bool,
    ) -> str:
        """Take the text that stands in an announcement, and return what may be handed out.

        Arguments:
            text: the text.
            is_settled: whether the protocol sends the whole text behind its pieces, which decides.
        """
        if is_settled or len(text) >= ENOUGH:
            self._announced = text
        else:
            self._opening = text.strip()
        self._text.write(text)
        return text

    def add(self, pieces: Sequence[str]) -> str:
        """Take the next pieces, and return what may be handed out of them."""
        if self._late:
            pieces = self._behind_settled(pieces)
            if not pieces:
                return ""
        if self._announced:
            pieces = self._behind_announcement("".join(pieces))
            if not pieces:
                return ""
        if self._opening:
            self._is_opened_twice = pieces[0].lstrip().startswith(self._opening)
            self._opening = ""
        if self.sends == "pieces" and len(pieces[-1]) < ENOUGH and not self._copy:
            text = "".join(pieces)
            self._text.write(text)
            self._is_again = False
            return text
        self._first = self._first or len(pieces[0])
        return "".join([self._added(piece) for piece in pieces])

    def end(self) -> str:
        """Return what was held and is new after all: nothing followed that would tell."""
        if self.sends == "pieces twice" and not self._due:
            is_long = self.size >= 2 * ENOUGH
            self.is_doubled = is_long and self._pairs >= DIFFERENT
        grows = self._growing > 0 and self._growing + self._grown > 1
        self.is_doubled = self.is_doubled or (grows and self.size >= ENOUGH)
        rest = self._ended() + self._announced[: self._again]
        self._again = 0
        self._text.write(rest)
        if self._first and not self._late:
            is_twice = self._is_again or self._is_opened_twice or self._has_equal_halves()
            self.is_doubled = self.is_doubled or is_twice
        return rest

    def settle(self, text: str) -> str:
        """Take the whole text, which the protocol sends behind its pieces; it decides.

        Return what is new in it. If it differs from what came, it replaces that.
        """
        self._again = 0
        if not text.strip() and self.size > len(text) and self.text.strip():
            return ""  # an empty final form erases nothing
        before = None
        # A text of less than half the size is not compared, so that the work stays proportional to
        # the input.
        if 2 * len(text) >= self.size:
            before = self.text
        self._ended()
        self._copy = ""
        self._late = MOST_LATE
        text = without_halves(text)
        if before is None or not text.startswith(before):
            self._replace(text)
            return ""
        new = text[len(before) :]
        self._text.write(new)
        return new

    def _has_equal_halves(self) -> bool:
        """Tell whether the text is another one twice, which came in pieces and repeats nothing."""
        middle, is_odd = divmod(self.size, 2)
        if is_odd or middle < ENOUGH or self._first > middle:
            return False
        text = self._text.getvalue()
        half = text[:middle]
        return text.endswith(half) and text.find(half, 1) == middle

    def _behind_settled(self, pieces: Sequence[str]) -> list[str]:
        """Return what is new in pieces that come behind the whole text."""
        whole = self._text.getvalue()
        late = self._late
        self._late = max(0, late - len(pieces))
        return [piece for piece in pieces[:late] if piece not in whole] + [*pieces[late:]]

    def follow(
        self,
        message: str,
        *,
        is_last: bool,
    ) -> str:
        """Return what a whole message adds to the text, without writing it.

        A message that begins with the text so far contains all of it. After pieces, the last
        message replaces the text, and one that repeats the end of it adds nothing. Any other is the
        next piece.

        Arguments:
            message: its text.
            is_last: whether the reply has ended.
        """
        size = self.size
        gathered = None
        # as in `settle`
        if 2 * len(message) >= size > 0:
            gathered = self._text.getvalue()
        if gathered is not None and message.startswith(gathered):
            return message[size:]
        if size and is_last and not self.comes_in_messages:
            if message.strip():
                self._replace(message)
            return ""
        if gathered is not None and message.strip() == gathered.strip():
            return ""
        is_long = len(message.strip()) >= MINIMUM_ECHO
        if is_long and not self.comes_in_messages and self._ends_with(message):
            return ""
        self.comes_in_messages = self.comes_in_messages or message != ""
        return message

    def _behind_announcement(self, new: str) -> list[str]:
        """Return what is new beyond the announcement, if the text goes on otherwise than that.

        As long as it says the same, nothing is.
        """
        announced = self._announced
        came = self._again
        if new == announced[came : came + len(new)]:
            self._again = came + len(new)
            if self._again == len(announced):
                self._forget_announcement()
            return []
        self._forget_announcement()
        if new.startswith(announced[came:]):
            return [new[len(announced) - came :]]
        return [announced[:came] + new]

    def _forget_announcement(self) -> None:
        self._announced = ""
        self._again = 0

    def _added(self, piece: str) -> str:
        """Take one piece, and return what may be handed out."""
        new = self._new_in(piece)
        self._is_again = False
        if self._copy:  # the text goes on, so it was none
            new = self._copy + new
            self._copy = ""
        elif len(piece) >= SHORTEST_COPY and self._is_as_long(piece):
            if self._is_copy(piece):
                self._copy = piece
                return ""
            self._is_again = self._is_nearly_copy(piece)
        self._text.write(new)
        return new

    def _is_copy(self, piece: str) -> bool:
        text = self._text.getvalue()
        return piece == text or _tidied(piece) == _tidied(text)

    def _is_nearly_copy(self, piece: str) -> bool:
        """Tell whether a piece has most words of the text before it, such as one without marks."""
        before = set(self._text.getvalue().split())
        words = piece.split()
        known = sum([word in before for word in words])
        return len(words) >= FEWEST and known >= NEARLY * len(words)

    def _is_as_long(self, piece: str) -> bool:
        """Tell whether a piece is about as long as the text before it, which came in several."""
        size = self.size
        if self.sends in ("snapshots", "not known") or size < ENOUGH or self._first >= size:
            return False
        return 0.8 * size <= len(piece) <= 1.25 * size

    def _new_in(self, piece: str) -> str:
        """Return what is new in a piece, as far as is known by now."""
        latest = self._latest
        if self.sends == "pieces":
            return piece
        if self.sends == "pieces twice":
            self._look_for_twin(piece)
            return piece
        if not latest:
            self._latest = piece
            return piece
        is_copy = self.sends == "not known" and piece == latest
        if is_copy or not piece.startswith(latest):
            if self._is_revised(piece, latest):
                self._latest = piece
                held = "".join(self._held)
                self._held.clear()
                return held + piece
            rest = self._ended()
            if is_copy and not self._grown:
                self.sends = "pieces twice"
                self._due = latest
                self._look_for_twin(piece)
            return rest + piece
        self._latest = piece
        if self.sends == "snapshots":
            return piece[len(latest) :]
        self._grown += 1
        if self._grown > 1 and len(piece) >= ENOUGH:
            return self._snapshot(piece, latest)
        self._held.append(piece)
        if len(piece) <= MOST_HELD:
            return ""
        new = "".join(self._held)
        self._held.clear()
        return new

    def _look_for_twin(self, piece: str) -> None:
        """Note whether a piece is the one before it once more, if that is due."""
        if not self._due:
            self._due = piece
        elif piece == self._due:
            self._pairs += piece != self._twin
            self._twin = piece
            self._due = ""
        else:
            self.sends = "pieces"

    def _is_revised(self, piece: str, latest: str) -> bool:
        """Tell whether a piece is the one before it and more, but for that one's end."""
        size = len(latest)
        if self.sends != "not known" or size < SHORTEST or latest[-1] == "\n":
            return False
        half = (size + 1) // 2
        grows = piece[:half] == latest[:half] and len(piece) > size
        self._growing += grows
        return grows

    def _snapshot(self, piece: str, latest: str) -> str:
        """Return what is new in the piece that has shown that all of them are snapshots."""
        self.sends = "snapshots"
        start = self.size
        if self._growing or len(self._held) < self._grown - 1:
            # some were handed out as what they were not
            start = len(latest)
            self._replace(latest)
        self._growing = 0
        self._held.clear()
        return piece[start:]

    def _ended(self) -> str:
        rest = "".join(self._held)
        self._held.clear()
        self.sends = "pieces"
        return rest

    def _replace(self, text: str) -> None:
        self._text.seek(0)
        self._text.truncate()
        self._text.write(text)

    def _ends_with(self, message: str) -> bool:
        """Tell whether the text ends with this, ignoring trailing white space.

        Only that much of it is read.
        """
        size = self.size
        self._text.seek(max(0, size - len(message) - 1))
        tail = self._text.read()
        return tail.rstrip().endswith(message.rstrip())


def _tidied(text: str) -> str:
    """Return a text as a server writes it that cleans up what it has sent in pieces."""
    return " ".join(unicodedata.normalize("NFC", text).split())
