"""What a machine runs with, as its page tells it."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

NO_BUDGET: Mapping[str, float | None] = dict.fromkeys(("attempts", "seconds", "output_tokens", "money"))


@frozen(kw_only=True)
class Setup:
    """Hold what a machine runs with.

    Arguments:
        limits: the limit of each counter.
        budget: the most `attempts`, `seconds`, `output_tokens` and `money` of a whole run; None for no limit.
    """

    limits: Mapping[str, int]
    budget: Mapping[str, float | None] = NO_BUDGET
