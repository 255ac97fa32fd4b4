"""Tell inline reasoning from visible text: `<think>`, `<thinking>` and `<reasoning>` blocks, streamed or whole.

An answer may be about such tags, and then it has them in Markdown code: an opening tag there is visible text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TAG_NAMES = ("think", "thinking", "reasoning")
"""The names of the tags that models put around inline reasoning; their case does not matter."""


class _Tag(NamedTuple):
    """Hold the pattern of the tag that is looked for, and every beginning of it that a chunk may end with."""

    pattern: re.Pattern[str]
    beginnings: frozenset[str]


def _tag(start: str, *names: str) -> _Tag:
    tags = [f"{start}{name}>" for name in names]
    # ASCII keeps the Kelvin sign and the long s, which fold to k and s, out of a tag.
    pattern = re.compile(f"{start}({'|'.join(names)})>", re.IGNORECASE | re.ASCII)
    return _Tag(pattern, frozenset(tag[:size] for tag in tags for size in range(1, len(tag))))


_OPENING = _tag("<", *TAG_NAMES)
_CLOSING = {name: _tag("</", name) for name in TAG_NAMES}
_LONGEST_TAG = len("</>") + max(map(len, TAG_NAMES))
_FENCE = re.compile(r"^(?: {0,3}|([ \t]+))(`{3,}|~{3,})([ \t\r]*\n)?", re.MULTILINE)
"""A line that may open a fenced block (unless group 1 indents it too far) or close one (if group 3 ends it)."""
_BACKTICKS = re.compile("`+")


class ThinkFilter:
    """Part a stream into visible text and inline reasoning, chunk by chunk.

    A block ends at the closing tag of its own name, or with the text. What looks like a tag inside it is reasoning, and
    a closing tag outside is visible text. Visible text is never changed, but for the whitespace between a closed block
    and the first visible word: models put blank lines there.

    An opening tag in Markdown code opens no block, it is visible text. The visible text before it alone decides, as the
    rest may still have to come. The tag is in code

    - in a fenced block: after a line that begins, behind at most three spaces, with three or more backticks or tildes,
      also on that very line, until a line of at least as many of the same sign and nothing else but blanks has ended;
    - in a code span: after an odd number of runs of backticks on its line, however long each of them is. So a backtick
      without its pair makes text of a block that really is reasoning, if that begins on the same line.
    """

    __slots__ = ("_blank", "_calm", "_closed", "_fence", "_held", "_sought", "_thinks", "_unread")

    def __init__(self) -> None:
        self._sought = _OPENING  # a closing tag while in a block
        self._held = ""  # the beginning of what may become the tag
        self._blank = True  # nothing visible so far but whitespace
        self._closed = False  # a block has ended
        self._thinks = False
        self._calm = False  # a chunk without "<" changes nothing
        self._fence = ""  # what opened the fenced block that the visible text is in, as far as it has been read
        self._unread: list[str] = []  # the visible text that has not been read for Markdown code, from a line's start

    @property
    def thinks_inline(self) -> bool:
        """Tell whether any inline reasoning has been seen that is not blank."""
        return self._thinks

    def feed(self, text: str) -> tuple[str, str]:
        """Return the visible text and the reasoning that `text` settles.

        Arguments:
            text: the next chunk of the stream.
        """
        if self._calm and "<" not in text:
            if self._sought is not _OPENING:
                return "", text
            self._unread.append(text)
            return text, ""
        return self._part(self._held + text, ended=False)

    def close(self) -> tuple[str, str]:
        """Return the visible text and the reasoning that were held back; the stream has ended."""
        return self._part(self._held, ended=True)

    def _part(self, text: str, *, ended: bool) -> tuple[str, str]:
        visible: list[str] = []
        reasoning: list[str] = []
        start = 0
        while found := self._sought.pattern.search(text, start):
            self._put(text[start : found.start()], visible, reasoning)
            start = found.end()
            if self._sought is not _OPENING:
                self._closed = True
                self._sought = _OPENING
            elif self._ends_in_code():
                self._put(found[0], visible, reasoning)
            else:
                self._sought = _CLOSING[found[1].lower()]
        end = len(text) if ended else self._settled(text, start)
        self._put(text[start:end], visible, reasoning)
        self._held = "" if ended else text[end:]
        self._calm = not self._held and (not self._blank if self._sought is _OPENING else self._thinks)
        return "".join(visible), "".join(reasoning)

    def _settled(self, text: str, start: int) -> int:
        """Return where the tag may begin that the next chunk could complete."""
        at = text.rfind("<", start)
        unsettled = at >= 0 and text[at : at + _LONGEST_TAG].lower() in self._sought.beginnings
        return at if unsettled else len(text)

    def _put(self, text: str, visible: list[str], reasoning: list[str]) -> None:
        if self._sought is not _OPENING:
            reasoning.append(text)
            self._thinks = self._thinks or bool(text.strip())
            return
        if self._blank:
            if self._closed:
                text = text.lstrip()
            self._blank = not text.strip()
        visible.append(text)
        self._unread.append(text)

    def _ends_in_code(self) -> bool:
        """Tell whether the visible text so far ends in Markdown code, and keep no more of it than the rest needs."""
        text = "".join(self._unread)
        for found in _FENCE.finditer(text):
            indented, signs, ended = found.groups()
            if not self._fence:
                self._fence = signs if indented is None else ""
            elif ended and signs.startswith(self._fence):
                self._fence = ""
        if self._fence:
            self._unread = []  # the tag goes on with this line, so it closes nothing
            return True
        line = text[text.rfind("\n") + 1 :]
        in_span = len(_BACKTICKS.findall(line)) % 2 == 1
        if in_span:
            line = "`"
        elif len(line) > len("   ~~"):
            # Too long to become a fence: what counts is that its runs are even, and whether the last one may go on.
            line = "`-`" if line.endswith("`") else "-"
        self._unread = [line]
        return in_span


def split_thinking(text: str) -> tuple[str, str]:
    """Return the visible text and the inline reasoning of a whole text, exactly as `ThinkFilter` streams them.

    Arguments:
        text: the text with its tags.
    """
    if "<" not in text:
        return text, ""
    thinking = ThinkFilter()
    visible, reasoning = thinking.feed(text)
    visible_rest, reasoning_rest = thinking.close()
    return visible + visible_rest, reasoning + reasoning_rest
