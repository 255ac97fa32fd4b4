"""Count tokens as one of several providers does, none of them quite as the call estimates.

A budget must hold whatever the tokenizer of a backend makes of a text, so the fuzz kit counts in
four ways that differ widely.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from rungwise.fsm.call.budget.metering import bytes_of
from rungwise.fsm.call.conversation.request import PlainMessage, Request
from rungwise.fsm.replies.parts import Message

PROSE_BYTES: Final = 4  # UTF-8 bytes of a token of English prose
OVERHEAD: Final = 4  # tokens of a message besides its text: the usual number in chat templates

_FIRST_IDEOGRAPH: Final = "\u2e80"
# tokens of a CJK character: the usual number where a vocabulary has few of them
_IDEOGRAPH_TOKENS: Final = 2


def _prose(text: str) -> int:
    """Count a token for every few bytes, rounded up."""
    return -(-bytes_of(text) // PROSE_BYTES)


def _digits(text: str) -> int:
    """Count each digit as a token, and the rest as prose."""
    digits = sum(map(str.isdecimal, text))
    rest = "".join(letter for letter in text if not letter.isdecimal())
    return digits + _prose(rest)


def _cjk(text: str) -> int:
    """Count each CJK character as several tokens, and the rest as prose."""
    ideographs = sum(letter >= _FIRST_IDEOGRAPH for letter in text)
    rest = "".join(letter for letter in text if letter < _FIRST_IDEOGRAPH)
    return _IDEOGRAPH_TOKENS * ideographs + _prose(rest)


TOKENIZERS: Final = {
    "prose": _prose,
    "digits": _digits,
    "bytes": bytes_of,
    "CJK": _cjk,
}
"""How a provider counts a text, by what takes many tokens: nothing, each digit, each byte, each CJK
character.
"""


def fitting(text: str, count: Callable[[str], int], most: float) -> str:
    """Return the longest beginning of a text that counts at most so many tokens.

    Arguments:
        text: is cut.
        count: counts it, and never counts less of a longer text.
        most: tokens, nought at least.
    """
    if count(text) <= most:
        return text
    # A binary search finds the last size that fits.
    sizes = range(len(text))
    return text[: bisect_right(sizes, most, key=lambda size: count(text[:size])) - 1]


def prompt_tokens(
    messages: Sequence[PlainMessage | Message], request: Request, tokenizer: str = "prose"
) -> int:
    """Count the tokens of a prompt as a provider does.

    If the caller has counted its own messages, that count holds for them.
    """
    own = request.messages
    size = len(own)
    if list(messages[:size]) != list(own):  # compacted, or with an instruction of ours in front
        return _tokens_of(messages, "prose") + _tokens_of(request.tools, "prose")
    base = request.input_tokens
    if base is None:
        base = _tokens_of(own, "prose") + _tokens_of(request.tools, "prose")
    return base + _tokens_of(messages[size:], tokenizer)


_UNREAD: Final = ("role", "type", "id", "image_url")
"""Fields of a message or part that no model reads as text."""


def _tokens_of(value: Any, tokenizer: str) -> int:
    """Count every text in a value, and each message."""
    if isinstance(value, str):
        return TOKENIZERS[tokenizer](value)
    if isinstance(value, Message):
        results = [each.text for each in value.tool_results]
        calls = [(call.name, call.arguments) for call in value.tool_calls]
        return OVERHEAD + _tokens_of([[value.text, results], calls], tokenizer)
    if isinstance(value, Mapping):
        read = [part for name, part in value.items() if name not in _UNREAD]
        overhead = OVERHEAD if "role" in value else 0
        return overhead + _tokens_of(read, tokenizer)
    if isinstance(value, Iterable):
        return sum(_tokens_of(each, tokenizer) for each in value)
    return 0
