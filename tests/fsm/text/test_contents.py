import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.text.contents import is_blank

INVISIBLE = (
    *("", " ", "\n", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\x00", "\x1b", "\x7f", "\u0085", "\u00ad"),
    "\u200b",
    *("\u200d", "\u200e", "\u2060", "\u2065", "\u3164", "\u115f", "\u1160", "\uffa0", "\u2800", "\ufeff", "\ufe0f"),
    *("\u034f", "\u061c", "\u17b4", "\u180b", "\u180e", "\ufffe", "\uffff", "\ud800", "\udfff", "\U000e0001"),
    *("\U000e0100", "\U000e01ef", "\U000e0fff", "\U0010ffff", "\U0001d159", "\U0001d173", "\u0378"),
)
VISIBLE = ("a", "0", ".", "-", "<", "\u00e9", "\u0301", "\u4f60", "\N{FOX FACE}", "\ufffd", "\u2581", "\U0001fae8")


@pytest.mark.parametrize("letter", INVISIBLE, ids=ascii)
def test_what_shows_nothing_is_blank(letter: str) -> None:
    assert is_blank(letter)
    assert is_blank(f" {letter}\u200b{letter * 100}\n")


@pytest.mark.parametrize("letter", VISIBLE, ids=ascii)
def test_what_shows_is_not(letter: str) -> None:
    assert not is_blank(letter)
    assert not is_blank("\ufeff\n\u200b" * 100 + letter)


@given(st.lists(st.sampled_from(INVISIBLE)).map("".join), st.text())
def test_one_letter_is_enough(blank: str, text: str) -> None:
    assert is_blank(blank)
    assert is_blank(blank + text) == is_blank(text + blank) == is_blank(text) == all(map(is_blank, text))


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1))
def test_letters_numbers_and_signs_show(text: str) -> None:
    fillers = {letter for letter in text if "FILLER" in unicodedata.name(letter, "")} | {"\u2800", "\U0001d159"}
    assert is_blank(text) == (set(text) <= fillers)
