"""The core by itself: what a call costs the processor, and what one that waits holds in memory."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.bench import Bench
from benchmarks.contestants import WHOLE
from benchmarks.figures import Figure, Goal, Section, compared

PLAYS = {
    "happy": "a call that is answered at once",
    "empties": "four empty replies to the end",
    "failures": "20 attempts: 503s, over a chain of five",
    "many empties": "20 attempts: empty replies",
    "cuts": "20 attempts: continuations of a cut text",
}
HAPPY = Goal("the core's happy call, journal included", "≤", 60, "µs")
LONG = Goal("20 attempts in the core, 503s or empty replies, whichever is dearer", "≤", 900, "µs")
HELD = Goal("memory of a call that waits", "≤", 3350, "bytes")


def measure(bench: Bench) -> Iterator[Section]:
    """Time the plays in turns, and count bytes."""
    with bench.team([WHOLE]) as workers:
        [worker] = workers.values()
        rounds = [
            {name: worker.ask("inside.core:play", name=name) for name in PLAYS}
            for _ in range(bench.rounds * 16)
        ]
        held = worker.ask("inside.core:bytes_held")
    figures = [replace(each, who=PLAYS[each.who], ratio=None) for each in compared(rounds)]
    # Continuations have no goal: each of them sends the text so far, and looks for its seam.
    happy, _, *failing, _ = (each.best * 1e6 for each in figures)
    verdicts = [HAPPY.of(happy, bench.pace), LONG.of(max(failing), bench.pace)]
    yield Section("core.calls", "The core, CPU time", "s", figures, verdicts)
    yield Section(
        "core.memory", "Memory", "bytes", [Figure("a call that waits", held, held)], [HELD.of(held)]
    )
