"""Separate reasoning from the answer in a reply that came in the channels of gpt-oss.

Theory

A gpt-oss model writes a reply as messages, each in a channel [openai/harmony, docs/format.md]:

    <|channel|>analysis<|message|>Simple arithmetic.<|end|>
    <|start|>assistant<|channel|>final<|message|>It is 4.<|return|>

Some servers hand this on as the text of the reply [Augustas11/macprovider#743,
ml-explore/mlx-lm#1867, NousResearch/hermes-agent#62680]. A text may also be *about* such markers,
so it is read here only if it begins with a whole header, up to `<|message|>`. Servers that drop
the markers and leave their words (`analysis...assistantfinal...`) cannot be told from text.

* *The answer* is what stands in the channel `final`. All else is reasoning.
* *A tool call* in a message (`commentary to=functions.look`) is reasoning too, behind the name of
  the tool. The server has not read it, so it is no tool call; and a reply with nothing else has no
  answer, so that the model is asked again.
* *A message ends* at an end marker, mostly with the next header behind it. Servers lose some of
  that: the end before a header, `<|start|>assistant` [cuga-project/cuga-agent#672], or the header
  of the answer, which then follows the end at once [sgl-project/sglang#31019].
* *In the answer* a marker is text, as in any answer, unless it is an end marker that ends the reply
  or that has a header right behind it, outside of code and quotes.
* *A reply that is cut* amid a header ends before it.

In a stream, what may still become the end of a message is held back: some 500 code points at most.
Fed in any pieces, the output is that of the whole text.
"""

from __future__ import annotations

import re
from typing import Final

from rungwise.fsm.replies.text.literals import Literals
from rungwise.fsm.values.patterns import Pattern

_LONGEST: Final = 600
"""More code points than an end marker and a header have."""

# The parts of a header, and the words that each may say besides: the tool that the message is for,
# the type of its content.
_WORDS = "[^<]{0,128}"
_ROLE = rf"(?:<\|start\|>assistant{_WORDS})?"
_NAME = rf"<\|channel\|>(?P<channel>analysis|commentary|final)\b{_WORDS}"
_TYPE = rf"<\|constrain\|>{_WORDS}"
_HEADER = rf"{_ROLE}{_NAME}(?:{_TYPE})?<\|message\|>"
_END = r"<\|(?:end|return|call)\|>\s{0,16}"


def _cut(*texts: str) -> str:
    """Return a pattern of the beginnings of some texts, "" among them and the whole ones not."""
    beginnings = {text[:size] for text in texts for size in range(len(text))}
    return f"(?:{'|'.join(map(re.escape, sorted(beginnings, reverse=True)))})"


# a header that more text may complete, by the part in which it stops
_CUT_HEADERS = (
    _cut("<|start|>", "<|channel|>"),
    rf"<\|start\|>{_cut('assistant')}",
    _ROLE + _cut("<|channel|>"),
    rf"{_ROLE}<\|channel\|>{_cut('analysis', 'commentary', 'final')}",
    _ROLE + _NAME + _cut("<|constrain|>", "<|message|>"),
    _ROLE + _NAME + _TYPE + _cut("<|message|>"),
)
_CUT_HEADER = "|".join(_CUT_HEADERS).replace("?P<channel>", "?:")
_CUT_END = _cut("<|end|>", "<|return|>", "<|call|>")

_OPENING = Pattern(_HEADER)
_CUT_OPENING = Pattern(_CUT_HEADER)
_BOUNDARY = Pattern(rf"(?P<end>{_END})?{_HEADER}|{_END}")
_CUT_BOUNDARY = Pattern(rf"(?:(?:{_END})?(?:{_CUT_HEADER})|{_CUT_END})\Z")
_ONLY_MARKERS = Pattern(rf"{_END}(?:{_CUT_HEADER})")
_TOOL = Pattern(r"\bto=([^\s<]+)")


def opens_channel(text: str) -> bool | None:
    """Tell whether a text begins with the header of a message; None if more text may make it so."""
    if text[:2] != "<|":
        return None if text in ("", "<") else False
    if _OPENING.match(text):
        return True
    return None if _CUT_OPENING.fullmatch(text) else False


class Channels:
    """Split a reply that begins with a channel into answer and reasoning, piece by piece."""

    __slots__ = ("_answer", "_held", "_in_answer", "_literals")

    def __init__(self) -> None:
        self._held = ""  # what may become the end of a message
        self._in_answer = False  # whether the message is for the reader
        self._answer: list[str] = []  # what of the answer the literals have not read
        self._literals = Literals()

    def read(self, text: str, *, ended: bool) -> tuple[str, str]:
        """Return the answer and the reasoning that the next piece settles."""
        text = self._held + text
        answer: list[str] = []
        reasoning: list[str] = []
        stop = len(text) if ended else _settled(text)
        start = 0
        for match in _BOUNDARY.finditer(text):
            if match.start() >= stop:
                break
            self._put(text[start : match.start()], answer, reasoning)
            start = match.start()
            if ended and _ONLY_MARKERS.fullmatch(text[start:]):
                stop = start
                break
            if self._ends_message(match):
                start = match.end()
                self._begin_message(match, reasoning)
        self._put(text[start:stop], answer, reasoning)
        self._held = "" if ended else text[stop:]
        return "".join(answer), "".join(reasoning)

    def _put(self, text: str, answer: list[str], reasoning: list[str]) -> None:
        if self._in_answer:
            answer.append(text)
            self._answer.append(text)
        else:
            reasoning.append(text)

    def _ends_message(self, match: re.Match[str]) -> bool:
        if not self._in_answer:
            return True
        if match["channel"] is None or match["end"] is None:
            return False
        self._literals.read("".join(self._answer))
        self._answer.clear()
        return not self._literals.is_inside

    def _begin_message(self, match: re.Match[str], reasoning: list[str]) -> None:
        channel = match["channel"]
        tool = _TOOL.search(match[0])
        if channel is None:
            # No header follows: what does is the answer, but not behind the call of a tool.
            self._in_answer = not match[0].startswith("<|call|>")
        else:
            self._in_answer = channel == "final"
        if tool is not None and not self._in_answer:
            reasoning.append(f"\n{tool[1]} ")


def _settled(text: str) -> int:
    """Return where the end of a message may begin that the next piece could complete."""
    if "<" not in text:
        return len(text)
    tail = text[-_LONGEST:]
    cut = _CUT_BOUNDARY.search(tail)
    return len(text) - len(tail) + (cut.start() if cut else len(tail))
