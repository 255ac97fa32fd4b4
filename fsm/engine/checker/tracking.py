"""Choose which counters the search for the longest path tracks; see `longest.py` for the theory.

A `SearchProblem` is what is searched, with everything that cannot happen within its attempts
taken away. `choose_tracked` chooses the counters that a state must hold, and returns the
`StateSpace` that they span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from attrs import field, frozen

from rungwise.fsm.engine.checker.best_values import Number, Units
from rungwise.fsm.engine.checker.moves import Move, Way, without_idle_units

State = tuple[int, ...]
"""How many units of each tracked counter are spent; of a lump, whether any is."""

Weight = Callable[[Any], Number]
"""Weighs an attempt, given an object with its rung, the kind of the move there ("" for the first),
and the counters.
"""

MOST_WORK = 2_000_000
"""The most list entries, counting a hundred for each state; more would take longer than a person
waits.
"""


class TooLarge(Exception):
    """The counters have too many states."""


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


@frozen
class SearchProblem:
    """Hold what is searched: moves, how much of each counter they may take, and a weight.

    Arguments:
        weight: of an attempt.
        start: the first rung, with no kind.
        moves: those that may be taken.
        openings: moves from the first rung with nothing sent there.
        limits: the most units of each counter that the attempts allow to take.
        whole: the units of each counter after which it is used up.
        order: the counters that may be taken from, by rank, the most significant first.
        reads: the counters that the weight reads of an attempt, by the way there.
        attempts: at most; None without a limit.
        kept: the counter whose units left reserve an attempt each; None for no reserve.
        passed: the counter of which a move may take several units at once; None for none.
    """

    weight: Weight
    start: Way
    moves: Sequence[Move]
    openings: Sequence[Move]
    limits: Mapping[str, int]
    whole: Mapping[str, int]
    order: Sequence[Sequence[str]]
    reads: Mapping[Way, set[str]]
    attempts: int | None
    kept: str | None
    passed: str | None

    @classmethod
    def of(
        cls,
        moves: Sequence[Move],
        start: str,
        limits: Mapping[str, int],
        ranks: Iterable[Iterable[str]],
        weight: Weight,
        attempts: int | None,
        kept: str | None = None,
        openings: Sequence[Move] = (),
        passed: str | None = None,
    ) -> SearchProblem:
        """Take away what cannot happen within the attempts.

        Arguments:
            moves: what each step to a rung takes and refills.
            start: the first rung, which takes nothing.
            limits: the units of each counter.
            ranks: the counters, the most significant first; a move refills only those that rank
                below.
            weight: of an attempt; see `Weight`.
            attempts: the most of a path; None for any number.
            kept: a counter of which each unit left reserves an attempt for the moves that take it,
                unless a move leads back to the first rung.
            openings: moves that leave the first rung with nothing sent; the first attempt may be
                that of one of them.
            passed: a counter of which a move may take several units for its one attempt. This and
                `kept` need a limit of attempts.
        """
        most = dict(limits)
        if attempts:  # no counter can be taken from more often than attempts follow the first
            most = {name: min(limit, attempts - 1) for name, limit in limits.items()}
        used_up = {name for name, limit in most.items() if limit <= 0}
        open_moves = [move for move in moves if not move.taken & used_up]
        first = (start, "")
        ways = {first}
        ways.update(move.way for move in (*open_moves, *openings))
        reads = {way: _read_by(weight, way, most) for way in ways}
        all_read = set().union(*reads.values())
        whole = dict(limits)
        if passed is not None and attempts:  # its units can be used up at once, in one attempt
            if passed not in all_read:  # no weight tells more of them from as many as attempts
                whole[passed] = min(limits[passed], attempts)
            most[passed] = whole[passed]
        has_reserve = bool(kept and most.get(kept))
        if any(move.row.target == start for move in moves):
            has_reserve = False
        return cls(
            weight=weight,
            start=first,
            moves=without_idle_units(open_moves, all_read),
            openings=openings,
            limits=most,
            whole=whole,
            order=[[name for name in group if most[name] > 0] for group in ranks],
            reads=reads,
            attempts=attempts,
            kept=kept if has_reserve else None,
            passed=passed,
        )

    @cached_property
    def takers(self) -> dict[str, list[Move]]:
        """Return the moves that take from each counter."""
        takers: dict[str, list[Move]] = {name: [] for name in self.limits}
        for move in self.moves:
            takers[move.takes].append(move)
        return takers

    @cached_property
    def read_for(self) -> dict[str, set[str]]:
        """Return the counters on which the weight of a unit of each counter depends."""
        read_for: dict[str, set[str]] = {name: set() for name in self.limits}
        for move in self.moves:
            read_for[move.takes] |= self.reads[move.way]
        return read_for

    @property
    def size(self) -> int:
        """Return the entries of a list of values: one for each number of further attempts."""
        return self.attempts or 1

    @property
    def branching(self) -> set[str]:
        """Name the counters that change the weight of other attempts, or whose moves refill."""
        names = set(self.reads[self.start])
        for move in self.moves:
            names |= self.reads[move.way] - {move.takes}
            if move.refills or move.also:
                names |= move.taken
        for name in (self.kept, self.passed):
            if name is not None and self.limits[name] > 0:
                names.add(name)
        return names

    def weigh(self, way: Way, spent: Mapping[str, int]) -> Number:
        """Return the weight of an attempt.

        Arguments:
            way: the rung, and the kind of the move there.
            spent: the units of every counter that are spent by then.
        """
        return self.weight(_Watched(*way, spent))


def _read_by(weight: Weight, way: Way, limits: Mapping[str, int]) -> set[str]:
    """Name the counters that a weight reads of an attempt, with none spent or with all spent."""
    nothing = dict.fromkeys(limits, 0)
    none = _Watched(*way, nothing)
    all_spent = _Watched(*way, limits)
    weight(none)
    weight(all_spent)
    return (none.read | all_spent.read) - {"rung", "kind"}


def choose_tracked(problem: SearchProblem) -> StateSpace:
    """Choose which counters to track, and return the states that they span.

    First those that change the weight of other attempts, or whose moves refill. Among those states
    it shows which of the other counters, the leaves, would lose by being spent late: they are
    tracked as well. If the units of such a leaf are alike, one bit says enough.

    Raises:
        TooLarge: there are too many states to search.
    """
    branching = problem.branching
    space = StateSpace.of(problem, branching)
    perishable = {leaf for leaf in space.leaves if space.is_perishable(leaf)}
    lumps = {leaf for leaf in perishable if leaf not in problem.read_for[leaf]}
    return StateSpace.of(problem, branching | perishable, lumps)


@frozen
class StateSpace:
    """Hold the tracked counters, which span the states, and how moves lead from state to state.

    Arguments:
        problem: what is searched.
        tracked: the counters whose values make a state, by rank.
        leaves: the other counters.
        lumps: the tracked counters of which a state holds only whether any unit is spent.
        sizes: the largest value of each tracked counter.
        moves: the moves that take from a tracked counter, lumps apart.
    """

    problem: SearchProblem
    tracked: Sequence[str]
    leaves: Sequence[str]
    lumps: Sequence[str]
    sizes: Mapping[str, int]
    moves: Sequence[Move]
    _chains: dict[object, Units] = field(factory=dict, init=False, eq=False, repr=False)

    @classmethod
    def of(
        cls, problem: SearchProblem, names: Set[str], lumps: Set[str] = frozenset()
    ) -> StateSpace:
        """Track some counters, and of the lumps among them whether anything was spent."""
        counters = [name for group in problem.order for name in group]
        tracked = [name for name in counters if name in names]
        sizes = {name: problem.limits[name] for name in tracked}
        for name in lumps:
            sizes[name] = 1
        states = prod(size + 1 for size in sizes.values())
        if states * (problem.size + 100) > MOST_WORK:
            raise TooLarge(f"{states} states of {', '.join(tracked)}")
        moves = [move for move in problem.moves if move.takes in names - lumps]
        best = []
        for move in moves:
            if not any(_outdoes(other, move, set(tracked)) for other in moves):
                best.append(move)
        return cls(
            problem=problem,
            tracked=tracked,
            leaves=[name for name in counters if name not in names],
            lumps=[name for name in tracked if name in lumps],
            sizes=sizes,
            moves=best,
        )

    @cached_property
    def place(self) -> dict[str, int]:
        """Return the place of each tracked counter in a state."""
        return {name: index for index, name in enumerate(self.tracked)}

    @property
    def zero(self) -> State:
        """Return the state in which nothing is spent."""
        return (0,) * len(self.tracked)

    def states(self) -> list[State]:
        """List the states so that every move leads to an earlier one.

        A move takes a unit and refills only counters that rank below it, so what is spent, summed
        rank by rank, rises in the lexicographic order. The states with the most spent come first.
        """
        groups = []
        for group in self.problem.order:
            groups.append([self.place[name] for name in group if name in self.place])

        def spent_by_rank(state: State) -> list[int]:
            return [sum([state[place] for place in group]) for group in groups]

        ranges = [range(size + 1) for size in self.sizes.values()]
        return sorted(product(*ranges), key=spent_by_rank, reverse=True)

    def spent(self, state: State) -> dict[str, int]:
        """Return what is spent of every counter in a state, nothing of a leaf."""
        spent = dict.fromkeys(self.problem.limits, 0)
        spent.update(zip(self.tracked, state, strict=True))
        return spent

    def is_open(self, move: Move, state: State) -> bool:
        """Tell whether all that a move needs to be used up is used up, as far as a state shows."""
        whole = self.problem.whole
        for name in move.spent:
            if name in self.place and state[self.place[name]] != whole[name]:
                return False
        return True

    def after(self, state: State, takes: Iterable[str], refills: frozenset[str]) -> State | None:
        """Return the state after units are taken and counters refilled; None if no unit is left."""
        after = list(state)
        for name in refills:
            if name in self.place:
                after[self.place[name]] = 0
        for name in takes:
            index = self.place[name]
            if state[index] == self.sizes[name]:
                return None
            after[index] = state[index] + 1
        return tuple(after)

    def afters(self, move: Move, state: State) -> Iterator[State]:
        """Yield the states after a move: several if it may pass over units."""
        after = self.after(state, move.taken, move.refills)
        while after is not None:
            yield after
            if move.takes != self.problem.passed:
                return
            after = self.after(after, {move.takes}, frozenset())

    def chain(self, leaf: str, state: State) -> Units:
        """Return what the units of a leaf add in a state, each in the heaviest rung that takes it.

        The chain depends only on the moves that are open and on the counters that the weight reads,
        so states that agree in these share one.
        """
        problem = self.problem
        reads = problem.read_for[leaf]
        takers = self.open_takers(leaf, state)
        ways = frozenset(move.way for move in takers)
        read = tuple(state[self.place[name]] for name in self.tracked if name in reads)
        key = (leaf, ways, read)
        if key not in self._chains:
            self._chains[key] = self._new_chain(leaf, state, ways)
        return self._chains[key]

    def open_takers(self, leaf: str, state: State) -> list[Move]:
        """List the moves that can take a unit of a leaf in a state."""
        takers = self.problem.takers[leaf]
        return [move for move in takers if self.is_open(move, state)]

    def _new_chain(self, leaf: str, state: State, ways: frozenset[Way]) -> Units:
        problem = self.problem
        limit = problem.limits[leaf]
        spent = self.spent(state)
        units = range(1, limit + 1)
        if leaf not in problem.read_for[leaf]:  # then all weigh the same
            units = range(1)
        weights = []
        for unit in units:
            spent[leaf] = unit
            weighed = [problem.weigh(way, spent) for way in ways]
            weights.append(max(weighed, default=0))
        while len(weights) > 1 and weights[-2] == weights[-1]:
            weights.pop()
        last = weights.pop()
        return Units(
            leaves=((leaf, limit),),
            prefix=tuple(weights),
            count=limit - len(weights),
            weight=last,
        )

    def is_perishable(self, leaf: str) -> bool:
        """Tell whether some move makes a leaf's units lighter without refilling it."""
        if not self.problem.read_for[leaf] & set(self.tracked):
            return False
        moves = [move for move in self.moves if leaf not in move.refills]
        for state, move in product(self.states(), moves):
            after = self.after(state, move.taken, move.refills)
            if after is None:
                continue
            soon = self.chain(leaf, state)
            late = self.chain(leaf, after)
            if _is_lighter(late, soon):
                return True
        return False


def _is_lighter(one: Units, other: Units) -> bool:
    """Tell whether any unit of a chain is lighter than the same unit of another."""
    units = range(len(one.prefix + other.prefix) + 1)
    return any(one.unit(index) < other.unit(index) for index in units)


def _outdoes(one: Move, other: Move, tracked: Set[str]) -> bool:
    """Tell whether a move is like another but refills more leaves, which is never a loss."""
    if one.way != other.way:
        return False
    if one.takes != other.takes or one.also != other.also:
        return False
    more = one.refills - other.refills
    return one.refills > other.refills and not more & tracked
