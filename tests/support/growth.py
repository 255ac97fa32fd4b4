"""How work grows with its input: the kinds of work, and what is counted."""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from types import FrameType

from attrs import frozen

from support import workloads
from support import workloads_around as around
from support.workloads import Work


@frozen
class Growth:
    """One kind of work that grows with its input.

    Arguments:
        name: what grows, in one or two words.
        unit: of its size.
        sizes: the sizes to measure, smallest first.
        prepare: returns the work of one size as a function that can be called repeatedly.
    """

    name: str
    unit: str
    sizes: tuple[int, ...]
    prepare: Callable[[int], Work]


_ALL = (
    Growth("parts", "parts", (10, 30, 100, 300, 1000), workloads.parts),
    Growth("parts of one text", "parts", (10, 30, 100, 300, 1000), workloads.parts_of_one_text),
    Growth("parts, streamed", "parts", (10, 30, 100, 300, 1000), workloads.parts_streamed),
    Growth("parts that speak of tags", "parts", (10, 30, 100, 300, 1000), workloads.parts_of_tags),
    Growth("parts, encoded", "parts", (10, 30, 100, 300, 1000), workloads.parts_encoded),
    Growth("parts, echoed", "parts", (10, 30, 100, 300, 1000), workloads.parts_prefilled),
    Growth("parts over HTTP", "parts", (10, 30, 100, 300, 1000), workloads.parts_over_http),
    Growth("chunks", "chunks", (10, 100, 1_000, 10_000, 100_000), workloads.chunks),
    Growth("characters", "characters", (1_000, 10_000, 100_000, 1_000_000), workloads.characters),
    Growth("messages", "messages", (1, 10, 100, 1_000, 10_000), workloads.messages),
    Growth("tool calls", "tool calls", (1, 10, 100, 1_000, 5_000), workloads.tool_calls),
    Growth(
        "tool calls, streamed",
        "tool calls",
        (1, 10, 100, 1_000, 5_000),
        workloads.tool_calls_streamed,
    ),
    Growth("tools", "tools", (1, 10, 100, 1_000), workloads.tools),
    Growth("backends", "backends", (1, 10, 50, 200), around.backends),
    Growth("backends that fail", "backends", (1, 10, 50, 200), around.backends_that_fail),
    Growth("clients", "backends", (1, 10, 50, 200), around.clients),
    Growth("calls under one budget", "calls", (1, 10, 100, 1_000), around.shared_calls),
    Growth("calls that wait for one budget", "calls", (1, 10, 100, 1_000), around.calls_that_wait),
    Growth("rounds of a turn", "rounds", (1, 10, 50, 150, 500), around.rounds),
    Growth("tool calls in a round", "tool calls", (1, 10, 100, 500), around.calls_in_a_round),
    Growth("a journal, written", "steps", (20, 200, 2_000), around.journal_written),
    Growth("a journal, read", "steps", (20, 200, 2_000), around.journal_read),
    Growth("a journal, replayed", "steps", (20, 200, 2_000), around.journal_replayed),
    Growth("a journal, explained", "steps", (20, 200, 2_000), around.journal_explained),
    Growth("a turn, replayed", "rounds", (10, 50, 150, 500), around.turn_replayed),
    Growth("a picture", "bytes", (10_000, 100_000, 1_000_000, 10_000_000), around.picture),
    Growth(
        "a certificate, by its limits",
        "units of each limit",
        (1, 3, 10, 30, 100, 200),
        around.certificate_of_limits,
    ),
    Growth(
        "a certificate, by its attempts",
        "attempts",
        (10, 30, 100, 300, 1000),
        around.certificate_of_attempts,
    ),
    Growth(
        "a certificate, by its backends",
        "backends",
        (1, 3, 10, 25, 50),
        around.certificate_of_backends,
    ),
)

GROWTHS: dict[str, Growth] = {each.name: each for each in _ALL}
"""All work that must grow no faster than its size, by name."""


def calls_made(work: Work) -> int:
    """Count the function calls of a piece of work, C functions included. The count is always the
    same.

    Only those of this thread: cProfile counts those of all threads from Python 3.12 on.
    """
    count = 0

    def note(frame: FrameType, event: str, what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # other tests' libraries have it call functions of theirs
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count - 1  # for the call that ends it


def peak_of(work: Work) -> int:
    """Return the peak of bytes that a piece of work allocates."""
    gc.collect()
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()


def per_unit(growth: Growth, sizes: Iterable[int], measure: Callable[[Work], float]) -> list[float]:
    """Measure work of several sizes and return the cost of one unit at each.

    Arguments:
        growth: what grows.
        sizes: how much of it.
        measure: measures one piece of work, after a first run that builds what is built only once.
    """
    found = []
    for size in sizes:
        work = growth.prepare(size)
        work()
        found.append(measure(work) / size)
    return found
