"""Overrides for tests, in force for every call of the process: whether calls wait, and their most
attempts.

Drivers ask `waits_are_off` before each wait, and whoever builds a call passes its policy through
`with_overrides`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import evolve, frozen

from rungwise.fsm.call.policy import Policy
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_whole


@frozen
class Overrides:
    """Hold the overrides; none by default."""

    waits: bool = True
    attempts: int | None = None  # the most attempts of any call; None leaves that to its budget


_lock = threading.Lock()
_overrides = Overrides()


def waits_are_off() -> bool:
    """Tell whether a driver must not wait before it sends."""
    return not _overrides.waits


def with_overrides(policy: Policy) -> Policy:
    """Return the policy, with its budget of attempts lowered to what a test allows."""
    most = _overrides.attempts
    if most is None or policy.budget.attempts <= most:
        return policy
    return evolve(policy, budget=evolve(policy.budget, attempts=most))


def set_overrides(overrides: Overrides) -> Overrides:
    """Apply these overrides and return the previous ones."""
    global _overrides
    with _lock:
        before = _overrides
        _overrides = overrides
    return before


def set_testing(on: bool, *, attempts: int | None = None) -> None:
    """Turn all waits between attempts off or on again, for every call of this process.

    The journal still says how long each rung would have waited, and a wait that does not fit still
    switches.

    Use it where a test only must not wait: it holds for clients that the test cannot reach, too.
    Where a test decides what time it is, or looks at the waits of one client, pass
    `rungwise.testing.Clocks` to that client instead.

    Arguments:
        on: whether this is a test.
        attempts: the most attempts that a call may make meanwhile; None leaves that to its budget.

    Raises:
        ConfigurationError: `attempts` is no whole number above 0, or was given to turn the switch
            off.
    """
    set_overrides(_checked(on, attempts))


@contextmanager
def testing(*, attempts: int | None = None) -> Iterator[None]:  # noqa: PT028  (no test, in spite of its name)
    """Do what `set_testing(True)` does until the end of the `with` block, and put back what was
    before.

    Raises:
        ConfigurationError: `attempts` is no whole number above 0.
    """
    before = set_overrides(_checked(True, attempts))
    try:
        yield
    finally:
        set_overrides(before)


testing.__test__ = False  # type: ignore[attr-defined] # pytest takes what begins with "test" for a test


def _checked(on: bool, attempts: int | None) -> Overrides:
    if attempts is None:
        return Overrides(waits=not on)
    if not on:
        raise ConfigurationError("set_testing: attempts is for set_testing(True, ...) only")
    if not is_whole(attempts, 1):
        raise ConfigurationError(
            f"set_testing: attempts must be a whole number of 1 or more, not {attempts!r}"
        )
    return Overrides(waits=False, attempts=attempts)
