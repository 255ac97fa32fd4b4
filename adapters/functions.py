"""Checks of the functions and HTTP clients that a client is given; what functions return shows only when called."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.label import short
from rungwise.fsm.values.moments import LAST


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


def checked_clock(wall_clock: Callable[[], float]) -> Callable[[], float]:
    """Return the function with a check of what it returns."""

    def read() -> float:
        now = wall_clock()
        if not is_number(now, -LAST, LAST):
            raise ConfigurationError(f"wall_clock must return the seconds since 1970, not {short(now)}")
        return now

    return read


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


def check_http(http: object, async_http: object) -> None:
    """Refuse what is no HTTP client, or one of the other kind."""
    for name, given, other in (("http", http, "async_http"), ("async_http", async_http, "http")):
        if given is None:
            continue
        if not (hasattr(given, "build_request") and hasattr(given, "send")):
            raise ConfigurationError(f"{name} must be an HTTP client of httpx's shape, not {type(given).__name__}")
        if inspect.iscoroutinefunction(given.send) is not (name == "async_http"):
            raise ConfigurationError(f"{name} cannot be of type {type(given).__name__}: give it as {other}")
