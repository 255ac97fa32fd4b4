"""The exact heaviest path through a table, tracking only a few of its counters.

Theory
------

*The problem.* Each attempt has a weight, which depends on its rung and on what is spent of some
counters. A move takes a unit of one counter and may refill others, and attempts may be limited.
Which path weighs most? The graph of all configurations has no cycle, since the variant of the table
falls at every step (`proof.py`), so a longest path exists, and dynamic programming over the graph
finds it (Bellman 1957). But that graph has the product of all limits as nodes: 294 912 vectors of
counters for the default policy with one fallback, each with up to 24 attempts.

*Leaves.* Most counters need not be part of a state. A *leaf* is a counter that changes the weight
of no other attempt and whose moves refill nothing. Exchange two neighbouring attempts of a path, of
which the first takes from a leaf and the second does not refill it: the path stays legal, and the
second weighs the same. So if the first gets no lighter either, units of leaves can wait until just
before a move that refills the leaf, or until the end. There they need no states: they are a *chain*
of weights, from which the heaviest number of units is taken for each number of attempts
(`best_values.py`).

*Tracked counters.* All others are tracked: a state is their values (`tracking.py`). They are

* those that the weight of another counter's attempt reads, or of the first attempt;
* those whose moves refill something, or pass through a rung that sends nothing, which takes a unit
  of two counters for one attempt (of those, only counters with weight);
* the counters of a reserve and of backends that may be passed over;
* *perishable* leaves: some move makes their units lighter without refilling them, so that to wait
  is no longer free. If all units of such a leaf are alike in every state, all that are spent are
  best spent in the same place (the sum is linear in how many are spent at each place), so the state
  holds one bit, and the leaf is a *lump*.

What a weight reads is observed, not declared: it is called with a watched object, once with nothing
spent and once with everything. A weight must therefore read the same counters in between.

*Values.* The value of a state is a list: entry `j` is the largest weight of `j` further attempts.
States are solved with the most spent first, so every move leads to a solved one. Then the path is
read off by following the best choices again.

*Why it is right.* Tests compare the values with the heaviest path over the graph of all
configurations, for many vectors of small limits and for every weight of a certificate
(`tests/fsm/analysis/certificate/test_worst.py`). A row may also need facts that the search does not
know. So the path is played to a real call (`fsm/analysis/certificate/enactment.py`); a weight that
no call reaches is an upper bound, and is marked as one.

*Cost.* States, times moves, times the length of a list; a chain costs one pass over the list
whatever its length. The default policy has 8 states for attempts, seconds and waits, 64 for output
tokens, 384 for money: some milliseconds each. `TooLarge` is raised before anything that would take
longer than a person waits.

*What was tried.* Dynamic programming over the graph of the walk (`walk.py`) gives the same values,
and is what the tests compare with. With the limits of the default policy, the walk alone takes a
minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

from attrs import field, frozen

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
from rungwise.fsm.engine.checker.moves import Move
from rungwise.fsm.engine.checker.tracking import SearchProblem, State, StateSpace, choose_tracked


@frozen
class Longest:
    """Hold the heaviest path."""

    value: Number  # the weight, the first attempt included
    path: tuple[Move, ...]  # empty if the attempts are not limited
    within: tuple[Number, ...] = ()  # the most weight of 1 attempt, 2, ... up to the limit


def longest(problem: SearchProblem) -> Longest:
    """Find the heaviest path of a problem; if its attempts are not limited, only its weight.

    Raises:
        TooLarge: there are too many states to search.
    """
    search = _Search(problem, choose_tracked(problem))
    search.solve()
    firsts = list(search.firsts())
    heaviest = max(firsts, key=lambda option: option.values[-1])
    path = search.path(heaviest) if problem.attempts is not None else ()
    within = reduce(better, [option.values for option in firsts])
    return Longest(within[-1], path, tuple(within))


@frozen
class _Option:
    """Hold one way on from a state: spend units of some chains, then make a move.

    Arguments:
        values: the best values behind the units, by number of attempts.
        chains: the units that may be spent first.
        move: the move; None where the path ends, or where only a lump is spent.
        after: the state that follows; None where the path ends.
    """

    values: Values
    chains: list[Units]
    move: Move | None
    after: State | None


@frozen
class _Search:
    """Search the states of a problem.

    Arguments:
        problem: what is searched.
        space: its states.
        best: the values of each state that is solved.
    """

    problem: SearchProblem
    space: StateSpace
    best: dict[State, Values] = field(factory=dict, init=False)

    def solve(self) -> None:
        """Find the best values of every state, those with the most spent first."""
        for state in self.space.states():
            options = self.options(state)
            values = [after_spending(option.values, option.chains) for option in options]
            self.best[state] = reduce(better, values)

    def firsts(self) -> Iterator[_Option]:
        """Yield the first attempts: that of the first rung, and those of the openings."""
        problem = self.problem
        space = self.space
        first = problem.weigh(problem.start, space.spent(space.zero))
        values = [value + first for value in self.best[space.zero]]
        yield _Option(values, [], None, space.zero)
        for move in problem.openings:
            for after in space.afters(move, space.zero):
                first = problem.weigh(move.way, space.spent(after))
                values = [value + first for value in self.best[after]]
                yield _Option(values, [], move, after)

    def options(self, state: State) -> Iterator[_Option]:
        """Yield the ways on from a state: to end there, to spend a lump, to make a move."""
        kept = self.reserved(state)
        yield from self.endings(state, kept)
        for lump in self.space.lumps:
            after = self.space.after(state, {lump}, frozenset())
            if after is not None:
                values = leaving(kept, self.best[after])
                chain = self.space.chain(lump, state)
                yield _Option(values, merged([chain]), None, after)
        for move in self.space.moves:
            if self.space.is_open(move, state):
                for after in self.space.afters(move, state):
                    yield from self.moving(move, state, after, kept)

    def reserved(self, state: State) -> int:
        """Return the attempts that are reserved: one for each unit left of the kept counter."""
        problem = self.problem
        if problem.kept is None:
            return 0
        place = self.space.place[problem.kept]
        left = problem.limits[problem.kept] - state[place]
        return min(left, problem.size - 1)

    def endings(self, state: State, kept: int) -> Iterator[_Option]:
        """Yield the ways to end in a state.

        The path may end at once, with its reserve unused. If units of leaves are spent before that,
        they leave the reserve alone.
        """
        chains = self.chains(self.space.leaves, state)
        nothing: Values = [0] * self.problem.size
        if kept:
            yield _Option(nothing, [], None, None)
        yield _Option(leaving(kept, nothing), chains, None, None)

    def moving(
        self,
        move: Move,
        state: State,
        after: State,
        kept: int,
    ) -> Iterator[_Option]:
        """Yield the ways to make a move: units of the leaves that it refills are spent before it.

        Arguments:
            move: the move.
            state: where it is made.
            after: where it leads.
            kept: the attempts that are reserved; a move that takes from the reserve may use one,
                and nothing else goes out before it then.
        """
        spent = self.space.spent(after)
        weight = self.problem.weigh(move.way, spent)
        values = after_send(self.best[after], weight)
        refilled = [leaf for leaf in self.space.leaves if leaf in move.refills]
        chains = self.chains(refilled, state)
        if kept and move.takes == self.problem.kept:
            yield _Option(values, [], move, after)
        elif kept:
            values = leaving(kept + 1, values)
        yield _Option(leaving(kept, values), chains, move, after)

    def chains(self, leaves: Iterable[str], state: State) -> list[Units]:
        """Return the units of some leaves that may be spent in a state."""
        return merged(self.space.chain(leaf, state) for leaf in leaves)

    # the path

    def path(self, first: _Option) -> tuple[Move, ...]:
        """Follow the best choices from the first attempt on."""
        path: list[Move] = []
        most = self.problem.size - 1  # attempts after the first
        state = first.after
        while state is not None:
            left = most - len(path)
            best = max(
                self.options(state),
                key=lambda option: after_spending(option.values, option.chains)[left],
            )
            for leaf, unit in _units(best, left):
                path.append(self.heaviest(leaf, state, unit))
            if best.move is not None:
                path.append(best.move)
            state = best.after
        if first.move is not None:
            path.insert(0, first.move)
        return tuple(path)

    def heaviest(
        self,
        leaf: str,
        state: State,
        unit: int,
    ) -> Move:
        """Return the best move to spend a unit of a leaf with; of several, one that is free."""
        spent = self.space.spent(state)
        spent[leaf] = unit

        def key(move: Move) -> tuple[Number, bool]:
            weight = self.problem.weigh(move.way, spent)
            return weight, move.is_free

        takers = self.space.open_takers(leaf, state)
        return max(takers, key=key)


def _units(option: _Option, attempts: int) -> list[tuple[str, int]]:
    """List the units that an option spends: the leaf of each, and which of its units it is.

    The chains are undone from the last to the first. Before each of them stands the list of values
    that it was applied to, which tells how many of its units the best value holds.
    """
    applied: list[tuple[Units, Values]] = []
    values = option.values
    for chain in option.chains:
        applied.append((chain, values))
        values = after_spending(values, [chain])
    units: list[tuple[str, int]] = []
    for chain, before in reversed(applied):
        counts = range(min(attempts, chain.size) + 1)
        spent = max(counts, key=lambda count: before[attempts - count] + chain.gain(count))
        every: list[tuple[str, int]] = []
        for leaf, size in chain.leaves:
            every += [(leaf, unit) for unit in range(1, size + 1)]
        units += every[:spent]
        attempts -= spent
    return units
