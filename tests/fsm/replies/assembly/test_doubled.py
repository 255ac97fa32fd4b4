"""A text of which every piece comes twice is known, and not shortened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.replies.assembly.gathered import DIFFERENT, ENOUGH, GatheredText

WORDS = ["The king", "fishers ", "nest in the ", "steep bank."]


def doubled(words: list[str]) -> list[str]:
    return [word for word in words for _ in range(2)]


def gathered(pieces: list[str], *, at_once: bool = False) -> tuple[str, bool]:
    """Return a text, and whether it is known for one of which every piece came twice."""
    text = GatheredText()
    said = ""
    for each in [pieces] if at_once else [[piece] for piece in pieces]:
        said += text.add(each)
    said += text.end()
    assert said == text.text
    return said, text.is_doubled


@pytest.mark.parametrize("at_once", [True, False])
def test_every_piece_twice_is_known(at_once: bool) -> None:
    assert gathered(doubled(WORDS), at_once=at_once) == ("".join(doubled(WORDS)), True)
    assert gathered(doubled(WORDS * 9), at_once=at_once)[1]


@pytest.mark.parametrize(
    "pieces",
    [
        WORDS,
        doubled(WORDS)[:-1],
        doubled(WORDS)[1:],
        doubled(WORDS[:3]),
        [*doubled(WORDS), "Herons"],
        [*doubled(WORDS[:2]), "Herons ", *doubled(WORDS[2:])],
        ["ha"] * 80,
        doubled(["a", "b", "c", "d"]),
        [],
    ],
)
def test_any_other_text_is_not(pieces: list[str]) -> None:
    assert gathered(pieces) == ("".join(pieces), False)


@given(st.lists(st.sampled_from(["ha ", "ho ", "hi ", "A line of a poem,\n"]), max_size=60))
def test_no_text_is_shortened(pieces: list[str]) -> None:
    said, is_doubled = gathered(pieces)
    assert said == "".join(pieces)
    assert not is_doubled or (len(pieces) >= 2 * DIFFERENT and len(said) >= 2 * ENOUGH)
