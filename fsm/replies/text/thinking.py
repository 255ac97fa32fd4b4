"""Separate inline reasoning from visible text: `<think>` blocks and their like, streamed or whole.

Theory

Many open models write their reasoning into the answer, between tags, and many servers hand it on as
it is. But an answer may also be *about* such tags: code that parses them, a sentence that names
them. No grammar tells the two apart, and the two errors do not cost the same: a tag that is shown
looks bad, an answer that is swallowed is lost. So a tag is text unless it stands where a model
opens its reasoning:

* *An opening tag* counts at the start of the reply, or behind a closed block if it is the first on
  its line; never inside Markdown code or quotes, which `Literals` follows.
* *An open block* ends at the closing tag of its own name, and nothing inside it is read. One that
  never ends is reasoning if the reply begins with it (the cap has cut the model off), and text if
  it comes later. So a later block is held back until it closes, up to `LONGEST_HELD`.
* *A closing tag without an opening one*: some chat templates put the opening tag into the prompt
  (DeepSeek-R1 and QwQ do), so the reply begins amid the reasoning. All text before the tag is taken
  back. An error costs most here, so it counts for the first block only, where a sentence or a line
  has ended (`_ends_unopened`).
* *A reply that begins with a channel* of gpt-oss is left to `Channels`, tags and all.

In a stream, `feed` holds back what may still become a tag, and a closing tag until the characters
behind it are there. Fed in any pieces, the output is that of the whole text.

What it costs: nearly every chunk has no `<`, and is handed on as it is (`_calm`). The rest is
linear in the text: literals are read once, and `TextBefore` remembers them for the texts that later
parts continue. `MOST_TAGS` bounds what a hostile reply can ask for.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, NamedTuple

from rungwise.fsm.replies.text.contents import SENTENCE_ENDS, is_blank
from rungwise.fsm.replies.text.harmony import Channels, opens_channel
from rungwise.fsm.replies.text.literals import Literals
from rungwise.fsm.replies.text.tags import CLOSING, MOST_TAGS, TAG, TextBefore, settled
from rungwise.fsm.values.patterns import Pattern

LONGEST_HELD: Final = 262_144
"""Code points of a block that are held back for its closing tag, if without one it is text."""

# Around a closing tag that is a word of its sentence and ends nothing. The Chinese and Japanese
# signs among them are the full-width comma, full stop, semicolon, colon, exclamation and question
# mark, parentheses and corner brackets.
_GOES_ON = Pattern(
    r"</|[],.;:!?)}\u2019\u201d\u00bb\uff0c\u3002\uff1b\uff1a\uff01\uff1f\uff09\u300d\u300f]"
)
_OPENS = Pattern(r"[(\[{</\\|=~\u201c\u201e\u00ab\uff08\u300c\u300e]")

_UNDECIDED: Final = ("", "<", " ", "\n")
"""What stands behind a closing tag while its meaning is still open."""


class ThinkFilter:
    """Split a stream into visible text and inline reasoning, chunk by chunk.

    The theory above says which tags count. Visible text is never changed, but for the whitespace
    between a closed block and the first visible word.

    Arguments:
        gathered: the text that the reply continues; it may end within code, quotes or a line.
        read: what was read of that text so far; None reads it when a tag comes.
        after_block: whether that text came with a block of its own.
        is_new_turn: whether the reply is a turn of its own, which may begin with reasoning even
            amid a line.
    """

    __slots__ = (
        "_after_block",
        "_before",
        "_calm",
        "_channels",
        "_closed",
        "_closing",
        "_done",
        "_empty",
        "_gathered",
        "_held",
        "_held_block",
        "_is_beginning",
        "_literals",
        "_new_turn",
        "_open",
        "_read",
        "_shown",
        "_size",
        "_tags",
        "_thinks",
        "_trims",
        "takes_back",
        "was_unopened",
    )

    def __init__(
        self,
        gathered: str = "",
        *,
        read: TextBefore | None = None,
        after_block: bool = False,
        is_new_turn: bool = False,
    ) -> None:
        self._gathered = gathered
        self._before = read
        self._new_turn = is_new_turn
        self._after_block = after_block
        self._is_beginning = True  # nothing but blanks has come
        self._channels: Channels | None = None  # of a reply that begins with one
        self._held = ""  # what may become a tag, or a closing tag before what follows it
        self._closing: re.Pattern[str] | None = None  # the closing tag of the open block
        self._held_block: list[str] | None = None  # an open block that is text if it never ends
        self._size = 0  # its code points
        self._empty = True  # nothing visible so far
        self._closed = False  # a block of this reply has ended
        self._trims = False  # whitespace is dropped
        self._thinks = False  # visible inline reasoning has come
        self._done = False  # all that follows is text
        self._tags = 0  # the tags outside of blocks
        self._calm = False  # a chunk without "<" changes nothing
        self._shown: list[str] = []  # the visible text of this reply
        self._read = 0  # how many pieces of it the literals have read
        self._literals: Literals | None = None  # None before a tag comes
        # opening tags that are text, without their closing ones
        self._open: Counter[str] = Counter()
        # all visible text before the last chunk has turned out to be reasoning
        self.takes_back = False
        # a closing tag ended reasoning that began with the reply, without an opening tag
        self.was_unopened = False

    def feed(self, text: str) -> tuple[str, str]:
        """Return the visible text and the reasoning that the next chunk settles."""
        self.takes_back = False
        if self._calm and (self._done or "<" not in text):
            if self._closing is not None:
                return "", text
            if not self._done:
                self._shown.append(text)
            return text, ""
        return self._read_on(text, ended=False)

    def close(self) -> tuple[str, str]:
        """Return the visible text and the reasoning that were held back; the stream has ended."""
        self.takes_back = False
        return self._read_on("", ended=True)

    def _read_on(self, text: str, *, ended: bool) -> tuple[str, str]:
        """Read the next chunk: its channels, if the reply began with one, and else its tags."""
        if self._channels is not None:
            return self._channels.read(text, ended=ended)
        text = self._held + text
        shown: list[str] = []
        if self._is_beginning:
            text = self._without_blanks(text, shown)
            opens = opens_channel(text)
            if opens is None and not ended:
                self._held = text
                return "".join(shown), ""
            self._is_beginning = False
            if opens and self._begins_turn():
                self._channels = Channels()
                answer, reasoning = self._channels.read(text, ended=ended)
                return "".join(shown) + answer, reasoning
        return self._part(text, shown, ended=ended)

    def _without_blanks(self, text: str, visible: list[str]) -> str:
        """Show the blanks that a reply begins with, and return the rest."""
        blanks, _, _ = text.partition("<")
        if not is_blank(blanks):
            return text
        self._show(blanks, visible)
        return text[len(blanks) :]

    def _begins_turn(self) -> bool:
        """Tell whether a model may open its reasoning where the reply begins."""
        literals = self._literals_here()
        return not literals.is_inside and (literals.is_line_blank or self._new_turn)

    def _part(self, text: str, visible: list[str], *, ended: bool) -> tuple[str, str]:
        """Read the tags of a text; what is visible joins what was shown of its chunk."""
        reasoning: list[str] = []
        start = 0
        end = len(text) if ended else settled(text)
        while not self._done:
            match = (self._closing or TAG).search(text, start)
            if match is None:
                break
            behind = text[match.end() : match.end() + 2]
            if self._closing is None and match[1] and not ended and behind in _UNDECIDED:
                end = match.start()
                break
            if self._closing is None:
                self._tags += 1
                self._done = self._tags > MOST_TAGS
                if self._done:
                    break
            self._put(text[start : match.start()], visible, reasoning)
            start = match.end()
            if self._held_block is not None and self._size > LONGEST_HELD:
                self._give_up(visible)
                start = match.start()
            elif self._closing is not None:
                self._end_block(reasoning)
            elif not match[1]:
                self._open_block(match, visible)
            elif self._ends_unopened(match, behind):
                self._take_back(visible, reasoning)
            else:
                self._show(match[0], visible)
        if self._done:
            end = len(text)
        self._put(text[start:end], visible, reasoning)
        if self._held_block is not None and (ended or self._size > LONGEST_HELD):
            self._give_up(visible)
        self._held = text[max(start, end) :]
        if self._closing is not None:
            is_steady = self._thinks and self._held_block is None
        else:
            is_steady = not (self._empty or self._trims)
        self._calm = self._done or (not self._held and is_steady)
        return "".join(visible), "".join(reasoning)

    # what becomes of text

    def _put(self, text: str, visible: list[str], reasoning: list[str]) -> None:
        if self._held_block is not None:
            self._held_block.append(text)
            self._size += len(text)
        elif self._closing is not None:
            self._reason(text, reasoning)
        else:
            self._show(text, visible)

    def _reason(self, text: str, reasoning: list[str]) -> None:
        reasoning.append(text)
        self._thinks = self._thinks or not is_blank(text)

    def _show(self, text: str, visible: list[str]) -> None:
        if self._trims:
            text = text.lstrip()
            self._trims = not text
        if text:
            self._empty = self._empty and is_blank(text)
            visible.append(text)
            self._shown.append(text)

    # what becomes of tags

    def _open_block(self, match: re.Match[str], visible: list[str]) -> None:
        literals = self._literals_here()
        tag = match[0]
        name = match[2].lower()
        begins_reply = self._empty and self._begins_turn()
        follows_block = literals.is_line_blank and (self._closed or self._after_block)
        if literals.is_inside:
            self._show(tag, visible)
        elif self._empty or follows_block:
            self._closing = CLOSING[name]
            self._held_block = None if begins_reply else [tag]
            self._size = 0
        else:
            self._open[name] += 1
            self._show(tag, visible)

    def _end_block(self, reasoning: list[str]) -> None:
        if self._held_block is not None:
            self._reason("".join(self._held_block[1:]), reasoning)
        self._closing = None
        self._held_block = None
        self._closed = True
        self._trims = self._empty

    def _give_up(self, visible: list[str]) -> None:
        """Take a block that was never closed for text, and every tag behind it as well."""
        block = self._held_block or []
        self._held_block = None
        self._closing = None
        self._done = True
        self._show("".join(block), visible)

    def _ends_unopened(self, match: re.Match[str], behind: str) -> bool:
        """Tell whether a closing tag in the visible text ends reasoning that began with the
        reply.
        """
        literals = self._literals_here()
        name = match[2].lower()
        if literals.is_inside:
            return False
        if self._open[name]:
            self._open[name] -= 1
            return False
        if self._closed or _GOES_ON.match(behind) or (self._after_block and self._gathered):
            return self._closed and self._empty
        if literals.is_line_blank:
            return not literals.is_indented
        if not literals.before.isspace():
            return not _OPENS.match(literals.before) and literals.before != behind[:1]
        if literals.last in SENTENCE_ENDS:
            return not behind.startswith(" ") or behind == " <"
        return behind == "\n\n"

    def _take_back(self, visible: list[str], reasoning: list[str]) -> None:
        """Take all text of this reply for reasoning, and begin again behind it."""
        if not self._closed:
            self.takes_back = True
            self.was_unopened = True
            visible.clear()
            self._reason("".join(self._shown), reasoning)
            self._shown = []
            self._read = 0
            self._literals = None
            self._empty = True
        self._end_block(reasoning)

    def _literals_here(self) -> Literals:
        """Return the literals with all visible text read."""
        pieces = self._shown[self._read :]
        if self._literals is None:
            before = self._before or TextBefore()
            self._literals, self._open, rest = before.state_after(self._gathered)
            pieces.insert(0, rest)
        self._literals.read("".join(pieces))
        self._read = len(self._shown)
        return self._literals


class Parted(NamedTuple):
    """Hold the visible text and the inline reasoning of a text, and whether that began without an
    opening tag.
    """

    visible: str
    reasoning: str = ""
    was_unopened: bool = False


def part_thinking(
    text: str,
    gathered: str = "",
    *,
    read: TextBefore | None = None,
    after_block: bool = False,
    is_new_turn: bool = False,
) -> Parted:
    """Split a whole text exactly as `ThinkFilter` streams it.

    Arguments:
        text: the text of the reply.
        gathered, read, after_block, is_new_turn: see `ThinkFilter`.
    """
    if "<" not in text:
        return Parted(text)
    thinking = ThinkFilter(gathered, read=read, after_block=after_block, is_new_turn=is_new_turn)
    visible, reasoning = thinking.feed(text)
    visible_rest, reasoning_rest = thinking.close()
    if thinking.takes_back:
        visible = ""
    return Parted(visible + visible_rest, reasoning + reasoning_rest, thinking.was_unopened)


def split_thinking(text: str, gathered: str = "", *, after_block: bool = False) -> tuple[str, str]:
    """Return the visible text and the inline reasoning of a whole text; see `ThinkFilter`."""
    parted = part_thinking(text, gathered, after_block=after_block)
    return parted.visible, parted.reasoning
