"""The switch that keeps the tests of those who use us from waiting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rungwise.fsm.call.run.overrides import Overrides, set_overrides
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_whole


def set_testing(on: bool, *, attempts: int | None = None) -> None:
    """Turn all waits between attempts off or on again, for every call of this process.

    The journal still says how long each rung would have waited, and a wait that does not fit still switches.

    Arguments:
        on: whether this is a test.
        attempts: the most attempts that a call may make meanwhile; None leaves that to its budget.

    Raises:
        ConfigurationError: `attempts` is no whole number above 0, or was given to turn the switch off.
    """
    set_overrides(_overrides(on, attempts))


@contextmanager
def testing(*, attempts: int | None = None) -> Iterator[None]:  # noqa: PT028  (no test, in spite of its name)
    """Do what `set_testing(True)` does until the end of the `with` block, and put back what was before.

    Raises:
        ConfigurationError: `attempts` is no whole number above 0.
    """
    before = set_overrides(_overrides(True, attempts))
    try:
        yield
    finally:
        set_overrides(before)


testing.__test__ = False  # type: ignore[attr-defined] # pytest takes what begins with "test" for a test


def _overrides(on: bool, attempts: int | None) -> Overrides:
    if attempts is None:
        return Overrides(waits=not on)
    if not on:
        raise ConfigurationError("set_testing: attempts is for set_testing(True, ...) only")
    if not is_whole(attempts, 1):
        raise ConfigurationError(f"set_testing: attempts must be a whole number of 1 or more, not {attempts!r}")
    return Overrides(waits=False, attempts=attempts)
