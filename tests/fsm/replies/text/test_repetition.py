import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.replies.text import repetition
from rungwise.fsm.replies.text.repetition import TAIL, LoopWatch

VARIED = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz ", k=2000))
SENTENCE = "The quick brown fox jumps over the lazy dog, and then it rests a while. "


def lines(count: int, size: int, filler: int) -> str:
    """Give `count` equal lines of `size` letters, spread through `filler` characters of varied
    text.
    """
    piece = filler // count
    return "".join(
        f"{VARIED[at * piece : (at + 1) * piece]}\n{'x' * size}\n" for at in range(count)
    )


@pytest.mark.parametrize(
    ("text", "repetitive"),
    [
        ("", False),
        ("short", False),
        (VARIED, False),
        # Lines: at least 5, half of the text, 400 characters.
        (lines(5, 50, 200), True),
        (lines(5, 50, 245), False),
        (lines(4, 60, 200), False),
        (lines(5, 50, 135), False),
        ("0\n" * 200, True),
        ("0\n" * 149, False),
        # Windows: at least 5 of 60 characters, and half of the text.
        (SENTENCE * 5, True),
        (SENTENCE * 4, False),
        (VARIED[:1000] + SENTENCE * 19, True),
        (VARIED[:1000] + SENTENCE * 18, False),
        ("x" * 300, True),
        ("x" * 299, False),
        # One long ruler holds many windows, but they overlap.
        (VARIED[:1000] + "-" * 200 + VARIED[1000:], False),
        # A loop with a counter in it, which repeats no line.
        ("".join(f"Step {step}: {SENTENCE}\n" for step in range(40)), True),
        ("".join(f"{VARIED[50 * at : 50 * at + 50]}\n" for at in range(40)), False),
    ],
)
def test_recognises_a_loop(text: str, repetitive: bool) -> None:
    assert LoopWatch().is_repetitive(text) is repetitive


@cache
def long(size: int) -> str:
    return "".join(random.Random(11).choices("abcdefghijklmnopqrstuvwxyz \n", k=size))


@pytest.mark.parametrize(
    ("text", "repetitive"),
    [
        (long(3 * TAIL), False),
        # A model that has come to run in circles is caught in its circle, however much it had said
        # before.
        (long(3 * TAIL) + SENTENCE * (TAIL // len(SENTENCE)), True),
        (long(3 * TAIL) + "The same line.\n" * (TAIL // 28), True),
        (long(3 * TAIL) + SENTENCE * (TAIL // len(SENTENCE) // 4), False),
        # One that has come out of it has come out of it.
        (SENTENCE * (3 * TAIL // len(SENTENCE)) + long(TAIL), False),
    ],
)
def test_judges_a_long_text_by_its_end(text: str, repetitive: bool) -> None:
    assert LoopWatch().is_repetitive(text) is repetitive
    assert LoopWatch().is_repetitive(text[-TAIL:]) is repetitive


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("The heron wades. " * 200_000, 1),
        ("The heron wades in the reeds until the evening comes to the lake.\n" * 50_000, 2),
        (long(1_000_000), 0),
        # What comes back in code, and in a table, is no loop yet.
        (long(1_000_000) + "    }\n}\n" * 9 + "-" * 300 + "\n" + long(100), 0),
    ],
)
def test_counts_in_no_more_than_the_end_and_only_where_it_may_be_a_loop(
    text: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    for name in ("_repeats_line", "_repeats_window"):
        monkeypatch.setattr(repetition, name, lambda text: bool(looked_at.append(len(text))))
    LoopWatch().is_repetitive(text)
    assert looked_at == [TAIL] * looks


def cut_up(text: str) -> list[str]:
    return [text[:200], text[:61], text[30:89], text[200:230]]


def brute(text: str) -> bool:
    return repetition._repeats_line(text) or repetition._repeats_window(text)


def expected(text: str) -> bool:
    """Read the rules off word for word, window by window."""
    found = text.splitlines()
    by_line = len(text) >= 400 and any(
        found.count(x) >= 5 and found.count(x) * len(x) * 2 >= len(text) for x in found
    )
    windows = {text[at : at + 60] for at in range(len(text) - 59)}
    return by_line or any(text.count(window) >= max(5, len(text) // 120) for window in windows)


@given(
    st.lists(
        st.sampled_from(["a", "\n", "x" * 40 + "\n", "y" * 60, SENTENCE, VARIED[:200]]), max_size=25
    )
)
def test_follows_the_rules(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert LoopWatch().is_repetitive(text) is expected(text)


@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "\n",
                "\r",
                "\n",
                "0\n",
                "x" * 40 + "\n",
                "y" * 60,
                SENTENCE,
                *cut_up(VARIED),
                *cut_up(SENTENCE),
            ]
        ),
        max_size=12,
    ),
    st.integers(1, 9),
)
def test_a_text_that_grows_is_judged_like_a_whole_one(pieces: list[str], times: int) -> None:
    watch = LoopWatch()
    text = ""
    for piece in [*pieces, *pieces[-2:] * times]:
        text += piece
        assert watch.is_repetitive(text) is LoopWatch().is_repetitive(text) is brute(text[-TAIL:])


@pytest.mark.parametrize("unit", [SENTENCE, "The same line.\n", "0\n", "\r\n0"])
def test_a_long_text_that_grows_is_judged_like_a_whole_one(unit: str) -> None:
    watch = LoopWatch()
    text = ""
    found = []
    for piece in (
        *[long(TAIL)[at : at + 1500] for at in range(0, TAIL, 1500)],
        *[unit * (600 // len(unit))] * 18,
    ):
        text += piece
        found.append(watch.is_repetitive(text))
        assert found[-1] is brute(text[-TAIL:])
    assert (found[0], found[-1]) == (False, True)
