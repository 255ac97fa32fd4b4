"""What a healthy provider answers, and how it is found again in what a program printed."""

from typing import Final

ANSWER: Final = (
    "A call that fails well says so in time, keeps what it was given, and leaves nobody waiting "
    "for a reply that will never come. It asks again only where asking helps, turns to another "
    "when it does not, and returns either the whole answer or a plain error, within limits that "
    "anyone can read before the first byte leaves."
)
"""What a healthy model answers, whatever it is asked."""

PROMPT: Final = (
    "In sixty words, what should a caller expect of a call when its provider misbehaves?"
)
FEWEST: Final = 4
"""Words of the answer that are no coincidence."""


def plain(text: str) -> str:
    """Return a text with one space between its words."""
    return " ".join(text.split())


def begun(text: str) -> str:
    """Return the longest beginning of the answer that stands in a text; "" for fewer words than
    `FEWEST`.
    """
    text = plain(text)
    words = ANSWER.split()
    for count in range(len(words), FEWEST - 1, -1):
        beginning = " ".join(words[:count])
        if beginning in text:
            return beginning
    return ""


def times_begun(text: str) -> int:
    """Count how often a text begins with the answer, whole or not."""
    return plain(text).count(" ".join(ANSWER.split()[:FEWEST]))


def rest_of(said: str, answer: str = ANSWER) -> str:
    """Return what follows a beginning of the answer; the whole answer for any other text."""
    said = said.strip()
    is_beginning = len(said.split()) >= FEWEST and answer.startswith(said) and said != answer
    return answer[len(said) :] if is_beginning else answer
