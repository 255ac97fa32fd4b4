"""Copies are left out if each event of a stream comes twice, and nothing else is."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rungwise.fsm.replies.assembly.copies import LONGEST_HELD, MOST_HELD, Copies


def taken(said: str) -> tuple[str, bool]:
    """Return what is handed over of a stream whose events are letters, of which the first two are
    equal, and whether that is in doubt.
    """
    assert said[0] == said[1]
    copies: Copies[str] = Copies(said[0].encode())
    out = said[0]
    for event in said[1:]:
        if copies.is_over:
            out += event
        else:
            out += "".join(copies.take(event.encode(), event))
    out += "".join(copies.release())
    return out, copies.is_unclear


@pytest.mark.parametrize(
    ("said", "once"),
    [
        ("aabb", "ab"),
        ("aabbcc", "abc"),
        ("aabbaabb", "abab"),
        ("aabbbb", "abb"),
        ("aabbccddeeffgg", "abcdefg"),
        ("aabbccddddddaa", "abcddda"),
    ],
)
def test_a_stream_that_says_everything_twice_is_read_once(said: str, once: str) -> None:
    assert taken(said) == (once, False)


@pytest.mark.parametrize(
    "said",
    ["aab", "aaa", "aabbc", "aabc", "aabbccd", "aabbcdd", "aaabb", "aabba", "aaaabb", "a" * 99],
)
def test_a_stream_that_says_anything_once_is_read_as_it_comes(said: str) -> None:
    assert taken(said) == (said, False)


@pytest.mark.parametrize(
    ("said", "once"),
    [
        ("aa", "aa"),
        ("aabbccdde", "abcde"),
        ("aabbccddeff", "abcdef"),
    ],
)
def test_what_may_be_no_copy_is_doubt(said: str, once: str) -> None:
    assert taken(said) == (once, True)


@given(st.text("abcdefgh", min_size=1, max_size=40))
def test_every_stream_that_comes_twice_is_told(said: str) -> None:
    begins_once = said[:1] != said[1:2]
    different = len([*groupby(said)])
    once, is_unclear = taken("".join([letter * 2 for letter in said]))
    if begins_once and different > 1 and len(said) < MOST_HELD // 2:
        assert (once, is_unclear) == (said, False)


@given(st.text("abc", min_size=1, max_size=40))
def test_a_stream_that_ends_once_loses_nothing_unless_it_is_doubt(said: str) -> None:
    came = f"{said[0]}{said}."
    once, is_unclear = taken(came)
    assert once == came or is_unclear


@pytest.mark.parametrize("length", [1, 100, LONGEST_HELD // 3, LONGEST_HELD * 2])
def test_little_is_held(length: int) -> None:
    copies: Copies[int] = Copies(b"a")
    copies.take(b"a", 0)
    most = copies.size
    for number in range(200):
        if copies.is_over:
            break
        copies.take(b"b" * length, number)
        most = max(most, copies.size)
    assert copies.is_over
    assert most <= min(LONGEST_HELD, MOST_HELD * length)


@pytest.mark.parametrize("said", ["aa", "aabb", "aabbcc"])
def test_an_event_that_cannot_be_compared_shows_that_there_were_none(said: str) -> None:
    copies: Copies[str] = Copies(b"a")
    out = said[0]
    for event in said[1:]:
        out += "".join(copies.take(event.encode(), event))
    assert out + "".join(copies.give_up()) == said
    assert copies.is_over
    assert not copies.is_unclear
