"""Measure what a trace adds to a call of one attempt: with no SDK, and with an SDK that exports in
batches.

    python tests/benchmarks/traced.py [--calls N]

The calls run in the core alone, in turns with calls without an observer. The exit code is 1 where a
goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path[0] = str(Path(__file__).parents[1])

from opentelemetry.metrics import NoOpMeterProvider  # noqa: E402  (the folder must be found first)
from opentelemetry.sdk.metrics import MeterProvider  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult  # noqa: E402
from opentelemetry.trace import NoOpTracerProvider  # noqa: E402

import rungwise  # noqa: E402
from benchmarks import machine  # noqa: E402
from rungwise.core import Call, Reply, Request  # noqa: E402

GOALS: Final = {"no-op": 30.0, "SDK, batches": 150.0}
"""The goals: microseconds that a traced call may take longer, in the best round."""

CALLS_IN_A_ROUND: Final = 50


class _Nowhere(SpanExporter):
    """Exports spans to nobody."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def main() -> int:
    """Measure, print the figures, and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=20_000)
    rounds = parser.parse_args().calls // CALLS_IN_A_ROUND
    machine.announced()
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(_Nowhere()))
    observers: dict[str, Any] = {
        "": None,
        "no-op": rungwise.otel.observer(
            tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider()
        ),
        "SDK, batches": rungwise.otel.observer(
            tracer_provider=tracers, meter_provider=MeterProvider()
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in observers}
    for _ in range(rounds):
        for name, observer in observers.items():
            times[name].append(_seconds(lambda: _call(observer)) * 1e6)  # noqa: B023  (called at once)
    plain = min(times.pop(""))
    is_missed = False
    print(f"a call: {plain:.0f} us")
    for name, found in times.items():
        added = min(found) - plain
        is_missed |= added > GOALS[name]
        print(
            f"{name}: adds {added:.0f} us (goal: at most {GOALS[name]:.0f}; ratio "
            f"{1 + added / plain:.2f})"
        )
    return int(is_missed)


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(CALLS_IN_A_ROUND):
        work()
    return (time.process_time() - began) / CALLS_IN_A_ROUND


def _call(observer: Any) -> None:
    call = Call(REQUEST, observer=observer)
    call.begin(0.0)
    _ = call.headers  # as a driver does
    call.receive(REPLY, 0.5)


REQUEST: Final = Request("Where?")
REPLY: Final = Reply("Here.", stop_reason="stop")

if __name__ == "__main__":
    raise SystemExit(main())
