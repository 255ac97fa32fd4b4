"""Lists of the best values by number of attempts, and what may be spent before them.

Entry `j` of a list is the largest weight that `j` further attempts can have. A list of one entry
holds for any number of attempts. To spend units of a chain before such a list is a convolution in
which sums are products and the largest is the sum: the algebra of max and plus. It takes one pass
over the list, however many units there are, because all but the first few have the same weight.
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
    """Hold what spending the units of a chain adds.

    Arguments:
        leaves: the counters of the units, with how many each.
        prefix: the weights of the first units, in this order.
        count: how many units follow.
        weight: of each of those.
    """

    leaves: tuple[tuple[str, int], ...]
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
        others = max(0, units - len(self.prefix))
        return sum(self.prefix[:units]) + others * self.weight


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
        count = sum(chain.count for chain in alike)
        apart.append(Units(leaves, (), count, weight))
    return apart


def after_send(values: Values, gain: Number) -> Values:
    """Return the values before one attempt of a certain weight."""
    shifted = [value + gain for value in values]
    if len(values) == 1:
        return shifted
    return [NEVER, *shifted[:-1]]


def after_spending(values: Values, chains: Iterable[Units]) -> Values:
    """Return the values before spending any number of units of each chain."""
    for chain in chains:
        values = _spend(values, chain)
    return values


def leaving(least: int, values: Values) -> Values:
    """Return the values, without those that leave fewer attempts than the least."""
    if not least:
        return values
    return [NEVER] * least + values[least:]


def better(one: Values, other: Values) -> Values:
    """Return the larger of each pair."""
    pairs = zip(one, other, strict=True)
    return [first if first > second else second for first, second in pairs]


def _spend(values: Values, chain: Units) -> Values:
    """Return the values before spending any number of units of a chain."""
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
    highest = _sliding_max(level, chain.count + 1)
    most = [value + index * chain.weight for index, value in enumerate(highest)]
    if not chain.prefix:
        return most
    return better(best, most)


def _sliding_max(values: Values, size: int) -> Values:
    """Return the largest of each value and the `size` - 1 before it.

    A window covers the end of one block and the beginning of the next, so two running maxima answer
    for all windows, with three comparisons a value (van Herk 1992, Gil and Werman 1993).
    """
    forward: Values = []
    backward: Values = []
    for start in range(0, len(values), size):
        block = values[start : start + size]
        forward += accumulate(block, max)
        backward += reversed([*accumulate(reversed(block), max)])
    later = forward[size:]
    return forward[:size] + better(backward[1 : len(later) + 1], later)
