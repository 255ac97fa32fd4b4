"""Recognise lines of a stream that differ from an earlier one only in their text.

Such a line need not be parsed: what surrounds its text is known. Why that is right, and what it
saves, stands in `reading/sse.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson
from attrs import define, field

from rungwise.fsm.replies.assembly.order import Order

Piece = tuple[Any, str]
"""The kind of a text, and the text."""

_NUMBER: Final = re.compile(rb'"sequence_number": ?"?(\d+)')
_STRING: Final = rb'("(?:[^"\\]++|\\.)*+")'  # possessive, so that no line makes the search go back


@define(eq=False, repr=False)
class AlikeLines:
    """Learn what surrounds the text of a line, and extract the text of lines like it."""

    # Matches what differs in each line besides its text, such as its time. It has no groups, and
    # matches nothing inside of a string.
    volatile: re.Pattern[bytes] | None = None
    # Says which number the next line has; None if lines have no numbers.
    order: Order[Any] | None = None
    # What each such line begins with. No line begins with the initial value.
    begins: bytes = field(default=b"\n", init=False)
    ends: bytes = field(default=b"\n", init=False)  # of each such line
    kind: Any = field(default=None, init=False)  # of the text
    last: bytes = field(default=b"", init=False)  # the last such line
    # what follows `begins`, or begins with the quote at its end
    _whole: re.Pattern[bytes] | None = field(default=None, init=False)
    _start: int = field(default=0, init=False)  # where that begins, from the end of `begins`
    # what surrounds the number in `begins`, or else in `ends`
    _around: tuple[bytes, bytes] | None = field(default=None, init=False)
    _is_first: bool = field(default=False, init=False)  # whether that is in `begins`
    _credit: int = field(default=32, init=False)

    def forget(self) -> None:
        """Forget what surrounds the text."""
        self.begins = self.ends = b"\n"
        self._around = None

    def expect(self, number: int | None) -> None:
        """Expect a number in the next line; None expects what has come."""
        if self._around is None or number is None:
            return
        before, behind = self._around
        numbered = b"%b%d%b" % (before, number, behind)
        if self._is_first:
            self.begins = numbered
        else:
            self.ends = numbered

    def text_in(self, line: bytes) -> str | None:
        """Return the text of a line that has the learned beginning and end.

        None if more than the text differs: then the line must be parsed.
        """
        if self._whole is None:
            text = line[len(self.begins) - 1 : 1 - len(self.ends)]  # with its quotes
        else:
            match = self._whole.fullmatch(line, len(self.begins) + self._start)
            text = b"" if match is None else match[1]
        try:
            content: str = orjson.loads(text)
        except orjson.JSONDecodeError:
            # more differs, there is half a surrogate pair, or a control character as it is
            content = _bare(text[1:-1])
        if not content:
            return None
        if self.order is not None and self._around is not None:
            self.order.recent.append(line)
            self.order.next += 1
            self.expect(self.order.next)
        self._credit += 1
        self.last = line
        return content

    def learn(
        self,
        prefix: bytes,
        data: bytes,
        piece: Piece,
        read: Callable[[Any], Piece | None],
    ) -> None:
        """Learn what surrounds a text in a line, as long as that pays off.

        Arguments:
            prefix: what the line begins with, before its JSON: "data:" or nothing.
            data: the JSON.
            piece: the kind and the text that `read` found in it.
            read: returns the piece in the value of such data; None if there is more in it.
        """
        if self._credit < _PRICE:
            return
        self._credit -= _PRICE
        kind, content = piece
        try:
            text = orjson.dumps(content)[1:-1]
            head, quoted, tail = data.partition(b'"' + text + b'"')
            # It is the place of the text only if a longer text there is read as exactly that.
            other = orjson.loads(b"".join((head, b'"', text, b'~"', tail)))
        except (orjson.JSONDecodeError, orjson.JSONEncodeError):
            # the latter for half a surrogate pair
            return
        if not quoted or read(other) != (kind, content + "~"):
            return
        self.begins = prefix + head + b'"'
        self.ends = b'"' + tail
        self.kind = kind
        self._whole = None
        if self.volatile is not None:
            self._allow(self.volatile)
        self._around = None
        if self.order is None:
            return
        for text in (self.ends, self.begins):
            if match := _NUMBER.search(text):
                self._around = (text[: match.start(1)], text[match.end(1) :])
                self._is_first = text is self.begins

    def _allow(self, volatile: re.Pattern[bytes]) -> None:
        """Let what differs in each line be anything that the pattern matches.

        If times differ, `{"t":17,"text":"a"}` makes `{` the beginning of all such lines, `"}` their
        end, and between them match any time, `,"text":` and a string.
        """
        heads = volatile.split(self.begins)
        tails = volatile.split(self.ends)
        varies_before = len(heads) > 1
        if not varies_before and len(tails) == 1:
            return
        # The same in every line is only what stands before the first part that varies, and behind
        # the last one. The match begins between them, or at the quote that opens the text.
        self.begins = heads[0]
        self.ends = tails[-1]
        self._start = 0 if varies_before else -1
        anything = b"(?:%b)" % volatile.pattern
        before = anything.join(map(re.escape, [b"", *heads[1:]]))
        after = anything.join(map(re.escape, tails))
        # `_STRING` matches both quotes.
        whole = before.removesuffix(b'"') + _STRING + after.removeprefix(b'"')
        self._whole = re.compile(whole, volatile.flags)


def _bare(text: bytes) -> str:
    """Return a text that needs no parser, "" for any other.

    Some servers do not escape control characters, which is no JSON.
    """
    if b'"' in text or b"\\" in text:
        return ""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return ""


_PRICE: Final = 8
"""Learning a line costs as much as eight alike ones save. Each alike line earns a credit of one, so
a stream whose lines all differ is soon no longer learned from."""
