"""The clocks, waits and draws of a client in a test: `rungwise.testing.Clocks`."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio
import attrs
from attrs import frozen

from rungwise.adapters.client_options import check_functions
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import by_name, is_number
from rungwise.fsm.values.label import short
from rungwise.fsm.values.moments import LAST

Clock = Callable[[], float]
Draws = Callable[[], float]
Sleep = Callable[[float], object]
AsyncSleep = Callable[[float], Awaitable[object]]


@frozen(kw_only=True)
class Clocks:
    """The clocks, waits and draws of one client in a test: `Client(chain, testing=Clocks(...))`.

    Use it where a test decides what time it is, records how long each wait is, or wants the same
    jitter each time. A `VirtualClock` does all of the first two:

        clock = rungwise.testing.VirtualClock()
        clocks = rungwise.testing.Clocks(clock=clock, sleep=clock.sleep, async_sleep=clock.asleep)

    Use `set_testing` where a test only must not wait: it needs no access to the client, and holds
    for every client of the process.

    Arguments:
        clock: returns seconds on a monotonic clock, by which limits and budgets count;
            `time.monotonic` by default.
        sleep: called with the seconds of each wait in a thread, in place of the wait. By default,
            None: the thread waits, and cancelling the call ends the wait.
        async_sleep: called with the seconds of each wait in an event loop; returns what is awaited
            in place of the wait. `anyio.sleep` by default.
        wall_clock: returns the seconds since 1970, with which deadlines and the dates of providers
            are compared; `time.time` by default.
        jitter: returns a number from 0 to 1 for each wait, which says how much of the policy's
            jitter the wait has; `random.random` by default.

    Raises:
        ConfigurationError: a value is not a function, or is a coroutine function that nobody would
            await.
    """

    clock: Clock = time.monotonic
    sleep: Sleep | None = None
    async_sleep: AsyncSleep = anyio.sleep
    wall_clock: Clock = time.time
    jitter: Draws = random.random

    def __attrs_post_init__(self) -> None:
        check_functions(**attrs.asdict(self, recurse=False))

    def checked(self) -> Clocks:
        """Return these with a check of what each returns, but for `clock`, which is read too
        often.
        """
        jitter = checked_number(self.jitter, 0, 1, "jitter must return a number from 0 to 1")
        sleep = None if self.sleep is None else checked_sleep(self.sleep)
        return Clocks(
            clock=self.clock,
            sleep=sleep,
            async_sleep=checked_waits(self.async_sleep),
            wall_clock=checked_clock(self.wall_clock),
            jitter=jitter,
        )


REAL = Clocks()
"""Those of a client outside tests."""


INSTEAD: Final = by_name(
    {
        "give it to a backend, as in Client([rungwise.OpenAI(model)])": "model api_key base_url "
        "prices default_headers headers parameters quota capabilities",
        "say it in a policy, as in Client(chain, policy=rungwise.Policy(...))": "timeout timeouts "
        "max_retries num_retries retries budget limits waits hints reserve switch_after table",
        "they follow in the chain": "fallbacks fallback backends models",
        "it is called http, or async_http, here": "http_client session",
        "give it to each call, as in client.call(prompt, ...)": "deadline instructions max_tokens "
        "messages output_type response_format response_model returns system system_prompt "
        "temperature verdict within",
        "give it to client.turn": "approvals executor tools",
        "choose the method: client.stream hands out what comes": "stream streaming",
    }
)
"""What stands elsewhere, by the names that others have for it."""


def checked_clocks(testing: object, removed: Iterable[str]) -> Clocks:
    """Return the clocks of a client, checked.

    Arguments:
        testing: the argument of `Client`; None for real ones.
        removed: the names of arguments that `Client` does not have.

    Raises:
        TypeError: there are such arguments. Of those that `Clocks` has, it says so.
        ConfigurationError: `testing` is something else.
    """
    for name in removed:
        if name not in attrs.fields_dict(Clocks):
            near = f": {INSTEAD[name]}" if name in INSTEAD else ""
            raise TypeError(f"Client() got an unexpected keyword argument {name!r}{near}")
        raise TypeError(
            f"Client() has no argument {name!r}: write Client(..., "
            f"testing=rungwise.testing.Clocks({name}=...))"
        )
    if testing is None:
        return REAL.checked()
    if not isinstance(testing, Clocks):
        raise ConfigurationError(
            f"testing must be a rungwise.testing.Clocks, not {type(testing).__name__}"
        )
    return testing.checked()


def checked_clock(wall_clock: Clock) -> Clock:
    """Return the function with a check of its result."""
    return checked_number(wall_clock, -LAST, LAST, "wall_clock must return the seconds since 1970")


def checked_number(
    function: Callable[[], float], least: float, most: float, what: str
) -> Callable[[], float]:
    """Return the function with a check of its result.

    Arguments:
        function: the function.
        least, most: the bounds of what it may return.
        what: how the sentence of the error begins.
    """

    def call() -> float:
        number = function()
        if not is_number(number, least, most):
            raise ConfigurationError(f"{what}, not {short(number)}")
        return number

    return call


def checked_sleep(sleep: Callable[[float], object]) -> Callable[[float], None]:
    """Return the function with a check of its result."""

    def wait(seconds: float) -> None:
        slept = sleep(seconds)
        if inspect.isawaitable(slept):
            if inspect.iscoroutine(slept):
                slept.close()
            raise ConfigurationError(
                "sleep must wait by itself; it returned what is to be awaited: see async_sleep"
            )

    return wait


def checked_waits(
    async_sleep: Callable[[float], Awaitable[object]],
) -> Callable[[float], Awaitable[object]]:
    """Return the function with a check of its result."""

    def wait(seconds: float) -> Awaitable[object]:
        waiting = async_sleep(seconds)
        if not inspect.isawaitable(waiting):
            kind = type(waiting).__name__
            raise ConfigurationError(
                f"async_sleep must return what can be awaited, not {kind}: see sleep"
            )
        return waiting

    return wait
