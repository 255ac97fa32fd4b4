"""Many calls at once, async, each answered after 50 ms: how many are finished in a second, and what
one costs.
"""

import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.bench import Bench
from benchmarks.contestants import (
    BARE,
    LITELLM,
    OPENAI,
    PEERS,
    STREAMED,
    TENACITY,
    WHOLE,
    Contestant,
)
from benchmarks.figures import Figure, Goal, Section, Verdict
from benchmarks.workers import Worker, WorkerError

SIZES = {64: 0.8, 256: 1.5, 2000: 3.0}
"""How many at once, and for how many seconds in each round."""
LIMIT = 10.0
ANSWERED_AFTER = 50
BY_DEFAULT = replace(WHOLE, who="Rungwise, 100 connections as by default")
OWN = (WHOLE, STREAMED)
AS_MANY_CONNECTIONS = (BARE, *OWN, OPENAI, TENACITY)
CONTESTANTS = (BARE, *OWN, BY_DEFAULT, OPENAI, LITELLM, TENACITY)
FASTER = Goal("256 calls at once, in a second, over bare httpx", "≥", 8)
FLAT = Goal("a call among 2 000 at once, over one among 64", "≤", 1)


def measure(bench: Bench) -> Iterator[Section]:
    """Compare them at each size; a process that cannot end its calls in time is ended."""
    smallest: Section | None = None
    for at_once, seconds in SIZES.items():
        if at_once < 2000 or not bench.quick:
            section = _compared(bench, at_once, seconds / (2 if bench.quick else 1), CONTESTANTS)
            smallest = smallest or section
            yield replace(section, verdicts=list(_verdicts(section, smallest)))


def _compared(
    bench: Bench,
    at_once: int,
    seconds: float,
    contestants: Iterable[Contestant],
) -> Section:
    present = [each for each in contestants if bench.has(each)]
    found: dict[str, list[dict[str, float]]] = {}
    with bench.team(present) as workers:
        for each in list(present):
            try:
                _prepare(workers[each.who], each, bench, at_once)
            except WorkerError as error:
                if each not in PEERS:
                    raise
                print(f"{each.who} is left out: {str(error).splitlines()[0]}", file=sys.stderr)
                present.remove(each)
        for number in range(1 if bench.quick else min(2, bench.rounds)):
            for each in present if number % 2 == 0 else present[::-1]:
                if all(round["is_idle"] for round in found.get(each.who, ())):
                    asked = {
                        "at_once": at_once,
                        "seconds": seconds,
                        "limit": LIMIT,
                    }
                    answer = workers[each.who].ask("inside.load:load", **asked)
                    found.setdefault(each.who, []).append(answer)
                    if not answer["is_idle"]:
                        workers[each.who].close()  # or it would go on beside the others
    title = f"{at_once} calls at once, async, each answered after {ANSWERED_AFTER} ms"
    figures = [_figure(each.who, found[each.who], found[BARE.who]) for each in present]
    return Section(f"at_once.{at_once}", title, "calls/s", figures)


def _prepare(
    worker: Worker,
    contestant: Contestant,
    bench: Bench,
    at_once: int,
) -> None:
    connections = {"connections": at_once} if contestant in AS_MANY_CONNECTIONS else {}
    url = bench.url(milliseconds=ANSWERED_AFTER)
    worker.ask(
        "inside.load:prepare",
        module=contestant.module,
        url=url,
        options={**contestant.options, **connections},
    )


def _figure(who: str, rounds: list[dict[str, float]], bare: list[dict[str, float]]) -> Figure:
    best = max(each["a_second"] for each in rounds)
    slow = [each for each in rounds if not each["has_begun"]]
    failed = sum(each["failed"] for each in rounds)
    notes = [f"only {slow[0]['calls']:.0f} calls had ended after {LIMIT:g} s"] if slow else []
    notes += [f"{failed:.0f} calls failed"] if failed else []
    return Figure(
        who,
        median=statistics.median(each["a_second"] for each in rounds),
        best=best,
        ratio=best / max(each["a_second"] for each in bare)
        if any(each["a_second"] for each in bare)
        else None,
        cpu=min(each["cpu"] for each in rounds),
        note="; ".join(notes),
    )


def _verdicts(section: Section, smallest: Section) -> Iterable[Verdict]:
    own = max(
        (each for each in section.figures if each.who in {one.who for one in OWN}),
        key=lambda each: each.best,
    )
    if section.name == "at_once.256":
        assert own.ratio is not None
        yield FASTER.of(own.ratio)
    if section.name == "at_once.2000":
        yield FLAT.of(max(each.best for each in smallest.figures if each.who == own.who) / own.best)
