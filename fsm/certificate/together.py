"""What several calls can spend together that share a number of attempts, from what one call can spend in so many."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from rungwise.fsm.checker.best_values import Number


def together(within: Sequence[Number], calls: int, attempts: int) -> list[Number]:
    """Return the most that some calls can spend in no attempt together, in 1, in 2, and so on.

    Arguments:
        within: the most that one call can spend in 1 attempt, in 2, and so on; the last is the most that it ever can.
        calls: how many calls there are.
        attempts: how many attempts they have together.
    """
    power: list[Number] = [0, *(within[min(count, len(within) - 1)] for count in range(attempts))]
    best: list[Number] = [0] * (attempts + 1)
    while calls:  # by doubling: what two calls can, what four can, ...
        if calls % 2:
            best = joined(best, power)
        calls //= 2
        if calls:
            power = joined(power, power)
    return best


def joined(one: Sequence[Number], other: Sequence[Number]) -> list[Number]:
    """Return the most by number of attempts where they are shared out between two."""
    return [max(map(add, one[: count + 1], other[count::-1])) for count in range(len(one))]
