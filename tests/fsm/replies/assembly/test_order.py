"""Numbered events are handed over in order, each once, unless their numbers say nothing."""

from collections.abc import Sequence

import pytest

from rungwise.fsm.replies.assembly.order import MOST_WAITING, RECENT, Disorder, Order


def taken(numbers: Sequence[int], said: Sequence[str] = ()) -> list[str]:
    """Return what is handed over of events: by default each says its number."""
    order: Order[str] = Order()
    events = said or [f"{number}" for number in numbers]
    out: list[str] = []
    for number, event in zip(numbers, events, strict=True):
        out += order.take(number, f"{number} {event}".encode(), event)
    return [*out, *order.release()]


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1, 2, 3],
        [7, 8, 9, 10, 11],
        [0, 0, 1, 1, 2, 2],
        [0, 1, 2, 3, 1, 2, 3, 4],
        [0, 2, 1, 3],
        [0, 5, 4, 3, 2, 1, 6],
        [0, 1, 3, 3, 2, 2, 4],
        [0, 1, 3, 4],
        [0, 2, 4, 6],
        [0, *range(20, 20 + 3 * MOST_WAITING)],
    ],
)
def test_each_event_comes_once_in_order(numbers: list[int]) -> None:
    assert taken(numbers) == [f"{number}" for number in sorted(set(numbers))]


@pytest.mark.parametrize(
    "numbers", [[0, 0, 0, 0], [0, 1, 2, 0, 1, 2], [3, 4, 4, 5, 1], [0, 1, 1, 9, 2]]
)
def test_numbers_that_count_something_else_say_nothing(numbers: list[int]) -> None:
    events = ["a", "b", "c", "d", "e", "f"][: len(numbers)]
    assert taken(numbers, events) == events


def test_an_event_that_comes_when_its_place_is_gone_is_disorder() -> None:
    with pytest.raises(Disorder):
        taken([0, *range(2, 4 + MOST_WAITING), 1])


def test_numbers_that_begin_again_where_some_were_left_out_say_nothing() -> None:
    numbers = [0, *range(2, 4 + MOST_WAITING), 0]
    assert taken(numbers, [f"event {place}" for place in range(len(numbers))])[-1] != "event 0"


def test_what_is_remembered_is_bounded() -> None:
    order: Order[int] = Order()
    for number in range(10 * RECENT):
        order.take(number, b"%d" % number, number)
    assert len(order.recent) == RECENT
    assert not order.release()
