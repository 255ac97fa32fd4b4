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

What the search leaves out, it takes for success and for free: what such figures say is worse is
worse. The front is computed in full and verified. The proof row by row holds for all limits at
once, so the other candidates need none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import accumulate, cycle, permutations, product
from math import inf, log10, nan, prod
from operator import le
from typing import Any, Final, NamedTuple

from attrs import asdict, define, evolve, field, frozen

from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.analysis.certificate.verify import verify
from rungwise.fsm.analysis.odds.calls import Odds
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import POSITIONS, SETTLED, Rates
from rungwise.fsm.call.limits import Limits
from rungwise.fsm.call.policy import LARGEST_SUM, DefaultSeconds, Policy
from rungwise.fsm.engine.checker.branches import branches
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import LONGEST_SECONDS, number, optional
from rungwise.fsm.values.files import toml_value
from rungwise.fsm.values.label import note

CANDIDATES: Final = 300
COUNTS: Final = (0, 1, 2, 3, 5)
# no wait is left out, as rates do not know how long a call waited
FACTORS: Final = (0.25, 0.5, 2.0)
WAITS: Final = ("retry_base", "retry_cap", "overload_cap", "reask_base", "reask_cap")
CUTS: Final = (0.9, 0.99, 0.999)
"""The shares of the attempts that end within the values tried of `timeouts.total`."""

MOST_ORDERED: Final = 4
"""The backends of which every order can be tried; each of more can be tried in the first place."""

PRECISION, FINEST = 1e-5, 1e-7
"""The most probability that the search leaves out, and the least, for targets of `done` that are
near 1.
"""

WRITTEN: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "done": ("share of calls that are done", lambda value: f"{value * 100:.6g} %"),
    "p99": ("P99", "{:.4g} s".format),
    "cost": ("mean cost", "{:.4g}".format),
}
"""What each figure is, and how it is written."""

WHY: Final[Mapping[str, str]] = {
    "refused": "are refused by every backend that is asked",
    "failed": "fail at every backend that is asked",
    "exhausted": "bring no answer from any backend that is asked",
    "over_budget": "need more than the budget",
}

Point = tuple[Any, ...]
Space = Mapping[str, Sequence[Any]]
"""The values of what is varied, each with the policy's own first."""


class Figures(NamedTuple):
    """Hold what candidates are compared by: a share, seconds, and money, or tokens where there are
    no prices.
    """

    done: float
    p99: float
    cost: float


@frozen(kw_only=True)
class Targets:
    """Say what calls must come to; None asks nothing.

    Arguments:
        done: the least share of the calls that end `done`.
        p99: the seconds within which 99 of 100 calls must end.
        cost: the most that a call may cost on average.

    Raises:
        ConfigurationError: a target is out of its range, or there is none.
    """

    done: float | None = field(default=None, validator=optional(number(above_zero=True, highest=1)))
    p99: float | None = field(default=None, validator=optional(number(above_zero=True)))
    cost: float | None = field(
        default=None, validator=optional(number(above_zero=True, highest=LARGEST_SUM))
    )

    def __attrs_post_init__(self) -> None:
        if not self.asked:
            raise ConfigurationError("name at least one target: done, p99 or cost")

    @property
    def asked(self) -> dict[str, float]:
        """Return the targets that are set."""
        return asdict(self, filter=lambda _, value: value is not None)

    def missed(self, figures: Figures) -> dict[str, float]:
        """Return by what share each target is missed that is; of `done`, by what share of the calls
        that may fail.
        """
        over = {
            name: getattr(figures, name) / most - 1
            for name, most in self.asked.items()
            if name != "done"
        }
        if self.done is not None:
            over["done"] = (self.done - figures.done) / (1 - self.done or 1e-9)
        return {name: share for name, share in over.items() if share > 0}


@frozen
class Candidate:
    """Hold a policy that was tried, with the rates in the order of its chain.

    Arguments:
        point: the values of what is varied.
        changes: those that differ from the policy that the search began with.
        odds: what calls come to: exactly, if there is a certificate, otherwise to within the
        precision of the search. certificate: the proof of the policy; None unless the candidate was
        on the front.
    """

    point: Point
    changes: Mapping[str, Any] = field(hash=False)
    policy: Policy
    rates: Rates
    odds: Odds
    certificate: Certificate | None = None

    @property
    def figures(self) -> Figures:
        """Return what it is compared by; without a certificate no worse than they are, so that
        nothing good is lost.
        """
        found = self.odds
        p99 = self.odds.seconds.quantiles["p99"]
        done = found.outcomes.get("done", 0.0) + (0.0 if self.certificate else found.left_out)
        return Figures(
            done, inf if p99 is None else p99, found.money.mean if found.money else found.tokens
        )

    @property
    def chain(self) -> str:
        """Name the backends in order."""
        return " > ".join(note(each.name) for each in self.rates.backend)

    @property
    def summary(self) -> str:
        """Describe the changes on one line."""
        every = (
            f"{name} {self.chain if name == 'chain' else value}"
            for name, value in self.changes.items()
        )
        return ", ".join(every) or "no change"

    def to_toml(self) -> str:
        """Write the policy as TOML, with what differs from the defaults; the order of the chain is
        a comment.
        """
        return "".join(
            f"{line}\n" for line in (f"# chain: {toml_value(self.chain)}", *_toml(self.policy))
        )


def _toml(policy: Policy) -> Iterator[str]:
    plain = policy.to_mapping()
    usual = Policy(table=policy.table).to_mapping()
    # who chose the default's seconds keeps them
    if not isinstance(policy.timeouts.first_token, DefaultSeconds):
        usual["timeouts"]["first_token"] = nan
    changed = {name: value for name, value in plain.items() if value != usual[name]}
    for name, value in changed.items():
        if not isinstance(value, Mapping):  # after the head of a table, it would belong to that
            yield f"{name} = {toml_value(value)}"
    for name, values in changed.items():
        if isinstance(values, Mapping):
            yield from ("", f"[{name}]")
            for key, each in values.items():
                # only seconds have limits by default and may go without
                if each != usual[name].get(key):
                    yield f"{key} = {toml_value(LONGEST_SECONDS if each is None else each)}"


@frozen(kw_only=True)
class Tuned:
    """Hold what a search found.

    Arguments:
        tried: all candidates.
        front: those than which none is better in one figure and as good in the others, the cheapest
        first. combinations: how many candidates there could be.
    """

    targets: Targets
    tried: tuple[Candidate, ...]
    front: tuple[Candidate, ...]
    combinations: int

    @property
    def best(self) -> Candidate | None:
        """Return the cheapest candidate that meets the targets."""
        return next((each for each in self.front if not self.targets.missed(each.figures)), None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Say which targets cannot be met and why, with the best value that was found of each."""
        if self.best is not None or not self.front:
            return () if self.front else ("no candidate could be proved",)
        asked = self.targets.asked
        unmet = [name for name in asked if not self._nearest(name, {name})]
        never = [self._why_never(name, best) for name in unmet if (best := self._nearest(name))]
        others = {name: asked.keys() - {name} for name in asked}
        apart = [
            self._why_apart(name, best)
            for name in asked
            if (best := self._nearest(name, others[name]))
        ]
        return tuple(never) or (
            "each target can be met, but no candidate meets all of them",
            *apart,
        )

    def _nearest(self, name: str, met: Set[str] = frozenset()) -> Candidate | None:
        """Return the best in one figure among the candidates of the front that meet some
        targets.
        """
        meeting = [
            each for each in self.front if not self.targets.missed(each.figures).keys() & met
        ]
        return min(
            meeting,
            key=lambda each: getattr(each.figures, name) * (-1 if name == "done" else 1),
            default=None,
        )

    def _why_never(self, name: str, best: Candidate) -> str:
        what, written = WRITTEN[name]
        target = written(self.targets.asked[name])
        found = written(getattr(best.figures, name))
        most = "most" if name == "done" else "least"
        outcomes = best.odds.outcomes
        begin = f"no candidate has a {what} of {target}; the {most} is {found} ({best.summary})"
        if name != "done":
            return f"{begin}, where a call makes {best.odds.attempts.mean:.3g} attempts on average"
        rest = 1 - outcomes.get("done", 0.0)  # of which a hundredth explains nothing
        ends = sorted(
            (
                (share, end)
                for end, share in outcomes.items()
                if end != "done" and share > rest / 100
            )
        )
        parts = [
            f"{share * 100:.2g} % of calls {WHY.get(end, f'end as {end}')}"
            for share, end in reversed(ends)
        ]
        return f"{begin}: {', '.join(parts)}"

    def _why_apart(self, name: str, best: Candidate) -> str:
        what, written = WRITTEN[name]
        found = written(getattr(best.figures, name))
        target = written(self.targets.asked[name])
        return f"where the others are met, the best {what} is {found}, not {target}"


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
    """Search for the policies with which calls succeed most often, fastest and cheapest, and meet
    the targets.

    Arguments:
        policy: where the search begins; what is not varied stays.
        rates: of each backend, in the order of the chain.
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
    precision = max(FINEST, min(PRECISION, (1 - (targets.done or 0)) / 20))
    space = space or space_of(policy, rates)
    search = _TargetSearch(policy, rates, targets, space, candidates, each, progress, precision)
    search.run()
    front = search.confirmed()
    tried = tuple(search.tried.values())
    return Tuned(
        targets=targets,
        tried=tried,
        front=front,
        combinations=prod(map(len, search.space.values())),
    )


def space_of(policy: Policy, rates: Rates) -> dict[str, Sequence[Any]]:
    """Return what can change something with these rates, with the values to try, the policy's own
    first.
    """
    count = len(rates.backend)
    spent = _spendable(policy, rates)
    firsts = [(first, *(each for each in range(count) if each != first)) for first in range(count)]
    space: dict[str, Sequence[Any]] = {
        "chain": [*permutations(range(count))] if count <= MOST_ORDERED else firsts
    }
    for name, limit in policy.limits.bounded(policy.table.limits, count).items():
        if name in spent:
            counts = range(count) if name == "fallbacks" else COUNTS
            space[f"limits.{name}"] = [
                policy.limits.get(name, limit),
                *(each for each in counts if each != limit),
            ]
    space["timeouts.total"] = [policy.timeouts.total, *_cuts(rates)]
    for name in WAITS:
        wait = getattr(policy.waits, name)
        space[f"waits.{name}"] = [wait, *(wait * factor for factor in FACTORS)]
    return {name: tuple(dict.fromkeys(values)) for name, values in space.items()}


def _spendable(policy: Policy, rates: Rates) -> set[str]:
    """Name the counters of which an event of the rates can take a unit."""
    found = set[str]()
    open_facts = SETTLED | {"has_text"}
    for rate in {
        rate
        for backend in rates.backend
        for at in POSITIONS
        for rate in getattr(backend, at)
        if rate.share
    }:
        for way in branches(policy.table, rate.event, policy.table.hub):
            fits = (
                (name in rate.facts) is held
                for name, held in way.facts.items()
                if name not in open_facts
            )
            found |= {way.takes} if way.takes and all(fits) else set()
    return found


def _cuts(rates: Rates) -> list[float]:
    """Return the seconds within which some shares of the attempts end, those of each backend
    counting the same.
    """
    events = [
        (rate.share / sum(part for _, part in rate.seconds), rate)
        for of in rates.backend
        for rate in of.fresh
    ]
    values = sorted(
        (value, share * part) for share, rate in events for value, part in rate.seconds if value
    )
    up_to = [*accumulate(part for _, part in values)]
    return [
        float(f"{values[bisect_left(up_to, share * up_to[-1])][0]:.2g}") for share in CUTS if values
    ]


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """Tell whether one is better in something and worse in nothing; less is better."""
    return one != other and all(map(le, one, other))


@define(eq=False)
class _TargetSearch:
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
        kept = [*self.space.values()]
        if prod(map(len, kept)) > self.most:
            own = tuple([values[0] for values in kept])
            self.attempt([own, *_changed(own, kept)])
            kept = [[*self._mattering(own, place, values)] for place, values in enumerate(kept)]
        if prod(map(len, kept)) <= self.most - len(self.tried):
            self.attempt(product(*kept))
        self._follow(kept)
        # what was left out may help together with what was found
        self._follow([*self.space.values()])

    def _follow(self, kept: Sequence[Sequence[Any]]) -> None:
        followed = set[Point]()
        for wish in cycle(range(4)):
            left = [each for each in self.front() if each.point not in followed]
            if not left or len(self.tried) >= self.most:
                return
            chosen = min(
                left, key=lambda each: self.key(each)[wish] if wish else self._distance(each)
            )
            followed.add(chosen.point)
            self.attempt(_changed(chosen.point, kept))

    def _distance(self, each: Candidate) -> tuple[float, float]:
        return sum(self.targets.missed(each.figures).values()), each.figures.cost

    def _mattering(self, own: Point, place: int, values: Sequence[Any]) -> Iterator[Any]:
        """Yield the values that change the figures, each in its own way, and not only for the
        worse.
        """
        seen = set[Any]()
        base = self.key(self.tried[own])
        for value in values:
            found = self.tried.get((*own[:place], value, *own[place + 1 :]))
            if (
                found is not None
                and found.figures not in seen
                and not dominates(base, self.key(found))
            ):
                seen.add(found.figures)
                yield value

    def attempt(self, points: Iterable[Point]) -> None:
        new = [each for each in dict.fromkeys(points) if each not in self.tried][
            : self.most - len(self.tried)
        ]
        changes = [self._changes(point) for point in new]
        orders = [each.get("chain", range(len(self.rates.backend))) for each in changes]
        rates = [Rates([self.rates.backend[place] for place in order]) for order in orders]
        policies = [self._policy(each) for each in changes]
        found = self.each(partial(odds, left_out=self.precision), policies, rates)
        for parts in zip(new, changes, policies, rates, found, strict=True):
            self.tried[parts[0]] = Candidate(*parts)
            self.progress(len(self.tried))

    def _changes(self, point: Point) -> dict[str, Any]:
        pairs = zip(self.space.items(), point, strict=True)
        return {name: value for (name, values), value in pairs if value != values[0]}

    def _policy(self, changes: Mapping[str, Any]) -> Policy:
        parts = defaultdict[str, dict[str, Any]](dict)
        for part, _, name in (key.partition(".") for key in changes if key != "chain"):
            parts[part][name] = changes[f"{part}.{name}"]
        limits = Limits(**{**self.policy.limits, **parts.pop("limits", {})})
        changed = {
            part: evolve(getattr(self.policy, part), **values) for part, values in parts.items()
        }
        return evolve(self.policy, limits=limits, **changed)

    def key(self, each: Candidate) -> tuple[float, ...]:
        """Return what is compared: whether a target is missed, and the figures, rounded; less is
        better.
        """
        done, p99, cost = each.figures
        done = round(done, round(-log10(self.precision)))
        return (
            float(bool(self.targets.missed(each.figures))),
            -done,
            float(f"{p99:.3g}"),
            float(f"{cost:.3g}"),
        )

    def front(self) -> tuple[Candidate, ...]:
        """Return what nothing dominates, the cheapest first; of candidates that look the same the
        least changed.
        """
        best: dict[tuple[float, ...], Candidate] = {}
        for each in sorted(
            self.tried.values(), key=lambda each: (len(each.changes), each.figures.cost)
        ):
            best.setdefault(self.key(each), each)
        front = [
            each for key, each in best.items() if not any(dominates(other, key) for other in best)
        ]
        return tuple(sorted(front, key=lambda each: (each.figures.cost, -each.figures.done)))

    def confirmed(self) -> tuple[Candidate, ...]:
        """Return the front, each candidate computed in full and verified; what is not proved is
        dropped.
        """
        while unsure := [each for each in self.front() if each.certificate is None]:
            policies = [each.policy for each in unsure]
            rates = [each.rates for each in unsure]
            exact = self.each(odds, policies, rates)
            certificates = self.each(verify, policies, [len(each.backend) for each in rates])
            for each, found, certificate in zip(unsure, exact, certificates, strict=True):
                if certificate.ok:
                    self.tried[each.point] = evolve(each, odds=found, certificate=certificate)
                else:
                    del self.tried[each.point]
        return self.front()


def _changed(point: Point, kept: Sequence[Sequence[Any]]) -> Iterator[Point]:
    for place, values in enumerate(kept):
        yield from (
            (*point[:place], value, *point[place + 1 :])
            for value in values
            if value != point[place]
        )
