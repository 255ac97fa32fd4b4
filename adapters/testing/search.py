"""The search for a failing example: batches with their own seeds, and shrinking.

Theory. Each batch of examples follows from a seed of its own, `SEED/NUMBER`, so a longer run begins
like a shorter one, and a finding can be repeated with `--seed`. Hypothesis shrinks the choices that
a failing example was drawn from, but gives up early on long scripts, as one reply less shifts all
choices behind it. So the case is shrunk once more by itself: greedily, by the first smaller case
that fails in the same way, until none does. That is delta debugging at a granularity of one
(Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002), with at most
quadratically many tries.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Self

import attrs
from attrs import define, field, frozen
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.testing.coverage import Coverage

UNHEALTHY: Final = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
)

BATCH: Final = 200
"""Examples that follow from one seed."""


class Shrinkable(ABC):
    """An example that can be shrunk, described and written down."""

    is_served: ClassVar[bool] = False
    """Whether `rungwise serve` can play it."""

    @abstractmethod
    def describe(self) -> Iterator[str]:
        """Describe what the script does not show."""

    @abstractmethod
    def to_toml(self) -> str:
        """Write it as TOML."""

    def smaller(self) -> Iterator[Self]:
        """Generate examples that are smaller by one thing."""
        return iter(())

    def shrunk(self, fails: Callable[[Any], bool]) -> Any:
        """Return a failing example of which no smaller one fails."""
        case: Any = self
        while True:
            smaller = next(filter(fails, case.smaller()), None)
            if smaller is None:
                return case
            case = smaller


def with_defaults(case: Any, plain: Any) -> Iterator[Any]:
    """Generate the copies of a case that have one more field as the plain case has it."""
    for attribute in attrs.fields(type(case)):
        default = getattr(plain, attribute.name)
        if getattr(case, attribute.name) != default:
            yield attrs.evolve(case, **{attribute.name: default})


@frozen
class FuzzFinding:
    """The smallest failing case."""

    case: Shrinkable
    error: Exception  # a `rungwise.testing.Dishonest`, or a crash
    seed: int
    backends: int

    @property
    def what(self) -> str:
        """Describe what is wrong, on one line."""
        message = str(self.error)
        if not isinstance(self.error, AssertionError):
            message = f"{type(self.error).__name__}: {message}"
        return " ".join(message.split())

    def to_toml(self) -> str:
        """Write what the provider did as TOML, below comments on the request."""
        about = [
            f"found with --seed {self.seed}: {self.what}",
            f"backends: {self.backends}",
            *self.case.describe(),
        ]
        comments = "".join(f"# {_printable(line)}\n" for line in about)
        return comments + self.case.to_toml()


def _printable(line: str) -> str:
    """Return a line without letters that a comment of TOML may not hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


@define(eq=False)
class Search(ABC):
    """Play examples until one fails or time is up.

    Arguments:
        backends: how many a chain has.
        seed: of the first batch, and part of the others'.
        progress: called with the search after each example.
    """

    backends: int = field(default=2, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    progress: Callable[[Any], None] = field(default=lambda search: None, kw_only=True)
    coverage: Coverage = field(factory=Coverage, init=False)
    examples: int = field(default=0, init=False)
    kept: list[Any] = field(factory=list, init=False)  # the examples that reached something new
    _ends_at: float | None = field(default=None, init=False)
    _failed: tuple[Shrinkable, Exception] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was opened; here, nothing."""
        return

    @abstractmethod
    def check(self, case: Any) -> None:
        """Play one example and check that it is honest."""

    @abstractmethod
    def _run_numbered(self, number: int, count: int) -> FuzzFinding | None:
        """Play one batch.

        Arguments:
            number: of the batch, from 0.
            count: how many examples it has.
        """

    def run(
        self, *, examples: int | None = None, seconds: float | None = None
    ) -> FuzzFinding | None:
        """Play examples, and return the smallest that failed, or None.

        Arguments:
            examples: how many; None for as many as begin in the seconds.
            seconds: None for as long as the examples take.
        """
        if examples is None and seconds is None:
            raise ValueError("give a number of examples, or of seconds")
        self._failed = None
        self._ends_at = None if seconds is None else time.monotonic() + seconds
        left = math.inf if examples is None else examples
        batch = 0
        while left > 0 and not self._is_late():
            finding = self._run_numbered(batch, int(min(BATCH, left)))
            if finding is not None:
                return finding
            left -= BATCH
            batch += 1
        return None

    def _is_late(self) -> bool:
        return self._ends_at is not None and time.monotonic() >= self._ends_at

    def _run_batch(
        self,
        drawn: SearchStrategy[Any],
        from_seed: str,
        examples: int,
        phases: tuple[Phase, ...],
    ) -> FuzzFinding | None:
        """Play examples of one kind.

        Arguments:
            drawn: generates them.
            from_seed: what they follow from.
            examples: how many are played.
            phases: what Hypothesis does: `generate`, and `shrink` where tries are cheap.
        """
        if not examples:
            return None

        @seed(from_seed)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=UNHEALTHY,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
        )
        @given(drawn)
        def attempt(case: Any) -> None:
            if self._failed is None and self._is_late():
                return
            reached = self.coverage.reached
            try:
                self.check(case)
            except Exception as error:
                self._failed = case, error
                raise
            if self._failed is None:  # what follows only makes the failing case smaller
                if self.coverage.reached > reached:
                    self.kept.append(case)
                self.examples += 1
                self.progress(self)

        try:
            attempt()
        except Exception:
            if self._failed is None:
                raise
            return self._finding(*self._failed)
        return None

    def _finding(self, case: Any, error: Exception) -> FuzzFinding:
        """Shrink the case that Hypothesis found, as long as it fails in the same way."""
        last = error

        def fails(other: Any) -> bool:
            nonlocal last
            try:
                self.check(other)
            except Exception as caught:
                if _kind(caught) != _kind(error):
                    return False
                last = caught
                return True
            return False

        return FuzzFinding(case.shrunk(fails), last, self.seed, self.backends)


def _kind(error: Exception) -> tuple[type[Exception], object]:
    return type(error), getattr(error, "property", None)
