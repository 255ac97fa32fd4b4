"""Tell inline reasoning from visible text: `<think>`, `<thinking>` and `<reasoning>` blocks, streamed or whole."""

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


class ThinkFilter:
    """Part a stream into visible text and inline reasoning, chunk by chunk.

    A block ends at the closing tag of its own name, or with the text. What looks like a tag inside it is reasoning, and
    a closing tag outside is visible text. Visible text is never changed, but for the whitespace between a closed block
    and the first visible word: models put blank lines there.
    """

    __slots__ = ("_blank", "_calm", "_closed", "_held", "_sought", "_thinks")

    def __init__(self) -> None:
        self._sought = _OPENING  # a closing tag while in a block
        self._held = ""  # the beginning of what may become the tag
        self._blank = True  # nothing visible so far but whitespace
        self._closed = False  # a block has ended
        self._thinks = False
        self._calm = False  # a chunk without "<" changes nothing

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
            return (text, "") if self._sought is _OPENING else ("", text)
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
            self._closed |= self._sought is not _OPENING
            self._sought = _CLOSING[found[1].lower()] if self._sought is _OPENING else _OPENING
            start = found.end()
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
