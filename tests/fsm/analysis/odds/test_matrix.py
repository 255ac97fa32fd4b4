"""The odds are those of another solution: every configuration, fired on the shipped machine, as a
matrix in numpy.
"""

import random
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from rungwise import Policy
from rungwise.fsm.analysis.odds.odds import odds
from rungwise.fsm.analysis.odds.rates import EventRate, Rates, mean
from rungwise.fsm.call.limits import LARGEST_LIMIT, Limits
from rungwise.fsm.call.policy import Budget
from rungwise.fsm.engine.machine.run import Run
from support.sampled_odds import random_policy, random_rates

Key = tuple[int, int, str, tuple[int, ...], bool, tuple[tuple[str, int], ...]]
"""The attempts, the backend, the rung with whether it waited, the counters, text, failures: nothing
is merged.
"""


class Matrix:
    """Find all configurations of a call by firing every event on the machine, and solve for what
    they lead to.
    """

    def __init__(self, policy: Policy, rates: Rates) -> None:
        self.policy, self.rates, self.table = policy, rates, policy.table
        self.limits = policy.limits.bounded(self.table.limits, len(rates.backend))
        self.keys: dict[Any, int] = {}
        self.moves: list[tuple[int, Any, float]] = []
        self.gains: list[Any] = []
        start: Key = (1, 0, "fresh", (0,) * len(self.limits), False, ())
        todo = [start]
        self.keys[start] = 0
        for key in todo:
            gain = np.zeros(3)
            for rate in rates.backend[key[1]].at(key[2]):
                target, wait = self.fire(key, rate)
                duration = mean(rate.seconds) + wait
                gain += rate.share * np.array(
                    [1, duration, mean(rate.input_tokens) + mean(rate.output_tokens)]
                )
                if not isinstance(target, str) and target not in self.keys:
                    self.keys[target] = len(self.keys)
                    todo.append(target)
                self.moves.append((self.keys[key], target, rate.share))
            self.gains.append(gain)

    def run(self, state: str, spent: tuple[int, ...]) -> Run:
        run = Run.at_start(self.table, self.limits)
        run.state = state
        run.spent = list(spent)
        return run

    def fire(self, key: Key, rate: EventRate) -> tuple[Any, float]:
        """Return where an event leads, and the mean of the wait before the next attempt."""
        attempts, backend, _, spent, text, failures = key
        has_next = backend + 1 < len(self.rates.backend)
        text = text or "added_text" in rate.facts
        policy = self.policy
        counts = dict(failures)
        leaves = self.counts(counts, rate)
        fits = rate.asked_wait is None or rate.asked_wait <= policy.waits.longest_asked
        facts = {*rate.facts}
        for name, held in (
            ("has_text", text),
            ("has_next_backend", has_next),
            ("switch_asked", leaves),
            (
                "wait_fits",
                fits or rate.event not in ("failed_transiently", "interrupted", "malformed"),
            ),
            ("refusal_ends", policy.after_refusal == "end"),
        ):
            facts |= {name} if held else set()
        run = self.run(self.table.hub, spent)
        rung = run.fire(rate.event, facts).target
        if rung in self.table.outcomes:
            return rung, 0.0
        if rung == "fallback":
            backend = backend + 1
            counts = {}
        to_come = min(
            len(self.rates.backend) - 1 - backend,
            self.limits["fallbacks"] - run.spent_of("fallbacks"),
        )
        if attempts == policy.budget.attempts:
            return run.fire("ran_out").target, 0.0
        left = policy.budget.attempts - attempts
        if rung != "fallback" and policy.reserve.is_on and to_come and left <= to_come:
            assert run.fire("ran_out", ("reserve_left", "has_next_backend")).target == "fallback"
            return (attempts + 1, backend + 1, "fresh", tuple(run.spent), text, ()), 0.0
        wait = self.wait(rate, rung, run)
        place = (
            "after_continuation" if rung == "continuation" else "after_wait" if wait else "fresh"
        )
        return (
            attempts + 1,
            backend,
            place,
            tuple(run.spent),
            text,
            tuple(sorted(counts.items())),
        ), wait

    def counts(self, counts: dict[str, int], rate: EventRate) -> bool:
        """Count a failure under its names in `switch_after`."""
        adds = "added_text" in rate.facts
        if adds:
            counts.pop("broken_stream", None)
        names: list[str] = [rate.reason] if rate.reason else []
        if rate.event in ("came_empty", "only_reasoned"):
            names = ["empty"]
        if rate.event == "interrupted" and not adds:
            names.append("broken_stream")
        if rate.reason == "rate_limit" and rate.asked_wait is None:
            names.append("rate_limit_without_wait")
        leaves = False
        for name in names:
            counts[name] = counts.get(name, 0) + ("connection_was_stale" not in rate.facts)
            most = self.policy.switch_after.get(name, LARGEST_LIMIT)
            leaves |= most < LARGEST_LIMIT and counts[name] >= most
        return leaves

    def wait(
        self,
        rate: EventRate,
        rung: str,
        run: Run,
    ) -> float:
        waits = self.policy.waits
        asks = rate.event in ("failed_transiently", "interrupted", "malformed")
        if rate.asked_wait is not None and asks and rung not in ("fallback", "resend"):
            return rate.asked_wait
        if rung not in ("retry", "reask"):
            return 0.0
        base = waits.reask_base
        cap = waits.reask_cap
        if rung == "retry" and rate.event not in ("malformed", "interrupted"):
            base = waits.retry_base
            cap = waits.overload_cap if rate.reason == "overloaded" else waits.retry_cap
        counter = {"retry": "retries", "reask": "reasks"}[rung]
        return float(min(base * 2 ** (run.spent_of(counter) - 1), cap) * (1 + waits.jitter / 2))

    def solve(self) -> tuple[dict[str, float], list[float]]:
        """Return the probability of each outcome, and the mean attempts, seconds and tokens."""
        size = len(self.keys)
        ends = {name: at for at, name in enumerate(self.table.outcomes)}
        inner = np.zeros((size, size))
        outer = np.zeros((size, len(ends)))
        for source, target, share in self.moves:
            if isinstance(target, str):
                outer[source, ends[target]] += share
            else:
                inner[source, self.keys[target]] += share
        found = np.linalg.solve(np.eye(size) - inner, np.hstack([outer, np.array(self.gains)]))[0]
        return {name: found[at] for name, at in ends.items()}, found[len(ends) :].tolist()


def case_of(seed: int) -> tuple[Policy, Rates]:
    """Return a policy small enough that all configurations fit a matrix."""
    chance = random.Random(seed)
    policy = random_policy(chance)
    limits = {name: min(limit, 2) for name, limit in policy.limits.items() if limit is not None}
    policy = evolve(
        policy, limits=Limits(**limits), budget=Budget(attempts=chance.randint(2, 5), seconds=None)
    )
    return policy, random_rates(chance, chance.randint(1, 3))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(40))
def test_the_odds_are_those_of_the_matrix(seed: int) -> None:
    policy, rates = case_of(seed)
    matrix = Matrix(policy, rates)
    if len(matrix.keys) > 3_000:
        pytest.skip("the matrix is too large")
    outcomes, (attempts, seconds, tokens) = matrix.solve()
    exact = odds(policy, rates)
    for name, share in outcomes.items():
        assert exact.outcomes.get(name, 0.0) == pytest.approx(share, abs=2e-6)
    assert exact.attempts.mean == pytest.approx(attempts, rel=1e-5)
    assert exact.seconds.mean == pytest.approx(seconds, rel=1e-4)
    assert exact.tokens == pytest.approx(tokens, rel=1e-4)
    assert exact.configurations <= len(matrix.keys)
