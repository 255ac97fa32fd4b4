"""What `rungwise proxy` holds stays flat, whatever its clients and the providers behind it do."""

import os
import statistics
from pathlib import Path

import pytest

from adoption.soaking import MOST_CONNECTIONS, Sample, soak

SECONDS = float(os.environ.get("PROXY_SOAK_SECONDS", 20 * 60))
"""How long the soak takes; set PROXY_SOAK_SECONDS to try it out."""
ENDS = {"answered", "streamed", "error", "left", "refused"}
JUDGED = 60.0
"""Seconds from which on memory is judged: before that, the allocator is still finding its size."""
WARM_UP = 0.2
SLACK = 4
"""Descriptors by which samples differ: connections to providers that are being closed."""
TOLERANCE = 0.2
"""As in the soak of calls: resident memory is that of the highest peak so far, which chance brings.
"""


def thirds(samples: list[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Return the first and the last third of what follows the warm-up."""
    settled = [each for each in samples if each.seconds >= WARM_UP * samples[-1].seconds]
    size = max(1, len(settled) // 3)
    return settled[:size], settled[-size:]


@pytest.mark.full
@pytest.mark.parametrize(
    "seconds", [0.0, pytest.param(SECONDS, marks=[pytest.mark.soak, pytest.mark.slowest])]
)
def test_descriptors_and_memory_of_the_proxy_stay_flat(seconds: float, tmp_path: Path):
    seen = soak(seconds, tmp_path)
    print(*seen.samples[:: max(1, len(seen.samples) // 40)], seen.ends, sep="\n")
    assert set(seen.ends) <= ENDS, seen.ends
    assert "Traceback" not in seen.errors, seen.errors[-4000:]
    first, last = thirds(seen.samples)
    assert len({each.threads for each in seen.samples}) == 1
    most = max(each.descriptors for each in first)
    assert max(each.descriptors for each in last) <= most + SLACK
    assert max(each.idle for each in seen.samples) <= MOST_CONNECTIONS
    if seconds >= JUDGED:
        before, after = (
            statistics.median(each.memory for each in third) for third in (first, last)
        )
        assert after <= before * (1 + TOLERANCE), (
            f"memory grew from {before / 2**20:.1f} to {after / 2**20:.1f} MiB"
        )
