"""Assertions that exact odds and samples agree."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from rungwise.fsm.analysis.odds.calls import CommonOdds, Spread

NORMAL = 4.5
"""Standard deviations: an interval of 99.999 %, as some hundred figures are compared."""


def assert_share(
    exact: float,
    seen: int,
    calls: int,
    what: str,
    slack: float = 0.0,
) -> None:
    spread = NORMAL * math.sqrt(max(exact * (1 - exact), 1 / calls) / calls)
    assert abs(seen / calls - exact) <= spread + slack + NORMAL**2 / calls, (
        f"{what}: {exact} and {seen} of {calls}"
    )


def assert_mean(exact: float, values: Sequence[float], what: str) -> None:
    spread = NORMAL * stdev(values) / math.sqrt(len(values))
    assert abs(fmean(values) - exact) <= spread + 1e-9 + exact * 1e-4, (
        f"{what}: {exact} and {fmean(values)}"
    )


def assert_quantiles(exact: Spread, values: Sequence[float], what: str) -> None:
    """Assert that about so many calls lie below each quantile, less or more the error of the
    grid.
    """
    for name, quantile in exact.quantiles.items():
        assert quantile is not None
        share = float(name[1:]) / 100
        slack = (
            NORMAL * math.sqrt(share * (1 - share) / len(values)) + NORMAL**2 / len(values) + 2e-5
        )
        below = sum(value < quantile - exact.error - 1e-9 for value in values) / len(values)
        up_to = sum(value <= quantile + exact.error + 1e-9 for value in values) / len(values)
        assert below <= share + slack, f"{what} {name} is {quantile}: {below} lie below"
        assert up_to >= share - slack, f"{what} {name} is {quantile}: only {up_to} lie up to it"


def ends(found: CommonOdds) -> dict[str, float]:
    """Return the outcomes that come."""
    return {name: share for name, share in found.outcomes.items() if share}
