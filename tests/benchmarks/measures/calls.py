"""One call at a time, sync and async, beside bare httpx."""

from collections.abc import Iterator

from benchmarks.bench import Bench, race
from benchmarks.contestants import BARE, PEERS, STREAMED, WHOLE
from benchmarks.figures import Goal, Section

GOALS = {
    "call": Goal("one call, over bare httpx", "≤", 1.15),
    "acall": Goal("one call, async, over bare httpx", "≤", 1.15),
}
TITLES = {"call": "One call", "acall": "One call, async"}
CHUNKS = 200


def measure(bench: Bench) -> Iterator[Section]:
    """Compare a call that is answered at once, and what streaming underneath costs a longer
    answer.
    """
    contestants = (BARE, WHOLE, STREAMED, *PEERS)
    with bench.team(contestants) as workers:
        for way, title in TITLES.items():
            figures = race(bench, workers, [(each, way, {}) for each in contestants], bench.url())
            [own] = [figure.ratio for figure in figures if figure.who == WHOLE.who]
            assert own is not None
            yield Section(f"calls.{way}", title, "s", figures, [GOALS[way].of(own)])
        longer = [(each, "call", {}) for each in (BARE, WHOLE, STREAMED)]
        figures = race(bench, workers, longer, bench.url(chunks=CHUNKS))
        yield Section(
            f"calls.chunks.{CHUNKS}", f"One call, an answer of {CHUNKS} chunks", "s", figures, []
        )
