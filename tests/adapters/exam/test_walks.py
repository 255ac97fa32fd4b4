"""The walks: few, and they cover all that any sequence of faults covers of the machine."""

import pytest

from rungwise import Policy
from rungwise.adapters.exam.cases import catalogue
from rungwise.adapters.exam.walks import covered_by, walks, words


@pytest.mark.full
def test_few_walks_cover_what_all_of_them_do():
    every = set().union(*[covered_by(word) for word in words()])
    chosen = set().union(*[covered_by(walk) for walk in walks()])
    assert chosen == every
    assert len(walks()) < sum(1 for _ in words()) / 2


@pytest.mark.full
def test_no_walk_is_chosen_for_nothing():
    covered: set[object] = set()
    for walk in walks():
        assert covered_by(walk) - covered, walk.name
        covered |= covered_by(walk)


@pytest.mark.full
def test_rows_are_covered_both_ways_and_in_pairs():
    chosen = set().union(*[covered_by(walk) for walk in walks()])
    taken = {row for row, how in chosen if how is True}
    passed = {row for row, how in chosen if how is False}
    pairs = {pair for pair in chosen if not isinstance(pair[1], bool)}
    assert {row.event for row in taken} >= {
        "answered",
        "came_empty",
        "only_reasoned",
        "truncated",
        "interrupted",
        "fell_silent",
        "malformed",
        "failed_transiently",
        "failed_permanently",
        "overflowed",
    }
    assert taken <= set(Policy().table.rows)
    assert len(taken & passed) >= 6
    assert len(pairs) >= 100


def test_a_walk_is_named_in_plain_words():
    titles = [walk.title for walk in walks()]
    assert "429 that asks for 2 s; an empty answer; then well" in titles
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("name", ["overloaded", "mute", "stall", "cut", "html", "error_inside"])
def test_each_fault_covers_something_beside_an_answer(name: str):
    events = {row.event for row, how in covered_by(catalogue()[name]) if how is True}
    assert events - {"answered"}
