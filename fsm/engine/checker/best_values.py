"""Lists of the best values by number of attempts, and what may be spent before them.

Entry `j` of a list is the largest weight that `j` further attempts can have. A list of one entry
holds for any number of attempts.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from attrs import frozen

Number = int | float
Values = list[Number]

NEVER = float("-inf")


@frozen
class Units:
    """Hold what spending units adds: single weights in this order, then `count` units of one
    weight.
    """

    leaves: tuple[tuple[str, int], ...]  # the counters of the units, with how many each
    prefix: tuple[Number, ...]
    count: int
    weight: Number

    @property
    def size(self) -> int:
        """Return how many units there are."""
        return len(self.prefix) + self.count

    def unit(self, index: int) -> Number:
        """Return the weight of one unit, counted from 0."""
        return self.prefix[index] if index < len(self.prefix) else self.weight

    def gain(self, units: int) -> Number:
        """Return the total weight of the first units."""
        return sum(self.prefix[:units]) + max(0, units - len(self.prefix)) * self.weight


def merged(chains: Iterable[Units]) -> list[Units]:
    """Join the chains whose units all have the same weight, and drop those that add nothing."""
    apart: list[Units] = []
    even: dict[Number, list[Units]] = {}
    for chain in chains:
        if chain.prefix:
            apart.append(chain)
        elif chain.weight > 0:
            even.setdefault(chain.weight, []).append(chain)
    for weight, alike in even.items():
        leaves = tuple(leaf for chain in alike for leaf in chain.leaves)
        apart.append(Units(leaves, (), sum(chain.count for chain in alike), weight))
    return apart


def after_send(values: Values, gain: Number) -> Values:
    """Return the values before one attempt of a certain weight."""
    shifted = [value + gain for value in values]
    return shifted if len(values) == 1 else [NEVER, *shifted[:-1]]


def after_spending(values: Values, chains: Iterable[Units]) -> Values:
    """Return the values before spending any number of units of each chain."""
    for chain in chains:
        values = _spend(values, chain)
    return values


def leaving(least: int, values: Values) -> Values:
    """Return the values, without those that leave fewer attempts than the least."""
    return [NEVER] * least + values[least:] if least else values


def better(one: Values, other: Values) -> Values:
    """Return the larger of each pair."""
    return [first if first > second else second for first, second in zip(one, other, strict=True)]


def _spend(values: Values, chain: Units) -> Values:
    if len(values) == 1:
        return [values[0] + chain.gain(chain.size)]
    best = values
    shifted = values
    for gain in chain.prefix:
        shifted = after_send(shifted, gain)
        best = better(best, shifted)
    # Measured against a line that rises by the weight, spending a unit changes nothing: the best is
    # the largest of the last values, one more than there are units.
    level = [value - index * chain.weight for index, value in enumerate(shifted)]
    most = [
        value + index * chain.weight
        for index, value in enumerate(_sliding_max(level, chain.count + 1))
    ]
    return better(best, most) if chain.prefix else most


def _sliding_max(values: Values, size: int) -> Values:
    """Return the largest of each value and the `size` - 1 before it (van Herk 1992, Gil and Werman
    1993).
    """
    forward: Values = []
    backward: Values = []
    for start in range(0, len(values), size):
        block = values[start : start + size]
        forward += accumulate(block, max)
        backward += reversed([*accumulate(reversed(block), max)])
    later = forward[size:]
    return forward[:size] + better(backward[1 : len(later) + 1], later)
