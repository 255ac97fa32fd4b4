"""Measure `rungwise odds`: the processor's seconds for the default policy with three backends, and
what is left out.

    python tests/benchmarks/odds.py

Each backend has sixteen events. The exit code is 1 where the goal is missed.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import Any, Final

sys.path[0] = str(Path(__file__).parents[1])

from benchmarks import machine  # noqa: E402  (the folder must be found first)
from rungwise import Policy, Prices  # noqa: E402
from rungwise.fsm.analysis.odds.calls import LEFT_OUT  # noqa: E402
from rungwise.fsm.analysis.odds.odds import odds  # noqa: E402
from rungwise.fsm.analysis.odds.rates import BackendRates, EventRate, Histogram, Rates  # noqa: E402

MOST_SECONDS: Final = 0.5
ROUNDS: Final = 5
WELL: Final = 0.95
"""The share of the attempts that are answered; the other events are about as likely as each other.
"""

EVENTS: Final[tuple[dict[str, Any], ...]] = (
    *(
        {"event": "failed_transiently", "reason": name}
        for name in ("overloaded", "server_error", "rate_limit")
    ),
    {
        "event": "failed_transiently",
        "reason": "rate_limit",
        "asked_wait": 5.0,
    },
    {"event": "failed_transiently", "reason": "timeout"},
    {"event": "failed_permanently", "reason": "auth"},
    {
        "event": "rejected_fixably",
        "reason": "parameter_unsupported",
        "facts": ("repair_known",),
    },
    {"event": "fell_silent", "reason": "silence"},
    {
        "event": "interrupted",
        "reason": "connection",
        "facts": ("added_text",),
    },
    {"event": "interrupted", "reason": "connection"},
    {"event": "truncated", "facts": ("added_text",)},
    *(
        {"event": name}
        for name in ("came_empty", "only_reasoned", "reasoning_truncated", "refused")
    ),
)


def histogram(chance: random.Random, middle: float) -> Histogram:
    """Return twenty values, some of them much larger than the others."""
    return tuple(
        (round(middle * chance.lognormvariate(0, 0.8), 2), chance.randint(1, 9)) for _ in range(20)
    )


def events(chance: random.Random) -> tuple[EventRate, ...]:
    """Return the rates of a position."""
    weights = [chance.uniform(1, 5) for _ in EVENTS]
    shares = [(1 - WELL) * weight / sum(weights) for weight in weights]
    return tuple(
        EventRate(
            **each,
            share=share,
            seconds=histogram(chance, 3),
            input_tokens=histogram(chance, 900),
            output_tokens=histogram(chance, 300),
        )
        for each, share in (({"event": "answered"}, WELL), *zip(EVENTS, shares, strict=True))
    )


def rates_of(backends: int, seed: int = 1) -> Rates:
    """Return rates of so many backends, each position of each with its own."""
    chance = random.Random(seed)
    names = [f"backend {place + 1}" for place in range(backends)]
    positions = ("fresh", "after_wait", "after_continuation")
    found: list[dict[str, Any]] = [
        {position: events(chance) for position in positions} for _ in names
    ]
    pairs = zip(names, found, strict=True)
    return Rates(
        tuple(BackendRates(name=name, prices=Prices(1.25, 10), **each) for name, each in pairs)
    )


def main() -> int:
    """Print the processor's seconds of the first computation and of the fastest."""
    machine.announced()
    rates = rates_of(3)
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        found = odds(Policy(), rates)
        took.append(time.process_time() - began)
    print(
        f"default policy, 3 backends, {len(EVENTS) + 1} events: {min(took):.3f} s, the first "
        f"{took[0]:.3f} s"
    )
    print(
        f"{found.configurations} configurations, {found.left_out:.1g} left out; done "
        f"{found.outcomes['done']:.6%}"
    )
    print(f"attempts {found.attempts.mean:.4f}, P99.9 {found.seconds.quantiles['p99.9']:.1f} s")
    return int(min(took) > MOST_SECONDS or found.left_out > LEFT_OUT)


if __name__ == "__main__":
    sys.exit(main())
