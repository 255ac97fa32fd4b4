"""Checks of the functions that a client is given; what they return shows only when they are called."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.label import short


def check_functions(**functions: object) -> None:
    """Refuse what is no function, or a coroutine function that nobody would await."""
    for name, given in functions.items():
        if not callable(given) and not (given is None and name in _MAY_BE_NONE):
            raise ConfigurationError(f"{name} must be a function, not {type(given).__name__}")
        if name not in _MAY_BE_ASYNC and inspect.iscoroutinefunction(given):
            raise ConfigurationError(f"{name} must be a function, not a coroutine function, which nobody would await")


def checked_draws(jitter: Callable[[], float]) -> Callable[[], float]:
    """Return the function with a check of what it returns."""

    def draw() -> float:
        drawn = jitter()
        if not is_number(drawn, 0, 1):
            raise ConfigurationError(f"jitter must return a number from 0 to 1, not {short(drawn)}")
        return drawn

    return draw


def checked_sleep(sleep: Callable[[float], object]) -> Callable[[float], None]:
    """Return the function with a check of what it returns."""

    def wait(seconds: float) -> None:
        slept = sleep(seconds)
        if inspect.isawaitable(slept):
            if inspect.iscoroutine(slept):
                slept.close()
            raise ConfigurationError("sleep must wait by itself; it returned what is to be awaited: see async_sleep")

    return wait


def checked_waits(async_sleep: Callable[[float], Awaitable[object]]) -> Callable[[float], Awaitable[object]]:
    """Return the function with a check of what it returns."""

    def wait(seconds: float) -> Awaitable[object]:
        waiting = async_sleep(seconds)
        if not inspect.isawaitable(waiting):
            kind = type(waiting).__name__
            raise ConfigurationError(f"async_sleep must return what can be awaited, not {kind}: see sleep")
        return waiting

    return wait


_MAY_BE_ASYNC = frozenset({"compactor", "async_sleep"})
_MAY_BE_NONE = frozenset({"observer", "compactor", "sleep"})
