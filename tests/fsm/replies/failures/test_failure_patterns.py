"""No pattern that is tried on what a provider sends takes long, whatever the provider sends."""

import re
import time
from collections.abc import Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from rungwise.fsm.replies.failures import asked_wait
from rungwise.fsm.replies.failures import body as failure_body
from rungwise.fsm.replies.failures import classify as failures
from rungwise.fsm.replies.failures import rules as failure_rules
from rungwise.fsm.values.patterns import Pattern

pytestmark = pytest.mark.sampled(4)

LONG = 15_000  # characters; the taxonomy never looks at more than 10 000 of a message
# of the processor; a linear pattern takes a hundredth of it, the fastest quadratic one 0.6 s
SECONDS = 0.4


def patterns_in(value: Any, *, of_codes: bool) -> Iterator[re.Pattern[str]]:
    """Find the compiled patterns in a module, in its tables and in its rules."""
    if isinstance(value, Pattern):
        if (value in ON_CODES) is of_codes:
            yield value.compiled
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from patterns_in(item, of_codes=of_codes)
    elif isinstance(value, failure_rules.Rule) and of_codes:
        yield from (each.compiled for each in (value.codes, value.numbers) if each)
    elif isinstance(value, failure_rules.Rule):
        yield from (each.compiled for each in (value.prose, value.unless) if each)


MODULES = (asked_wait, failure_body, failure_rules, failures)
# tried on what `_CODE` has found short enough
ON_CODES = (failure_body._NUMBER, failure_body._HTTP_ERROR)
ON_TEXT, ON_WORDS = (
    list(
        dict.fromkeys(
            pattern
            for module in MODULES
            for value in vars(module).values()
            for pattern in patterns_in(value, of_codes=of_codes)
        )
    )
    for of_codes in (False, True)
)


def samples(node: Any) -> list[str]:
    """List what the parts of a pattern match: every beginning of it that a choice or a repetition
    follows.
    """
    begun = [""]
    found = []
    elements = list(node)
    for index, (kind, detail) in enumerate(elements):
        begun = [start + piece for start in begun[:8] for piece in pieces_of(kind, detail)]
        if elements[index + 1 : index + 2] == [] or elements[index + 1][0] is not codes.LITERAL:
            found += begun
    return found


def pieces_of(kind: Any, detail: Any) -> list[str]:
    if kind is codes.LITERAL:
        return [chr(detail)]
    if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        low, high, inner = detail
        most = min(int(high), 300)
        return [
            piece * count for piece in samples(inner)[-2:] for count in {low, max(low, 1), most}
        ]
    if kind is codes.BRANCH:
        return [sample for branch in detail[1] for sample in samples(branch)]
    if kind in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
        return samples(detail[-1] if kind is codes.SUBPATTERN else detail) or [""]
    if kind is codes.IN:
        return [character_of(detail)]
    return ["a"] if kind in (codes.ANY, codes.NOT_LITERAL) else [""]


def character_of(items: Any) -> str:
    kind, detail = items[0]
    if kind is codes.LITERAL:
        return chr(detail)
    if kind is codes.RANGE:
        return chr(detail[0])
    known = {
        codes.CATEGORY_SPACE: " ",
        codes.CATEGORY_DIGIT: "1",
        codes.CATEGORY_WORD: "a",
    }
    return known.get(detail, "-") if kind is codes.CATEGORY else "a"


def hostile_texts(pattern: re.Pattern[str]) -> Iterator[str]:
    """Write texts of nothing but the beginnings of a pattern, and of what its repetitions can go on
    from.
    """
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    for piece in dict.fromkeys(piece for piece in samples(tree) if piece):
        for text in (piece, piece + " "):
            yield text * (LONG // len(text) + 1)
    for filler in "a1 .-'_\n":
        yield filler * LONG


def named(pattern: re.Pattern[str]) -> str:
    return pattern.pattern[:40]


@pytest.mark.parametrize("pattern", ON_TEXT, ids=named)
def test_no_pattern_takes_long_on_a_text(pattern: re.Pattern[str]) -> None:
    for text in hostile_texts(pattern):
        started = time.process_time()
        pattern.search(text[:LONG])
        pattern.fullmatch(text[:LONG])
        taken = time.process_time() - started
        assert taken < SECONDS, f"{taken:.2f} s for {text[:60]!r} repeated"


@pytest.mark.parametrize("pattern", ON_WORDS, ids=named)
def test_no_pattern_takes_long_on_the_words_of_a_body(pattern: re.Pattern[str]) -> None:
    texts = [text[:80] for text in hostile_texts(pattern)]
    started = time.process_time()
    for text in texts:
        assert failure_body._CODE.fullmatch("a" * 81) is None
        for _ in range(10):
            pattern.fullmatch(text)
    assert time.process_time() - started < SECONDS


def test_every_pattern_is_tried() -> None:
    assert len(ON_TEXT) > 50
    assert len(ON_WORDS) > 15


def test_a_body_of_the_greatest_size_is_read_in_linear_time() -> None:
    """Count the work: a body of any size comes to so many words and so much text."""
    error = failure_body.ErrorBody()
    error.read({"errors": [{"code": "x" * 80, "message": "y" * LONG}] * 10_000})
    assert len(error.words) <= 100
    assert len(error.text) <= failure_body._LONGEST_TEXT
