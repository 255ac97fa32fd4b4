"""The exact heaviest path through a table, tracking only a few of its counters.

Each attempt has a weight that depends on its rung and on some counters. Counters that change the
weight of other attempts, or whose moves refill something, are *tracked*: a state is their values.
All others are *leaves*. A leaf can be spent at any time, so it is spent as late as possible: just
before a move that refills it, or at the end. If a move would make a leaf lighter without refilling
it, the leaf is tracked as well; if its units are alike, only whether it was spent, since all of
them are best spent in one place. A move through a rung that sends nothing takes a unit of two
counters for one attempt; if both have weight, both are tracked.

What remains is dynamic programming (Bellman 1957) over the tracked states, the most spent first;
the value of a state is a list by number of attempts (`fsm/engine/checker/best_values.py`).

The path is then played to a call (`fsm/analysis/certificate/enactment.py`); a weight that the call
does not reach is an upper bound, and is marked as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any

from attrs import frozen

from rungwise.fsm.engine.checker.best_values import (
    Number,
    Units,
    Values,
    after_send,
    after_spending,
    better,
    leaving,
    merged,
)
from rungwise.fsm.engine.checker.moves import Move, without_idle_units

State = tuple[int, ...]
Weight = Callable[[Any], Number]
"""Weighs an attempt, given an object with its rung, the kind of the move there ("" for the first),
and the counters.
"""

Way = tuple[str, str]
"""A rung, and the kind of the move that led there."""

MOST_WORK = 2_000_000
"""The most list entries, counting a hundred for each state; more would take longer than a person
waits.
"""


@frozen
class Longest:
    """Hold the heaviest path."""

    value: Number  # the weight, the first attempt included
    path: tuple[Move, ...]  # empty if the attempts are not limited
    within: tuple[Number, ...] = ()  # the most weight of 1 attempt, 2, ... up to the limit


class TooLarge(Exception):
    """The counters have too many states."""


@frozen
class _Option:
    """Hold one way on from a state: spend these chains, make the move if there is one, and continue
    in `after`.
    """

    values: Values
    chains: list[Units]
    move: Move | None
    after: State | None


class _Watched:
    """Hold what a weight may read of an attempt, and record what it read."""

    def __init__(self, rung: str, kind: str, spent: Mapping[str, int]) -> None:
        self._fields = {"rung": rung, "kind": kind, **spent}
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name not in self._fields:
            raise AttributeError(name)
        self.read.add(name)
        return self._fields[name]


def longest(
    moves: Sequence[Move],
    start: str,
    limits: Mapping[str, int],
    ranks: Iterable[Iterable[str]],
    weight: Weight,
    attempts: int | None,
    kept: str | None = None,
    openings: Sequence[Move] = (),
    passed: str | None = None,
) -> Longest:
    """Find the heaviest path of at most `attempts` attempts; without that limit, only its weight.

    Each unit left of `kept` reserves an attempt for the moves that take it, unless a move leads
    back to the first rung. The first attempt may be that of one of the `openings`, which leave the
    first rung with nothing sent. A move that takes a unit of `passed` may take more of them for its
    one attempt; both need a limit of attempts.
    """
    search = _Search(moves, start, limits, ranks, weight, attempts, kept, openings, passed)
    search.solve()
    firsts = list(search.firsts((start, "")))
    heaviest = max(firsts, key=lambda option: option.values[-1])
    path = search.path(heaviest) if attempts is not None else ()
    within = reduce(better, [option.values for option in firsts])
    return Longest(within[-1], path, tuple(within))


class _Search:
    def __init__(
        self,
        moves: Sequence[Move],
        start: str,
        limits: Mapping[str, int],
        ranks: Iterable[Iterable[str]],
        weight: Weight,
        attempts: int | None,
        kept: str | None,
        openings: Sequence[Move],
        passed: str | None,
    ) -> None:
        self.weight = weight
        self.openings = openings
        self.passed = passed
        self.nothing: Values = [0] * (attempts or 1)
        # No counter can be taken from more often than there are attempts after the first.
        self.limits = {
            name: min(limit, attempts - 1) if attempts else limit for name, limit in limits.items()
        }
        self.moves = [move for move in moves if all(self.limits[name] > 0 for name in _taken(move))]
        self.whole = dict(limits)
        self.reads = {
            way: self.read_by(way) for way in {(start, ""), *map(_way, [*self.moves, *openings])}
        }
        if passed is not None and attempts:  # but it can be used up at once
            is_read = any(passed in names for names in self.reads.values())
            self.whole[passed] = self.limits[passed] = (
                limits[passed] if is_read else min(limits[passed], attempts)
            )
        self.order = [[name for name in group if self.limits[name] > 0] for group in ranks]
        self.moves = without_idle_units(self.moves, set().union(*self.reads.values()))
        self.takers = {
            name: [move for move in self.moves if move.takes == name] for name in self.limits
        }
        self.read_for = {
            name: set().union(*(self.reads[_way(move)] for move in moves))
            for name, moves in self.takers.items()
        }
        is_kept = bool(kept and self.limits.get(kept)) and all(
            move.row.target != start for move in moves
        )
        self.kept = kept if is_kept else None
        branching = self.reads[start, ""] | {
            name for move in self.moves for name in self.structural(move)
        }
        branching |= {
            name for name in (self.kept, passed) if name is not None and self.limits[name] > 0
        }
        self.track(branching, set())
        perishable = {leaf for leaf in self.leaves if self.is_perishable(leaf)}
        self.track(
            branching | perishable, {leaf for leaf in perishable if leaf not in self.read_for[leaf]}
        )
        self.best: dict[State, Values] = {}

    # what is tracked

    def read_by(self, way: Way) -> set[str]:
        none = _Watched(*way, dict.fromkeys(self.limits, 0))
        all_spent = _Watched(*way, self.limits)
        self.weight(none)
        self.weight(all_spent)
        return (none.read | all_spent.read) - {"rung", "kind"}

    def structural(self, move: Move) -> set[str]:
        """Name the counters that a move makes worth tracking."""
        return self.reads[_way(move)] - {move.takes} | (
            _taken(move) if move.refills or move.also else set()
        )

    def track(self, names: set[str], lumps: set[str]) -> None:
        """Track these counters; for the lumps among them, track only whether anything was spent."""
        self.tracked = [name for group in self.order for name in group if name in names]
        self.leaves = [name for group in self.order for name in group if name not in names]
        self.lumps = [name for name in self.tracked if name in lumps]
        self.zero: State = (0,) * len(self.tracked)
        self.place = {name: index for index, name in enumerate(self.tracked)}
        self.sizes = {name: 1 if name in lumps else self.limits[name] for name in self.tracked}
        branching = [move for move in self.moves if move.takes in names - lumps]
        self.branching = [
            move for move in branching if not any(self.outdoes(other, move) for other in branching)
        ]
        self.found: dict[tuple[str, frozenset[Way], State], Units] = {}
        states = prod(size + 1 for size in self.sizes.values())
        if states * (len(self.nothing) + 100) > MOST_WORK:
            raise TooLarge(f"{states} states of {', '.join(self.tracked)}")

    def outdoes(self, one: Move, other: Move) -> bool:
        """Tell whether a move is like another but refills more leaves, which is never a loss."""
        same = one.takes == other.takes and one.also == other.also and _way(one) == _way(other)
        tracked = set(self.tracked)
        return (
            same
            and one.refills & tracked == other.refills & tracked
            and one.refills > other.refills
        )

    def states(self) -> list[State]:
        """List the states so that every move leads to an earlier one."""
        groups = [
            [self.place[name] for name in group if name in self.place] for group in self.order
        ]
        found = product(*(range(size + 1) for size in self.sizes.values()))
        return sorted(
            found,
            key=lambda state: [sum([state[at] for at in group]) for group in groups],
            reverse=True,
        )

    def is_perishable(self, leaf: str) -> bool:
        """Tell whether some move makes a leaf's units lighter without refilling it."""
        moves = [move for move in self.branching if leaf not in move.refills]
        if not self.read_for[leaf] & set(self.tracked):
            return False
        for state, move in product(self.states(), moves):
            after = self.after(state, _taken(move), move.refills)
            if after is not None:
                soon = self.chain(leaf, state)
                late = self.chain(leaf, after)
                if any(
                    late.unit(index) < soon.unit(index)
                    for index in range(len(soon.prefix + late.prefix) + 1)
                ):
                    return True
        return False

    # the values

    def solve(self) -> None:
        for state in self.states():
            found = (after_spending(option.values, option.chains) for option in self.options(state))
            self.best[state] = reduce(better, found)

    def firsts(self, start: Way) -> Iterator[_Option]:
        """List the first attempts: that of the first rung, and those of the openings."""
        openings = (
            (move, after) for move in self.openings for after in self.afters(move, self.zero)
        )
        for move, after in (None, self.zero), *openings:
            first = self.weigh(start if move is None else _way(move), self.spent(after))
            yield _Option([value + first for value in self.best[after]], [], move, after)

    def options(self, state: State) -> Iterator[_Option]:
        """List the ways to continue from a state; the first is to end there."""
        left = 0 if self.kept is None else self.limits[self.kept] - state[self.place[self.kept]]
        kept = min(left, len(self.nothing) - 1)  # the attempts that are reserved
        leaves = [self.chain(leaf, state) for leaf in self.leaves]
        yield _Option(self.nothing, [] if kept else merged(leaves), None, None)
        if kept:
            yield _Option(leaving(kept, self.nothing), merged(leaves), None, None)
        for lump in self.lumps:
            after = self.after(state, {lump}, frozenset())
            if after is not None:
                yield _Option(
                    leaving(kept, self.best[after]), merged([self.chain(lump, state)]), None, after
                )
        for move, after in (
            (each, after) for each in self.branching for after in self.afters(each, state)
        ):
            if self.is_open(move, state):
                values = after_send(self.best[after], self.weigh(_way(move), self.spent(after)))
                chains = merged(
                    self.chain(leaf, state) for leaf in self.leaves if leaf in move.refills
                )
                if kept and move.takes == self.kept:
                    # of what is kept, so that nothing else goes before it
                    yield _Option(values, [], move, after)
                elif kept:
                    values = leaving(kept + 1, values)
                yield _Option(leaving(kept, values), chains, move, after)

    def chain(self, leaf: str, state: State) -> Units:
        """Return what the units of a leaf add, in order, each in the heaviest rung that takes
        it.
        """
        reads = self.read_for[leaf]
        ways = frozenset(_way(move) for move in self.takers[leaf] if self.is_open(move, state))
        key = (
            leaf,
            ways,
            tuple(count for name, count in zip(self.tracked, state, strict=True) if name in reads),
        )
        if key not in self.found:
            limit = self.limits[leaf]
            spent = self.spent(state)
            units = range(1, limit + 1) if leaf in reads else range(1)
            weights = [
                max((self.weigh(way, {**spent, leaf: unit}) for way in ways), default=0)
                for unit in units
            ]
            while len(weights) > 1 and weights[-2] == weights[-1]:
                weights.pop()
            prefix = tuple(weights[:-1])
            self.found[key] = Units(((leaf, limit),), prefix, limit - len(prefix), weights[-1])
        return self.found[key]

    # the path

    def path(self, first: _Option) -> tuple[Move, ...]:
        """Follow the best choices from the first attempt on."""
        opening = [first.move] if first.move else []
        path: list[Move] = []
        state = first.after
        attempts = len(self.nothing) - 1
        while state is not None:
            best = max(
                self.options(state),
                key=lambda option: after_spending(option.values, option.chains)[attempts],
            )
            path += [self.heaviest(name, state, unit) for name, unit in _units(best, attempts)]
            path += [best.move] if best.move else []
            attempts = len(self.nothing) - 1 - len(path)
            state = best.after
        return (*opening, *path)

    def heaviest(self, leaf: str, state: State, unit: int) -> Move:
        """Return the best move to spend a unit of a leaf with."""
        spent = {**self.spent(state), leaf: unit}
        takers = [move for move in self.takers[leaf] if self.is_open(move, state)]
        return max(takers, key=lambda move: (self.weigh(_way(move), spent), move.is_free))

    def is_open(self, move: Move, state: State) -> bool:
        """Tell whether everything that a move needs to be spent is spent, as far as the state
        shows.
        """
        return all(
            state[self.place[name]] == self.whole[name] for name in move.spent if name in self.place
        )

    def afters(self, move: Move, state: State) -> Iterator[State]:
        """List the states after a move: several if it may pass over units."""
        after = self.after(state, _taken(move), move.refills)
        while after is not None:
            yield after
            after = (
                self.after(after, {move.takes}, frozenset()) if move.takes == self.passed else None
            )

    def after(self, state: State, takes: Iterable[str], refills: frozenset[str]) -> State | None:
        after = [
            0 if name in refills else count for name, count in zip(self.tracked, state, strict=True)
        ]
        for name in takes:
            index = self.place[name]
            if state[index] == self.sizes[name]:
                return None
            after[index] = state[index] + 1
        return tuple(after)

    def spent(self, state: State) -> dict[str, int]:
        return {**dict.fromkeys(self.limits, 0), **dict(zip(self.tracked, state, strict=True))}

    def weigh(self, way: Way, spent: Mapping[str, int]) -> Number:
        return self.weight(_Watched(*way, spent))


def _way(move: Move) -> Way:
    return move.row.target, move.kind


def _taken(move: Move) -> set[str]:
    """Name the counters of which a move takes a unit."""
    return {move.takes} if move.also is None else {move.takes, move.also}


def _units(option: _Option, attempts: int) -> list[tuple[str, int]]:
    """List the units that an option spends: the leaf of each, and which of its units it is."""
    stages = [option.values]
    for chain in option.chains:
        stages.append(after_spending(stages[-1], [chain]))
    units: list[tuple[str, int]] = []
    for chain, before in zip(reversed(option.chains), reversed(stages[:-1]), strict=True):
        most = range(min(attempts, chain.size) + 1)
        spent = max(most, key=lambda count: before[attempts - count] + chain.gain(count))
        units += [(name, unit) for name, size in chain.leaves for unit in range(1, size + 1)][
            :spent
        ]
        attempts -= spent
    return units
