"""Search for policies that meet targets of success, time and cost against rates.

Theory: why this search

The odds of one candidate take a tenth of a second, and there are millions. Nothing bounds them
nearly as well as the odds do, since one more retry can make calls better, slower and dearer at
once. So there is nothing to prune with:

* If there are no more combinations than may be tried, all are: what is found is the optimum of the
  grid.
* Otherwise each change is tried by itself, and the combinations of those that make something
  better, if they are few.
* Else it is Pareto local search (Paquete, Chiarandini and Stützle 2004): all single changes of a
  candidate of the front are tried, then of one of the new front: of the nearest to the targets, the
  best, the fastest, the cheapest, in turn.

The search counts paths that it leaves out as successes that cost nothing. So a candidate that looks
worse really is worse. The front is computed in full and verified. The proof row by row holds for
all limits at once, so the other candidates need none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, cycle, permutations, product
from math import log10, prod
from operator import le
from typing import Any, Final

from attrs import define, evolve, field

from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.analysis.odds.candidates import Candidate, Point, Space, Targets, Tuned
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import POSITIONS, SETTLED, EventRate, Rates
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import Policy
from rungwise.fsm.engine.checker.branches import Branch, branches
from rungwise.fsm.errors import ConfigurationError

CANDIDATES: Final = 300
COUNTS: Final = (0, 1, 2, 3, 5)
# no wait is left out, as rates do not know how long a call waited
FACTORS: Final = (0.25, 0.5, 2.0)
WAITS: Final = ("retry_base", "retry_cap", "overload_cap", "reask_base", "reask_cap")
CUTS: Final = (0.9, 0.99, 0.999)
"""The shares of the attempts that end within the values tried of `timeouts.total`."""

MOST_ORDERED: Final = 4
"""With more backends than this, not every order is tried, but each backend in the first place."""

PRECISION: Final = 1e-5
"""The most probability that the search leaves out."""

FINEST: Final = 1e-7
"""The least that it leaves out, for targets of `done` that are near 1."""

WISHES: Final = 4
"""The ways to choose the next candidate: the nearest, the best, the fastest, the cheapest."""


def tune(
    policy: Policy,
    rates: Rates,
    targets: Targets,
    *,
    candidates: int = CANDIDATES,
    space: Space | None = None,
    each: Callable[..., Iterable[Any]] = map,
    progress: Callable[[int], None] = lambda tried: None,
) -> Tuned:
    """Search for the policies that meet targets, and under which calls do best.

    Arguments:
        policy: where the search begins; what is not varied stays.
        rates: of each backend, in the order of the chain.
        targets: what calls must come to.
        candidates: how many are tried at most.
        space: what is varied, by names such as `limits.retries`; None for what `space_of` returns.
        each: what `map` does, such as the `map` of a pool of processes.
        progress: called after each candidate with the number of those that were tried.

    Raises:
        ConfigurationError: the rates do not fit the policy's table, or lack the prices that a
            target of cost needs.
    """
    unpriced = [backend.name for backend in rates.backend if backend.prices is None]
    if targets.cost is not None and unpriced:
        raise ConfigurationError(
            f"a target of cost needs prices in the rates; missing: {', '.join(unpriced)}"
        )
    may_fail = 1 - (targets.done or 0)
    precision = max(FINEST, min(PRECISION, may_fail / 20))
    space = space or space_of(policy, rates)
    search = _TargetSearch(
        policy=policy,
        rates=rates,
        targets=targets,
        space=space,
        most=candidates,
        each=each,
        progress=progress,
        precision=precision,
    )
    search.run()
    front = search.confirmed()
    combinations = prod(map(len, space.values()))
    tried = tuple(search.tried.values())
    return Tuned(
        targets=targets,
        tried=tried,
        front=front,
        combinations=combinations,
    )


def space_of(policy: Policy, rates: Rates) -> dict[str, Sequence[Any]]:
    """Return what can change something with these rates, with the values to try.

    The policy's own value comes first.
    """
    count = len(rates.backend)
    space: dict[str, Sequence[Any]] = {"chain": _orders(count)}
    spendable = _spendable(policy, rates)
    for name, limit in policy.limits.bounded(policy.table.limits, count).items():
        if name in spendable:
            counts = range(count) if name == "fallbacks" else COUNTS
            others = [each for each in counts if each != limit]
            space[f"limits.{name}"] = [policy.limits.get(name, limit), *others]
    space["timeouts.total"] = [policy.timeouts.total, *_cuts(rates)]
    for name in WAITS:
        wait = getattr(policy.waits, name)
        longer_and_shorter = [wait * factor for factor in FACTORS]
        space[f"waits.{name}"] = [wait, *longer_and_shorter]
    return {name: tuple(dict.fromkeys(values)) for name, values in space.items()}


def _orders(count: int) -> list[tuple[int, ...]]:
    """Return the orders to try of so many backends, each by the places in the policy's chain."""
    places = range(count)
    if count <= MOST_ORDERED:
        return [*permutations(places)]
    orders = []
    for first in places:
        others = [place for place in places if place != first]
        orders.append((first, *others))
    return orders


def _spendable(policy: Policy, rates: Rates) -> set[str]:
    """Name the counters of which an event of the rates can take a unit."""
    table = policy.table
    names = set[str]()
    for backend in rates.backend:
        for position in POSITIONS:
            for rate in getattr(backend, position):
                if not rate.share:
                    continue
                for way in branches(table, rate.event, table.hub):
                    if way.takes and _fits(way, rate):
                        names.add(way.takes)
    return names


def _fits(way: Branch, rate: EventRate) -> bool:
    """Tell whether the facts of an event can lead through a way; some depend on the call."""
    open_facts = SETTLED | {"has_text"}
    for name, held in way.facts.items():
        holds = name in rate.facts
        if name not in open_facts and holds is not held:
            return False
    return True


def _cuts(rates: Rates) -> list[float]:
    """Return the seconds within which the shares `CUTS` of the attempts end.

    The attempts of each backend count the same.
    """
    values = []
    for backend in rates.backend:
        for rate in backend.fresh:
            share = rate.share / sum(weight for _, weight in rate.seconds)
            values += [(value, share * weight) for value, weight in rate.seconds if value]
    if not values:
        return []
    values.sort()
    up_to = [*accumulate(share for _, share in values)]
    places = [bisect_left(up_to, share * up_to[-1]) for share in CUTS]
    cuts = [values[place][0] for place in places]
    return [float(f"{seconds:.2g}") for seconds in cuts]


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Tell whether one is better in something and worse in nothing; less is better."""
    return one != other and all(map(le, one, other))


@define(eq=False, kw_only=True)
class _TargetSearch:
    """Try candidates, and hold those that were tried.

    Arguments:
        policy, rates, targets: what the search is for.
        space: what is varied.
        most: how many candidates are tried at most.
        each, progress: as in `tune`.
        precision: the most probability that the odds of a candidate leave out.
        tried: the candidates, by their points.
    """

    policy: Policy
    rates: Rates
    targets: Targets
    space: Space
    most: int
    each: Callable[..., Iterable[Any]]
    progress: Callable[[int], None]
    precision: float
    tried: dict[Point, Candidate] = field(factory=dict)

    def run(self) -> None:
        """Search, as the theory above says."""
        every = [*self.space.values()]
        promising: list[Sequence[Any]] = every
        if prod(map(len, every)) > self.most:
            own = tuple([values[0] for values in every])
            self.attempt([own, *_changed(own, every)])
            promising = []
            for place, values in enumerate(every):
                promising.append([*self._mattering(own, place, values)])
        may_try = self.most - len(self.tried)
        if prod(map(len, promising)) <= may_try:
            self.attempt(product(*promising))
        self._follow(promising)
        # what was left out may help together with what was found
        self._follow(every)

    def _follow(self, values: Sequence[Sequence[Any]]) -> None:
        """Try the single changes of one candidate of the front after the other."""
        followed = set[Point]()
        for wish in cycle(range(WISHES)):
            left = [each for each in self.front() if each.point not in followed]
            if not left or len(self.tried) >= self.most:
                return
            if wish:
                chosen = min(left, key=lambda each: self.key(each)[wish])
            else:
                chosen = min(left, key=self._distance)
            followed.add(chosen.point)
            self.attempt(_changed(chosen.point, values))

    def _distance(self, each: Candidate) -> tuple[float, float]:
        """Return how far a candidate is from the targets; among equals, the cheaper is nearer."""
        missed = self.targets.missed(each.figures)
        return sum(missed.values()), each.figures.cost

    def _mattering(
        self,
        own: Point,
        place: int,
        values: Sequence[Any],
    ) -> Iterator[Any]:
        """Yield the values that change the figures, and not only for the worse.

        Arguments:
            own: the point of the policy itself.
            place: of what is varied.
            values: those to try there.
        """
        seen = set[Any]()
        base = self.key(self.tried[own])
        for value in values:
            candidate = self.tried.get(_with(own, place, value))
            if candidate is None or candidate.figures in seen:
                continue
            if not dominates(base, self.key(candidate)):
                seen.add(candidate.figures)
                yield value

    def attempt(self, points: Iterable[Point]) -> None:
        """Try candidates that were not tried yet, while any more may be."""
        each_once = dict.fromkeys(points)
        untried = [point for point in each_once if point not in self.tried]
        new = untried[: self.most - len(self.tried)]
        changes = [self._changes(point) for point in new]
        rates = [self._rates(each) for each in changes]
        policies = [self._policy(each) for each in changes]
        roughly = partial(odds, left_out=self.precision)
        found = self.each(roughly, policies, rates)
        for parts in zip(new, changes, policies, rates, found, strict=True):
            self.tried[parts[0]] = Candidate(*parts)
            self.progress(len(self.tried))

    def _changes(self, point: Point) -> dict[str, Any]:
        """Return the values of a point that are not the policy's own, by their names."""
        pairs = zip(self.space.items(), point, strict=True)
        return {name: value for (name, values), value in pairs if value != values[0]}

    def _rates(self, changes: Mapping[str, Any]) -> Rates:
        """Return the rates in the order of a changed chain."""
        backends = self.rates.backend
        order = changes.get("chain", range(len(backends)))
        return Rates([backends[place] for place in order])

    def _policy(self, changes: Mapping[str, Any]) -> Policy:
        """Return the policy with changes, each named as in `limits.retries`."""
        parts = defaultdict[str, dict[str, Any]](dict)
        for key, value in changes.items():
            if key != "chain":
                part, _, name = key.partition(".")
                parts[part][name] = value
        limits = dict(self.policy.limits)
        limits.update(parts.pop("limits", {}))
        changed = {}
        for part, values in parts.items():
            changed[part] = evolve(getattr(self.policy, part), **values)
        return evolve(self.policy, limits=Limits(**limits), **changed)

    def key(self, each: Candidate) -> tuple[float, ...]:
        """Return what is compared: whether a target is missed, and the figures; less is better.

        The figures are rounded, so that differences which nobody would pay for do not count.
        """
        done, p99, cost = each.figures
        digits = round(-log10(self.precision))
        misses = bool(self.targets.missed(each.figures))
        return (
            float(misses),
            -round(done, digits),
            float(f"{p99:.3g}"),
            float(f"{cost:.3g}"),
        )

    def front(self) -> tuple[Candidate, ...]:
        """Return what nothing dominates, the cheapest first.

        Of candidates with the same figures, it has the least changed one.
        """
        best: dict[tuple[float, ...], Candidate] = {}
        for each in sorted(self.tried.values(), key=_least_changed):
            best.setdefault(self.key(each), each)
        front = []
        for key, each in best.items():
            is_dominated = any(dominates(other, key) for other in best)
            if not is_dominated:
                front.append(each)
        return tuple(sorted(front, key=_cheapest))

    def confirmed(self) -> tuple[Candidate, ...]:
        """Return the front, each candidate computed in full and verified.

        What is not proved is dropped.
        """
        while unsure := [each for each in self.front() if each.certificate is None]:
            policies = [each.policy for each in unsure]
            rates = [each.rates for each in unsure]
            exact = self.each(odds, policies, rates)
            backends = [len(each.backend) for each in rates]
            certificates = self.each(verify, policies, backends)
            for each, found, certificate in zip(unsure, exact, certificates, strict=True):
                if certificate.ok:
                    self.tried[each.point] = evolve(each, odds=found, certificate=certificate)
                else:
                    del self.tried[each.point]
        return self.front()


def _least_changed(each: Candidate) -> tuple[int, float]:
    return len(each.changes), each.figures.cost


def _cheapest(each: Candidate) -> tuple[float, float]:
    return each.figures.cost, -each.figures.done


def _with(point: Point, place: int, value: Any) -> Point:
    """Return a point with another value at a place."""
    return (*point[:place], value, *point[place + 1 :])


def _changed(point: Point, values: Sequence[Sequence[Any]]) -> Iterator[Point]:
    """Yield all points with one other value."""
    for place, values_there in enumerate(values):
        for value in values_there:
            if value != point[place]:
                yield _with(point, place, value)
