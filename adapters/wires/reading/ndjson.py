"""Split a stream of JSON lines, each an object, from bytes cut anywhere.

Ollama streams so. Lines that differ from an earlier one only in their text are not parsed
(`AlikeLines`); `reading/sse.py` has the theory of both formats.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

import orjson
from attrs import define, field

from rungwise.adapters.wires.json_text import LIGHT, is_heavy, load
from rungwise.adapters.wires.reading.alike_lines import AlikeLines
from rungwise.adapters.wires.reading.lines import EventHandler, LineSplitter
from rungwise.fsm.replies.text.contents import exact

_BOM: Final = b"\xef\xbb\xbf"
_MOMENT: Final = re.compile(rb'"created_at": ?"[^"\\]*"')
"""What differs in each of Ollama's lines besides the text."""


@define(eq=False, repr=False)
class LineReader(LineSplitter):
    """Hand the lines of one stream to its handler.

    A line that is an object begins the stream. Anything before it is kept unchanged: a body of
    another kind, or a JSON object in many lines, none of which begins like an object of its own.
    """

    # what came first is JSON in more than a line
    _is_other: bool = field(default=False, init=False)
    _alike: AlikeLines = field(factory=lambda: AlikeLines(_MOMENT), init=False)

    def close(self, handler: EventHandler) -> None:
        """Hand over a last line without a line feed; a cut line is dropped."""
        rest = bytes(self._rest)
        self._rest.clear()
        if rest and not handler.finished:
            self._take_line(rest, handler, is_last=True)
        self._release(handler)

    def _take_line(
        self,
        line: bytes,
        handler: EventHandler,
        *,
        is_last: bool = False,
    ) -> None:
        bare = line.strip()
        if not self.is_stream:
            bare = bare.removeprefix(_BOM).lstrip()
        if not bare:
            return
        if self._is_other or not bare.startswith((b"{", b"[{")):
            if self.is_stream:
                handler.take_stray(line, None)
            else:
                self._keep(line, bare)
        elif len(bare) > LIGHT and is_heavy(bare):
            self.is_stream = True
            handler.take_broken()
        else:
            self._take_object(line, bare, handler, is_last=is_last)

    def _keep(self, line: bytes, bare: bytes) -> None:
        """Keep a line of a body that is no stream so far."""
        if not self.plain:
            self._is_other = bare.startswith((b"{", b"["))
        self.plain += line + b"\n"

    def _take_object(
        self,
        line: bytes,
        bare: bytes,
        handler: EventHandler,
        *,
        is_last: bool,
    ) -> None:
        """Parse a line that begins like an object, and hand it over.

        Arguments:
            line: the line as it came.
            bare: the same without the blanks around it.
            handler: receives it.
            is_last: whether the stream ended without a line feed: then a broken line was cut.
        """
        is_usual = True
        try:
            value = orjson.loads(bare)
        except orjson.JSONDecodeError:
            is_usual = False
            try:
                value = load(bare)
            except ValueError:
                if not self.is_stream:
                    self._keep(line, bare)
                elif not is_last:
                    handler.take_broken()
                return
            handler.take_halves()
        self.is_stream = True
        if not is_usual:
            line = b""
        if self._first is None:
            self._hand_over(value, line, bare, handler)
        else:
            self._hand_on(bare, partial(self._hand_over, value, line, bare, handler), handler)

    def _hand_over(self, value: Any, line: bytes, bare: bytes, handler: EventHandler) -> None:
        """Hand over the object of a line.

        Arguments:
            value: the object.
            line: the line as it came; nothing if lines like it are not to be learned.
            bare: the same without the blanks around it.
            handler: receives it.
        """
        piece = handler.piece_in(value)
        if piece is None:
            handler.take_value(exact(value, bare), bare, is_error=False)
            return
        handler.take_piece(*piece)
        if line and self._first is None:
            self._alike.learn(b"", line, piece, handler.piece_in)
