"""Tokenizers of several densities, for providers that count what they bill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rungwise.fsm.call.budget.metering import bytes_of

PROSE_BYTES: Final = 4
"""UTF-8 bytes of a token of English prose."""

OVERHEAD: Final = 4
"""Tokens of a message besides its text: the usual number in chat templates."""

_FIRST_IDEOGRAPH: Final = "\u2e80"
_IDEOGRAPH_TOKENS: Final = 2
"""Tokens of a CJK character: the usual number where a vocabulary has few of them."""


def _prose(text: str) -> int:
    return -(-bytes_of(text) // PROSE_BYTES)


def _digits(text: str) -> int:
    digits = sum(map(str.isdecimal, text))
    return digits + _prose("".join(letter for letter in text if not letter.isdecimal()))


def _cjk(text: str) -> int:
    dense = sum(letter >= _FIRST_IDEOGRAPH for letter in text)
    return _IDEOGRAPH_TOKENS * dense + _prose("".join(letter for letter in text if letter < _FIRST_IDEOGRAPH))


TOKENIZERS: Final[Mapping[str, Callable[[str], int]]] = {
    "prose": _prose,
    "digits": _digits,
    "bytes": bytes_of,
    "CJK": _cjk,
}
"""How a provider counts a text, by what takes many tokens: nothing, each digit, each byte, each CJK character."""


def fitting(text: str, tokenizer: str, most: int) -> str:
    """Return the longest beginning of a text that counts at most so many tokens."""
    count, low, high = TOKENIZERS[tokenizer], 0, len(text)
    if count(text) <= most:
        return text
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= most else (low, middle - 1)
    return text[:low]
