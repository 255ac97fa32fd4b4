"""The search for a failing example: batches with their own seeds, and shrinking."""

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
"""Examples that follow from one seed; the next batch has another, so a longer run begins like a
shorter one.
"""


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
        """Return the smallest failing example found; Hypothesis gives up early on long scripts."""
        case = self
        while (less := next(filter(fails, case.smaller()), None)) is not None:
            case = less
        return case


def with_defaults(case: Any, plain: Any) -> Iterator[Any]:
    """Generate the copies of a case that have one field as another case has it."""
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
        kind = "" if isinstance(self.error, AssertionError) else f"{type(self.error).__name__}: "
        return " ".join(f"{kind}{self.error}".split())

    def to_toml(self) -> str:
        """Write what the provider did as TOML, below comments on the request."""
        about = [
            f"found with --seed {self.seed}: {self.what}",
            f"backends: {self.backends}",
            *self.case.describe(),
        ]
        shown = (
            "".join(letter if letter.isprintable() else "?" for letter in line) for line in about
        )
        return "".join(f"# {line}\n" for line in shown) + self.case.to_toml()


@define(eq=False)
class Search(ABC):
    """Play examples until one fails or time is up."""

    backends: int = field(default=2, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    progress: Callable[[Any], None] = field(default=lambda search: None, kw_only=True)
    coverage: Coverage = field(factory=Coverage, init=False)
    examples: int = field(default=0, init=False)
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
        """Play a batch of so many examples."""

    def run(
        self, *, examples: int | None = None, seconds: float | None = None
    ) -> FuzzFinding | None:
        """Play this many examples, or as many as begin in these seconds; return the smallest that
        failed, or None.
        """
        if examples is None and seconds is None:
            raise ValueError("give a number of examples, or of seconds")
        self._failed = None
        self._ends_at = None if seconds is None else time.monotonic() + seconds
        remaining = examples
        batch = 0
        while not self._is_late() and (remaining is None or remaining > 0):
            count = BATCH if remaining is None else min(BATCH, remaining)
            finding = self._run_numbered(batch, count)
            if finding is not None:
                return finding
            remaining = None if remaining is None else remaining - count
            batch += 1
        return None

    def _is_late(self) -> bool:
        return self._ends_at is not None and time.monotonic() >= self._ends_at

    def _run_batch(
        self, drawn: SearchStrategy[Any], from_seed: str, count: int, phases: tuple[Phase, ...]
    ) -> FuzzFinding | None:
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
        def attempt(case: Any) -> None:
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

    def _finding(self, case: Any, error: Exception) -> FuzzFinding:
        """Shrink the case that Hypothesis found."""
        error_shown = error

        def fails(other: Any) -> bool:
            nonlocal error_shown
            try:
                self.check(other)
            except Exception as caught:
                if _kind(caught) != _kind(error):
                    return False
                error_shown = caught
                return True
            return False

        return FuzzFinding(case.shrunk(fails), error_shown, self.seed, self.backends)


def _kind(error: Exception) -> tuple[type[Exception], object]:
    return type(error), getattr(error, "property", None)
