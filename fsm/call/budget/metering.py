"""A lower bound for the output tokens of a text that the provider did not count.

Tokenizers split at white space first, so a text has at least as many tokens as words. The longest
tokens of common vocabularies hold about 16 bytes, so an endless word is counted as well.
"""

from __future__ import annotations

from attrs import evolve

from rungwise.fsm.replies.reply import Reply
from rungwise.fsm.values.usage import Usage

BYTES_A_TOKEN = 16
"""The most UTF-8 bytes of one word that a single token holds."""

COUNTED_BESIDE = 8
"""Tokens above a cap that do not exceed it: some servers count the end of a sequence or a turn as
output.
"""


def most_counted(cap: int) -> int:
    """Return the most tokens that a reply within its cap may be counted as."""
    return cap + min(COUNTED_BESIDE, cap // COUNTED_BESIDE)


def reserve_of(whole: int) -> int:
    """Return the tokens of a whole budget that no cap may use, so that what is counted beside a cap
    stays within it.
    """
    return min(COUNTED_BESIDE, (whole + 1) // (COUNTED_BESIDE + 1))


def is_beyond(tokens: int, cap: int | None) -> bool:
    """Tell whether this many tokens exceed a cap."""
    return cap is not None and tokens > most_counted(cap)


def bytes_of(text: str) -> int:
    """Return the bytes of a text in UTF-8, lone surrogates included."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


AT_ONCE = 65_536
"""Characters that are split into words at once, to bound the memory."""

PIECE = 64
"""Tokens that may arrive at once: a stream that is cut at its cap may be longer by this."""

_BYTES_OF_ENGLISH = 4
"""Bytes of English in a token, about."""

_ENDED_WELL = ("stop", "content_filter")
"""The stop reasons of a reply that ended by itself: if it is empty, nothing was written."""


class Meter:
    """Count the least tokens of a growing text; the work is linear in what is fed."""

    __slots__ = ("_size", "least")

    def __init__(self) -> None:
        self.least = 0
        self._size = 0  # bytes of the word that has not ended

    def feed(self, text: str) -> None:
        """Take the next piece of the text, cut anywhere."""
        for start in range(0, len(text), AT_ONCE):
            self._feed(text[start : start + AT_ONCE])

    def _feed(self, text: str) -> None:
        words = text.split()
        if words and not text[0].isspace():  # the last word continues
            self.least -= -(-self._size // BYTES_A_TOKEN)
            size = self._size + bytes_of(words.pop(0))
            self.least += -(-size // BYTES_A_TOKEN)
            self._size = size
        if words:
            self.least += _tokens(words)
            self._size = bytes_of(words[-1])
        if text[-1].isspace():
            self._size = 0


def _tokens(words: list[str]) -> int:
    longest = max(map(len, words))
    if 4 * longest <= BYTES_A_TOKEN or (longest <= BYTES_A_TOKEN and "".join(words).isascii()):
        return len(words)  # the usual case: each word is one token
    return sum([-(-bytes_of(word) // BYTES_A_TOKEN) for word in words])


def least_tokens(*texts: str) -> int:
    """Return the least tokens of some texts together."""
    total = 0
    for text in texts:
        meter = Meter()
        meter.feed(text)
        total += meter.least
    return total


def texts_of(reply: Reply) -> tuple[str, ...]:
    """List the texts in a reply that the model wrote."""
    calls = (text for call in reply.tool_calls for text in (call.name, call.arguments))
    return reply.text, reply.reasoning, reply.refusal or "", *calls


def measured(
    usage: Usage,
    reply: Reply,
    cap: int | None,
    silence: int | None = None,
) -> tuple[Usage, bool]:
    """Return the usage of a reply, and whether the reply is longer than its cap.

    What the provider reported stands. Otherwise the output is estimated from the text: at least one
    token for each word, and no more than the cap unless the words prove that it was exceeded. A
    reply that the cap cut has used it up.

    Arguments:
        usage: what the provider reported.
        reply: the reply.
        cap: the output cap that was sent, in tokens; None if none was.
        silence: the output tokens of a reply that broke off before any text or usage came; None
            counts none.
    """
    if usage.output_tokens and not usage.estimated:
        return usage, is_beyond(usage.output_tokens, cap)
    texts = texts_of(reply)
    least = least_tokens(*texts)
    by_size = sum([-(-bytes_of(text) // _BYTES_OF_ENGLISH) for text in texts])
    guess = max(least, usage.output_tokens or by_size)
    if not usage.input_tokens or usage.estimated:  # nothing was reported
        if reply.stop_reason == "length":
            guess = max(guess, cap or 0)
        elif not any(texts) and (reply.interrupted or reply.stop_reason not in _ENDED_WELL):
            guess = silence or 0
    if cap is not None:
        guess = _within(cap, guess, least, is_halted=reply.halted)
    if guess != usage.output_tokens:
        usage = evolve(usage, output_tokens=guess, estimated=True)
    return usage, is_beyond(least, cap)


def _within(cap: int, guess: int, least: int, *, is_halted: bool) -> int:
    """Lower a guess to the cap, unless the words prove that it was exceeded.

    Arguments:
        cap, guess, least: in tokens; `least` is what the words come to at least.
        is_halted: whether we ended the reply at its cap, of which the last piece may be too long.
    """
    if not is_beyond(least, cap):
        return min(guess, max(cap, least))
    if is_halted and least <= cap + PIECE:
        return min(guess, cap)
    return guess
