"""The four grades, as Failover Bench has them."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal

from attrs import frozen

Grade = Literal["pass", "partial", "safe", "fail"]
"""Rescued; rescued with a blemish; a clean error in time; a hang, a cut answer as success, or a
broken rule.
"""

GRADES: Final[tuple[Grade, ...]] = ("pass", "partial", "safe", "fail")


@frozen
class Mark:
    """Hold a grade, and why it is no better one."""

    grade: Grade
    why: tuple[str, ...] = ()


def total(grades: Iterable[Grade]) -> str:
    """Count grades as pass-partial-safe-fail: `14-2-0-0`."""
    counts = Counter(grades)
    return "-".join(str(counts[grade]) for grade in GRADES)
