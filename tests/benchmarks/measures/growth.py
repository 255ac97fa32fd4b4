"""How costs grow with what they are given."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.contestants import WHOLE
from benchmarks.figures import Section


def measure(bench: Bench) -> Iterator[Section]:
    yield from ()
