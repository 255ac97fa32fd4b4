"""The clocks of one attempt: when silence may end it, and when it must have ended."""

from __future__ import annotations

from attrs import frozen

CLOSING = 1.0
"""Seconds that a driver may take beyond the end of an attempt, to let go of its connection."""


@frozen(kw_only=True)
class Clocks:
    """Hold the limits of one attempt, as the policy, the backend and what is left of the budget set them.

    Silence ends an attempt only where the table then asks again, or asks another backend, and there is time for that;
    otherwise whoever waits goes on waiting. Whether it does may depend on the text that this attempt has brought.

    Arguments:
        first_token: seconds from the beginning of the attempt to the first content; None for no limit.
        stall: seconds between two pieces of content; None for no limit.
        ends_by: when the attempt must have ended, on the driver's clock, so that the backends to come keep what is
            reserved for them; None for no limit.
        before_text: the latest moment, on the driver's clock, at which silence may end the attempt while it has brought
            no visible text; None for never, infinity for any moment.
        after_text: the same once it has brought some.
    """

    first_token: float | None
    stall: float | None
    ends_by: float | None
    before_text: float | None
    after_text: float | None
