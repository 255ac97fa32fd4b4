"""Work grows no faster than what it is done on: counted in calls of functions and in bytes, never
in time.
"""

import tracemalloc

import pytest

from rungwise.core import Call, PlainLink, Request
from support.growth import GROWTHS, calls_made, peak_of, per_unit
from support.workloads import PATIENT, QUESTION, bytes_of_parts, cut_into, prose, replies_of

MOST = 1.3
"""How much more a unit may cost in a large piece of work than in a small one."""

ALWAYS = {
    **dict.fromkeys(
        ("parts", "parts, streamed", "parts that speak of tags", "parts, encoded"), (10, 60)
    ),
    "parts, echoed": (10, 60),
    **dict.fromkeys(("messages", "tools", "tool calls", "tool calls, streamed"), (30, 120)),
    "backends": (1, 100),
    "backends that fail": (5, 20),
    "calls that wait for one budget": (10, 60),
    "tool calls in a round": (20, 80),
    "a journal, read": (20, 100),
    "a journal, replayed": (20, 100),
}
"""What every run counts, in small sizes: they tell as much as large ones."""

AT_LENGTH = {
    "parts over HTTP": (10, 100, 300),
    "chunks": (100, 1_000, 10_000),
    "characters": (10_000, 300_000),
    "clients": (1, 200),
    "calls under one budget": (10, 100, 1_000),
    "a journal, written": (20, 200, 2_000),
    "a journal, explained": (20, 200, 2_000),
    "a turn, replayed": (10, 100),
    "a picture": (10_000, 10_000_000),
    "a certificate, by its backends": (1, 4, 12),
}
"""What `.ci/run full` counts, beside all the sizes of the others."""

AMID = {
    "rounds of a turn",
    "parts of one text",
    "a certificate, by its limits",
    "a certificate, by its attempts",
}
"""What is not measured by the unit: see below."""


def test_everything_that_grows_is_counted() -> None:
    assert {*ALWAYS, *AT_LENGTH, *AMID} == {*GROWTHS}


@pytest.mark.full
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ALWAYS)
def test_a_unit_of_more_takes_no_more_calls(name: str) -> None:
    first, *more = per_unit(GROWTHS[name], ALWAYS[name], calls_made)
    assert max(more) < MOST * first, (first, *more)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["parts", "parts, streamed", "messages", "tool calls in a round", "a journal, read"]
)
def test_a_unit_of_more_takes_no_more_memory(name: str) -> None:
    first, *more = per_unit(GROWTHS[name], ALWAYS[name], peak_of)
    assert max(more) < MOST * first, (first, *more)


@pytest.mark.full
@pytest.mark.parametrize("name", [*ALWAYS, *AT_LENGTH])
def test_a_unit_of_the_most_takes_no_more_calls(name: str) -> None:
    growth = GROWTHS[name]
    least = ALWAYS.get(name, growth.sizes)[0]
    sizes = AT_LENGTH.get(name) or [size for size in growth.sizes if size >= least]
    first, *more = per_unit(growth, sizes, calls_made)
    # A call that falls through its chain looks each time at those that are left, which takes a few
    # calls of C code.
    allowed = 2.0 if name == "backends that fail" else MOST
    assert max(more) < allowed * first, (first, *more)


@pytest.mark.slowest
@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in (*ALWAYS, *AT_LENGTH) if "HTTP" not in name])
def test_a_unit_of_the_most_takes_no_more_memory(name: str) -> None:
    growth = GROWTHS[name]
    sizes = AT_LENGTH.get(name) or [size for size in growth.sizes if size >= ALWAYS[name][0]]
    first, *more = per_unit(growth, sizes, peak_of)
    # orjson sets aside as many as thirteen times the bytes of a text before it reads or writes it,
    # and leaves them be.
    allowed = 16.0 if name in ("a picture", "characters") else MOST
    assert max(more) < allowed * first, (first, *more)


# calls of functions do not show what C code copies


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("link", [PlainLink(), PlainLink(prefills=True)], ids=["told", "prefilled"])
@pytest.mark.parametrize("space", ["", " \n"])
def test_a_part_holds_one_more_copy_of_the_text_so_far_at_most(
    streams: bool, link: PlainLink, space: str
) -> None:
    size = 2_000
    count = 60
    pieces = [f"{piece[:-4]},{space}" for piece in cut_into(prose(size * count), count)]
    pieces[0] = space + pieces[0]
    call = Call(Request(QUESTION), PATIENT, (link,), is_streaming=streams)
    replies = replies_of(pieces)
    tracemalloc.start()
    try:
        taken = [*bytes_of_parts(call, replies)]
    finally:
        tracemalloc.stop()
    assert call.result.text == "".join(pieces)
    beside = [held - so_far for held, so_far in taken[5:]]
    assert max(beside) < 16 * size, beside


@pytest.mark.full
def test_a_turn_asks_no_more_of_a_message_than_whether_it_is_one() -> None:
    # Each call is sent the whole conversation, so something is done for each message in it; it is
    # next to nothing.
    growth = GROWTHS["rounds of a turn"]
    few, some, many = (
        count * size
        for count, size in zip(
            per_unit(growth, (20, 60, 100), calls_made), (20, 60, 100), strict=True
        )
    )
    assert (many - some) - (some - few) < 10 * 40 * 40


def test_ever_smaller_parts_of_one_text_take_no_more_calls_each() -> None:
    first, *more = per_unit(GROWTHS["parts of one text"], (10, 100, 200), calls_made)
    assert max(more) < first
