"""Ids tell replies apart if they last, and otherwise say nothing."""

from collections.abc import Sequence

import pytest

from rungwise.fsm.replies.assembly.origin import MOST, Origin


def mixed(events: Sequence[tuple[str, int]]) -> bool:
    """Tell whether a stream is of several replies; an event has an id, and adds some letters."""
    origin = Origin()
    said = 0
    for id, letters in events:
        if id == origin.id:
            origin.lasts = True
        elif id:
            origin.take(id, said)
        said += letters
    return origin.changes > 1 and origin.is_mixed(said)


A = ("a", 3)
B = ("b", 3)
ROLE = ("a", 0)
OTHER = ("b", 0)
NONE = ("", 3)


@pytest.mark.parametrize(
    "events",
    [
        [A, A, B, B],
        [ROLE, A, OTHER, B, OTHER],
        [A, A, B],
        [A, B, A, B],
        [A, NONE, A, B, NONE],
        [A, A, ("c", 0), B, B],
    ],
)
def test_an_answer_under_two_ids_is_of_two_replies(events: list[tuple[str, int]]) -> None:
    assert mixed(events)


@pytest.mark.parametrize(
    "events",
    [
        [A, A, A],
        [NONE, NONE],
        [ROLE, B, B],
        [ROLE, ROLE, B, B],
        [A, A, OTHER],
        [A, OTHER, A],
        [A, B, B],
        [A, B, ("c", 3)],
        [(f"{number}", 3) for number in range(99)],
        [(f"{number // 2}", 3) for number in range(99)],
        [A, A, *[(f"{number}", 3) for number in range(MOST)]],
    ],
)
def test_ids_that_are_none_of_replies_say_nothing(events: list[tuple[str, int]]) -> None:
    assert not mixed(events)
