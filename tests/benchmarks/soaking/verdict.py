"""Judge a run by its samples: what has grown from the first third to the last, and what must not
have come about.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

OUTCOMES: Final = frozenset(
    {"done", "salvaged", "partial", "refused", "exhausted", "failed", "cancelled", "over_budget"}
    | {"finished", "gave_up", "limit_reached", "stalled"}  # of turns
    | {"left", "task cancelled", "timed out"}  # of those whose caller had gone
)
WARM_UP: Final = 0.2
"""The share of a run in which caches fill and memory finds its size; nothing is judged there."""

TOLERANCES: Final = {
    "memory": 0.2,
    "in use": 0.02,
    "objects": 0.02,
    "blocks": 0.02,
}
"""By how much of the median of the first third that of the last may be larger.

What is in use must be flat. The memory that is resident is that of the highest peaks so far, which
chance brings: the allocator keeps what many calls at once took, and large replies among them,
scattered as it is given back.
"""

LEAST: Final = 20_000
"""Calls from which on memory is judged: before that, the allocator is still finding its size."""

SAME: Final = (
    "descriptors",
    "threads",
    "tasks",
    "generators",
    "async generators",
    "coroutines",
    "frames",
)
"""What must be the same in every sample, once the clients that last have closed their idle
connections.
"""

MOST_GARBAGE: Final = 12.0
"""Objects a call that only the collector may free, all in all. What is left in a cycle on purpose
is of it, with what hangs on that; asyncio's and httpx's own cycles are the rest."""

LONGEST: Final = 30.0
"""Seconds in which each call must have ended: its budget is 3 s, a turn makes several, and the
machine may be busy.
"""


def thirds(
    samples: Sequence[Mapping[str, Any]],
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    """Return the first and the last third of what follows the warm-up."""
    settled = [sample for sample in samples if sample["calls"] > WARM_UP * samples[-1]["calls"]]
    size = max(1, len(settled) // 3)
    return settled[:size], settled[-size:]


def growth(samples: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return by which share the median of each measure has grown from the first third to the
    last.
    """
    first, last = thirds(samples)
    found = {}
    for name in (
        TOLERANCES
        if samples[-1]["calls"] >= LEAST
        else [name for name in TOLERANCES if name != "memory"]
    ):
        before, after = (
            statistics.median(sample[name] for sample in third) for third in (first, last)
        )
        found[name] = after / before - 1 if before else 0.0
    return found


def faults(
    samples: Sequence[Mapping[str, Any]],
    calls: int,
    outcomes: Mapping[str, int],
    seen: Mapping[str, int],
    longest: float,
    largest: Mapping[str, int | None],
) -> list[str]:
    """List what is wrong with a run; nothing is where it is flat and honest.

    Arguments:
        samples: what was counted, in order.
        calls: how many were made.
        outcomes: how many calls ended how.
        seen: what nobody may see.
        longest: the seconds of the longest call.
        largest: how many entries each cache may have; None for what must not grow at all.
    """
    first, last = thirds(samples)
    found = [
        f"{name} grew by {grown:.1%}, and may by {TOLERANCES[name]:.0%}"
        for name, grown in growth(samples).items()
        if grown > TOLERANCES[name]
    ]
    for name in SAME:
        values = {sample[name] for sample in (*first, *last)}
        if len(values) > 1:
            found.append(f"{name} changed: {sorted(values)}")
    found += _caches(first[0]["caches"], last[-1]["caches"], largest)
    if sum(outcomes.values()) != calls:
        found.append(f"{sum(outcomes.values())} outcomes of {calls} calls")
    found += [
        f"{count} x {outcome}" for outcome, count in outcomes.items() if outcome not in OUTCOMES
    ]
    found += [f"{count} x {fault}" for fault, count in seen.items()]
    garbage = (last[-1]["collected"] - first[0]["collected"]) / max(
        1, last[-1]["calls"] - first[0]["calls"]
    )
    if garbage > MOST_GARBAGE:
        found.append(f"{garbage:.1f} objects a call were left to the collector")
    if longest > LONGEST:
        found.append(f"a call took {longest:.1f} s")
    return found


def _caches(
    before: Mapping[str, int], after: Mapping[str, int], largest: Mapping[str, int | None]
) -> Iterable[str]:
    for name, size in after.items():
        most = largest.get(name)
        if size > (before.get(name, size) if most is None else most):
            yield f"{name} grew from {before.get(name, 0)} to {size}"
