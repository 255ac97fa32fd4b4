"""The search for what fails: examples in batches, each from its own seed, and the failing one made small."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, Self

from attrs import define, field, frozen
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.strategies import SearchStrategy

from rungwise.fsm.testing.coverage import Coverage

UNHEALTHY: Final = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
BATCH: Final = 200
"""Examples that follow from one seed; the next batch has another, so a longer run begins like a shorter one."""


class Shrinkable(Protocol):
    """Stand for what is played: it can be made smaller, told, and written down."""

    @property
    def is_served(self) -> bool:
        """Tell whether `rungwise serve` takes what is written down."""
        ...

    def describe(self) -> Iterator[str]:
        """Say what a script alone does not tell."""
        ...

    def to_toml(self) -> str:
        """Write it, to be played again."""
        ...

    def shrunk(self, fails: Callable[[Any], bool]) -> Any:
        """Return the smallest one to be found that fails.

        Arguments:
            fails: tells whether another one fails in the same way.
        """
        ...


@frozen
class Finding:
    """Hold the smallest case that failed.

    Arguments:
        case: the case.
        error: what it raised: a `rungwise.testing.Dishonest`, or a crash.
        seed: the seed that leads to it.
        backends: how many backends the chain had.
    """

    case: Shrinkable
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

        A script is as `rungwise serve` takes it, hostile bytes are as `rungwise.testing.read_responses` takes them.
        """
        about = [f"found with --seed {self.seed}: {self.what}", f"backends: {self.backends}", *self.case.describe()]
        return "".join(f"# {_printable(line)}\n" for line in about) + self.case.to_toml()


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in line)


@define(eq=False)
class Search(ABC):
    """Play examples until one fails, or time is up.

    Arguments:
        backends: how many backends the chain has.
        seed: what the examples follow from.
        progress: is called after each example.
        coverage: what was covered.
        examples: how many were played.
    """

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
        """Close what was opened; there is nothing here."""
        return

    @abstractmethod
    def check(self, case: Any) -> None:
        """Play one example and check that it is honest.

        Raises:
            Dishonest: it is not.
        """

    @abstractmethod
    def _run_numbered(self, number: int, count: int) -> Finding | None:
        """Play a batch of so many examples."""

    def run(self, *, examples: int | None = None, seconds: float | None = None) -> Finding | None:
        """Play examples, and return the smallest one that failed; None if all were honest.

        Arguments:
            examples: how many; None plays until the time is up.
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
            found = self._run_numbered(batch, count)
            if found is not None:
                return found
            left = None if left is None else left - count
            batch += 1
        return None

    def _is_late(self) -> bool:
        return self._ends_at is not None and time.monotonic() >= self._ends_at

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

    def _finding(self, case: Any, error: Exception) -> Finding:
        """Make the case that Hypothesis came to as small as it can be."""
        told = error

        def fails(other: Any) -> bool:
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


def _kind(error: Exception) -> tuple[type[Exception], object]:
    return type(error), getattr(error, "property", None)
