"""What a search for policies compares and finds: figures, targets, candidates, and the result.

`tune.py` searches. Here stands what a target is, when a candidate misses it, and why no candidate
meets all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from math import inf, nan
from typing import Any, Final, NamedTuple

from attrs import asdict, field, frozen

from rungwise.fsm.analysis.certificate.certificate import Certificate
from rungwise.fsm.analysis.odds.calls import Odds
from rungwise.fsm.analysis.odds.rates import Rates
from rungwise.fsm.call.policy import LARGEST_SUM, DefaultSeconds, Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import LONGEST_SECONDS, number, optional
from rungwise.fsm.values.files import toml_value
from rungwise.fsm.values.label import note

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
"""What the calls of an outcome that is no answer have in common."""

Point = tuple[Any, ...]
"""The values of what is varied, in the order of the space."""

Space = Mapping[str, Sequence[Any]]
"""The values of what is varied, each with the policy's own first."""


class Figures(NamedTuple):
    """Hold what candidates are compared by.

    Arguments:
        done: the share of the calls that end `done`.
        p99: the seconds within which 99 of 100 calls end.
        cost: the mean cost of a call; its mean tokens where there are no prices.
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
        """Return by what share each target is missed that is.

        For `done` it is a share of the calls that may fail.
        """
        over = {}
        for name, most in self.asked.items():
            if name != "done":
                over[name] = getattr(figures, name) / most - 1
        if self.done is not None:
            may_fail = 1 - self.done or 1e-9
            over["done"] = (self.done - figures.done) / may_fail
        return {name: share for name, share in over.items() if share > 0}


@frozen
class Candidate:
    """Hold a policy that was tried, with the rates in the order of its chain.

    Arguments:
        point: the values of what is varied.
        changes: those that differ from the policy that the search began with.
        policy, rates: what the calls run under, and against.
        odds: what calls come to: exactly, if there is a certificate, otherwise to within the
            precision of the search.
        certificate: the proof of the policy; None unless the candidate was on the front.
    """

    point: Point
    changes: Mapping[str, Any] = field(hash=False)
    policy: Policy
    rates: Rates
    odds: Odds
    certificate: Certificate | None = None

    @property
    def figures(self) -> Figures:
        """Return what it is compared by.

        Without a certificate they are no worse than the exact ones, so that the search loses
        nothing good.
        """
        odds = self.odds
        done = odds.outcomes.get("done", 0.0)
        if self.certificate is None:
            done += odds.left_out
        p99 = odds.seconds.quantiles["p99"]
        if p99 is None:
            p99 = inf
        cost = odds.money.mean if odds.money else odds.tokens
        return Figures(done, p99, cost)

    @property
    def chain(self) -> str:
        """Name the backends in order."""
        return " > ".join(note(each.name) for each in self.rates.backend)

    @property
    def summary(self) -> str:
        """Describe the changes on one line."""
        parts = []
        for name, value in self.changes.items():
            parts.append(f"{name} {self.chain if name == 'chain' else value}")
        return ", ".join(parts) or "no change"

    def to_toml(self) -> str:
        """Write the policy as TOML, without its defaults; the order of the chain is a comment."""
        lines = [f"# chain: {toml_value(self.chain)}", *_toml(self.policy)]
        return "".join(f"{line}\n" for line in lines)


def _toml(policy: Policy) -> Iterator[str]:
    """Yield the lines of a policy that differ from the defaults."""
    plain = policy.to_mapping()
    usual = Policy(table=policy.table).to_mapping()
    # who chose the default's seconds keeps them
    if not isinstance(policy.timeouts.first_token, DefaultSeconds):
        usual["timeouts"]["first_token"] = nan
    changed = {name: value for name, value in plain.items() if value != usual[name]}
    tables = {name: value for name, value in changed.items() if isinstance(value, Mapping)}
    for name, value in changed.items():
        if name not in tables:  # after the head of a table, it would belong to that
            yield f"{name} = {toml_value(value)}"
    for name, values in tables.items():
        yield from ("", f"[{name}]")
        for key, value in values.items():
            # only seconds have limits by default and may go without
            if value != usual[name].get(key):
                yield f"{key} = {toml_value(LONGEST_SECONDS if value is None else value)}"


@frozen(kw_only=True)
class Tuned:
    """Hold what a search found.

    Arguments:
        targets: what it searched for.
        tried: all candidates.
        front: those than which none is better in one figure and as good in the others, the cheapest
            first.
        combinations: how many candidates there could be.
    """

    targets: Targets
    tried: tuple[Candidate, ...]
    front: tuple[Candidate, ...]
    combinations: int

    @property
    def best(self) -> Candidate | None:
        """Return the cheapest candidate that meets the targets."""
        for each in self.front:
            if not self.targets.missed(each.figures):
                return each
        return None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Say which targets cannot be met and why, with the best value that was found of each."""
        if not self.front:
            return ("no candidate could be proved",)
        if self.best is not None:
            return ()
        asked = self.targets.asked
        never = []
        apart = []
        for name in asked:
            best = self._nearest(name)
            if best is not None and self._nearest(name, {name}) is None:
                never.append(self._why_never(name, best))
            best_of_the_others = self._nearest(name, asked.keys() - {name})
            if best_of_the_others is not None:
                apart.append(self._why_apart(name, best_of_the_others))
        if never:
            return tuple(never)
        return ("each target can be met, but no candidate meets all of them", *apart)

    def _nearest(self, name: str, met: Set[str] = frozenset()) -> Candidate | None:
        """Return the best candidate of the front in one figure.

        Arguments:
            name: the figure.
            met: the targets that the candidate must meet.
        """
        sign = -1 if name == "done" else 1
        meeting = []
        for each in self.front:
            missed = self.targets.missed(each.figures)
            if not missed.keys() & met:
                meeting.append(each)

        def worse(each: Candidate) -> float:
            return sign * float(getattr(each.figures, name))

        return min(meeting, key=worse, default=None)

    def _why_never(self, name: str, best: Candidate) -> str:
        """Say that no candidate meets a target, and what stands in the way of the best one."""
        what, written = WRITTEN[name]
        target = written(self.targets.asked[name])
        found = written(getattr(best.figures, name))
        most = "most" if name == "done" else "least"
        begin = f"no candidate has a {what} of {target}; the {most} is {found} ({best.summary})"
        if name != "done":
            return f"{begin}, where a call makes {best.odds.attempts.mean:.3g} attempts on average"
        outcomes = dict(best.odds.outcomes)
        rest = 1 - outcomes.pop("done", 0.0)
        # a hundredth of the rest explains nothing
        ends = sorted((share, end) for end, share in outcomes.items() if share > rest / 100)
        parts = []
        for share, end in reversed(ends):
            parts.append(f"{share * 100:.2g} % of calls {WHY.get(end, f'end as {end}')}")
        return f"{begin}: {', '.join(parts)}"

    def _why_apart(self, name: str, best: Candidate) -> str:
        what, written = WRITTEN[name]
        found = written(getattr(best.figures, name))
        target = written(self.targets.asked[name])
        return f"where the others are met, the best {what} is {found}, not {target}"
