"""Deadlines of calls and turns: the caller's, that of a header, and that of a turn around them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from datetime import datetime
from typing import Any, Final

from attrs import frozen

from rungwise.adapters.wires.endpoint import HEADER_NAME, KEY_HEADERS
from rungwise.fsm.call.conversation.request import FRAMING
from rungwise.fsm.errors import ConfigurationError
from rungwise.fsm.values.checks import is_number
from rungwise.fsm.values.label import short
from rungwise.fsm.values.moments import LAST, read_moment, write_moment
from rungwise.fsm.values.secret import NO_HEADERS

Clock = Callable[[], float]

TAKEN: Final = frozenset(
    {
        *FRAMING,
        *KEY_HEADERS,
        "accept",
        "accept-encoding",
        "content-type",
        "user-agent",
        "cookie",
        "date",
        "expect",
        "proxy-authorization",
        "te",
        "trailer",
        "upgrade",
        "x-goog-api-key",
    }
)
"""Headers that cannot carry a deadline: they mean something else."""


@frozen
class Deadline:
    """Hold when something must end, together with the calls and turns made within it."""

    clock: Clock  # returns seconds on a monotonic clock
    moment: float | None  # the moment on that clock; None for no limit

    def on(self, clock: Clock) -> float | None:
        """Return the moment on another clock."""
        if self.moment is None or clock == self.clock:
            return self.moment
        return clock() + (self.moment - self.clock())

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until then; None for no limit."""
        return None if self.moment is None else max(0.0, self.moment - self.clock())

    def context(self) -> Context:
        """Return a copy of the current context with this deadline for calls and turns."""
        context = copy_context()
        context.run(_within.set, self._tightest())
        return context

    @contextmanager
    def around(self) -> Iterator[None]:
        """Apply this deadline to the calls and turns made in a `with` block."""
        token = _within.set(self._tightest())
        try:
            yield
        finally:
            with suppress(ValueError):  # an abandoned coroutine is closed in another context
                _within.reset(token)

    def _tightest(self) -> Deadline:
        outer = _within.get()
        if outer is None:
            return self
        return Deadline(self.clock, earliest(self.moment, outer.on(self.clock)))


NO_DEADLINE: Final = Deadline(time.monotonic, None)

_within: ContextVar[Deadline | None] = ContextVar("rungwise_deadline", default=None)
"""The deadline of the turn or call whose tool or compactor runs now."""


@frozen
class Deadlines:
    """Work out the deadline of a call, and the header that carries it."""

    clock: Clock  # returns seconds on the monotonic clock of the calls
    wall_clock: Clock  # returns the seconds since 1970
    # the name of the header that carries deadlines, in lower case; None for none
    header: str | None = None

    def of(self, moment: Any, headers: Mapping[str, Any]) -> float | None:
        """Return the deadline of a call that begins now, on the clock; None without one.

        The tightest counts: the caller's, that of a header, or that of the turn whose tool makes
        the call.

        Arguments:
            moment: the caller's, in seconds since 1970 or as a datetime with a time zone; or None.
            headers: those of the request.

        Raises:
            ConfigurationError: `moment` or the header is not a point in time.
        """
        outer = _within.get()
        inherited = None if outer is None else outer.on(self.clock)
        moments: list[float] = []
        if moment is not None:
            moments.append(_seconds(moment))
        if self.header is not None:
            for name, value in headers.items():
                if name.lower() == self.header:
                    moments.append(_read(value, name))
        if not moments:
            return inherited
        if is_number(moment, 0, FIRST_YEAR) and self.wall_clock() > 2 * FIRST_YEAR:
            instead = "a number of seconds added to time.time()"
            if moment:
                instead = f"time.time() + {moment:g}"
            raise ConfigurationError(
                f"deadline={moment:g}: that is 1970; pass a time, or {instead}"
            )
        # This clock first: a pause before the other one is read makes the deadline earlier, not
        # later.
        now = self.clock()
        own = now + (min(moments) - self.wall_clock())
        return earliest(inherited, own)

    def headers(self, deadline: float | None) -> Mapping[str, str]:
        """Return the header for a deadline on the clock; empty without one."""
        if self.header is None or deadline is None:
            return NO_HEADERS
        wall = self.wall_clock()  # before the other clock, as above
        return {self.header: write_moment(wall + (deadline - self.clock()))}


def earliest(*moments: float | None) -> float | None:
    """Return the earliest moment; None if all are None."""
    return min((each for each in moments if each is not None), default=None)


def header_name(name: Any) -> str | None:
    """Return the name of the deadline header in lower case; None for none.

    Raises:
        ConfigurationError: it is no name of a header, or the header means something else.
    """
    if name is None:
        return None
    if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
        raise ConfigurationError(
            "deadline_header must be the name of a header, such as 'x-deadline', or None"
        )
    if name.lower() in TAKEN:
        raise ConfigurationError(f"deadline_header cannot be {name!r}, which means something else")
    return name.lower()


FIRST_YEAR: Final = 365 * 86_400.0
"""Seconds of the first year of the clock. A deadline in 1970 is a mistake: a number of seconds from
now.
"""


def _seconds(moment: Any) -> float:
    """Return the seconds since 1970 of a point in time."""
    if isinstance(moment, datetime):
        if moment.utcoffset() is None:
            raise ConfigurationError(
                "deadline must know its time zone, as datetime.now(UTC) does; this datetime has "
                "none"
            )
        return moment.timestamp()
    if not is_number(moment, -LAST, LAST):
        form = "seconds since 1970, as time.time() counts them, or a datetime with a time zone"
        raise ConfigurationError(f"deadline must be a point in time: {form}; not {short(moment)}")
    return float(moment)


def _read(value: Any, name: str) -> float:
    """Return the seconds since 1970 that a header holds."""
    moment = read_moment(value.strip()) if isinstance(value, str) else None
    if moment is None:  # never quote it: anybody may have sent it
        form = "a time in RFC 3339 with its offset, or the seconds or milliseconds since 1970"
        raise ConfigurationError(f"the header {name!r} must hold a deadline: {form}")
    return moment
