"""What `rungwise fuzz` runs: calls through the real adapters and drivers, over providers that do anything.

Hypothesis makes the scripts, and makes the failing one as small as it can.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import attrs
from attrs import define, field, frozen
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.strategies import SearchStrategy

from rungwise.adapters.testing.case import PRICES, Case, cases
from rungwise.adapters.testing.hostile_case import HostileCase, hostile_cases
from rungwise.adapters.testing.runner import KEY, CaseRunner
from rungwise.adapters.testing.scripts import scripted_replies
from rungwise.adapters.testing.wire_checks import check_answer, check_requests
from rungwise.fsm.call.policy import DEFAULT_POLICY, Policy
from rungwise.fsm.call.request import Prices
from rungwise.fsm.certificate.certificate import Certificate
from rungwise.fsm.certificate.verify import verify
from rungwise.fsm.certificate.worst import worst_cases
from rungwise.fsm.testing.checks.ended import EndedCall
from rungwise.fsm.testing.checks.honesty import check_all
from rungwise.fsm.testing.coverage import Coverage

UNHEALTHY = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
BATCH = 200
"""Examples that follow from one seed; the next batch has another, so a longer run begins like a shorter one."""


@frozen
class Finding:
    """Hold the smallest case that failed.

    Arguments:
        case: the case.
        error: what it raised: a `Dishonest`, or a crash.
        seed: the seed that leads to it.
        backends: how many backends the chain had.
    """

    case: Case | HostileCase
    error: Exception
    seed: int
    backends: int

    @property
    def what(self) -> str:
        """Say what is wrong, on one line."""
        kind = "" if isinstance(self.error, AssertionError) else f"{type(self.error).__name__}: "
        return " ".join(f"{kind}{self.error}".split())

    def to_toml(self) -> str:
        """Write what the provider did, under comments that say how it was asked.

        A script is as `rungwise serve` takes it, hostile bytes are as `rungwise.fsm.testing.read_responses` takes them.
        """
        about = [f"found with --seed {self.seed}: {self.what}", f"backends: {self.backends}", *self.case.describe()]
        return "".join(f"# {_printable(line)}\n" for line in about) + self.case.to_toml()


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in line)


@define(eq=False)
class Fuzzer:
    """Make calls until one is dishonest, or time is up; use it in a `with` block.

    Arguments:
        policy: how the calls recover.
        backends: how many backends the chain has.
        seed: what the examples follow from.
        over_http: whether the provider is a server on loopback and not in memory.
        hostile: the share of the calls, from 0 to 1, whose provider is a server that writes hostile bytes.
        progress: is called after each example.
        coverage: what was covered.
        examples: how many calls were made.
    """

    policy: Policy = DEFAULT_POLICY
    backends: int = 2
    seed: int = 0
    over_http: bool = False
    hostile: float = 0.0
    progress: Callable[[Fuzzer], None] = lambda fuzzer: None
    coverage: Coverage = field(factory=Coverage, init=False)
    examples: int = field(default=0, init=False)
    _runner: CaseRunner = field(init=False)
    _ends_at: float | None = field(default=None, init=False)
    _failed: tuple[Case | HostileCase, Exception] | None = field(default=None, init=False)
    _certificates: dict[tuple[int | None, int | None, Prices], Certificate] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._runner = CaseRunner(self.policy, self.backends, self.over_http)

    def __enter__(self) -> Fuzzer:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.__exit__()

    def run(self, *, examples: int | None = None, seconds: float | None = None) -> Finding | None:
        """Make calls, and return the smallest one that failed; None if all were honest.

        Arguments:
            examples: how many to make; None makes them until the time is up.
            seconds: after which no more are begun; None sets no limit.

        Raises:
            ValueError: there is neither a number of examples nor a limit.
        """
        if examples is None and seconds is None:
            raise ValueError("give a number of examples, or of seconds")
        self._failed = None
        self._ends_at = None if seconds is None else time.monotonic() + seconds
        left, batch = examples, 0
        while not self._is_late() and (left is None or left > 0):
            count = BATCH if left is None else min(BATCH, left)
            hostile = round(count * self.hostile)
            found = self._run_scripted(batch, count - hostile) or self._run_hostile(batch, hostile)
            if found is not None:
                return found
            left = None if left is None else left - count
            batch += 1
        return None

    def _is_late(self) -> bool:
        return self._ends_at is not None and time.monotonic() >= self._ends_at

    def _run_scripted(self, number: int, count: int) -> Finding | None:
        drawn = cases(scripted_replies(hangs=not self.over_http, delays=not self.over_http))
        return self._run_batch(drawn, f"{self.seed}/{number}", count, (Phase.generate, Phase.shrink))

    def _run_hostile(self, number: int, count: int) -> Finding | None:
        # Hypothesis would try hundreds of smaller cases, each of which takes real time.
        return self._run_batch(hostile_cases(), f"{self.seed}/{number}/hostile", count, (Phase.generate,))

    def _run_batch(
        self, drawn: SearchStrategy[Any], from_seed: str, count: int, phases: tuple[Phase, ...]
    ) -> Finding | None:
        if not count:
            return None

        @seed(from_seed)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=UNHEALTHY,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
        )
        @given(drawn)
        def attempt(case: Case | HostileCase) -> None:
            if self._failed is None and self._is_late():
                return
            try:
                self.check(case)
            except Exception as error:
                self._failed = case, error
                raise
            if self._failed is None:  # what follows only makes the failing case smaller
                self.examples += 1
                self.progress(self)

        try:
            attempt()
        except Exception:
            if self._failed is None:
                raise
            return self._finding(*self._failed)
        return None

    def _finding(self, case: Case | HostileCase, error: Exception) -> Finding:
        """Make the case that Hypothesis came to as small as it can be."""
        told = error

        def fails(other: Case | HostileCase) -> bool:
            nonlocal told
            try:
                self.check(other)
            except Exception as caught:
                if _kind(caught) != _kind(error):
                    return False
                told = caught
                return True
            return False

        return Finding(case.shrunk(fails), told, self.seed, self.backends)

    def check(self, case: Case | HostileCase) -> None:
        """Make one call and check that it is honest.

        Raises:
            Dishonest: it is not.
        """
        if isinstance(case, HostileCase):
            survived = case.run(self.policy, self.backends, KEY, self.certificate)
            self.coverage.record(EndedCall(survived, certificate=self.certificate))
            return
        events: list[object] = []
        result = self._runner.run(case, events)
        stays = case.is_streaming and case.leaves_after is None and not self._runner.compactor_raised
        ended = EndedCall(
            result,
            request=case.request,
            turn=case.turn,
            events=events if stays else None,
            certificate=self._certify(case.request.max_tokens, case.request.input_tokens, case.prices),
            secrets=(KEY,),
            is_fair=case.is_fair,
        )
        check_all(ended)
        received = self._runner.received
        check_requests(result, received)
        if received:
            check_answer(result, self._runner.replies[-1], received[-1], seeds=case.prefill != "no")
        self.coverage.record(ended)

    @property
    def certificate(self) -> Certificate:
        """Return what is proved of the policy, for a request of which nothing is known."""
        return self._certify(None, None, PRICES)

    def _certify(self, max_tokens: int | None, input_tokens: int | None, prices: Prices) -> Certificate:
        """Return the certificate for a request; only the worst cases depend on it, so the rest is proved once."""
        key = max_tokens, input_tokens, prices
        if not self._certificates:
            self._certificates[None, None, PRICES] = verify(self.policy, self._runner.chain())
        if key not in self._certificates:
            proved = self._certificates[None, None, PRICES]
            worst = worst_cases(self.policy, proved.limits, [prices] * self.backends, max_tokens, input_tokens)
            self._certificates[key] = attrs.evolve(
                proved, max_tokens=max_tokens, input_tokens=input_tokens, worst=worst
            )
        return self._certificates[key]


def _kind(error: Exception) -> tuple[type[Exception], object]:
    return type(error), getattr(error, "property", None)
