"""Recognize the tags around inline reasoning, and follow what they mean in the text before a reply.

`thinking.py` says which of them count.
"""

from __future__ import annotations

import re
from collections import Counter
from copy import copy
from typing import Final

from rungwise.fsm.replies.text.literals import Literals

# `<thought>` is Gemma's [NousResearch/hermes-agent#8562], and `<mm:think>` MiniMax's
# [NousResearch/hermes-agent#59461]; `<seed:think>` is Seed-OSS's. No `<reason>`: it opens
# many an answer that has parts.
TAG_NAMES = ("think", "thinking", "reasoning", "thought", "mm:think", "seed:think")
"""The names of the tags around inline reasoning; their case does not matter."""

# how many tags of one reply are read, more than any honest reply has; the rest is text
MOST_TAGS: Final = 1_000


def _pattern(slash: str, *names: str) -> re.Pattern[str]:
    # ASCII keeps the Kelvin sign and the long s, which fold to k and s, out of a tag.
    return re.compile(f"<({slash})({'|'.join(names)})>", re.IGNORECASE | re.ASCII)


TAG = _pattern("/?", *TAG_NAMES)
CLOSING = {name: _pattern("/", name) for name in TAG_NAMES}
_WHOLE_TAGS = [f"<{slash}{name}>" for slash in ("", "/") for name in TAG_NAMES]
_BEGINNINGS = frozenset(tag[:size] for tag in _WHOLE_TAGS for size in range(1, len(tag)))
_LONGEST_TAG = len("</>") + max(map(len, TAG_NAMES))


def settled(text: str) -> int:
    """Return where a tag may begin that the next chunk could complete."""
    at = text.rfind("<")
    if at >= 0 and text[at : at + _LONGEST_TAG].lower() in _BEGINNINGS:
        return at
    return len(text)


class TextBefore:
    """Follow a text that grows by parts, as far as it decides what the tags of the next part mean.

    It holds no text, and reads each part once, even if a thousand parts mention such tags.
    """

    __slots__ = ("_literals", "_open", "_open_if_cut", "_read", "_sought", "_tags")

    def __init__(self) -> None:
        self._literals = Literals()
        self._read = 0  # how far the literals were read
        self._sought = 0  # how far tags were searched
        self._tags = 0
        # opening tags that are text, without their closing ones
        self._open: Counter[str] = Counter()
        self._open_if_cut = Counter(TAG_NAMES)  # the same if the text may be cut within a tag

    def state_after(self, text: str) -> tuple[Literals, Counter[str], str]:
        """Return what the next part needs: the literals of the text but for its end, the open tags,
        and that end.

        The text is that of last time, perhaps with more behind it.
        """
        for tag in TAG.finditer(text, self._sought):
            self._literals.read(text[self._read : tag.start()])
            self._read = tag.start()
            self._sought = tag.end()
            self._tags += 1
            if self._tags <= MOST_TAGS and not self._literals.is_inside:
                name = tag[2].lower()
                step = -1 if tag[1] else 1
                for waiting in (self._open, self._open_if_cut):
                    waiting[name] = max(0, waiting[name] + step)
        whole = settled(text)
        self._sought = max(self._sought, len(text) - _LONGEST_TAG)
        # The literals may stop behind any letter: no sign spans that place.
        stop = whole
        while stop > self._read and not text[stop - 1].isalnum():
            stop -= 1
        stop = max(stop, self._read)
        self._literals.read(text[self._read : stop])
        self._read = stop
        waiting = self._open if whole == len(text) else self._open_if_cut
        return copy(self._literals), waiting.copy(), text[stop:]
